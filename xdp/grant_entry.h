/* What the egress filter (grant_filter.bpf.c) and the agent say to each other through maps. */
#ifndef VIADUCT_XDP_GRANT_ENTRY_H
#define VIADUCT_XDP_GRANT_ENTRY_H

#include <linux/types.h>

/* Marks of granted sockets: this, and the grant's number below it. */
#define VIADUCT_GRANT_MARK 0x56490000u

/* At most so many grants on an interface; a power of two up to 2^16. The low bits of a child's
   address are its number, so that a destination is looked up without searching. */
#define VIADUCT_GRANTS 1024u

struct grant_entry {
  __u16 address[3]; /* as the words of a frame */
  __u16 holder;     /* enum grant_holder */
  __u32 ifindex;
};

enum grant_holder {
  GRANT_NOBODY,
  GRANT_PROGRAM,
  GRANT_AGENT, /* the desk: trusted with frames of every type */
};

enum grant_verdict {
  GRANT_PASSED,
  GRANT_FORGED_SOURCE,
  GRANT_WRONG_TYPE,
  GRANT_TOO_LONG,
  GRANT_FORBIDDEN,
  GRANT_VERDICTS
};

struct grant_counts {
  __u64 frames[GRANT_VERDICTS];
};

#endif
