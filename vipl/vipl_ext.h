/* vipl_ext.h: what Viaduct offers beyond vipl.h. All names begin with Vipx.
 *
 * The functions here may be called at any time by any thread, and do not block unless they say so.
 */
#ifndef VIPL_EXT_H
#define VIPL_EXT_H

#include <poll.h>
#include <sys/select.h>

#include "vipl.h"

struct timespec;

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "major.minor.patch". Static. */
const char *VipxVersion(void);

/* What a return code means, in a few words of English without a full stop. Static; never NULL: an
 * unknown code gives "unknown return code". */
const char *VipxReturnText(VIP_RETURN code);

/* The same for the ErrorCode of a VIP_ERROR_DESCRIPTOR. */
const char *VipxErrorText(VIP_ERROR_CODE code);

/* Waits for a CQ and for descriptors of the kernel's: as ppoll(2) does, but it also ends when the CQ
 * has an entry. Blocks. It sleeps at once: who wants to look for a while first (VipCQDone) does that
 * before. Several threads may wait for one CQ, each with descriptors of its own; what comes wakes all
 * of them, and who finds that another one has taken it waits again. The thread may be cancelled while
 * it sleeps.
 *   cq          the entry stays there, for VipCQDone
 *   fds, nfds   as for poll(2); at most the limit of open files less 3
 *   timeout     as for ppoll(2); NULL: as long as it takes
 *   mask        the thread's signal mask while it sleeps, as for ppoll(2); NULL: the one that it has
 * Returns how many descriptors are ready, and the CQ may then have entries too. Returns 0 when the CQ
 * may have an entry or the time is up; no descriptor has been found ready then. Returns -1 with errno
 * set:
 *   EINTR       a signal was handled
 *   EINVAL      the CQ, the timeout or the number of descriptors is bad
 *   ENODEV      the agent has gone away, or the NIC was closed meanwhile; VipCQDone still gives what
 *               was flushed
 *   EMFILE, ENFILE, ENOMEM
 *               there is no descriptor or no memory for the waiting
 */
int VipxPoll(VIP_CQ_HANDLE cq, struct pollfd *fds, unsigned long nfds,
             const struct timespec *timeout, const sigset_t *mask);

/* The kernel's descriptors that the library holds in this process at the moment. Programs that close
 * what they don't know must leave these alone. Their numbers are high where the limit of open files
 * allows, so that the program gets the low ones, and all of them are closed by exec.
 *   fds         out, the first `most` of them; may be NULL if that is 0
 * Returns how many there are.
 */
int VipxDescriptors(int *fds, int most);

#ifdef __cplusplus
}
#endif

#endif
