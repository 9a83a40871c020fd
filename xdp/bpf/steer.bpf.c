// The steering program: takes our EtherType, addressed to this interface or broadcast, to the
// AF_XDP socket of the receive queue it came in on. Everything else goes to the kernel, and so does
// ours while no socket is there.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>
#include <xdp/xdp_helpers.h>

// Set before loading.
const volatile __u16 ether_type = 0;  // host byte order
const volatile __u8 address[6] = {};

struct {
  __uint(type, BPF_MAP_TYPE_XSKMAP);
  __uint(max_entries, 64);
  __type(key, __u32);
  __type(value, __u32);
} sockets SEC(".maps");

struct {
  __uint(priority, 20);
  __uint(XDP_PASS, 1);
} XDP_RUN_CONFIG(viaduct_steer);

SEC("xdp")
int viaduct_steer(struct xdp_md *context)
{
  const __u8 *data = (const __u8 *)(long)context->data;
  const __u8 *end = (const __u8 *)(long)context->data_end;
  const struct ethhdr *eth = (const struct ethhdr *)data;
  int own = 1, all = 1;

  if (data + sizeof(*eth) > end || eth->h_proto != bpf_htons(ether_type))
    return XDP_PASS;
  for (int i = 0; i < 6; i++) {
    own &= eth->h_dest[i] == address[i];
    all &= eth->h_dest[i] == 0xff;
  }
  if (!own && !all)
    return XDP_PASS;
  return bpf_redirect_map(&sockets, context->rx_queue_index, XDP_PASS);
}

char _license[] SEC("license") = "Dual MIT/GPL";
