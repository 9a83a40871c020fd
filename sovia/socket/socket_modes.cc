#include "sovia/socket/socket_modes.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/time.h>

#include "sovia/process/clock.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"

namespace viaduct::sovia {

bool SocketModes::blocks(int fd, int flags) {
  if ((flags & MSG_DONTWAIT) != 0) return false;
  const std::uint32_t known = modes_.load();
  if ((known & (kBlocking | kNonblocking)) != 0) return (known & kBlocking) != 0;
  const bool blocks = (libc::fcntl(fd, F_GETFL) & O_NONBLOCK) == 0;
  learn(known, blocks ? kBlocking : kNonblocking);
  return blocks;
}

void SocketModes::learn(std::uint32_t before, std::uint32_t mode) {
  // A mode is not kept if another process can change it.
  if (!shared_.load()) modes_.compare_exchange_strong(before, before | mode);
}

MessageLayer* SocketModes::keep_message_layer(std::unique_ptr<MessageLayer> layer) {
  MessageLayer* known = nullptr;
  const bool first = message_layer_.compare_exchange_strong(known, layer.get(), std::memory_order_acq_rel);
  return first ? layer.release() : known;
}

void SocketModes::on_created(bool nonblocking, bool accepted) {
  opener_ = accepted ? Opener::kPeer : Opener::kThisEnd;
  modes_.store((nonblocking ? kNonblocking : kBlocking) |
               (accepted ? 0u : kNoReceiveLimit | kNoSendLimit));
}

void SocketModes::mode_changed() {
  std::uint32_t modes = modes_.load();
  const auto next = [](std::uint32_t before) {
    return (before / kModeVersion + 1) * kModeVersion | (before & (kReceivesAtOnce | kSendsAtOnce));
  };
  while (!modes_.compare_exchange_weak(modes, next(modes))) continue;
  combines_.store(kNotKnown, std::memory_order_relaxed);
}

void SocketModes::set_waits_not(bool receiving, bool not_at_all) {
  const std::uint32_t mode = receiving ? kReceivesAtOnce : kSendsAtOnce;
  if (not_at_all) {
    modes_.fetch_or(mode);
  } else {
    modes_.fetch_and(~mode);
  }
}

void SocketModes::want_control(unsigned bit, bool on) {
  const unsigned before = control_wanted_.load();
  // A socket has one kind of timestamps: asking for one ends the other.
  const unsigned others = bit == kControlUnread ? before : before & kControlUnread;
  control_wanted_.store(on ? others | bit : before & ~bit);
}

int SocketModes::look_up_combining(int fd) {
  const auto is_on = [fd](int name) {
    int value = 0;
    socklen_t length = sizeof value;
    return libc::getsockopt(fd, IPPROTO_TCP, name, &value, &length) == 0 && value != 0;
  };
  int combines = options().combine != 0 && !is_on(TCP_NODELAY) ? kSmall : kAtOnce;
  if (is_on(TCP_CORK)) combines = kCorked;
  combines_.store(combines, std::memory_order_relaxed);
  return combines;
}

std::uint64_t SocketModes::look_up_deadline(int fd, int option, bool& limited) {
  const std::uint32_t known = modes_.load();
  if ((known & (option == SO_RCVTIMEO ? kReceivesAtOnce : kSendsAtOnce)) != 0) {
    limited = true;
    return 1;
  }
  const std::uint32_t none = option == SO_RCVTIMEO ? kNoReceiveLimit : kNoSendLimit;
  if ((known & none) != 0) return kNever;
  timeval timeout{};
  socklen_t length = sizeof timeout;
  libc::getsockopt(fd, SOL_SOCKET, option, &timeout, &length);
  limited = timeout.tv_sec != 0 || timeout.tv_usec != 0;
  const timespec time{timeout.tv_sec, timeout.tv_usec * 1000};
  if (!limited) learn(known, none);
  return deadline_in(limited ? &time : nullptr);
}

}  // namespace viaduct::sovia
