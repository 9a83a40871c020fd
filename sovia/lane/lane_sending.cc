#include "sovia/lane/lane_sending.h"

#include <algorithm>

#include "sovia/lane/lane_pieces.h"
#include "sovia/process/counters.h"

namespace viaduct::sovia {
namespace {

constexpr std::uint32_t kJoinsPerReap = 16;

}  // namespace

// Whether data may be put into a packet of its own.
bool LaneSending::may_begin() const {
  return !is_full() && (!options_.strict_window || credits_ > filled_ - posted_);
}

bool LaneSending::has_room() {
  if (is_full()) reap();
  if (may_begin()) return true;
  // With a strict window only what waits for more is here; a send that can't join it makes it go.
  const bool waits = filled_ != posted_ && bytes_at(filled_ - 1) < kChunkBytes;
  if (waits && (options_.join || options_.strict_window)) return true;
  lack_ = true;
  return false;
}

// Whether the data of a call may share the packet that waits.
bool LaneSending::may_join(const iovec* pieces, std::size_t count, std::size_t skip, bool combines) const {
  if (options_.join || corked_) return true;
  if (!combines || filled_ == posted_) return false;
  std::size_t bytes = 0;
  for (std::size_t i = 0; i < count; ++i) bytes += pieces[i].iov_len;
  bytes -= skip;
  return bytes <= kSmallBytes && bytes <= kChunkBytes - chunk_bytes_[place(filled_ - 1)];
}

// Begins the packet for the next bytes. False: there is no room.
bool LaneSending::begin_packet() {
  pump(false);
  if (!may_begin()) reap();
  if (!may_begin()) {
    lack_ = true;
    if (!is_full()) count_stall();
    return false;
  }
  chunk_memory_[place(filled_)] = nullptr;
  bytes_at(filled_++) = 0;
  return true;
}

// The window is closed: once until it opens.
void LaneSending::count_stall() {
  if (std::exchange(stalled_, true)) return;
  ++stalls_.credits;
  counters::add(Counter::kCreditStalls);
}

std::size_t LaneSending::write(const iovec* pieces, std::size_t count, std::size_t skip, bool combine) {
  if (sending_ != State::kUp || broken_) return 0;
  faulted_ = false;
  // Reap before combining: it depends on which sends have completed. Small appends need not reap each time.
  const bool combines = options_.combine && combine;
  bool apart = !may_join(pieces, count, skip, combines);
  if (apart && filled_ != posted_) pump(true);
  const bool joins = filled_ != posted_ && !apart;
  if (combines && (!joins || ++joined_ % kJoinsPerReap == 0)) reap();
  const std::size_t taken =
      over_pieces(pieces, count, skip, [&](const std::byte* from, std::size_t bytes) {
        std::size_t left = bytes;
        while (left != 0) {
          const bool begins = apart || filled_ == posted_ || bytes_at(filled_ - 1) == kChunkBytes;
          if (begins && !begin_packet()) break;
          apart = false;
          std::uint32_t& last = bytes_at(filled_ - 1);
          const std::size_t here = std::min<std::size_t>(left, kChunkBytes - last);
          if (!options_.copy(wire_.data_chunk(place(filled_ - 1)) + last, from, here)) {
            faulted_ = true;
            if (last == 0) --filled_;
            break;
          }
          last += static_cast<std::uint32_t>(here);
          from += here;
          left -= here;
        }
        return bytes - left;
      });
  if (joins && taken != 0) {
    ++stalls_.combined;
    counters::add(Counter::kCombined);
  }
  // As Nagle has it: small data waits while something is on its way. As the paper has it: always.
  const bool small = combines && taken <= kSmallBytes;
  pump(!(small && (options_.timer || posted_ != done_)));
  // Now that the peer need not wait for it.
  give_spent_back();
  if (!joins && !combines) reap();
  return taken;
}

bool LaneSending::write_direct(const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                        std::uint64_t& ticket) {
  if (sending_ != State::kUp || broken_) return false;
  pump(true);
  reap();
  if (filled_ != posted_ || credits_ == 0 || is_full()) return false;
  if (!wire_.post_memory(place(filled_), data, bytes, memory,
                         immediate(PacketType::kData, take_credits(PacketType::kData)))) {
    fail();
    return false;
  }
  counters::add(Counter::kDataSent);
  counters::add(Counter::kDataRegistered);
  told_more_ = wants_more_ = false;
  bytes_at(filled_) = bytes;
  chunk_memory_[place(filled_)] = data;
  ticket = filled_++;
  ++posted_;
  --credits_;
  ++stalls_.packets;
  order_.push_back(Posted::kData);
  return true;
}

// Posts filled packets, as far as credits go. push: the last one too, however little is in it.
void LaneSending::pump(bool push) {
  while (posted_ != filled_ && !broken_) {
    const std::uint32_t bytes = bytes_at(posted_);
    if (posted_ + 1 == filled_ && bytes < kChunkBytes && (!push || corked_)) break;
    if (credits_ == 0) {
      count_stall();
      break;
    }
    told_more_ = posted_ + 1 != filled_;
    wants_more_ = false;
    if (!wire_.post_data(place(posted_), bytes,
                         immediate(PacketType::kData, take_credits(PacketType::kData),
                                   told_more_ ? kFlagMore : 0))) {
      fail();
      break;
    }
    counters::add(Counter::kDataSent);
    stalled_ = false;
    --credits_;
    ++posted_;
    ++stalls_.packets;
    order_.push_back(Posted::kData);
  }
  holds_ = posted_ != filled_ && credits_ != 0 && !broken_;
  if (posted_ != filled_ && credits_ == 0 && !told_more_) tell_more();
  // Behind the post, so that a process that is killed in between has told of too much, not of too little.
  if (const bool more = posted_ != filled_; more != says_more_) wire_.set_more(says_more_ = more);
  post_pending_control();
}

// If this process is killed now, the peer must not take the data so far for all of it. The peer has places for a few
// of these packets, so the one before the last must have been taken in: credits have come back for later packets.
void LaneSending::tell_more() {
  const std::uint64_t consumed = posted_ - (peer_window_ - credits_);
  if (mores_at_[0] >= consumed && mores_at_[0] != 0) return;
  for (std::uint32_t i = 1; i < kMostMores; ++i) mores_at_[i - 1] = mores_at_[i];
  mores_at_[kMostMores - 1] = posted_;
  told_more_ = wants_more_ = true;
}

void LaneSending::push() {
  const bool corked = std::exchange(corked_, false);
  flush();
  corked_ = corked;
}

bool LaneSending::flush() {
  if (posted_ != filled_) pump(true);
  return posted_ != filled_;
}

bool LaneSending::wants_turn() const {
  if (broken_ || !has_greeted_) return false;
  return holds_ || wants_trust_ || wants_leave_ || (wants_fin_ack_ && may_answer_fin()) ||
         (wants_finish_ && posted_ == filled_) || owed_ >= options_.ack_threshold;
}

void LaneSending::finish(bool closes) {
  // The FIN that has gone could not say so.
  const bool late = closes && !finish_closes_ && sending_ >= State::kEnding && !wants_finish_;
  if (closes) finish_closes_ = true;
  if (late) return ask_to_leave();
  if (sending_ == State::kEnding || sending_ == State::kEnded) return;
  sending_ = State::kEnding;
  wants_finish_ = true;
  corked_ = false;
  pump(true);
}

void LaneSending::ask_to_leave() {
  if (leaves_ || over()) return;
  leaves_ = wants_leave_ = true;
  spill_arrivals();
  post_pending_control();
}

}  // namespace viaduct::sovia
