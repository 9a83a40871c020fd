// Sockets of the control protocol (control.h) at the agent's end.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_CONTROL_SOCKET_H
#define VIADUCT_KAGENT_AGENT_CONTROL_CONTROL_SOCKET_H

#include <sys/socket.h>
#include <sys/types.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "xdp/descriptor.h"
#include "kagent/agent/process/user_threads.h"

namespace viaduct {

// A program's connection. Closing it also closes descriptors in messages that have not been read,
// and that may last (a TCP socket that lingers, gigabytes of memory): then it is left to a thread of the
// account.
class ControlSocket {
 public:
  ControlSocket() = default;
  // `threads` must outlive it.
  ControlSocket(Descriptor socket, uid_t account, UserThreads& threads)
      : socket_(std::move(socket)), account_(account), threads_(&threads) {}
  ~ControlSocket() { close(); }
  ControlSocket(ControlSocket&&) = default;
  ControlSocket& operator=(ControlSocket&& other) noexcept {
    if (this != &other) {
      close();
      socket_ = std::move(other.socket_);
      account_ = other.account_;
      threads_ = other.threads_;
    }
    return *this;
  }

  int get() const { return socket_.get(); }
  explicit operator bool() const { return static_cast<bool>(socket_); }

  // The next message, which stays where it is; `bytes` of it at most. As recv() with MSG_TRUNC.
  // `rights`: descriptors come with it. They are not touched.
  ssize_t look(void* room, std::size_t bytes, bool& rights) const;

  // The program sees the end before this returns, but for what it has not read yet.
  void close();

 private:
  Descriptor socket_;
  uid_t account_ = 0;
  UserThreads* threads_ = nullptr;
};

// Closes a file in a thread of the account, as that may last; `drain`: reads what has come to the socket first. Without
// a thread it is closed here.
void close_in_thread(UserThreads& threads, uid_t account, Descriptor file, bool drain = false);

// Makes text of other processes fit to be shown to people.
std::string shown(std::string_view text);

// Describes the peer, for the log.
std::string text_of(const ucred& peer);

// All groups of the process at the other end, as the kernel knows them: no account database, which
// might be slow and might say something else, is asked.
std::vector<gid_t> groups_of(int socket, const ucred& peer);

// Sends one packet, with copies of descriptors, without waiting. False if there is no room or no peer.
bool send_message(int socket, const void* data, std::size_t bytes, std::span<const int> fds = {});

// The two ends of a poll wake (control.h). Nothing can be sent to ours.
struct PollWakeEnds {
  Descriptor ours, program;
};
PollWakeEnds make_poll_wake();  // throws std::system_error

}  // namespace viaduct

#endif
