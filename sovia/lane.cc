#include "sovia/lane.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

#include "sovia/counters.h"

namespace viaduct::sovia {
namespace {

// WAKEUP, TRUST, START, FIN, FINACK, LEAVE: each at most once.
constexpr std::uint32_t kOnce = 6;

// ACK packets of one end that may be on their way: they come into receives of their own.
constexpr std::uint32_t kMostAcks = 32;

constexpr std::uint32_t kJoinsPerReap = 16;

// A window of larger ones is as much as TCP holds for a program at first.
constexpr std::uint32_t kSmallPacket = 4096;

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

bool copy_plainly(void* to, const void* from, std::size_t bytes) {
  std::memcpy(to, from, bytes);
  return true;
}

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
      most_spent_(std::min(kMostSpent, options_.window - options_.ack_threshold + 1)),
      chunk_bytes_(places_.data),
      chunk_memory_(places_.data),
      order_(places_.data + places_.control),
      arrivals_(options_.window) {}

// ---------------------------------------------------------------------------- sending

std::uint32_t Lane::take_credits(PacketType type) {
  const std::uint32_t credits = owed_;
  if (credits != 0 && type != PacketType::kAck) counters::add(Counter::kAcksPiggybacked);
  owed_ = 0;
  return credits;
}

void Lane::reap() {
  for (std::uint32_t n = wire_.completed(); n > 0 && !order_.empty(); --n) {
    if (order_.front() == Posted::kData) {
      done_bytes_ += bytes_at(done_++);
    } else {
      ++control_done_;
    }
    order_.pop_front();
  }
}

bool Lane::post(PacketType type, const void* body, std::uint32_t bytes, std::uint32_t flags) {
  if (broken_ || !has_greeted_) return false;
  if (control_posted_ - control_done_ == places_.control) reap();
  if (control_posted_ - control_done_ == places_.control) return false;
  const auto place = static_cast<std::uint32_t>(control_posted_ % places_.control);
  if (bytes != 0) std::memcpy(wire_.control_bytes(place), body, bytes);
  if (!wire_.post_control(place, bytes, immediate(type, take_credits(type), flags))) {
    broken_ = true;
    return false;
  }
  ++control_posted_;
  order_.push_back(Posted::kControl);
  return true;
}

void Lane::greet(const std::uint8_t (&token)[kTokenBytes]) {
  Hello hello{htobe32(kProtocolVersion), htobe32(options_.window), {}};
  std::memcpy(hello.token, token, kTokenBytes);
  std::memcpy(own_token_, token, kTokenBytes);
  has_greeted_ = true;
  post(PacketType::kWakeup, &hello, sizeof hello);
  post_pending_control();
}

void Lane::trust() {
  if (broken_) return;
  trusted_ = wants_trust_ = true;
  post_pending_control();
}

void Lane::start(std::uint64_t kernel_bytes) {
  const Start start{htobe64(kernel_bytes)};
  const std::uint64_t at = control_posted_;
  if (sending_ == State::kIdle && post(PacketType::kStart, &start, sizeof start)) {
    sending_ = State::kUp;
    start_at_ = at;
  }
}

bool Lane::has_room() {
  if (is_full()) reap();
  if (!is_full() || (filled_ != posted_ && bytes_at(filled_ - 1) < kChunkBytes)) return true;
  lack_ = true;
  return false;
}

std::size_t Lane::write(const iovec* pieces, std::size_t count, std::size_t skip, bool combine) {
  if (sending_ != State::kUp || broken_) return 0;
  faulted_ = false;
  // What has completed matters to who combines; who adds little to what waits already need not ask
  // each time.
  const bool joins = filled_ != posted_;
  const bool combines = options_.combine && combine;
  if (combines && (!joins || ++joined_ % kJoinsPerReap == 0)) reap();
  const std::size_t taken =
      over_pieces(pieces, count, skip, [&](const std::byte* from, std::size_t bytes) {
        std::size_t left = bytes;
        while (left != 0) {
          if (filled_ == posted_ || bytes_at(filled_ - 1) == kChunkBytes) {
            pump(false);
            if (is_full()) reap();
            if (is_full()) {
              lack_ = true;
              break;
            }
            chunk_memory_[place(filled_)] = nullptr;
            bytes_at(filled_++) = 0;
          }
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
  // As Nagle has it: small data waits while something is on its way.
  const bool small = combines && taken <= kSmallBytes;
  pump(!(small && posted_ != done_));
  // Now that the peer need not wait for it.
  give_spent_back();
  if (!joins && !combines) reap();
  return taken;
}

bool Lane::write_direct(const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                        std::uint64_t& ticket) {
  if (sending_ != State::kUp || broken_) return false;
  pump(true);
  reap();
  if (filled_ != posted_ || credits_ == 0 || is_full()) return false;
  if (!wire_.post_memory(place(filled_), data, bytes, memory,
                         immediate(PacketType::kData, take_credits(PacketType::kData)))) {
    broken_ = true;
    return false;
  }
  counters::add(Counter::kDataSent);
  counters::add(Counter::kDataRegistered);
  bytes_at(filled_) = bytes;
  chunk_memory_[place(filled_)] = data;
  ticket = filled_++;
  ++posted_;
  --credits_;
  ++stalls_.packets;
  order_.push_back(Posted::kData);
  return true;
}

bool Lane::has_completed(std::uint64_t ticket) {
  if (done_ <= ticket) reap();
  return done_ > ticket;
}

// Posts what is filled, as far as credits go. push: the last chunk too, however little is in it.
void Lane::pump(bool push) {
  while (posted_ != filled_ && !broken_) {
    const std::uint32_t bytes = bytes_at(posted_);
    if (posted_ + 1 == filled_ && bytes < kChunkBytes && (!push || corked_)) break;
    if (credits_ == 0) {
      if (!stalled_) {
        ++stalls_.credits;
        counters::add(Counter::kCreditStalls);
      }
      stalled_ = true;
      break;
    }
    if (!wire_.post_data(place(posted_), bytes,
                         immediate(PacketType::kData, take_credits(PacketType::kData)))) {
      broken_ = true;
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
  post_pending_control();
}

void Lane::push() {
  const bool corked = std::exchange(corked_, false);
  flush();
  corked_ = corked;
}

bool Lane::flush() {
  if (posted_ != filled_) pump(true);
  return posted_ != filled_;
}

bool Lane::wants_turn() const {
  if (broken_ || !has_greeted_) return false;
  return holds_ || wants_trust_ || wants_leave_ || (wants_fin_ack_ && may_answer_fin()) ||
         (wants_finish_ && posted_ == filled_) || owed_ >= options_.ack_threshold;
}

std::size_t Lane::unsent() {
  reap();
  std::size_t bytes = 0;
  for (std::uint64_t p = done_; p != filled_; ++p) bytes += bytes_at(p);
  return bytes;
}

void Lane::finish(bool closes) {
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

void Lane::ask_to_leave() {
  if (leaves_ || over()) return;
  leaves_ = wants_leave_ = true;
  set_aside();
  post_pending_control();
}

void Lane::post_pending_control() {
  if (wants_trust_ && has_greeted_ && post(PacketType::kTrust, nullptr, 0)) wants_trust_ = false;
  if (wants_leave_ && post(PacketType::kLeave, nullptr, 0)) wants_leave_ = false;
  if (wants_fin_ack_ && may_answer_fin() && post(PacketType::kFinAck, nullptr, 0)) {
    wants_fin_ack_ = false;
    fin_ack_at_ = control_posted_ - 1;
  }
  if (wants_finish_ && has_greeted_ && posted_ == filled_ &&
      post(PacketType::kFin, nullptr, 0, finish_closes_ ? kFlagCloses : 0)) {
    wants_finish_ = false;
    fin_at_ = control_posted_ - 1;
    counters::add(Counter::kFinsSent);
  }
  if (owed_ >= options_.ack_threshold && post(PacketType::kAck, nullptr, 0)) {
    ++stalls_.acks;
    counters::add(Counter::kAcksSent);
  }
}

// ---------------------------------------------------------------------------- after it has broken

bool Lane::wants_fall_back() {
  if (!cut_) return false;
  reap();
  return falls_with_data() || may_get_record();
}

bool Lane::falls_with_data() {
  if (!cut_) return false;
  reap();
  const bool ends = sending_ == State::kEnded || has_sent(fin_at_) || peer_closed();
  return (start_at_ != kNotPosted && !ends) || expects_record();
}

Lane::Fall Lane::falls() {
  reap();
  // The peer has seen the end of the stream, or closed and will see nothing.
  if (start_at_ == kNotPosted || sending_ == State::kEnded || has_sent(fin_at_) || peer_closed()) {
    done_ = posted_ = filled_;
    return Fall::kPlain;
  }
  if (has_sent(start_at_)) return Fall::kRecord;
  // A peer without START takes what comes for what it is; one with it drops what it has, unless it has seen
  // the end too.
  return fin_at_ == kNotPosted ? Fall::kPlain : Fall::kImpossible;
}

bool Lane::copy_unsent(std::byte* to) {
  for (std::uint64_t p = done_; p != filled_; ++p) {
    const std::uint32_t bytes = bytes_at(p);
    const std::byte* const memory = chunk_memory_[place(p)];
    if (memory == nullptr) {
      std::memcpy(to, wire_.data_chunk(place(p)), bytes);
    } else if (!options_.copy(to, memory, bytes)) {
      return false;
    }
    to += bytes;
  }
  return true;
}

// ---------------------------------------------------------------------------- receiving

void Lane::give_back(std::uint32_t place) {
  if (!broken_ && !wire_.post_receive(place)) broken_ = true;
}

// A DATA packet has been consumed: its place may take another, a little later, as most programs
// answer what they have read.
void Lane::consumed(std::uint32_t place) {
  spent_[spent_count_++] = place;
  if (spent_count_ == most_spent_) give_spent_back();
}

void Lane::give_spent_back() {
  if (spent_count_ == 0) return;
  for (std::uint32_t i = 0; i < spent_count_; ++i) give_back(spent_[i]);
  owed_ += spent_count_;
  spent_count_ = 0;
  if (owed_ >= options_.ack_threshold) post_pending_control();
}

void Lane::settled() {
  if (std::exchange(settled_, true)) return;
  post_pending_control();
}

std::size_t Lane::read(const iovec* pieces, std::size_t count, std::size_t skip, bool peek) {
  faulted_ = false;
  std::size_t aside = 0;    // taken of what was set aside
  std::size_t arrival = 0;  // peek: which one comes next
  std::uint32_t at = arrivals_.empty() ? 0 : arrivals_.front().at;
  const std::size_t taken = over_pieces(pieces, count, skip, [&](std::byte* to, std::size_t bytes) {
    std::size_t left = bytes;
    if (aside != aside_.size()) {
      const std::size_t here = std::min(left, aside_.size() - aside);
      if (!options_.copy(to, aside_.data() + aside, here)) {
        faulted_ = true;
        return bytes - left;
      }
      to += here;
      left -= here;
      aside += here;
    }
    while (left != 0 && arrival < arrivals_.size()) {
      const Arrival from = arrivals_[arrival];
      const std::size_t here = std::min<std::size_t>(left, from.bytes - at);
      if (!options_.copy(to, wire_.received(from.place) + at, here)) {
        faulted_ = true;
        break;
      }
      to += here;
      left -= here;
      at += static_cast<std::uint32_t>(here);
      if (at != from.bytes) break;
      at = 0;
      if (peek) {
        ++arrival;
      } else {
        arrivals_.pop_front();
        consumed(from.place);
      }
    }
    return bytes - left;
  });
  if (peek) return taken;
  aside_.drop(aside);
  if (!arrivals_.empty()) arrivals_.front().at = at;
  unread_ -= taken;
  return taken;
}

std::size_t Lane::discard(std::size_t bytes) {
  std::size_t dropped = std::min(bytes, aside_.size());
  aside_.drop(dropped);
  while (dropped != bytes && !arrivals_.empty()) {
    Arrival& from = arrivals_.front();
    const std::size_t here = std::min<std::size_t>(bytes - dropped, from.bytes - from.at);
    from.at += static_cast<std::uint32_t>(here);
    dropped += here;
    if (from.at != from.bytes) break;
    const std::uint32_t place = from.place;
    arrivals_.pop_front();
    consumed(place);
  }
  unread_ -= dropped;
  return dropped;
}

bool Lane::begin_direct(std::byte* to, std::uint32_t bytes, std::uint32_t memory) {
  if (direct_ != Direct::kNone || broken_ || deaf_ || receiving() != State::kUp || unread_ != 0 ||
      leaves_ || peer_leaves_ || !wire_.redirect(to, bytes, memory)) {
    return false;
  }
  direct_ = Direct::kOpen;
  return true;
}

// Nothing goes to the reader's memory any more. Whether the next packet to arrive lies there.
bool Lane::close_direct() {
  if (direct_ == Direct::kOpen) direct_ = wire_.unredirect() ? Direct::kComing : Direct::kNone;
  return direct_ == Direct::kComing;
}

bool Lane::end_direct(std::uint32_t& bytes) {
  bytes = 0;
  if (close_direct() && !cut_) return false;
  if (direct_ == Direct::kThere) bytes = direct_bytes_;
  direct_ = Direct::kNone;
  return true;
}

void Lane::set_aside() {
  while (!arrivals_.empty() && aside_.size() < kMostAside) {
    const Arrival from = arrivals_.front();
    if (!aside_.append(wire_.received(from.place) + from.at, from.bytes - from.at)) return;
    arrivals_.pop_front();
    consumed(from.place);
  }
}

void Lane::deafen() {
  deaf_ = true;
  discard(unread_);
}

// ---------------------------------------------------------------------------- events

// Whether a peer that keeps to the protocol sends this now.
bool Lane::acceptable(std::uint32_t bytes, std::uint32_t immediate) const {
  const PacketType type = type_of(immediate);
  const std::uint32_t flags = type == PacketType::kFin ? kFlagCloses : 0;
  if ((immediate & 0xfff0 & ~flags) != 0) return false;
  if (credits_of(immediate) > peer_window_ - credits_) return false;
  if (greeted_ == (type == PacketType::kWakeup)) return false;
  switch (type) {
    case PacketType::kWakeup:
      return bytes == sizeof(Hello);
    case PacketType::kStart:
      return bytes == sizeof(Start) && receiving_ == State::kIdle && trusted_;
    case PacketType::kData:
      return bytes != 0 && bytes <= kChunkBytes && receiving_ == State::kUp &&
             arrivals_.size() + spent_count_ + owed_ < options_.window;
    case PacketType::kAck:
      return bytes == 0;
    case PacketType::kFin:
      return bytes == 0 && receiving_ != State::kEnded;
    case PacketType::kFinAck:
      return bytes == 0 && sending_ == State::kEnding && !wants_finish_;
    case PacketType::kLeave:
      return bytes == 0 && !peer_leaves_;
    case PacketType::kTrust:
      return bytes == 0 && !peer_trusts_;
  }
  return false;
}

// A program may wait until more small packets have come than the window has places, as TCP's buffer is told
// in bytes.
bool Lane::join_last(std::uint32_t place, std::uint32_t bytes) {
  // Half of those that may be kept without the peer waiting for an ACK.
  const std::uint32_t crowd = (options_.window - options_.ack_threshold) / 2;
  if (bytes > kSmallPacket || arrivals_.empty() || arrivals_.size() < crowd) return false;
  Arrival& last = arrivals_[arrivals_.size() - 1];
  if (last.bytes + bytes > kChunkBytes) return false;
  std::memcpy(wire_.received(last.place) + last.bytes, wire_.received(place), bytes);
  last.bytes += bytes;
  consumed(place);
  return true;
}

unsigned Lane::take_data(std::uint32_t place, std::uint32_t bytes, bool direct) {
  last_packet_ = bytes;
  received_ += bytes;
  counters::add(Counter::kDataReceived);
  if (deaf_) {
    consumed(place);
    return 0;
  }
  if (direct) {
    direct_ = Direct::kThere;
    direct_bytes_ = bytes;
    consumed(place);
    return kReadable;
  }
  if (!join_last(place, bytes)) arrivals_.push_back({place, 0, bytes});
  unread_ += bytes;
  if (leaves_ || peer_leaves_) set_aside();
  return kReadable;
}

unsigned Lane::take_hello(std::uint32_t place) {
  Hello hello;
  std::memcpy(&hello, wire_.received(place), sizeof hello);
  const std::uint32_t window = be32toh(hello.window);
  if (be32toh(hello.version) != kProtocolVersion || window == 0 || window > kMostWindow) {
    return cut();
  }
  peer_window_ = credits_ = window;
  std::memcpy(peer_token_, hello.token, kTokenBytes);
  greeted_ = true;
  return kState | kWritable;
}

unsigned Lane::take_start(std::uint32_t place) {
  Start start;
  std::memcpy(&start, wire_.received(place), sizeof start);
  peer_kernel_bytes_ = be64toh(start.kernel_bytes);
  receiving_ = State::kUp;
  started_ = true;
  return kState;
}

unsigned Lane::take_fin(std::uint32_t flags) {
  receiving_ = State::kEnded;
  peer_closed_ = (flags & kFlagCloses) != 0;
  wants_fin_ack_ = true;
  return kState | kReadable;
}

unsigned Lane::arrived(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  if (cut_) return 0;
  const bool direct = close_direct();
  if (direct) direct_ = Direct::kNone;
  if (!acceptable(bytes, immediate)) return cut();
  unsigned changes = 0;
  if (const std::uint32_t credits = credits_of(immediate); credits != 0) {
    credits_ += credits;
    changes |= kWritable;
  }
  const PacketType type = type_of(immediate);
  switch (type) {
    case PacketType::kData:
      changes |= take_data(place, bytes, direct);
      break;
    case PacketType::kWakeup:
      changes |= take_hello(place);
      break;
    case PacketType::kStart:
      changes |= take_start(place);
      break;
    case PacketType::kAck:
      counters::add(Counter::kAcksReceived);
      break;
    case PacketType::kFin:
      changes |= take_fin(flags_of(immediate));
      break;
    case PacketType::kFinAck:
      sending_ = State::kEnded;
      changes |= kState | kWritable;
      break;
    case PacketType::kTrust:
      peer_trusts_ = true;
      changes |= kState | kWritable;
      break;
    case PacketType::kLeave:
      peer_leaves_ = true;
      set_aside();
      finish(false);
      changes |= kState | kWritable;
      break;
  }
  if (type != PacketType::kData) give_back(place);
  // Data that waited for credits goes; small data that waits for more goes on waiting.
  if (type != PacketType::kData || (changes & kWritable) != 0) pump(!holds_);
  return changes;
}

unsigned Lane::turn() {
  const std::uint64_t before = done_;
  reap();
  give_spent_back();
  // What waited for what was on its way need not wait any more.
  if (posted_ != filled_ && posted_ == done_) {
    pump(true);
  } else {
    post_pending_control();
  }
  return done_ != before ? static_cast<unsigned>(kWritable) : 0;
}

unsigned Lane::cut() {
  if (close_direct()) direct_ = Direct::kNone;
  broken_ = cut_ = true;
  holds_ = false;
  return kReadable | kWritable | kState;
}

}  // namespace viaduct::sovia
