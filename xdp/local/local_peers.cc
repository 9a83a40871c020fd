#include "xdp/local/local_peers.h"

#include <fcntl.h>

#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "xdp/xsk/system_calls.h"

namespace viaduct::local {
namespace {

constexpr std::size_t kAddressBytes = 6;
constexpr std::size_t kEthernet = 14;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

// Maps private memory: a forked child has a copy, and what it changes there does not show in the parent.
void* map_private(std::size_t bytes) {
  const long at = ::syscall(SYS_mmap, nullptr, bytes, static_cast<long>(PROT_READ | PROT_WRITE),
                            static_cast<long>(MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE), -1L, 0L);
  return at == -1 ? nullptr : reinterpret_cast<void*>(at);
}

constexpr std::size_t list_bytes(std::uint32_t buffers) { return std::size_t{buffers} * sizeof(std::uint32_t); }

}  // namespace

LocalPeers* LocalPeers::make(const MacAddress& own, std::uint32_t kept) {
  const std::uint32_t buffers = kept + kBurst;
  void* const at = map_private(sizeof(LocalPeers) + list_bytes(buffers));
  if (at == nullptr) return nullptr;
  void* const room = map_private(buffers * kStride);
  if (room == nullptr) {
    system_calls::unmap(at, sizeof(LocalPeers) + list_bytes(buffers));
    return nullptr;
  }
  return new (at) LocalPeers(own, static_cast<std::byte*>(room), buffers);
}

LocalPeers::LocalPeers(const MacAddress& own, std::byte* room, std::uint32_t buffers)
    : own_(own), room_(room), free_count_(buffers), buffers_(buffers),
      free_(reinterpret_cast<std::uint32_t*>(this + 1)) {
  for (std::uint32_t i = 0; i < buffers; ++i) free_[i] = buffers - 1 - i;
}

void LocalPeers::destroy(LocalPeers* peers) {
  if (peers == nullptr) return;
  while (peers->count_ != 0) peers->forget(peers->count_ - 1);
  system_calls::unmap(peers->room_, peers->buffers_ * kStride);
  system_calls::unmap(peers, sizeof(LocalPeers) + list_bytes(peers->buffers_));
}

const char* LocalPeers::add(const MacAddress& address, std::uint64_t program, int file, unsigned end) {
  const int seals = system_calls::get_seals(file);
  const bool fits = seals >= 0 && (seals & kSeals) == kSeals &&
                    system_calls::file_size(file) == static_cast<long>(kFileBytes);
  Peer* peer = find(address);
  if (peer != nullptr && peer->program == program && !peer->ended) {
    system_calls::close(file);
    return nullptr;
  }
  const bool full = peer == nullptr && (by_address_[slot(address)] != 0 || count_ == kMost);
  void* const memory = fits && !full && end <= 1 ? system_calls::map_file_untouched(kFileBytes, file) : nullptr;
  system_calls::close(file);
  if (full) return "there are too many local peers";
  if (!fits || end > 1) return "the rings are not what they should be";
  if (memory == nullptr) return "can't map the rings";
  // Another program may have got the address of an earlier peer.
  if (peer != nullptr) system_calls::unmap(peer->memory, kFileBytes);
  if (peer == nullptr) peer = &peers_[count_++];
  auto* const base = static_cast<std::byte*>(memory);
  auto* const controls = reinterpret_cast<Control*>(base);
  auto* const tracks = reinterpret_cast<Track*>(base + kTracksAt);
  std::byte* const rings = base + kRingsAt;
  const auto ring = [&](unsigned number) { return rings + std::size_t{number} * kRingBytes; };
  *peer = {address, program, false, false, memory, RingWriter(ring(end), &controls[end], &tracks[end]),
           RingReader(ring(1 - end), &controls[1 - end])};
  peer->in.attach();
  enter(static_cast<std::uint32_t>(peer - peers_.data()));
  return nullptr;
}

void LocalPeers::enter(std::uint32_t number) {
  by_address_[slot(peers_[number].address)] = static_cast<std::uint8_t>(number + 1);
}

void LocalPeers::end(const MacAddress& address) {
  if (Peer* const peer = find(address)) peer->ended = true;
}

// Forgets a peer; the last peer takes its number.
void LocalPeers::forget(std::uint32_t number) {
  by_address_[slot(peers_[number].address)] = 0;
  system_calls::unmap(peers_[number].memory, kFileBytes);
  --count_;
  if (number == count_) return;
  const std::uint64_t last = unflushed_ >> count_ & 1;
  unflushed_ = (unflushed_ & ~(1ull << number | 1ull << count_)) | last << number;
  peers_[number] = peers_[count_];
  enter(number);
}

std::size_t LocalPeers::receive_from(Peer& peer, std::span<Frame> frames) {
  std::size_t got = 0, looked = 0, bytes = 0;
  for (; looked < frames.size() && free_count_ != 0 && bytes < kBudget; ++looked) {
    const std::uint32_t buffer = free_[free_count_ - 1];
    std::uint32_t length;
    std::byte* const data = peer.in.take(room_ + buffer * kStride, length);
    if (data == nullptr) break;
    const bool own = length >= kEthernet && std::memcmp(data, own_.data(), kAddressBytes) == 0 &&
                     std::memcmp(data + kAddressBytes, peer.address.data(), kAddressBytes) == 0;
    if (!own) [[unlikely]] {
      ++counters_.foreign;
      continue;
    }
    --free_count_;
    frames[got++] = {data, length, buffer | kId};
    bytes += length;
  }
  if (looked != 0) peer.in.give_room();
  counters_.rx_frames += got;
  counters_.rx_bytes += bytes;
  if ((peer.in.broken() || peer.out.broken()) && !std::exchange(peer.break_counted, true)) ++counters_.broken;
  return got;
}

std::size_t LocalPeers::receive(std::span<Frame> frames) {
  if (sleeping_) awake();
  std::size_t got = 0;
  const std::uint32_t all = count_;
  for (std::uint32_t n = 0; n < all && got < frames.size(); ++n) {
    const std::uint32_t number = turn_ < count_ ? turn_ : 0;
    Peer& peer = peers_[number];
    const std::size_t more = receive_from(peer, frames.subspan(got));
    got += more;
    turn_ = number + 1;
    if (peer.ended && more == 0 && peer.in.empty()) [[unlikely]] forget(number);
  }
  return got;
}

void LocalPeers::mark() {
  for (std::uint32_t i = 0; i < count_; ++i) peers_[i].in.mark();
}

bool LocalPeers::is_past_mark() {
  bool past = true;
  for (std::uint32_t i = 0; i < count_; ++i) past &= peers_[i].in.is_past_mark();
  return past;
}

bool LocalPeers::reserve(const MacAddress& to, std::uint32_t bytes, Frame& frame) {
  Peer* const peer = find(to);
  if (peer == nullptr || peer->ended || bytes > kMostFrame) return false;
  std::byte* const data = peer->out.reserve(bytes);
  if (data == nullptr) {
    ++counters_.full;
    return false;
  }
  frame = {data, bytes, static_cast<std::uint32_t>(peer - peers_.data()) | kId};
  return true;
}

void LocalPeers::submit(const Frame& frame) {
  const std::uint32_t number = frame.id & ~kId;
  peers_[number].out.publish(frame.length);
  unflushed_ |= 1ull << number;
  ++counters_.tx_frames;
  counters_.tx_bytes += frame.length;
}

bool LocalPeers::prepare_to_sleep() {
  if (++naps_ == 0) ++naps_;
  for (std::uint32_t i = 0; i < count_; ++i) peers_[i].in.sleep(naps_);
  sleeping_ = true;
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (!has_frames()) return true;
  awake();
  return false;
}

void LocalPeers::awake() {
  for (std::uint32_t i = 0; i < count_; ++i) peers_[i].in.awake();
  sleeping_ = false;
}

}  // namespace viaduct::local
