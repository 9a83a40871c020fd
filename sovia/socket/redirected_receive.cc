#include "sovia/socket/redirected_receive.h"

#include <sys/mman.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "sovia/lane/engine.h"
#include "sovia/process/counters.h"
#include "sovia/process/options.h"
#include "sovia/process/units.h"
#include "sovia/socket/lane_endpoint.h"
#include "sovia/socket/lane_pin.h"
#include "xdp/mutex.h"

namespace viaduct::sovia {
namespace {

// Packets smaller than this cost less to copy than to redirect.
constexpr std::size_t kWorthwhile = 4096;

}  // namespace

bool writable(void* data, std::size_t bytes) {
  const auto from = reinterpret_cast<std::uintptr_t>(data) / kPage * kPage;
  const std::uintptr_t to = reinterpret_cast<std::uintptr_t>(data) + bytes;
  return madvise(reinterpret_cast<void*>(from), to - from, MADV_POPULATE_WRITE) == 0;
}

namespace {

// Returns the lane, which stays until let_go(); nullptr: it can't redirect now. `number`: the lane's number for this
// reader.
LaneEndpoint* begin_direct(Socket& socket, std::byte* to, std::uint32_t bytes, std::uint32_t memory,
                                         std::uint32_t& number) {
  // A thread that holds the stream may wait for the engine.
  if (!socket.rx.lock.try_lock()) return nullptr;
  const RxGuard guard(std::adopt_lock, socket);
  if (socket.link.end == nullptr || !socket.rx.is_on_lane()) return nullptr;
  const LockGuard lane_guard(socket.link.end->lane.lock());
  number = socket.link.end->lane.rx.begin_direct(to, bytes, memory);
  if (number == LaneRx::kNoDirect) return nullptr;
  ++socket.link.end->pins;
  return socket.link.end;
}

}  // namespace

void RedirectedReceive::begin(Socket& socket, const iovec* pieces, std::size_t count,
                          std::size_t skip) {
  const std::size_t expected = socket.rx.last_packet.load(std::memory_order_relaxed);
  if (expected < kWorthwhile || options().redirect == 0) return;
  if (options().handling != Handling::kSingle) return;
  ProcessNic* const nic = engine::nic();
  if (nic == nullptr || !nic->has_own_stack()) return;
  std::size_t piece = 0;
  while (piece < count && skip >= pieces[piece].iov_len) skip -= pieces[piece++].iov_len;
  if (piece == count || pieces[piece].iov_len - skip < expected) return;
  auto* const to = static_cast<std::byte*>(pieces[piece].iov_base) + skip;
  const std::size_t bytes = std::min<std::size_t>(pieces[piece].iov_len - skip, kChunkBytes);
  if (!writable(to, bytes)) return;
  const VIP_MEM_HANDLE memory = nic->take_memory(to, bytes);
  if (memory == 0) return;
  // The engine is paused so that it takes no packets in: the next packet to come is then the first of the redirection.
  if (engine::try_pause()) {
    lane_ = begin_direct(socket, to, static_cast<std::uint32_t>(bytes), memory, number_);
    engine::go_on();
  }
  if (lane_ == nullptr) return nic->give_back_memory(memory);
  nic_ = nic;
  socket_ = &socket;
  memory_ = memory;
}

bool RedirectedReceive::ready() const {
  if (lane_ == nullptr) return false;
  const LockGuard guard(lane_->lane.lock());
  return lane_->lane.rx.direct_is_there(number_);
}

void RedirectedReceive::end() {
  if (lane_ == nullptr) return;
  for (;;) {
    {
      const LockGuard guard(lane_->lane.lock());
      if (lane_->lane.rx.end_direct(number_, bytes_)) break;
    }
    // A packet has come to the buffer that arrived() has yet to be called for, which progress() does.
    progress();
  }
  nic_->give_back_memory(memory_);
  LaneEndpoint& lane = *std::exchange(lane_, nullptr);
  let_go(*socket_, lane);
}

std::size_t RedirectedReceive::take_bytes() {
  if (bytes_ == 0) return 0;
  counters::add(Counter::kRedirectedReceives);
  counters::add(Counter::kBytesReceivedLane, bytes_);
  return std::exchange(bytes_, 0);
}

}  // namespace viaduct::sovia
