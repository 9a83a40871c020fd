#include "xdp/local_port.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string>

#include "xdp/xsk/chunk.h"
#include "xdp/grant/grant_entry.h"
#include "xdp/port_error.h"

namespace viaduct {
namespace {

constexpr std::uint32_t kDesk = 0x40000000;  // marks the ids of the desk's buffers
constexpr std::uint32_t kRing = 1024;
constexpr std::size_t kAddressBytes = 6;

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

}  // namespace

LocalPort::LocalPort(std::unique_ptr<Port> wire) : wire_(std::move(wire)) {
  static_assert(std::tuple_size_v<decltype(children_)> == VIADUCT_GRANTS);
}

LocalPort::~LocalPort() {
  if (epoll_ >= 0) close(epoll_);
}

void LocalPort::open_desk(GrantFilter& filter, std::uint16_t ether_type) {
  if (desk_ != nullptr) return;
  Grant::Options options{filter};
  options.ether_type = ether_type;
  options.ring = kRing;
  options.agents_own = true;
  // As many frames of the desk may be kept as of the wire.
  const std::size_t chunk = chunk_for(filter.lower().mtu);
  options.umem_bytes = std::bit_ceil((std::size_t{wire_->lendable()} + kRing) * chunk * 4 / 3);
  auto desk = std::make_unique<Desk>(options);
  const int socket = fcntl(desk->grant.socket(), F_DUPFD_CLOEXEC, 0);
  const int umem = fcntl(desk->grant.umem(), F_DUPFD_CLOEXEC, 0);
  if (const char* const what = desk->port.open(socket, umem, desk->grant.layout())) {
    throw PortError(filter.lower().name + ": " + what + ": " + std::strerror(errno));
  }
  // What is sent here is as long as the wire allows.
  if (desk->port.mtu() < wire_->mtu()) {
    throw PortError(filter.lower().name + ": the agent's own port has no frames of " +
                    std::to_string(wire_->mtu()) + " bytes");
  }
  if (wire_->descriptor() >= 0) {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    if (epoll_ < 0) throw PortError(filter.lower().name + ": epoll: " + std::strerror(errno));
    enter(epoll_, desk->port.descriptor());
  }
  desk_ = std::move(desk);
}

void LocalPort::add(const MacAddress& child) {
  children_[slot_of(child.data())] = number_of(child.data());
}

void LocalPort::remove(const MacAddress& child) {
  if (is_child(reinterpret_cast<const std::byte*>(child.data()))) {
    children_[slot_of(child.data())] = 0;
  }
}

bool LocalPort::is_child(const std::byte* address) const {
  return children_[slot_of(address)] == number_of(address);
}

void LocalPort::send_to_child(const Frame& frame) {
  Frame copy;
  if (desk_->port.reserve({&copy, 1}) == 0) return;  // counted there
  if (frame.length > copy.length) {
    desk_->port.cancel({&copy, 1});
    return;
  }
  std::memcpy(copy.data, frame.data, frame.length);
  const MacAddress from = desk();
  std::memcpy(copy.data + kAddressBytes, from.data(), from.size());
  copy.length = frame.length;
  desk_->port.submit({&copy, 1});
}

void LocalPort::submit(std::span<const Frame> frames) {
  if (desk_ == nullptr) {
    wire_->submit(frames);
    return;
  }
  while (!frames.empty()) {
    const bool local = is_child(frames.front().data);
    std::size_t n = 1;
    while (n < frames.size() && is_child(frames[n].data) == local) ++n;
    const auto run = frames.first(n);
    if (local) {
      for (const Frame& frame : run) send_to_child(frame);
      wire_->cancel(run);
    } else {
      wire_->submit(run);
    }
    frames = frames.subspan(n);
  }
}

void LocalPort::flush() {
  wire_->flush();
  if (desk_ != nullptr) desk_->port.flush();
}

std::size_t LocalPort::receive(std::span<Frame> frames) {
  if (desk_ == nullptr || frames.empty()) return wire_->receive(frames);
  // Neither side starves the other: they take turns in who is asked first.
  desk_first_ = !desk_first_;
  std::size_t got = desk_first_ ? 0 : wire_->receive(frames);
  const std::size_t n = desk_->port.receive(frames.subspan(got));
  const MacAddress own = address();
  for (Frame& frame : frames.subspan(got, n)) {
    std::memcpy(frame.data, own.data(), own.size());
    frame.id |= kDesk;
  }
  got += n;
  return desk_first_ && got < frames.size() ? got + wire_->receive(frames.subspan(got)) : got;
}

void LocalPort::release(std::span<const Frame> frames) {
  if (desk_ == nullptr) {
    wire_->release(frames);
    return;
  }
  while (!frames.empty()) {
    const bool local = (frames.front().id & kDesk) != 0;
    std::size_t n = 1;
    while (n < frames.size() && ((frames[n].id & kDesk) != 0) == local) ++n;
    if (local) {
      for (Frame frame : frames.first(n)) {
        frame.id &= ~kDesk;
        desk_->port.release({&frame, 1});
      }
    } else {
      wire_->release(frames.first(n));
    }
    frames = frames.subspan(n);
  }
}

int LocalPort::descriptor() const {
  const int wire = wire_->descriptor();
  if (epoll_ < 0) return wire;
  // The wire's may have been exchanged, perhaps for another with the same number: the kernel knows.
  if (entered_ != wire && entered_ >= 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, entered_, nullptr);
  enter(epoll_, wire);
  entered_ = wire;
  return epoll_;
}

PortCounters LocalPort::counters() {
  PortCounters out = wire_->counters();
  if (desk_ == nullptr) return out;
  const PortCounters more = desk_->port.counters();
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
