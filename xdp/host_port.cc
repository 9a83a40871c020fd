#include "xdp/host_port.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "xdp/grant/grant_entry.h"
#include "xdp/port_error.h"

namespace viaduct {
namespace {

constexpr std::uint32_t kOwn = 0x80000000;    // marks the ids of our buffers
constexpr std::uint32_t kRelay = 0x40000000;  // ... and of the relay's
constexpr std::uint32_t kBuffers = 2048;      // for frames to itself
constexpr std::size_t kAddressBytes = 6;
constexpr std::size_t kEthernet = 14;
constexpr std::uint32_t kRoundsWithoutLook = 8, kRoundsAmongStrangers = 64;

std::size_t stride_for(std::uint32_t mtu) { return (mtu + kEthernet + 63) & ~std::size_t{63}; }

std::uint64_t number_of(const void* address) {
  std::uint64_t out = 0;
  std::memcpy(&out, address, kAddressBytes);
  return out;
}

std::size_t slot_of(const void* address) {
  const auto* const bytes = static_cast<const std::uint8_t*>(address);
  return (bytes[4] << 8u | bytes[5]) & (VIADUCT_GRANTS - 1);
}

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

class NoWire final : public Port {
 public:
  NoWire(const MacAddress& address, std::uint32_t mtu)
      : address_(address),
        mtu_(mtu),
        stride_(stride_for(mtu)),
        never_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (never_ < 0) throw std::system_error(errno, std::generic_category(), "eventfd");
    for (std::uint32_t i = kFrames; i-- > 0;) free_.push_back(i);
  }
  ~NoWire() override { close(never_); }
  NoWire(const NoWire&) = delete;
  NoWire& operator=(const NoWire&) = delete;

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
  int descriptor() const override { return never_; }
  std::string mode() const override { return "loopback"; }
  PortCounters counters() override { return {}; }
  bool alive() const override { return true; }
  bool reaches(const MacAddress&) const override { return false; }

 private:
  static constexpr std::uint32_t kFrames = 256;

  MacAddress address_;
  std::uint32_t mtu_;
  std::size_t stride_;
  int never_;  // an event descriptor that is never readable: there is no wire
  std::vector<std::byte> memory_;
  std::vector<std::uint32_t> free_;
};

}  // namespace

HostPort::HostPort(std::unique_ptr<Port> wire)
    : wire_(std::move(wire)), address_(wire_->address()), stride_(stride_for(wire_->mtu())) {
  static_assert(std::tuple_size_v<decltype(children_)> == VIADUCT_GRANTS);
}

HostPort::~HostPort() {
  if (epoll_ >= 0) close(epoll_);
}

std::unique_ptr<Port> HostPort::no_wire(const MacAddress& address, std::uint32_t mtu) {
  return std::make_unique<NoWire>(address, mtu);
}

void HostPort::open_relay(std::unique_ptr<Port> relay) {
  // Frames to the relay are as long as the wire allows.
  if (relay->mtu() < wire_->mtu()) {
    throw PortError("the agent's own port has no frames of " + std::to_string(wire_->mtu()) +
                    " bytes");
  }
  watch(relay->descriptor());
  relay_ = std::move(relay);
}

void HostPort::open_trains(OpenedTrainSocket&& socket, std::uint32_t types) {
  auto trains = std::make_unique<TrainSocket>();
  const TrainAddress own = socket.address;
  if (const char* const what = trains->open(socket.socket.release(), own, wire_->mtu(), types)) {
    throw PortError(std::string(what) + ": " + std::strerror(errno));
  }
  trains->keep_guard(socket.guard.release());
  watch(trains->descriptor());
  trains_ = std::move(trains);
}

void HostPort::watch(int fd) {
  if (wire_->descriptor() < 0) return;
  if (epoll_ < 0) epoll_ = epoll_create1(EPOLL_CLOEXEC);
  if (epoll_ < 0) throw PortError(std::string("epoll: ") + std::strerror(errno));
  enter(epoll_, fd);
}

void HostPort::add(const MacAddress& child) {
  children_[slot_of(child.data())] = number_of(child.data());
}

void HostPort::remove(const MacAddress& child) {
  if (is_child(reinterpret_cast<const std::byte*>(child.data()))) {
    children_[slot_of(child.data())] = 0;
  }
}

bool HostPort::is_child(const std::byte* address) const {
  return children_[slot_of(address)] == number_of(address);
}

HostPort::Way HostPort::way_of(const Frame& frame) const {
  if (std::memcmp(frame.data, address_.data(), kAddressBytes) == 0) return Way::kSelf;
  return relay_ != nullptr && is_child(frame.data) ? Way::kChild : Way::kWire;
}

