// On the egress of an interface that has granted ports. A frame of a granted socket carries the
// socket's mark, which its program can't change; such a frame leaves only as the agent has allowed.
// Other frames are not looked at.
//
// A child in macvlan's private mode sends everything down here, so nothing goes by the filter; that
// is why frames from child to child are delivered here too.
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#include "xdp/grant/grant_entry.h"

// Set before loading.
const volatile __u16 ether_type = 0;  // host byte order
const volatile __u32 most_bytes = 1514;
const volatile __u16 host[3] = {};         // the interface's own address
const volatile __u32 host_at = 54;         // where CONNECT_REQUEST and _ACCEPT have it

// viaduct-wire(7)
enum {
  TYPE_AT = 15, MOVED = 3, REQUEST = 4, ACCEPT = 5, NAME_QUERY = 14, STOPPED_QUERY = 18, WAKE = 20,
  PATH = 21,
};

struct {
  __uint(type, BPF_MAP_TYPE_ARRAY);
  __uint(max_entries, VIADUCT_GRANTS);
  __type(key, __u32);
  __type(value, struct grant_entry);
} grants SEC(".maps");

struct {
  __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
  __uint(max_entries, VIADUCT_GRANTS);
  __type(key, __u32);
  __type(value, struct grant_counts);
} counts SEC(".maps");

static __always_inline int same(const __u16 *a, const volatile __u16 *b)
{
  return a[0] == b[0] && a[1] == b[1] && a[2] == b[2];
}

static __always_inline enum grant_verdict judge(struct __sk_buff *frame, __u32 index,
                                                __u32 *child)
{
  const struct grant_entry *grant = bpf_map_lookup_elem(&grants, &index);
  const __u16 *word = (const __u16 *)(long)frame->data;
  const void *end = (const void *)(long)frame->data_end;
  __u32 number;
  __u8 type;

  if (!grant || grant->holder == GRANT_NOBODY)
    return GRANT_FORBIDDEN;
  if ((const void *)(word + 8) > end) {
    // The frame is too short, or can't be had in one piece.
    if (bpf_skb_pull_data(frame, TYPE_AT + 1))
      return GRANT_FORBIDDEN;
    word = (const __u16 *)(long)frame->data;
    end = (const void *)(long)frame->data_end;
    if ((const void *)(word + 8) > end)
      return GRANT_FORBIDDEN;
  }
  if (!same(word + 3, grant->address))
    return GRANT_FORGED_SOURCE;
  if (word[6] != bpf_htons(ether_type))
    return GRANT_WRONG_TYPE;
  if (frame->len > most_bytes)
    return GRANT_TOO_LONG;
  // Only the agent may send names, claims and types that are not known yet, send a requester
  // elsewhere, answer for a stopped program, and send to group addresses.
  type = grant->holder == GRANT_AGENT ? 0 : ((const __u8 *)word)[TYPE_AT];
  if (type == MOVED || (type >= NAME_QUERY && type != STOPPED_QUERY && type != WAKE && type != PATH) ||
      (*(const __u8 *)word & 1))
    return GRANT_FORBIDDEN;
  if (type == REQUEST || type == ACCEPT) {
    __u16 claimed[3];
    if (bpf_skb_load_bytes(frame, host_at, claimed, sizeof(claimed)) || !same(claimed, host))
      return GRANT_FORBIDDEN;
    // The pointers into the frame are still valid, as nothing was moved.
  }

  number = bpf_ntohs(word[2]) & (VIADUCT_GRANTS - 1);
  grant = bpf_map_lookup_elem(&grants, &number);
  *child = grant && grant->holder != GRANT_NOBODY && same(word, grant->address) ? grant->ifindex : 0;
  return GRANT_PASSED;
}

// Hands the frame to a child, as if it came from outside. A frame from an AF_XDP socket has no
// network header, and bpf_redirect() refuses it; putting VLAN tags in and out gives it one.
static __always_inline int deliver(struct __sk_buff *frame, __u32 child)
{
  if (bpf_skb_vlan_push(frame, bpf_htons(ETH_P_8021Q), 0) ||
      bpf_skb_vlan_push(frame, bpf_htons(ETH_P_8021Q), 0) || bpf_skb_vlan_pop(frame) ||
      bpf_skb_vlan_pop(frame))
    return TC_ACT_SHOT;
  return bpf_redirect(child, BPF_F_INGRESS);
}

SEC("tc")
int viaduct_filter(struct __sk_buff *frame)
{
  __u32 index = frame->mark - VIADUCT_GRANT_MARK;
  __u32 child = 0;
  enum grant_verdict verdict;
  struct grant_counts *count;

  if (index > 0xffff)
    return TC_ACT_UNSPEC;
  verdict = judge(frame, index, &child);
  count = bpf_map_lookup_elem(&counts, &index);
  if (count)
    count->frames[verdict]++;
  if (verdict != GRANT_PASSED)
    return TC_ACT_SHOT;
  return child ? deliver(frame, child) : TC_ACT_UNSPEC;
}

char _license[] SEC("license") = "Dual MIT/GPL";
