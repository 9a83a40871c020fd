/* What the egress filter (grant_filter.bpf.c) and the agent say to each other through maps. */
#ifndef VIADUCT_XDP_GRANT_GRANT_ENTRY_H
#define VIADUCT_XDP_GRANT_GRANT_ENTRY_H

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
  /* For the agent's successor, which alone can have written it: whose port it is, and the files in
     memory that came with it. */
  __u16 version;    /* VIADUCT_GRANT_VERSION once it is known */
  __u16 ether_type;
  __u32 user;
  __u32 reserved;
  __u64 device, granted_segment, umem; /* numbers of the file system and of the files in it */
  __u64 reserved2[2];
};

enum grant_holder {
  GRANT_NOBODY,
  GRANT_PROGRAM,
  GRANT_AGENT, /* the relay child: trusted with frames of every type */
};

enum grant_verdict {
  GRANT_PASSED,
  GRANT_FORGED_SOURCE,
  GRANT_WRONG_TYPE,
  GRANT_TOO_LONG,
  GRANT_FORBIDDEN,
  GRANT_VERDICTS
};

/* Of the entry's fields and of what a port consists of. */
#define VIADUCT_GRANT_VERSION 1u

struct grant_counts {
  __u64 frames[GRANT_VERDICTS];
};

#endif