void HostPort::turn_back(const Frame& frame) {
  if (memory_.empty()) {
    memory_.resize(stride_ * kBuffers);
    for (std::uint32_t i = kBuffers; i-- > 0;) free_.push_back(i);
  }
  if (free_.empty() || frame.length > stride_) {
    ++dropped_;
    return;
  }
  const std::uint32_t buffer = free_.back();
  free_.pop_back();
  std::byte* data = &memory_[buffer * stride_];
  std::memcpy(data, frame.data, frame.length);
  queue_.push_back({data, frame.length, buffer | kOwn});
}

void HostPort::send_to_child(const Frame& frame) {
  Frame copy;
  if (relay_->reserve({&copy, 1}) == 0) return;  // counted there
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
    if (way == Way::kWire) return wire_->submit(run);
    for (const Frame& frame : run) way == Way::kSelf ? turn_back(frame) : send_to_child(frame);
    wire_->cancel(run);
  };
  for_each_run(frames, [this](const Frame& frame) { return way_of(frame); }, take);
}

void HostPort::flush() {
  wire_->flush();
  if (relay_ != nullptr) relay_->flush();
  if (trains_ != nullptr && !trains_->waiting().empty()) flush_train();
}

void HostPort::submit_bulk(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    if (trains_ == nullptr || way_of(frame) != Way::kWire) {
      submit({&frame, 1});
    } else if (!trains_->add(frame)) {
      // Frames submitted before must arrive before.
      wire_->flush();
      flush_train();
      trains_->add(frame);
    }
  }
}

void HostPort::flush_train() {
  const std::span<const Frame> frames = trains_->waiting();
  if (trains_->send()) return wire_->cancel(frames);
  wire_->submit(frames);
  wire_->flush();
}

// Frames sent to the own address: half of the room at most, so that neither side starves the other.
std::size_t HostPort::receive_own(std::span<Frame> frames) {
  const std::size_t got =
      std::min(std::max<std::size_t>(frames.size() / 2, 1), queue_.size() - head_);
  std::copy_n(queue_.begin() + static_cast<std::ptrdiff_t>(head_), got, frames.begin());
  head_ += got;
  if (head_ == queue_.size()) queue_.clear(), head_ = 0;
  return got;
}

std::size_t HostPort::receive_from_relay(std::span<Frame> frames) {
  const std::size_t got = relay_->receive(frames);
  for (Frame& frame : frames.first(got)) {
    std::memcpy(frame.data, address_.data(), address_.size());
    frame.id |= kRelay;
  }
  return got;
}

// Frames that have come otherwise since a train was taken were sent earlier, or they would not be here.
std::size_t HostPort::receive(std::span<Frame> frames) {
  std::size_t n = receive_express(frames);
  if (trains_ == nullptr) return n;
  // A round is much longer than a look, and trains that wait keep descriptor() readable.
  if (++rounds_ % (trains_->knows_any() ? kRoundsWithoutLook : kRoundsAmongStrangers) == 0) trains_->expect();
  if (!trains_->is_due() || n == frames.size() || !trains_->look()) return n;
  n += receive_express(frames.subspan(n));
  return n + trains_->receive(frames.subspan(n));
}

std::size_t HostPort::receive_express(std::span<Frame> frames) {
  if (frames.empty()) return 0;
  const std::size_t own = head_ != queue_.size() ? receive_own(frames) : 0;
  frames = frames.subspan(own);
  if (frames.empty()) return own;
  if (relay_ == nullptr) return own + wire_->receive(frames);
  // Wire and relay take turns at being first, so that neither starves the other.
  relay_first_ = !relay_first_;
  std::size_t got = relay_first_ ? 0 : wire_->receive(frames);
  got += receive_from_relay(frames.subspan(got));
  if (relay_first_ && got < frames.size()) got += wire_->receive(frames.subspan(got));
  return own + got;
}

void HostPort::release(std::span<const Frame> frames) {
  constexpr std::uint32_t kTrain = ~0u;
  const auto take = [this](std::span<const Frame> run, std::uint32_t mark) {
    if (mark == 0) return wire_->release(run);
    if (mark == kTrain) {
      for (const Frame& frame : run) trains_->release(frame);
      return;
    }
    for (Frame frame : run) {
      frame.id &= ~mark;
      mark == kOwn ? free_.push_back(frame.id) : relay_->release({&frame, 1});
    }
  };
  // Without a relay the second mark's bit is the wire's.
  const std::uint32_t marks = relay_ != nullptr ? kOwn | kRelay : kOwn;
  const auto mark_of = [this, marks](const Frame& frame) {
    return trains_ != nullptr && trains_->owns(frame) ? kTrain : frame.id & marks;
  };
  for_each_run(frames, mark_of, take);
}

int HostPort::descriptor() const {
  const int wire = wire_->descriptor();
  if (epoll_ < 0) return wire;
  // The wire's may have been exchanged, perhaps for another with the same number: the kernel knows.
  if (entered_ != wire && entered_ >= 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, entered_, nullptr);
  enter(epoll_, wire);
  entered_ = wire;
  return epoll_;
}

PortCounters HostPort::counters() {
  PortCounters out = wire_->counters();
  out.tx_dropped_busy += dropped_;
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
