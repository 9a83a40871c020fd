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
 * has an entry. Blocks. It sleeps at once: a caller that wants to look for a while first (VipCQDone) does
 * that before. Several threads may wait for one CQ, each with descriptors of its own; an entry wakes all
 * of them, and a thread that finds it taken by another one waits again. The thread may be cancelled while
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

/* VipxCQDone: looks for a completion like VipCQDone, for a program that has other things to do: VipCQDone may
 * give the processor to others when it finds nothing, or sleep for 100 us to 2 ms where other work wants it.
 * This does not: see VipxSpin. Does not block.
 *   cq          the completion queue
 *   vi          out, the VI whose work queue has a completed descriptor
 *   recv_queue  out, VIP_TRUE: its receive queue
 *   VIP_SUCCESS            an entry was taken off the CQ
 *   VIP_NOT_DONE           there is none
 *   VIP_INVALID_PARAMETER  the CQ is bad
 */
VIP_RETURN VipxCQDone(IN VIP_CQ_HANDLE cq, OUT VIP_VI_HANDLE *vi, OUT VIP_BOOLEAN *recv_queue);

/* VipxSendDone: takes a completed descriptor off the send queue like VipSendDone, in the manner of VipxCQDone. Does not block.
 *   vi          the VI
 *   descriptor  out, the descriptor
 *   VIP_SUCCESS            it has completed without an error
 *   VIP_NOT_DONE           nothing has completed
 *   VIP_DESCRIPTOR_ERROR   it has completed with an error, which its status says
 *   VIP_INVALID_PARAMETER  the VI is bad
 */
VIP_RETURN VipxSendDone(IN VIP_VI_HANDLE vi, OUT VIP_DESCRIPTOR **descriptor);

/* VipxSpin: passes a moment between two calls of VipxCQDone of a thread that waits, as is good for what
 * it waits for: pauses, or gives the processor to others.
 *   looks       how many calls have found nothing, so far
 * Returns 1 when it is worth while to look again. 0 when it is not, or the CQ is bad: other work
 * wants the processors, and a thread that sleeps (VipxPoll) is woken before that.
 */
int VipxSpin(IN VIP_CQ_HANDLE cq, IN unsigned long looks);

/* The kernel's descriptors that the library holds in this process at the moment. Programs that close
 * what they don't know must leave these alone. Their numbers are high where the limit of open files
 * allows, so that the program gets the low ones, and all of them are closed by exec.
 *   fds         out, the first `most` of them; may be NULL if that is 0
 * Returns how many there are.
 */
int VipxDescriptors(int *fds, int most);

/* Has VipOpenNic go by the environment as it is now, whatever becomes of it later. For a library that
 * opens NICs in a thread of its own, or where its program does not expect it: getenv(3) must not run
 * while another thread changes the environment. To be called before there are other threads. The first
 * call counts, and goes over to children.
 */
void VipxKeepEnvironment(void);

/* VipxQueryDevice: tells of a NIC that is not opened: the program takes no session and no port. Blocks until the agent
 * answers, five seconds at most.
 *   device      its name, as for VipOpenNic
 *   attributes  out, as VipQueryNic would tell, but LocalNicAddress is NULL; stay as they are unless it succeeds
 * Any thread may call it, of any number at once. Returns
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  there is no such NIC; a pointer is NULL
 *   VIP_ERROR_RESOURCE     no agent answers, it refuses, or it is of a version before this function
 */
VIP_RETURN VipxQueryDevice(IN const VIP_CHAR *device, OUT VIP_NIC_ATTRIBUTES *attributes);

/* A TCP connection as one of its ends sees it, or two UDP sockets that talk with each other. Ports and
 * addresses are as in a sockaddr, in network byte order; of AF_INET the first 4 bytes of the addresses
 * count. IPv4 in addresses of AF_INET6 is the same as AF_INET. */
typedef struct _VipxFlow {
  VIP_UINT16 Family; /* AF_INET or AF_INET6 */
  VIP_UINT16 LocalPort;
  VIP_UINT16 RemotePort;
  VIP_UINT16 Protocol; /* 0 or IPPROTO_TCP; IPPROTO_UDP; in host byte order */
  VIP_UINT8 LocalAddress[16];
  VIP_UINT8 RemoteAddress[16];
} VipxFlow;

#define VIPX_TOKEN_BYTES 16

/* VipxClaim: has the agent vouch for a TCP connection or UDP socket of this host: that it is this user's.
 * Short. The other end can then make sure that it speaks with the owner of the connection, and with
 * no other program on that host (VipxVerify). A claim lasts until VipxUnclaim or VipCloseNic, and is good
 * as long as the connection is established, or that UDP socket is there; 256 of them at once for each
 * NIC handle.
 *   flow   an established connection whose socket was made or accepted by the user that the agent
 *          takes this process for; of UDP: that user's socket is the one that the kernel would deliver a
 *          datagram from the remote to the local end to, connected or not. Root may claim all
 *   token  out, VIPX_TOKEN_BYTES bytes: names the claim. It cannot be guessed, but whichever program knows it
 *          can pass for this one, so it is for the other end alone
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER    also when the family or protocol is another one
 *   VIP_ERROR_NAMESERVICE    there is no such connection, or it is another user's
 *   VIP_ERROR_RESOURCE       too many claims
 *   VIP_ERROR_NOT_SUPPORTED  the kernel does not tell the agent whose connections are
 */
