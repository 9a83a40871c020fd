// On the child of a granted port: our EtherType, addressed to exactly this child, goes to the
// program's socket. Nothing else has business there, so the kernel's protocols see nothing.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

// Set before loading.
const volatile __u16 ether_type = 0;  // host byte order
const volatile __u16 address[3] = {};      // as the words of a frame

struct {
  __uint(type, BPF_MAP_TYPE_XSKMAP);
  __uint(max_entries, 1);
  __type(key, __u32);
  __type(value, __u32);
} sockets SEC(".maps");

SEC("xdp")
int viaduct_granted(struct xdp_md *context)
{
  const __u16 *word = (const __u16 *)(long)context->data;

  if ((const void *)(word + 7) > (const void *)(long)context->data_end ||
      word[6] != bpf_htons(ether_type) || word[0] != address[0] || word[1] != address[1] ||
      word[2] != address[2])
    return XDP_DROP;
  return bpf_redirect_map(&sockets, 0, XDP_DROP);
}

char _license[] SEC("license") = "Dual MIT/GPL";
