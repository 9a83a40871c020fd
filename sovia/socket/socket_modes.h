// Options and flags that a program has set on a socket, as far as they are known: the kernel need not be
// asked each time.
#ifndef VIADUCT_SOVIA_SOCKET_SOCKET_MODES_H
#define VIADUCT_SOVIA_SOCKET_SOCKET_MODES_H

#include <atomic>
#include <cstdint>
#include <memory>

#include "sovia/lane/tcp_route.h"
#include "sovia/socket/message_layer.h"

namespace viaduct::sovia {

// Control data that the program has asked for by options, as bits.
inline constexpr unsigned kControlUnread = 1;  // TCP_INQ
inline constexpr unsigned kControlTime = 2;    // SO_TIMESTAMP
inline constexpr unsigned kControlTimeNs = 4;  // SO_TIMESTAMPNS

class SocketModes {
 public:
  SocketModes() = default;
  ~SocketModes() { delete message_layer(); }
  SocketModes(const SocketModes&) = delete;
  SocketModes& operator=(const SocketModes&) = delete;

  // This process has just made the socket. Modes that accept() may take over from a listener are looked up later.
  void on_created(bool nonblocking, bool accepted);
  void mode_changed();  // O_NONBLOCK, timeouts, TCP_NODELAY ...: look again
  // A time limit was set; `not_at_all`: calls are not to wait.
  void set_waits_not(bool receiving, bool not_at_all);
  void want_control(unsigned bit, bool on);
  // Each send of the connection is a message (message_socket.h).
  void carry_messages(bool on = true) { carries_messages_.store(on, std::memory_order_relaxed); }
  bool carries_messages() const { return carries_messages_.load(std::memory_order_relaxed); }
  // The message layer of the stream; nullptr until one has been set.
  MessageLayer* message_layer() const { return message_layer_.load(std::memory_order_acquire); }
  // Sets the layer unless the socket has one. Returns the socket's layer.
  MessageLayer* keep_message_layer(std::unique_ptr<MessageLayer> layer);
  unsigned control_wanted() const { return control_wanted_.load(std::memory_order_relaxed); }

  bool blocks(int fd, int flags);
  // As !blocks(), but false where the kernel would have to be asked each time.
  bool returns_at_once(int fd, int flags) {
    return (flags & MSG_DONTWAIT) != 0 || is_nonblocking() || (!shared_.load() && !blocks(fd, flags));
  }
  // The time at which a call that begins now is to end; `option`: SO_RCVTIMEO or SO_SNDTIMEO. `limited`: whether the
  // program has set a limit.
  std::uint64_t look_up_deadline(int fd, int option, bool& limited);
  Opener opener() const { return opener_; }

  bool is_nonblocking() const { return (modes_.load(std::memory_order_relaxed) & kNonblocking) != 0; }
  // Other processes have the socket too, and may change its modes.
  void trust_nothing() { shared_.store(true); }

  // The handling of small sends: they go at once, are combined, or wait in a partly filled packet.
  enum Combining : int { kNotKnown = -1, kAtOnce, kSmall, kCorked };
  int combining(int fd) {
    const int known = combines_.load(std::memory_order_relaxed);
    return known >= 0 ? known : look_up_combining(fd);
  }

 private:
  // Known modes as bits. The bits from kModeVersion on count the changes, so that a mode looked up before a change is
  // not kept after it.
  enum Mode : std::uint32_t {
    kBlocking = 1,
    kNonblocking = 2,
    kNoReceiveLimit = 4,
    kNoSendLimit = 8,
    kReceivesAtOnce = 16,  // set by the program; changes of other modes keep it
    kSendsAtOnce = 32,
    kModeVersion = 64,  // one change
  };
  void learn(std::uint32_t before, std::uint32_t mode);
  int look_up_combining(int fd);

  std::atomic<int> combines_{kNotKnown};
  std::atomic<std::uint32_t> modes_{0};
  std::atomic<bool> shared_{false};
  std::atomic<bool> carries_messages_{false};
  std::atomic<MessageLayer*> message_layer_{nullptr};
  std::atomic<unsigned> control_wanted_{0};
  Opener opener_ = Opener::kUnknown;
};

}  // namespace viaduct::sovia

#endif
