#include "xdp/grant/granted_port.h"

#include <cerrno>

#include "xdp/xsk/chunk.h"
#include "xdp/xsk/system_calls.h"

namespace viaduct {
namespace {

constexpr std::uint32_t kLeastChunk = 2048, kMostChunk = 4096, kMostRing = 1u << 16;

// std::has_single_bit() is not used: on a baseline x86 it calls a function of the compiler's library.
constexpr bool is_power(std::uint32_t n) { return n != 0 && (n & (n - 1)) == 0; }

bool plausible(const GrantedLayout& layout) {
  return is_power(layout.chunk) && layout.chunk >= kLeastChunk && layout.chunk <= kMostChunk &&
         is_power(layout.ring) && layout.ring <= kMostRing && layout.receive >= 2 &&
         layout.receive <= 1u << 20 && layout.send >= 1 && layout.send <= 1u << 20 &&
         layout.mtu <= kLongestMtu &&
         (parts_for(layout.mtu, layout.chunk) == 1 || layout.chunk == kMostChunk) &&
         layout.send >= parts_for(layout.mtu, layout.chunk);
}

}  // namespace

template class GrantedPaths<XskQueue, TrainSocket>;

GrantedPort::~GrantedPort() { close(); }

const char* GrantedPort::open(int socket, int umem, const GrantedLayout& layout) {
  close();
  layout_ = layout;
  socket_ = socket;
  const char* const what = map(umem);
  const int error = errno;
  system_calls::close(umem);
  if (what != nullptr) close();
  errno = error;
  return what;
}

const char* GrantedPort::map(int umem) {
  if (!plausible(layout_)) {
    errno = EINVAL;
    return "the port's layout makes no sense";
  }
  area_bytes_ = std::size_t{layout_.receive + layout_.send} * layout_.chunk;
  const long size = system_calls::file_size(umem);
  if (size < 0 || static_cast<std::size_t>(size) < area_bytes_) {
    if (size >= 0) errno = EINVAL;
    return "the port's buffers are not there";
  }
  area_ = system_calls::map(area_bytes_, umem, 0);
  if (area_ == nullptr) return "can't map the port's buffers";
  const std::uint32_t parts = parts_for(layout_.mtu, layout_.chunk);
  XskQueue::Shape shape{static_cast<std::uint32_t>(__builtin_ctz(layout_.chunk)),
                        layout_.receive,
                        layout_.send,
                        layout_.ring,
                        granted_filled(layout_.receive, layout_.ring, parts)};
  shape.filled_at_most = granted_filled_at_most(layout_.receive, layout_.ring);
  if (parts > 1) {
    shape.take_several_chunks(parts, layout_.mtu, lendable());
    assembly_bytes_ = XskQueue::assembly_bytes(shape);
    assembly_ = system_calls::map_untouched(assembly_bytes_);
    if (assembly_ == nullptr) return "no memory for the port's long frames";
  }
  state_bytes_ = XskQueue::state_bytes(shape);
  // The memory is shared with forked children, as the object may be: a family of processes goes on with the same
  // lists.
  state_ = system_calls::map(state_bytes_, -1, 0);
  if (state_ == nullptr) return "no memory for the port's lists";
  queue_.set_up(shape, static_cast<std::byte*>(area_), static_cast<std::byte*>(assembly_), state_,
                counters_);
  return queue_.attach(socket_);
}

const char* GrantedPort::open_trains(int socket, int guard, const int (&pipe)[2], const TrainAddress& own,
                                     std::uint32_t types) {
  const char* const failed = trains_.open(socket, own, layout_.mtu, types);
  const int error = errno;
  trains_.keep_guard(guard);
  trains_.use_pages(pipe);
  if (failed != nullptr) trains_.close();
  errno = error;
  return failed;
}

void GrantedPort::close() {
  end_locals();
  trains_.close();
  queue_.detach();
  if (state_ != nullptr) system_calls::unmap(state_, state_bytes_);
  if (area_ != nullptr) system_calls::unmap(area_, area_bytes_);
  if (assembly_ != nullptr) system_calls::unmap(assembly_, assembly_bytes_);
  if (socket_ >= 0) system_calls::close(socket_);
  state_ = area_ = assembly_ = nullptr;
  socket_ = -1;
}

std::uint32_t GrantedPort::lendable() const {
  return layout_.receive - granted_filled(layout_.receive, layout_.ring,
                                          parts_for(layout_.mtu, layout_.chunk));
}

PortCounters GrantedPort::counters() {
  PortCounters out = counters_;
  queue_.add_statistics(out);
  return out;
}

}  // namespace viaduct
