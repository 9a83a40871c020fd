// Why a connection, or a direction of one, goes through the kernel and not over a lane. Shown by
// `sovia stat` and counted.
#ifndef VIADUCT_SOVIA_PROCESS_REASON_H
#define VIADUCT_SOVIA_PROCESS_REASON_H

#include <cstdint>

// name, what to tell the user
#define SOVIA_REASONS(X)                                                              \
  X(kNone, "")                                                                        \
  X(kShort, "too little has gone over the connection so far")                         \
  X(kOff, "lanes are switched off (SOVIA_LANES=0)")                                   \
  X(kLocal, "the peer is on this host")                                               \
  X(kOffLink, "the peer is behind a router")                                          \
  X(kNoNic, "no VIA agent serves the interface (is viad running?)")                   \
  X(kSandbox, "the program's sandbox forbids AF_NETLINK or the agent's socket")         \
  X(kOtherNic, "another interface has the lanes of this process")                     \
  X(kNoPeer, "the peer does not answer: no agent, or no SOVIA there")                 \
  X(kResources, "out of VIs, memory or descriptors")                                  \
  X(kNotVouched, "the peer's agent does not vouch for its end")                       \
  X(kNotClaimed, "this host's agent does not vouch for this end")                     \
  X(kIoUring, "the program has rings of io_uring, whose calls pass by the library")     \
  X(kStandardStream, "the socket is an inherited descriptor 0, 1 or 2")               \
  X(kInherited, "the socket was there before the program began")                      \
  X(kPassed, "the socket was passed by SCM_RIGHTS")                                   \
  X(kShared, "other processes have had the socket since a fork")                      \
  X(kFork, "the program forked")                                                      \
  X(kExec, "the program ran another one by exec")                                     \
  X(kUrgent, "urgent data was sent or received")                                      \
  X(kEpoll, "a descriptor that epoll knows was closed while copies of it were not")   \
  X(kSplice, "the program called splice or another function that only the kernel has")\
  X(kOption, "the program set a socket option that only the kernel has")              \
  X(kEnd, "the stream ended")                                                         \
  X(kPeerLeft, "the peer left the lane")                                              \
  X(kSlower, "lanes are dearer than the kernel where processors are short")              \
  X(kOthersTry, "another process of the server finds out what lanes cost")               \
  X(kChosen, "SOVIA_ROUTE=kernel chooses the kernel")                                  \
  X(kUnseen, "the peer sent by a call that its library does not see")                  \
  X(kRecord, "the peer goes on behind bytes that have not come")                        \
  X(kLost, "the lane lost its VIA connection")

namespace viaduct::sovia {

enum class Reason : std::uint8_t {
#define SOVIA_REASON(name, text) name,
  SOVIA_REASONS(SOVIA_REASON)
#undef SOVIA_REASON
  kCount
};

// English, without a full stop.
const char* text_of(Reason reason);

}  // namespace viaduct::sovia

#endif
