#include "xdp/grant/granted_port.h"

#include <algorithm>
#include <cstring>
#include <utility>

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

const char* GrantedPort::add_local(const MacAddress& peer, std::uint64_t program, int file,
                                   unsigned end, const WholeFrame& wake) {
  if (local_ == nullptr) local_ = local::LocalPeers::make(layout_.address, lendable());
  if (local_ == nullptr) {
    system_calls::close(file);
    return "no memory for local peers";
  }
  wake_ = wake;
  return local_->add(peer, program, file, end);
}

// Hands out frames that come by the kernel (such as: a connection, or the peer, has ended) behind all frames that
// were in the rings before them: a ring gives a few frames at a time.
std::size_t GrantedPort::receive_both(std::span<Frame> frames) {
  if (held_.count == 0) hold();
  const std::size_t n = local_->receive(frames);
  if (held_.count == 0 || !local_->is_past_mark()) return n;
  const std::size_t now = std::min<std::size_t>(held_.count, frames.size() - n);
  std::copy_n(held_.frames, now, frames.begin() + n);
  std::copy(held_.frames + now, held_.frames + held_.count, held_.frames);
  held_.count -= static_cast<std::uint32_t>(now);
  return n + now;
}

void GrantedPort::hold() {
  held_.count = static_cast<std::uint32_t>(queue_.receive(held_.frames));
  if (held_.count != 0) local_->mark();
}

void GrantedPort::release_each(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    if (trains_.owns(frame)) {
      trains_.release(frame);
    } else if ((frame.id & local::LocalPeers::kId) != 0) {
      local_->release(frame);
    } else {
      queue_.release({&frame, 1});
    }
  }
}

void GrantedPort::wake_local() {
  local_->flush([this](const MacAddress& peer) {
    Frame frame;
    if (queue_.reserve({&frame, 1}) == 0) return;
    std::memcpy(frame.data, wake_.data(), wake_.size());
    std::memcpy(frame.data, peer.data(), peer.size());
    std::memcpy(frame.data + peer.size(), layout_.address.data(), layout_.address.size());
    frame.length = static_cast<std::uint32_t>(wake_.size());
    queue_.submit({&frame, 1});
  });
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

// Frames that have come by the queue by now were sent before the train, so they go first.
std::size_t GrantedPort::receive_trains(std::span<Frame> frames) {
  if (!trains_.look()) return 0;
  if (local_ == nullptr) {
    const std::size_t n = queue_.receive(frames);
    return n + trains_.receive(frames.subspan(n));
  }
  if (held_.count != 0) return 0;
  if (!std::exchange(held_.for_train, true)) hold();
  if (held_.count != 0) return 0;
  held_.for_train = false;
  return trains_.receive(frames);
}

void GrantedPort::submit_bulk(std::span<const Frame> frames) {
  for (const Frame& frame : frames) {
    if (trains_.add(frame)) continue;
    // Frames that were submitted before must arrive before.
    queue_.flush();
    flush_train();
    trains_.add(frame);
  }
}

void GrantedPort::flush_train() {
  const std::span<const Frame> frames = trains_.waiting();
  if (trains_.send()) return queue_.cancel(frames);
  queue_.submit(frames);
  queue_.flush();
}

void GrantedPort::close() {
  local::LocalPeers::destroy(local_);
  local_ = nullptr;
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
