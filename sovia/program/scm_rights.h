// Descriptors that go to other processes and come from them in messages (SCM_RIGHTS).
#ifndef VIADUCT_SOVIA_PROGRAM_SCM_RIGHTS_H
#define VIADUCT_SOVIA_PROGRAM_SCM_RIGHTS_H

#include <sys/socket.h>

#include <cstddef>
#include <vector>

namespace viaduct::sovia::scm_rights {

// A message that is about to be sent. Sockets of the library's among the descriptors in it leave their lanes for good,
// as another process will use them; their unread bytes go with them, in files behind the program's own descriptors.
// Keeps errno.
class Outgoing {
 public:
  explicit Outgoing(const msghdr& message);

  // Whether message() has more than the program's message: files of unread bytes.
  bool has_more() const { return !control_.empty(); }
  const msghdr* message() const { return &message_; }

 private:
  msghdr message_;
  std::vector<std::byte> control_;
};

// Tells the table of the descriptors in a message that has come, and takes out the files. Keeps
// errno.
void after_receive(msghdr& message);

}  // namespace viaduct::sovia::scm_rights

#endif
