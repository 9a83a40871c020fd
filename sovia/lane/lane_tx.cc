#include "sovia/lane/lane_tx.h"

#include <endian.h>

#include <algorithm>

#include "sovia/lane/lane_pieces.h"
#include "sovia/process/counters.h"

namespace viaduct::sovia {

namespace {

constexpr std::uint32_t kJoinsPerReap = 16;

}  // namespace

bool LaneTx::go_up(std::uint64_t kernel_bytes) {
  if (control_.sending() != State::kIdle || sender_.broken() || ring_.unsent() != 0 || ring_.has_unposted()) return false;
  control_.set_up(true);
  first_ = {htobe64(kernel_bytes)};
  has_begun_ = false;
  bytes_before_ = ring_.bytes_completed();
  return true;
}

bool LaneTx::go_down() {
  if (control_.sending() != State::kUp) return true;
  corked_ = false;
  // Nothing has been sent since go_up(), so there is nothing to say.
  if (ring_.filled() != control_.first_at()) {
    if (ring_.is_full()) ring_.reap();
    if (ring_.is_full()) return false;
    pump(true);
    ring_.begin();
    down_at_ = ring_.filled() - 1;
  }
  control_.set_up(false);
  pump(true);
  return true;
}

// Whether data may be put into a packet of its own.
bool LaneTx::may_begin() const {
  return !ring_.is_full() && (!options_.strict_window || credits_.given() > ring_.unposted());
}

bool LaneTx::has_room() {
  if (ring_.is_full()) ring_.reap();
  if (may_begin()) return true;
  // With a strict window the only packet not posted is one that waits for more data. write() joins it, or posts it
  // first, so there is room.
  const bool waits = ring_.has_unposted() && ring_.last_bytes() < most_of_last();
  if (waits && (options_.join || options_.strict_window)) return true;
  lack_ = true;
  return false;
}

// Whether the data of a call may share the packet that waits.
bool LaneTx::may_join(const iovec* pieces, std::size_t count, std::size_t skip, bool combines) {
  if (options_.join || corked_) return true;
  if (!combines || !ring_.has_unposted()) return false;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += pieces[i].iov_len;
  bytes -= skip;
  return bytes <= kSmallBytes && bytes <= most_of_last() - ring_.last_bytes();
}

// Begins the packet for the next bytes. False: there is no room.
bool LaneTx::begin_packet() {
  pump(false);
  if (!may_begin()) ring_.reap();
  if (!may_begin()) {
    lack_ = true;
    if (!ring_.is_full()) count_stall();
    return false;
  }
  ring_.begin();
  return true;
}

// Counts that the window is closed, once until it opens.
void LaneTx::count_stall() {
  if (std::exchange(stalled_, true)) return;
  ++sender_.stalls().credits;
  counters::add(Counter::kCreditStalls);
}

std::size_t LaneTx::write(const iovec* pieces, std::size_t count, std::size_t skip, bool combine) {
  if (control_.sending() != State::kUp || sender_.broken()) return 0;
  faulted_ = false;
  // Combining depends on whether sends are in flight, so completed ones are reaped first. Small appends to a waiting
  // packet do so every few times only.
  const bool combines = options_.combine && combine;
  bool apart = !may_join(pieces, count, skip, combines);
  if (apart && ring_.has_unposted()) pump(true);
  const bool joins = ring_.has_unposted() && !apart;
  if (combines && (!joins || ++joined_ % kJoinsPerReap == 0)) ring_.reap();
  const std::size_t taken =
      over_pieces(pieces, count, skip, [&](const std::byte* from, std::size_t bytes) {
        std::size_t left = bytes;
        while (left != 0) {
          const bool begins = apart || !ring_.has_unposted() || ring_.last_bytes() == most_of_last();
          if (begins && !begin_packet()) break;
          apart = false;
          std::uint32_t& last = ring_.last_bytes();
          const std::size_t here = std::min<std::size_t>(left, most_of_last() - last);
          if (!options_.copy(ring_.last_chunk() + last, from, here)) {
            faulted_ = true;
            if (last == 0) ring_.take_back_last();
            break;
          }
          last += static_cast<std::uint32_t>(here);
          from += here;
          left -= here;
        }
        return bytes - left;
      });
  if (joins && taken != 0) {
    ++sender_.stalls().combined;
    counters::add(Counter::kCombined);
  }
  // With Nagle's rule small data waits while a packet is in flight; with the paper's (timer) it always waits.
  const bool small = combines && taken <= kSmallBytes;
  pump(!(small && (options_.timer || ring_.in_flight())));
  // Spent receives are posted only after the send, so that they do not delay the data.
  control_.give_spent_back();
  if (!joins && !combines) ring_.reap();
  return taken;
}

bool LaneTx::write_direct(const std::byte* data, std::uint32_t bytes, std::uint32_t memory, std::uint64_t& ticket) {
  if (control_.sending() != State::kUp || sender_.broken() || ring_.filled() == control_.first_at()) return false;
  pump(true);
  ring_.reap();
  if (ring_.has_unposted() || credits_.given() == 0 || ring_.is_full()) return false;
  if (!ring_.post_memory(data, bytes, memory, immediate(PacketType::kData, sender_.take_credits(PacketType::kData)),
                         ticket)) {
    sender_.fail();
    return false;
  }
  counters::add(Counter::kDataSent);
  counters::add(Counter::kDataRegistered);
  credits_.spend();
  ++sender_.stalls().packets;
  return true;
}

void LaneTx::pump(bool push) {
  while (ring_.has_unposted() && !sender_.broken()) {
    if (ring_.is_next_last() && ring_.next_bytes() < most_of_last() && (!push || corked_)) break;
    if (credits_.given() == 0) {
      count_stall();
      break;
    }
    post_next();
  }
  const bool more = ring_.has_unposted();
  holds_ = more && credits_.given() != 0 && !sender_.broken();
  // If this process is killed now, the peer must not take what has come for all. This follows the posts: a process that is
  // killed in between has told of too much, not of too little.
  if (more != tells_of_more_) ring_.hold(tells_of_more_ = more);
  control_.post_pending();
}

void LaneTx::post_next() {
  const std::uint64_t at = ring_.posted();
  const std::uint32_t flags = at == down_at_ ? kFlagDown : at == control_.first_at() ? kFlagFirst : 0;
  const std::uint32_t packet = immediate(PacketType::kData, sender_.take_credits(PacketType::kData), flags);
  if (!ring_.post_next(packet, flags == kFlagFirst ? &first_ : nullptr)) return sender_.fail();
  if (flags == kFlagFirst) has_begun_ = true;
  counters::add(Counter::kDataSent);
  stalled_ = false;
  credits_.spend();
  ++sender_.stalls().packets;
}

void LaneTx::push() {
  const bool corked = std::exchange(corked_, false);
  flush();
  corked_ = corked;
}

bool LaneTx::flush() {
  if (ring_.has_unposted()) pump(true);
  return ring_.has_unposted();
}

}  // namespace viaduct::sovia