VIP_RETURN VipxClaim(IN VIP_NIC_HANDLE nic, IN const VipxFlow *flow, OUT unsigned char *token);

/* VipxUnclaim: takes a claim back. Short.
 *   token  as at VipxClaim
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  also when this NIC handle has no such claim
 */
VIP_RETURN VipxUnclaim(IN VIP_NIC_HANDLE nic, IN const unsigned char *token);

/* VipxVerify: asks a host's agent whether it has vouched for the other end of a TCP connection, or
 * of two UDP sockets, with this token, and still would. Blocks, until the agent answers, a second at
 * most; the thread may be cancelled meanwhile.
 *   host   address of the NIC of that host; a discriminator is ignored
 *   flow   the connection as this host sees it
 *   token  as the other end has got it from VipxClaim
 *   VIP_SUCCESS
 *   VIP_ERROR_NAMESERVICE  no: that end is not the owner of the connection
 *   VIP_TIMEOUT            no answer: the host is away, or its agent is too old to know of claims
 *   VIP_NOT_REACHABLE      as at VipConnectRequest
 */
VIP_RETURN VipxVerify(IN VIP_NIC_HANDLE nic, IN const VIP_NET_ADDRESS *host,
                      IN const VipxFlow *flow, IN const unsigned char *token);

/* VipxAttach: has a process use a NIC that its parent had open when it was forked. Blocks, until the
 * agent and, if the NIC is the program's own, the process that opened it have answered, some seconds
 * at most. The parent's handles then mean here what they mean there, and the processes use the NIC at
 * the same time. They are a family, and share tables: one that forges what stands there can reach the
 * memory of the others, so a process that is trusted less must not attach. Up to 128 can besides the
 * first.
 *
 * Memory is each process's own: what a process registers counts for itself, and for processes that
 * are forked from it later, whose copy of that memory it then means. Later registrations do not count
 * in the child, and only the process that has registered memory can deregister it or change its
 * attributes. Protection tags, and connection requests that have come, are shared by all.
 *
 * A VI, and the CQs that it was made with, belong to one process at a time: first to the one that
 * made them, then to the one that takes them (VipxTakeVi). To the others their handles are invalid. Callbacks
 * are each process's own as well; a child has its parent's error handler, unless it sets another.
 *
 * When a process ends, however it does, or calls VipCloseNic, its VIs are disconnected and destroyed,
 * and the others go on. But if the NIC is the program's own it is that of the process that opened it:
 * when that one ends or closes it, the others see what they would see if the agent had gone, and at
 * once. If the agent is killed or restarted then, they go on too, but can't ask for names, hosts and
 * claims any more.
 *   nic  the parent's handle
 *   VIP_SUCCESS            also if this process has the NIC already
 *   VIP_INVALID_PARAMETER  also when the parent did not have it open at the fork
 *   VIP_ERROR_RESOURCE     the parent's use of the NIC is over, the agent does not answer, this process
 *                          runs as another user or group than the one that opened the NIC or its memory
 *                          may not be used, there are too many, or the first process does not answer
 */
VIP_RETURN VipxAttach(IN VIP_NIC_HANDLE nic);

/* VipxTakeVi: makes a VI this process's, and with it the CQs that it was made with. Short, but
 * waits while the agent can't reach the memory of both processes. The VI is as the other process had
 * it, with its connection and with all that is posted there: descriptors, and what a peer's RDMA
 * names, mean this process's memory from now on. A message that came after the fork is brought over.
 * Where RDMA went before, it stays. In the other process the handle becomes invalid, and threads that
 * wait there come back with VIP_INVALID_PARAMETER.
 *
 * A server takes the VI of a connection in the child that is to serve it, before it does anything
 * else with it; the parent does nothing with it after the fork.
 *   vi  of a NIC that this process has or has attached to
 *   VIP_SUCCESS            also if it has the VI already
 *   VIP_INVALID_STATE      something was posted on the VI since the fork, which so means memory that
 *                          this process has not; a connection is being made or a RDMA read is under
 *                          way, VipxUnredirect is missing, or another VI is on one of the CQs
 *   VIP_ERROR_RESOURCE     more than 4 MB have come since the fork, or the agent has not reached
 *                          the memory of both processes for five seconds
 */
VIP_RETURN VipxTakeVi(IN VIP_VI_HANDLE vi);

/* Copies memory that may not be there, as a system call would: memory that can't be read or written
 * is reported, not a fault. Handlers for SIGSEGV and SIGBUS that the program had set before the first
 * call are called for faults elsewhere; one that it sets later takes over, and such a copy then faults.
 * May be called at any time, does not block.
 * Returns 1 when all bytes are copied; 0 when they are not, and some may have been.
 */
