#include "xdp/af_xdp_port.h"

#include <bpf/bpf.h>
#include <sys/epoll.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace viaduct {
namespace {

// Ids of buffers: queue in the high bits.
constexpr unsigned kQueueShift = 24;
constexpr std::uint32_t kChunkMask = (1u << kQueueShift) - 1;

constexpr std::uint32_t kHeadroom = 256;  // the kernel's, in front of each received frame
constexpr std::uint32_t kEthernet = 14 + 4;
constexpr std::uint32_t kLookEvery = 8192;  // calls of receive()
constexpr std::uint64_t kStallTime = 2'000'000'000;

std::uint64_t now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000 +
         static_cast<std::uint64_t>(t.tv_nsec);
}

std::uint32_t chunk_for(std::uint32_t mtu) {
  return mtu + kEthernet + kHeadroom <= 2048 ? 2048 : 4096;
}

}  // namespace

AfXdpPort::AfXdpPort(const PortOptions& options, const Interface& interface,
                     std::shared_ptr<InterfaceLock> lock, bool native)
    : interface_(interface), lock_(std::move(lock)), native_(native) {
  const std::uint32_t chunk = chunk_for(interface.mtu);
  mtu_ = std::min(interface.mtu, chunk - kHeadroom - kEthernet);
  if (mtu_ < interface.mtu) {
    options.note(interface.name + ": frames of at most " + std::to_string(mtu_) +
                 " bytes are used, not " + std::to_string(interface.mtu));
  }
  if (interface.receive_queues > XdpAttachment::kMaxQueues) {
    throw PortError(interface.name + " has " + std::to_string(interface.receive_queues) +
                    " receive queues; at most " + std::to_string(XdpAttachment::kMaxQueues) +
                    " can be served (ethtool -L " + interface.name + " combined N)");
  }
  attachment_ = std::make_unique<XdpAttachment>(interface_.index, interface_.name.c_str(),
                                                interface_.address, options.ether_type, native,
                                                lock_->descriptor(), options.note);
  const std::uint32_t half = options.frames / 2;
  for (std::uint32_t q = 0; q < interface.receive_queues; ++q) {
    queues_.push_back(std::make_unique<AfXdpQueue>(
        AfXdpQueue::Options{interface_.name.c_str(), q, chunk, half, q == 0 ? half : 0,
                            options.ring},
        counters_));
  }
  // What is lent must leave the fill ring of each queue something to work with.
  lendable_ = half > options.ring ? half - options.ring : half / 2;
  open_queues();
}

AfXdpPort::~AfXdpPort() {
  // First the program, so that frames go to the kernel again; then the sockets.
  attachment_.reset();
  queues_.clear();
  if (epoll_ >= 0) close(epoll_);
}

// Enters the sockets in the map, and in the descriptor to sleep on.
void AfXdpPort::open_queues() {
  if (epoll_ >= 0) close(epoll_);
  epoll_ = queues_.size() > 1 ? epoll_create1(EPOLL_CLOEXEC) : -1;
  for (std::uint32_t q = 0; q < queues_.size(); ++q) {
    int fd = queues_[q]->descriptor();
    if (bpf_map_update_elem(attachment_->sockets(), &q, &fd, 0) != 0) {
      throw PortError(interface_.name + ": can't enter the socket of queue " + std::to_string(q) +
                      ": " + std::strerror(errno));
    }
    epoll_event event{};
    event.events = EPOLLIN;
    if (epoll_ >= 0) epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
  }
}

int AfXdpPort::descriptor() const {
  return epoll_ >= 0 ? epoll_ : queues_.front()->descriptor();
}

std::string AfXdpPort::mode() const {
  std::string text = native_ ? "xdp-native" : "xdp-generic";
  if (native_) text += queues_.front()->zero_copy() ? ", zero-copy" : ", copy";
  return text;
}

std::size_t AfXdpPort::receive(std::span<Frame> frames) {
  if (++calls_ % kLookEvery == 0) look_after();
  if (queues_.front()->unsent()) queues_.front()->flush();
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
  for (const Frame& frame : frames) {
    queues_[frame.id >> kQueueShift]->release(frame.id & kChunkMask);
  }
}

std::size_t AfXdpPort::reserve(std::span<Frame> frames) {
  return queues_.front()->reserve(frames);
}

void AfXdpPort::submit(std::span<const Frame> frames) { queues_.front()->submit(frames); }

void AfXdpPort::cancel(std::span<const Frame> frames) {
  for (const Frame& frame : frames) queues_.front()->cancel(frame.id);
}

void AfXdpPort::flush() { queues_.front()->flush(); }

PortCounters AfXdpPort::counters() {
  look_after();
  PortCounters out = counters_;
  for (const auto& queue : queues_) queue->add_statistics(out);
  return out;
}

// What is not worth a look at every call: the guard, the interface, a transmission that stands still.
void AfXdpPort::look_after() {
  if (!alive_) return;
  if (!interface_exists(interface_.index)) {
    alive_ = false;
    return;
  }
  attachment_->watch_guard();
  AfXdpQueue& queue = *queues_.front();
  if (queue.sending() == 0 || queue.completed() != completed_) {
    completed_ = queue.completed();
    stalled_since_ = 0;
    return;
  }
  const std::uint64_t time = now();
  if (stalled_since_ == 0) {
    stalled_since_ = time;
    return;
  }
  // A kick may be all that is missing; and while the link is down nothing can move.
  queue.flush();
  if (time - stalled_since_ < kStallTime || !query_interface(interface_.name).up) return;
  ++counters_.tx_stalls;
  ++counters_.rebinds;
  stalled_since_ = 0;
  try {
    queue.rebind();
    open_queues();
  } catch (const PortError&) {
    alive_ = false;
  }
}

}  // namespace viaduct
