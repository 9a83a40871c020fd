#include "xdp/host_port.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "xdp/port_error.h"

namespace viaduct {
namespace {

constexpr std::uint32_t kOwn = OwnFrames::kMark;
constexpr std::uint32_t kRelay = 0x40000000;  // marks the ids of the relay's buffers
constexpr std::size_t kAddressBytes = 6;
constexpr std::size_t kEthernet = 14;
constexpr std::uint32_t kRoundsWithoutLook = 8, kRoundsAmongStrangers = 64;

std::size_t stride_for(std::uint32_t mtu) { return (mtu + kEthernet + 63) & ~std::size_t{63}; }

void enter(int epoll, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

// Calls take(run, kind) for each run of frames of one kind, in order.
template <class KindOf, class Take>
void for_each_run(std::span<const Frame> frames, KindOf&& kind_of, Take&& take) {
  while (!frames.empty()) {
    const auto kind = kind_of(frames.front());
    std::size_t n = 1;
    while (n < frames.size() && kind_of(frames[n]) == kind) ++n;
    take(frames.first(n), kind);
    frames = frames.subspan(n);
  }
}

class NoUplink final : public Port {
 public:
  NoUplink(const MacAddress& address, std::uint32_t mtu)
      : address_(address),
        mtu_(mtu),
        stride_(stride_for(mtu)),
        never_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (never_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    for (std::uint32_t i = kFrames; i-- > 0;) free_.push_back(i);
  }
  ~NoUplink() override { close(never_); }
  NoUplink(const NoUplink&) = delete;
  NoUplink& operator=(const NoUplink&) = delete;

  std::size_t receive(std::span<Frame>) override { return 0; }
  void release(std::span<const Frame>) override {}
  std::size_t reserve(std::span<Frame> frames) override {
    if (memory_.empty()) memory_.resize(stride_ * kFrames);
    const std::size_t n = std::min(frames.size(), free_.size());
    for (Frame& frame : frames.first(n)) {
      const std::uint32_t buffer = free_.back();
      free_.pop_back();
      frame = {&memory_[buffer * stride_], static_cast<std::uint32_t>(mtu_ + kEthernet), buffer};
    }
    return n;
  }
  void submit(std::span<const Frame> frames) override { cancel(frames); }
  void cancel(std::span<const Frame> frames) override {
    for (const Frame& frame : frames) free_.push_back(frame.id);
  }
  void flush() override {}
  std::uint32_t mtu() const override { return mtu_; }
  MacAddress address() const override { return address_; }
  std::uint32_t lendable() const override { return kFrames; }
  std::uint32_t backlog() const override { return kFrames; }
  int descriptor() const override { return never_; }
  std::string mode() const override { return "loopback"; }
  PortCounters counters() override { return {}; }
  bool alive() const override { return true; }
  bool reaches(const MacAddress&) const override { return false; }
  BulkPath& bulk_path() override { return no_bulk_path_; }

 private:
  static constexpr std::uint32_t kFrames = 256;

  NoBulkPath no_bulk_path_{*this};
  MacAddress address_;
  std::uint32_t mtu_;
  std::size_t stride_;
  int never_;  // an event descriptor that is never readable: there is no uplink
  std::vector<std::byte> memory_;
  std::vector<std::uint32_t> free_;
};

}  // namespace

HostPort::HostPort(std::unique_ptr<Port> uplink)
    : uplink_(std::move(uplink)),
      bulk_path_(*this),
      address_(uplink_->address()),
      own_frames_(stride_for(uplink_->mtu())) {}

HostPort::~HostPort() {
  if (epoll_ >= 0) close(epoll_);
}

std::unique_ptr<Port> HostPort::no_uplink(const MacAddress& address, std::uint32_t mtu) {
  return std::make_unique<NoUplink>(address, mtu);
}

void HostPort::open_relay(std::unique_ptr<Port> relay) {
  // Frames to the relay are as long as the uplink allows.
  if (relay->mtu() < uplink_->mtu()) {
    throw PortError("the agent's own port has no frames of " + std::to_string(uplink_->mtu()) +
                    " bytes");
  }
  watch(relay->descriptor());
  relay_ = std::move(relay);
}

void HostPort::open_trains(OpenedTrainSocket&& socket, std::uint32_t types) {
  auto trains = std::make_unique<TrainSocket>();
  const TrainAddress own = socket.address;
  if (const char* const what = trains->open(socket.socket.release(), own, uplink_->mtu(), types)) {
    throw PortError(std::string(what) + ": " + std::strerror(errno));
  }
  trains->keep_guard(socket.guard.release());
  watch(trains->descriptor());
  bulk_path_.open(std::move(trains));
}

void HostPort::watch(int fd) {
  if (uplink_->descriptor() < 0) return;
  if (epoll_ < 0) epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) throw PortError(std::string("epoll: ") + std::strerror(errno));
  enter(epoll_, fd);
}

HostPort::Way HostPort::way_of(const Frame& frame) const {
  if (std::memcmp(frame.data, address_.data(), kAddressBytes) == 0) return Way::kSelf;
  return relay_ != nullptr && children_.has(frame.data) ? Way::kChild : Way::kUplink;
}

void HostPort::send_to_child(const Frame& frame) {
  Frame copy;
  if (relay_->reserve({&copy, 1}) == 0) return;  // the relay counts it
  if (frame.length > copy.length) {
    relay_->cancel({&copy, 1});
    return;
  }
  std::memcpy(copy.data, frame.data, frame.length);
  const MacAddress from = relay();
  std::memcpy(copy.data + kAddressBytes, from.data(), from.size());
  copy.length = frame.length;
  relay_->submit({&copy, 1});
}

void HostPort::submit(std::span<const Frame> frames) {
  const auto take = [this](std::span<const Frame> run, Way way) {
    if (way == Way::kUplink) return uplink_->submit(run);
    for (const Frame& frame : run) way == Way::kSelf ? own_frames_.send(frame) : send_to_child(frame);
    uplink_->cancel(run);
  };
  for_each_run(frames, [this](const Frame& frame) { return way_of(frame); }, take);
}

void HostPort::flush() {
  uplink_->flush();
  if (relay_ != nullptr) relay_->flush();
  bulk_path_.flush();
}

void HostPort::HostBulkPath::submit_bulk(std::span<const Frame> frames, Prepare prepare) {
  prepare_ = prepare;
  for (Frame frame : frames) {
    if (trains_ == nullptr || port_.way_of(frame) != Way::kUplink) {
      prepare(frame);
      port_.submit({&frame, 1});
    } else if (!trains_->add(frame)) {
      // Frames that were submitted before must arrive before.
      port_.uplink_->flush();
      flush_train();
      trains_->add(frame);
    }
  }
}

void HostPort::HostBulkPath::flush_train() {
  const std::span<const Frame> frames = trains_->waiting();
  if (trains_->send()) return port_.uplink_->cancel(frames);
  for (Frame frame : frames) {
    prepare_(frame);
    port_.uplink_->submit({&frame, 1});
  }
  port_.uplink_->flush();
}

bool HostPort::HostBulkPath::is_due() {
  if (trains_ == nullptr) return false;
  // A round takes much longer than a look would, and trains that wait keep descriptor() readable.
  if (++rounds_ % (trains_->knows_any() ? kRoundsWithoutLook : kRoundsAmongStrangers) == 0) trains_->expect();
  return trains_->is_due();
}

std::size_t HostPort::receive_from_relay(std::span<Frame> frames) {
  const std::size_t got = relay_->receive(frames);
  for (Frame& frame : frames.first(got)) {
    std::memcpy(frame.data, address_.data(), address_.size());
    frame.id |= kRelay;
  }
  return got;
}

// Frames that have come by express by now were sent before the train, so they go first.
std::size_t HostPort::receive(std::span<Frame> frames) {
  const std::size_t n = receive_express(frames);
  if (!bulk_path_.is_due() || n == frames.size() || !bulk_path_.look()) return n;
  const std::size_t more = receive_express(frames.subspan(n));
  return n + more + bulk_path_.receive(frames.subspan(n + more));
}

std::size_t HostPort::receive_express(std::span<Frame> frames) {
  if (frames.empty()) return 0;
  const std::size_t own = own_frames_.receive(frames);
  frames = frames.subspan(own);
  if (frames.empty()) return own;
  if (relay_ == nullptr) return own + uplink_->receive(frames);
  // Wire and relay take turns at being first, so that neither starves the other.
  relay_first_ = !relay_first_;
  std::size_t got = relay_first_ ? 0 : uplink_->receive(frames);
  got += receive_from_relay(frames.subspan(got));
  if (relay_first_ && got < frames.size()) got += uplink_->receive(frames.subspan(got));
  return own + got;
}

void HostPort::release(std::span<const Frame> frames) {
  constexpr std::uint32_t kTrain = ~0u;
  const auto take = [this](std::span<const Frame> run, std::uint32_t mark) {
    if (mark == 0) return uplink_->release(run);
    if (mark == kTrain) {
      for (const Frame& frame : run) bulk_path_.release(frame);
      return;
    }
    for (Frame frame : run) {
      if (mark == kOwn) {
        own_frames_.release(frame);
      } else {
        frame.id &= ~mark;
        relay_->release({&frame, 1});
      }
    }
  };
  // Without a relay the bit of kRelay is part of the uplink's ids.
  const std::uint32_t marks = relay_ != nullptr ? kOwn | kRelay : kOwn;
  const auto mark_of = [this, marks](const Frame& frame) {
    return bulk_path_.came_by_train(frame) ? kTrain : frame.id & marks;
  };
  for_each_run(frames, mark_of, take);
}

int HostPort::descriptor() const {
  const int uplink = uplink_->descriptor();
  if (epoll_ < 0) return uplink;
  // The uplink's descriptor may have been replaced, perhaps by another one with the same number: the kernel knows.
  if (entered_ != uplink && entered_ >= 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, entered_, nullptr);
  enter(epoll_, uplink);
  entered_ = uplink;
  return epoll_;
}

PortCounters HostPort::counters() {
  PortCounters out = uplink_->counters();
  out.tx_dropped_busy += own_frames_.dropped();
  if (relay_ == nullptr) return out;
  const PortCounters more = relay_->counters();
  out.rx_frames += more.rx_frames;
  out.rx_bytes += more.rx_bytes;
  out.tx_frames += more.tx_frames;
  out.tx_bytes += more.tx_bytes;
  out.tx_kicks += more.tx_kicks;
  out.tx_kick_again += more.tx_kick_again;
  out.tx_dropped_busy += more.tx_dropped_busy;
  out.tx_no_buffer += more.tx_no_buffer;
  out.rx_dropped_ring_full += more.rx_dropped_ring_full;
  out.rx_dropped_no_fill += more.rx_dropped_no_fill;
  out.rx_dropped_invalid += more.rx_dropped_invalid;
  out.tx_dropped_invalid += more.tx_dropped_invalid;
  return out;
}

}  // namespace viaduct
