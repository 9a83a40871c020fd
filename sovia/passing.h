// Descriptors that go to other processes and come from them in messages (SCM_RIGHTS).
#ifndef VIADUCT_SOVIA_PASSING_H
#define VIADUCT_SOVIA_PASSING_H

#include <sys/socket.h>

namespace viaduct::sovia::passing {

// Sockets of ours among the descriptors in it leave their lanes for good: another process will use
// them. Keeps errno.
void before_send(const msghdr& message);

// Tells the table of the descriptors in it. Keeps errno.
void after_receive(msghdr& message);

}  // namespace viaduct::sovia::passing

#endif
