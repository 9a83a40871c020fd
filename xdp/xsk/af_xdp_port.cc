#include "xdp/xsk/af_xdp_port.h"

#include <bpf/bpf.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "xdp/bpf/tcx_attachment.h"
#include "xdp/bpf/xdp_attachment.h"
#include "xdp/xsk/chunk.h"
#include "xdp/clock.h"
#include "xdp/port_error.h"

namespace viaduct {
namespace {

// A buffer's id has the queue in its high bits and the chunk below; a queue has at most 2^20 chunks.
constexpr unsigned kQueueShift = 22;
constexpr std::uint32_t kChunkMask = (1u << kQueueShift) - 1;

constexpr std::uint32_t kMostQueues = 128;   // ids have no room for more queues, see also HostPort
constexpr std::uint32_t kPlainMtu = 3400;    // with a larger MTU drivers ask for a program that knows frags
constexpr std::uint32_t kLookEvery = 1 << 18;  // calls of receive()
constexpr std::uint64_t kStallTime = 2 * kNsPerSecond;
constexpr std::uint64_t kAwayTime = 5 * kNsPerSecond;  // how long the port tries to make a lost socket anew

}  // namespace

AfXdpPort::AfXdpPort(const PortOptions& options, const Interface& interface,
                     std::shared_ptr<InterfaceLock> lock, PortKind way)
    : interface_(interface), lock_(std::move(lock)), way_(way) {
  if (way_ == PortKind::kTcx) interface_.receive_queues = 1;  // the child's
  if (interface_.receive_queues > kMostQueues) {
    throw PortError(interface.name + " has " + std::to_string(interface.receive_queues) +
                    " receive queues; at most " + std::to_string(kMostQueues) +
                    " can be served (ethtool -L " + interface.name + " combined N)");
  }
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) throw PortError(interface_.name + ": epoll: " + std::strerror(errno));
  try {
    set_up(options);
  } catch (...) {
    close(epoll_);
    throw;
  }
  if (mtu_ < interface.mtu) {
    options.note(interface.name + ": frames of at most " + std::to_string(mtu_) +
                 " bytes are used, not " + std::to_string(interface.mtu));
  }
  lendable_ = AfXdpQueue::lendable(options.frames / 2, options.ring);
}

// Sets the port up with frames of several chunks where the link has them, without where they are refused.
void AfXdpPort::set_up(const PortOptions& options) {
  mtu_ = std::min(interface_.mtu, kLongestMtu);
  const bool frags = interface_.mtu > kPlainMtu;
  if (mtu_ > mtu_in_chunk(interface_.mtu)) {
    try {
      attach(options, frags);
      open_queues(options, mtu_);
      return;
    } catch (const PartsRefused& error) {
      options.note(error.what());
    }
    // If only sockets are refused, the program that knows frags serves as well without them.
    queues_.clear();
    mtu_ = mtu_in_chunk(interface_.mtu);
    if (attachment_ == nullptr) attach(options, false);
  } else {
    attach(options, frags);
  }
  open_queues(options, 0);
}

void AfXdpPort::attach(const PortOptions& options, bool frags) {
  const AttachmentOptions of{interface_.index, interface_.name.c_str(), interface_.address, options.ether_type,
                             interface_.receive_queues, way_ == PortKind::kXdpNative, frags, lock_->descriptor(),
                             options.note};
  if (way_ == PortKind::kTcx) {
    attachment_ = std::make_unique<TcxAttachment>(interface_, of);
  } else {
    attachment_ = std::make_unique<XdpAttachment>(of);
  }
}

// `parts_mtu`: the MTU of frames that take several chunks; 0: all take one.
void AfXdpPort::open_queues(const PortOptions& options, std::uint32_t parts_mtu) {
  const std::uint32_t half = options.frames / 2;
  for (std::uint32_t q = 0; q < interface_.receive_queues; ++q) {
    queues_.push_back(std::make_unique<AfXdpQueue>(
        AfXdpQueue::Options{attachment_->socket_interface(), q, chunk_for(interface_.mtu), half,
                            q == 0 ? half : 0, options.ring, way_ != PortKind::kXdpNative, parts_mtu},
        counters_));
    enter(q);
  }
}

