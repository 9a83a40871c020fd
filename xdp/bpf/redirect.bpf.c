// On the ingress of an interface (TCX): takes our EtherType, addressed to this interface or broadcast, to
// a child of it, where the steering program (steer.bpf.c) gives it to the AF_XDP socket.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// Set before loading.
const volatile __u16 ether_type = 0;  // host byte order
const volatile __u8 address[6] = {};
const volatile __u32 child = 0;

SEC("tc")
int viaduct_redirect(struct __sk_buff *frame)
{
  const struct ethhdr *eth;
  int own = 1, all = 1;

  if (frame->protocol != bpf_htons(ether_type))
    return TC_ACT_UNSPEC;
  if ((const void *)(long)frame->data + sizeof(*eth) > (const void *)(long)frame->data_end &&
      bpf_skb_pull_data(frame, sizeof(*eth)))
    return TC_ACT_UNSPEC;
  eth = (const struct ethhdr *)(long)frame->data;
  if ((const void *)(eth + 1) > (const void *)(long)frame->data_end)
    return TC_ACT_UNSPEC;
  for (int i = 0; i < 6; i++) {
    own &= eth->h_dest[i] == address[i];
    all &= eth->h_dest[i] == 0xff;
  }
  return own || all ? bpf_redirect(child, BPF_F_INGRESS) : TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual MIT/GPL";
