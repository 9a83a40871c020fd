#include "sovia/lane.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

namespace viaduct::sovia {
namespace {

constexpr std::uint32_t kAside = ~0u;

// WAKEUP, START, FIN, FINACK, LEAVE: each at most once.
constexpr std::uint32_t kOnce = 5;

// ACK packets of one end that may be on their way: they come into receives of their own.
constexpr std::uint32_t kMostAcks = 32;

LaneOptions within_limits(LaneOptions options) {
  options.window = std::clamp(options.window, 1u, kMostWindow);
  const std::uint32_t least = (options.window + kMostAcks - 1) / kMostAcks;
  options.ack_threshold = std::clamp(options.ack_threshold, least, options.window);
  return options;
}

// Calls take(bytes of a piece) for the pieces from `skip` on, until it returns less than asked for.
template <class Take>
std::size_t over_pieces(const iovec* pieces, std::size_t count, std::size_t skip, Take&& take) {
  std::size_t total = 0;
  for (std::size_t i = 0; i < count; ++i) {
    if (skip >= pieces[i].iov_len) {
      skip -= pieces[i].iov_len;
      continue;
    }
    auto* const at = static_cast<std::byte*>(pieces[i].iov_base) + skip;
    const std::size_t here = pieces[i].iov_len - skip;
    skip = 0;
    const std::size_t taken = take(at, here);
    total += taken;
    if (taken < here) break;
  }
  return total;
}

}  // namespace

// Data places: sends complete a little later than their credits come back, and a program may go on
// writing while it waits for credits.
LanePlaces places_for(const LaneOptions& asked) {
  const LaneOptions options = within_limits(asked);
  return {options.window + std::max(options.ack_threshold, 8u), kMostAcks + kOnce,
          options.window + kMostAcks + 1 + kOnce};
}

Lane::Lane(Wire& wire, const LaneOptions& options)
    : wire_(wire),
      options_(within_limits(options)),
      places_(places_for(options)),
      chunks_(places_.data) {}

// ---------------------------------------------------------------------------- sending

std::uint32_t Lane::take_credits() {
  const std::uint32_t credits = owed_;
  owed_ = 0;
  return credits;
}

void Lane::reap() {
  for (std::uint32_t n = wire_.completed(); n > 0 && !order_.empty(); --n) {
    if (order_.front()) {
      chunk(done_).bytes = 0;
      ++done_;
    } else {
      ++control_done_;
    }
    order_.pop_front();
  }
}

bool Lane::post(PacketType type, const void* body, std::uint32_t bytes, std::uint32_t flags) {
  if (broken_) return false;
  if (control_posted_ - control_done_ == places_.control) reap();
  if (control_posted_ - control_done_ == places_.control) return false;
  const auto place = static_cast<std::uint32_t>(control_posted_ % places_.control);
  if (bytes != 0) std::memcpy(wire_.control_bytes(place), body, bytes);
  if (!wire_.post_control(place, bytes, immediate(type, take_credits(), flags))) {
    broken_ = true;
    return false;
  }
  ++control_posted_;
  order_.push_back(false);
  return true;
}

void Lane::greet(const std::uint8_t (&token)[kTokenBytes]) {
  Hello hello{htobe32(kProtocolVersion), htobe32(options_.window), {}};
  std::memcpy(hello.token, token, kTokenBytes);
  post(PacketType::kWakeup, &hello, sizeof hello);
}

void Lane::start(std::uint64_t kernel_bytes) {
  const Start start{htobe64(kernel_bytes)};
  if (sending_ == State::kIdle && post(PacketType::kStart, &start, sizeof start)) {
    sending_ = State::kUp;
  }
}

bool Lane::has_room() {
  if (filled_ - done_ < places_.data) return true;
  reap();
  if (filled_ - done_ < places_.data) return true;
  const Chunk& last = chunk(filled_ - 1);
  return filled_ > posted_ && !last.direct && last.bytes < kChunkBytes;
}

std::size_t Lane::write(const iovec* pieces, std::size_t count, std::size_t skip, bool combine) {
  if (sending_ != State::kUp || broken_) return 0;
  reap();
  const bool joins = filled_ > posted_;
  const std::size_t taken =
      over_pieces(pieces, count, skip, [&](const std::byte* from, std::size_t bytes) {
        std::size_t left = bytes;
        while (left != 0) {
          if (filled_ == posted_ || chunk(filled_ - 1).bytes == kChunkBytes) {
            pump(false);
            if (filled_ - done_ == places_.data) reap();
            if (filled_ - done_ == places_.data) break;
            chunk(filled_) = {};
            ++filled_;
          }
          Chunk& last = chunk(filled_ - 1);
          const std::size_t here = std::min<std::size_t>(left, kChunkBytes - last.bytes);
          std::memcpy(wire_.data_chunk(place(filled_ - 1)) + last.bytes, from, here);
          last.bytes += static_cast<std::uint32_t>(here);
          from += here;
          left -= here;
        }
        return bytes - left;
      });
  if (joins && taken != 0) ++stalls_.combined;
  // As Nagle has it: small data waits while something is on its way.
  const bool small = options_.combine && combine && taken <= kSmallBytes;
  pump(!(small && posted_ != done_));
  return taken;
}

bool Lane::write_direct(const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                        std::uint64_t& ticket) {
  if (sending_ != State::kUp || broken_) return false;
  pump(true);
  reap();
  if (filled_ != posted_ || credits_ == 0 || filled_ - done_ == places_.data) return false;
  if (!wire_.post_memory(place(filled_), data, bytes, memory,
                         immediate(PacketType::kData, take_credits()))) {
    broken_ = true;
    return false;
  }
  chunk(filled_) = {bytes, true};
  ticket = filled_++;
  ++posted_;
  --credits_;
  ++stalls_.packets;
  order_.push_back(true);
  return true;
}

bool Lane::has_completed(std::uint64_t ticket) {
  if (done_ <= ticket) reap();
  return done_ > ticket;
}

// Posts what is filled, as far as credits go. push: the last chunk too, however little is in it.
void Lane::pump(bool push) {
  while (posted_ != filled_ && !broken_) {
    Chunk& next = chunk(posted_);
    if (posted_ + 1 == filled_ && next.bytes < kChunkBytes && !push) break;
    if (credits_ == 0) {
      if (!stalled_) ++stalls_.credits;
      stalled_ = true;
      break;
    }
    if (!wire_.post_data(place(posted_), next.bytes,
                         immediate(PacketType::kData, take_credits()))) {
      broken_ = true;
      return;
    }
    stalled_ = false;
    --credits_;
    ++posted_;
    ++stalls_.packets;
    order_.push_back(true);
  }
  holds_ = posted_ != filled_ && credits_ != 0;
  post_pending_control();
}

bool Lane::flush() {
  if (posted_ != filled_) pump(true);
  return posted_ != filled_;
}

std::size_t Lane::unsent() {
  reap();
  std::size_t bytes = 0;
  for (std::uint64_t p = done_; p != filled_; ++p) bytes += chunk(p).bytes;
  return bytes;
}

void Lane::finish(bool closes) {
  if (sending_ == State::kEnding || sending_ == State::kEnded || wants_finish_) return;
  wants_finish_ = true;
  finish_closes_ = closes;
  pump(true);
}

void Lane::ask_to_leave() {
  wants_leave_ = true;
  post_pending_control();
}

void Lane::post_pending_control() {
  if (wants_leave_ && post(PacketType::kLeave, nullptr, 0)) wants_leave_ = false;
  if (wants_fin_ack_ && post(PacketType::kFinAck, nullptr, 0)) wants_fin_ack_ = false;
  if (wants_finish_ && posted_ == filled_ &&
      post(PacketType::kFin, nullptr, 0, finish_closes_ ? kFlagCloses : 0)) {
    wants_finish_ = false;
    sending_ = State::kEnding;
  }
  if (owed_ >= options_.ack_threshold && post(PacketType::kAck, nullptr, 0)) ++stalls_.acks;
}

// ---------------------------------------------------------------------------- receiving

void Lane::give_back(std::uint32_t place) {
  if (!broken_ && !wire_.post_receive(place)) broken_ = true;
}

// A DATA packet has been consumed: its place may take another.
void Lane::consumed(std::uint32_t place) {
  give_back(place);
  ++owed_;
  if (owed_ >= options_.ack_threshold) post_pending_control();
}

std::size_t Lane::read(const iovec* pieces, std::size_t count, std::size_t skip, bool peek) {
  std::size_t arrival = 0;  // peek: which one comes next
  std::uint32_t at = arrivals_.empty() ? 0 : arrivals_.front().at;
  return over_pieces(pieces, count, skip, [&](std::byte* to, std::size_t bytes) {
    std::size_t left = bytes;
    while (left != 0 && arrival < arrivals_.size()) {
      Arrival& from = arrivals_[arrival];
      const std::byte* const data =
          from.place == kAside ? aside_.front().data() : wire_.received(from.place);
      const std::size_t here = std::min<std::size_t>(left, from.bytes - at);
      std::memcpy(to, data + at, here);
      to += here;
      left -= here;
      at += static_cast<std::uint32_t>(here);
      if (!peek) {
        from.at = at;
        unread_ -= here;
      }
      if (at != from.bytes) continue;
      at = 0;
      if (peek) {
        // What was set aside lies before everything else, in one piece.
        ++arrival;
        at = arrival < arrivals_.size() ? arrivals_[arrival].at : 0;
        continue;
      }
      const std::uint32_t place = from.place;
      arrivals_.pop_front();
      at = arrivals_.empty() ? 0 : arrivals_.front().at;
      if (place == kAside) {
        aside_.pop_front();
      } else {
        consumed(place);
      }
    }
    return bytes - left;
  });
}

std::size_t Lane::discard(std::size_t bytes) {
  std::size_t dropped = 0;
  while (dropped < bytes && !arrivals_.empty()) {
    Arrival& from = arrivals_.front();
    const std::size_t here = std::min<std::size_t>(bytes - dropped, from.bytes - from.at);
    from.at += static_cast<std::uint32_t>(here);
    dropped += here;
    unread_ -= here;
    if (from.at != from.bytes) break;
    const std::uint32_t place = from.place;
    arrivals_.pop_front();
    if (place == kAside) {
      aside_.pop_front();
    } else {
      consumed(place);
    }
  }
  return dropped;
}

void Lane::set_aside() {
  if (arrivals_.empty() || (arrivals_.size() == 1 && arrivals_.front().place == kAside)) return;
  std::vector<std::byte> all(unread_);
  const iovec whole{all.data(), all.size()};
  const std::size_t bytes = all.size();
  read(&whole, 1, 0, false);
  if (bytes == 0) return;
  aside_.push_back(std::move(all));
  arrivals_.push_back({kAside, 0, static_cast<std::uint32_t>(bytes)});
  unread_ = bytes;
}

void Lane::deafen() {
  deaf_ = true;
  discard(unread_);
}

unsigned Lane::arrived(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  unsigned changes = 0;
  const std::uint32_t credits = credits_of(immediate);
  if (credits != 0) {
    credits_ += credits;
    changes |= kWritable;
  }
  const PacketType type = type_of(immediate);
  if (type == PacketType::kData) {
    if (deaf_ || bytes == 0) {
      consumed(place);
    } else {
      arrivals_.push_back({place, 0, bytes});
      unread_ += bytes;
      changes |= kReadable;
    }
    if (changes & kWritable) pump(!holds_);
    return changes;
  }
  switch (type) {
    case PacketType::kWakeup: {
      Hello hello;
      if (bytes != sizeof hello || greeted_) return cut();
      std::memcpy(&hello, wire_.received(place), sizeof hello);
      const std::uint32_t window = be32toh(hello.window);
      if (be32toh(hello.version) != kProtocolVersion || window == 0 || window > kMostWindow) {
        return cut();
      }
      credits_ += window;
      std::memcpy(peer_token_, hello.token, kTokenBytes);
      greeted_ = true;
      changes |= kState | kWritable;
      break;
    }
    case PacketType::kStart: {
      Start start;
      if (bytes != sizeof start || receiving_ != State::kIdle) return cut();
      std::memcpy(&start, wire_.received(place), sizeof start);
      peer_kernel_bytes_ = be64toh(start.kernel_bytes);
      receiving_ = State::kUp;
      started_ = true;
      changes |= kState;
      break;
    }
    case PacketType::kAck:
      break;
    case PacketType::kFin:
      if (receiving_ == State::kEnded) return cut();
      receiving_ = State::kEnded;
      if ((flags_of(immediate) & kFlagCloses) != 0) peer_closed_ = true;
      wants_fin_ack_ = true;
      changes |= kState | kReadable;
      break;
    case PacketType::kFinAck:
      if (sending_ == State::kEnding) sending_ = State::kEnded;
      changes |= kState | kWritable;
      break;
    case PacketType::kLeave:
      peer_leaves_ = true;
      finish(false);
      changes |= kState | kWritable;
      break;
    default:
      return cut();
  }
  give_back(place);
  pump(!holds_);
  return changes;
}

unsigned Lane::turn() {
  const std::uint64_t before = done_;
  reap();
  // What waited for what was on its way need not wait any more.
  if (posted_ != filled_ && posted_ == done_) {
    pump(true);
  } else {
    post_pending_control();
  }
  return done_ != before ? static_cast<unsigned>(kWritable) : 0;
}

unsigned Lane::cut() {
  broken_ = true;
  return kReadable | kWritable | kState;
}

}  // namespace viaduct::sovia
