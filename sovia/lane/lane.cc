#include "sovia/lane/lane.h"

#include "sovia/process/counters.h"

namespace viaduct::sovia {

Lane::Lane(Transport& transport, const LaneOptions& options, RemoteMemory* memory)
    : options_(within_limits(options)),
      credits_(options_),
      sender_(transport, ring, credits_),
      ring(transport, options_),
      greeting(transport, options_, options_.messages && memory != nullptr, sender_),
      control(transport, options_, ring, credits_, sender_, greeting),
      rx(transport, options_, credits_, control),
      tx(options_, ring, credits_, sender_, control),
      remote(memory, options_, ring, sender_, greeting),
      sinks(transport, ring, sender_, remote) {}

void Lane::greet(const std::uint8_t (&token)[kTokenBytes]) {
  greeting.greet(token);
  control.post_pending();
}

void Lane::trust() {
  if (control.broken()) return;
  greeting.trust();
  control.post_pending();
}

void Lane::finish(bool closes) {
  if (!control.finish(closes)) return;
  tx.cork(false);
  tx.pump(true);
}

void Lane::ask_to_leave(std::optional<std::uint32_t> again_ms) {
  if (control.leave(again_ms)) control.post_pending();
}

unsigned Lane::arrived(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  if (control.is_cut()) return 0;
  const bool direct = rx.close_direct();
  if (direct) rx.forget_direct();
  if (!control.acceptable(bytes, immediate)) return cut();
  unsigned changes = 0;
  if (const std::uint32_t credits = credits_of(immediate); credits != 0) {
    type_of(immediate) == PacketType::kGrow ? credits_.open_more(credits) : credits_.add(credits);
    changes |= LaneChange::kWritable;
  }
  const PacketType type = type_of(immediate);
  changes |= take(type, place, bytes, flags_of(immediate), direct);
  if (control.is_cut()) return changes;
  if (type != PacketType::kData) sender_.give_back(place);
  // Sends data that waited for credits, but not small data that waits for more.
  if (type != PacketType::kData || (changes & LaneChange::kWritable) != 0) tx.pump(!tx.holds());
  return changes;
}

// Change bits.
unsigned Lane::take(PacketType type, std::uint32_t place, std::uint32_t bytes, std::uint32_t flags, bool direct) {
  switch (type) {
    case PacketType::kData:
      if (flags == kFlagFirst && !rx.is_plausible(place, bytes)) return cut();
      if (rx.refuses(place, bytes, flags)) {
        sender_.give_back(place);
        fail();
        return LaneChange::kState;
      }
      if (credits_.used()) control.grow_window();
      control.take_data_flags(flags);
      return rx.take_data(place, bytes, flags, direct);
    case PacketType::kWakeup: {
      const std::uint32_t window = greeting.take_hello(place);
      if (window == 0) return cut();
      credits_.open(window);
      if (!sender_.use_receives(receives_for(options_, credits_.window(), greeting.peer_acks()))) return cut();
      return LaneChange::kState | LaneChange::kWritable;
    }
    case PacketType::kAck:
      counters::add(Counter::kAcksReceived);
      return 0;
    case PacketType::kGrow:
      return 0;
    case PacketType::kSink:
      return sinks.take_sink(place, flags);
    case PacketType::kPlaced:
      return sinks.take_placed(place) ? static_cast<unsigned>(LaneChange::kSinks) : cut();
    case PacketType::kRevoked:
      return sinks.take_revoked(place) ? static_cast<unsigned>(LaneChange::kSinks) : cut();
    default:
      return control.take(type, place, bytes, flags);
  }
}

unsigned Lane::poll() {
  const std::uint64_t before = ring.completed();
  ring.reap();
  control.give_spent_back();
  // All sends have completed: small data need not wait any longer.
  if (ring.has_unposted() && !ring.in_flight() && !options_.timer) {
    tx.pump(true);
  } else {
    control.post_pending();
  }
  return ring.completed() != before ? static_cast<unsigned>(LaneChange::kWritable) : 0;
}

unsigned Lane::cut() {
  if (rx.close_direct()) rx.forget_direct();
  sender_.cut();
  tx.stop_holding();
  return LaneChange::kReadable | LaneChange::kWritable | LaneChange::kState;
}

}  // namespace viaduct::sovia