AfXdpPort::~AfXdpPort() {
  // The program goes first, so that frames go to the kernel again; then the sockets.
  attachment_.reset();
  queues_.clear();
  close(epoll_);
}

// Enters a queue's socket in the map of sockets and in the descriptor to sleep on. The kernel takes
// it out of both when it is closed.
void AfXdpPort::enter(std::uint32_t number) {
  const int fd = queues_[number]->descriptor();
  epoll_event event{};
  event.events = EPOLLIN;
  if (bpf_map_update_elem(attachment_->sockets(), &number, &fd, 0) != 0 ||
      epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) != 0) {
    throw PortError(interface_.name + ": can't enter the socket of queue " +
                    std::to_string(number) + ": " + std::strerror(errno));
  }
}

int AfXdpPort::descriptor() const {
  const int only = queues_.size() == 1 ? queues_.front()->descriptor() : -1;
  return only >= 0 ? only : epoll_;
}

std::string AfXdpPort::mode() const {
  if (way_ == PortKind::kTcx) return "tcx";
  if (way_ == PortKind::kXdpGeneric) return "xdp-generic";
  return queues_.front()->zero_copy() ? "xdp-native, zero-copy" : "xdp-native, copy";
}

std::size_t AfXdpPort::receive(std::span<Frame> frames) {
  if (++calls_ % kLookEvery == 0) look_after();
  if (queues_.size() == 1) return queues_.front()->receive(frames);
  std::size_t got = 0;
  for (std::size_t n = 0; n < queues_.size() && got < frames.size(); ++n) {
    const std::size_t q = (turn_ + n) % queues_.size();
    const std::size_t here = queues_[q]->receive(frames.subspan(got));
    for (Frame& frame : frames.subspan(got, here)) {
      frame.id |= static_cast<std::uint32_t>(q) << kQueueShift;
    }
    got += here;
  }
  turn_ = (turn_ + 1) % queues_.size();
  return got;
}

void AfXdpPort::release(std::span<const Frame> frames) {
  if (queues_.size() == 1) {
    queues_.front()->release(frames);
    return;
  }
  for (Frame frame : frames) {
    const std::uint32_t queue = frame.id >> kQueueShift;
    frame.id &= kChunkMask;
    queues_[queue]->release({&frame, 1});
  }
}

std::size_t AfXdpPort::reserve(std::span<Frame> frames) {
  return queues_.front()->reserve(frames);
}

void AfXdpPort::submit(std::span<const Frame> frames) { queues_.front()->submit(frames); }

void AfXdpPort::cancel(std::span<const Frame> frames) {
  queues_.front()->cancel(frames);
}

void AfXdpPort::flush() { queues_.front()->flush(); }

PortCounters AfXdpPort::counters() {
  look_after();
  PortCounters out = counters_;
  for (const auto& queue : queues_) queue->add_statistics(out);
  return out;
}

void AfXdpPort::look_after() {
  if (!alive_) return;
  if (!is_unchanged(interface_)) {
    alive_ = false;
    return;
  }
  attachment_->look_after();
  if (away_since_ != 0) {
    rebind(monotonic_ns());
  } else if (queues_.front()->sending() == 0 || queues_.front()->completed() != completed_) {
    completed_ = queues_.front()->completed();
    stalled_since_ = 0;
  } else {
    look_for_stall(monotonic_ns());
  }
}

void AfXdpPort::look_for_stall(std::uint64_t time) {
  // While the link is down nothing can move, which is no stall. Else a kick may be all that is missing.
  if (!is_running(interface_.name)) stalled_since_ = 0;
  queues_.front()->kick();
  if (stalled_since_ == 0) stalled_since_ = time;
  if (time - stalled_since_ < kStallTime) return;
  ++counters_.tx_stalls;
  ++counters_.rebinds;
  stalled_since_ = 0;
  away_since_ = time;
  rebind(time);
}

void AfXdpPort::rebind(std::uint64_t time) {
  std::string error;
  if (!queues_.front()->rebind(error)) {
    // The kernel is late to give the queue back; the next look tries again.
    if (!error.empty() || time - away_since_ > kAwayTime) alive_ = false;
    return;
  }
  away_since_ = 0;
  try {
    enter(0);
  } catch (const PortError&) {
    alive_ = false;
  }
}

}  // namespace viaduct