int VipxCopy(void *to, const void *from, unsigned long bytes);

/* VipxRedirect: has the next message that comes for a VI written to other memory than its receive
 * says, for a program that waits for it already and would copy it there. The receive completes as
 * always, and what its data segments say stays as it is. If a part of the message is there already, it
 * is moved. Each VipxRedirect that succeeds must be followed by VipxUnredirect. Only programs that have
 * ports of their own can do this.
 *   address, memory, length  where to, in registered memory. A message that is longer goes to where
 *                            its receive says
 *   VIP_SUCCESS
 *   VIP_NOT_DONE             nothing has changed: a message has come that was not taken off the queue
 *                            yet, none is to come as no receive is posted or the VI is not connected,
 *                            the message that is arriving is longer, or VipxUnredirect is missing
 *   VIP_INVALID_PARAMETER    also when the memory is not registered for this VI to use, or the length
 *                            is 0
 *   VIP_ERROR_NOT_SUPPORTED  the program is hosted
 */
VIP_RETURN VipxRedirect(IN VIP_VI_HANDLE vi, IN void *address, IN VIP_MEM_HANDLE memory,
                        IN VIP_ULONG length);

/* VipxUnredirect: ends what VipxRedirect has begun. When it returns, nothing is written to that memory
 * any more.
 *   VIP_SUCCESS              a message has gone there: the first one that completed since
 *   VIP_NOT_DONE             none has; data that had come of one was moved to where its receive says
 *   VIP_ERROR_NOT_SUPPORTED  the program is hosted
 */
VIP_RETURN VipxUnredirect(IN VIP_VI_HANDLE vi);

/* VipxSetMore: says whether the program has more to send on a VI than it has posted, because it collects data or
 * waits for credits of a protocol of its own. If the program is killed then, its peer can tell: the receives
 * that are flushed there have VIP_STATUS_TRANSPORT_ERROR, as they have when something posted was not sent. Only
 * on the reliable levels. Costs no system call.
 *   vi    the VI
 *   more  VIP_TRUE: something follows; VIP_FALSE, as for a new VI: all is posted
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  the VI is bad
 */
VIP_RETURN VipxSetMore(IN VIP_VI_HANDLE vi, IN VIP_BOOLEAN more);

/* VipxSetPatient: says whether the program waits for the completions of the sends that it posts from now on. Those of a
 * patient one may come some ms later than usual where the peer sends nothing back meanwhile: the peer then sends fewer
 * acknowledgements, each of which would wake a program that sleeps. Data arrives as soon as ever. Means something only on
 * the reliable levels, between two hosts. Costs no system call.
 *   vi       the VI
 *   patient  VIP_TRUE: it does not wait; VIP_FALSE, as for a new VI: it does
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  the VI is bad
 */
VIP_RETURN VipxSetPatient(IN VIP_VI_HANDLE vi, IN VIP_BOOLEAN patient);

/* VipxSetFinisher: has `step` called when this process ends without closing the NIC: it is killed, crashes, or leaves by
 * _exit or exec. So what it has still to send is sent, as the kernel would send it for its sockets. The calls are made
 * again and again in a process of its own, which has this process's memory and the NIC's descriptors but no others, until
 * one of them returns 0; then the NIC ends. That process has been there since this call, asleep; it is no child of this
 * one, as init adopts it. A thread that was killed may have left data half changed, and locks held: a step that takes
 * more than five seconds ends the process, and there are no steps if a thread was killed while it drove the NIC. The
 * process may make no system calls but those of VIPL, sleep and end; it waits in VipCQWait. Children made by fork(2) have
 * none.
 *   nic      the NIC; it has one finisher at most, the last one that was set
 *   step     returns 0 when nothing is left to do; NULL: there is to be none any more
 *   context  handed to `step`
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  the NIC is bad
 *   VIP_ERROR_RESOURCE     the system does not allow it, or this process adopts orphans itself: it is the first one of its
 *                          namespace, or PR_SET_CHILD_SUBREAPER is on
 */
typedef int (*VIPX_STEP)(VIP_PVOID context);
VIP_RETURN VipxSetFinisher(IN VIP_NIC_HANDLE nic, IN VIPX_STEP step, IN VIP_PVOID context);

/* VipxHoldPosts: has sends wait that are posted on any VI of the NIC, for a program that posts on many at once: a program
 * with a port of its own then makes one system call for all. Each call with VIP_TRUE must be followed soon by one with
 * VIP_FALSE, by the same thread, which sends what waits. Does not block.
 *   nic   the NIC
 *   hold  VIP_TRUE: sends wait; VIP_FALSE: they go
 *   VIP_SUCCESS            also for a hosted program, whose sends do not wait
 *   VIP_INVALID_PARAMETER  the NIC is bad
 */
VIP_RETURN VipxHoldPosts(IN VIP_NIC_HANDLE nic, IN VIP_BOOLEAN hold);

#ifdef __cplusplus
}
#endif

#endif
