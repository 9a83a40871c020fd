// Fuzz target of SOVIA's lanes: packets of a peer that does as it likes, proper ones and any others, come to a lane
// whose program reads, writes, goes up and down, opens memory for messages, and ends it. The program reads just the
// bytes of the packets that the lane took, and none beyond a place where the kernel's come; no more DATA goes than there
// were credits for, memory stays bounded, and a lane that was cut sends nothing.
// The transport below it (of the unit tests) watches that no place is used twice and no bytes change on their way.
//
// The input is options, and a list of steps.
#include "sovia/lane/lane.h"

#include <endian.h>
#include <gtest/gtest.h>

#include <cstring>
#include <deque>
#include <utility>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "tests/unit/sovia/fake_transport.h"

using namespace viaduct::sovia;  // NOLINT: one translation unit
using viaduct::fuzz::Input;
using viaduct::fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kMostSteps = 500;
constexpr std::uint8_t kToken[kTokenBytes] = {1, 2, 3};
std::byte g_data[2 * kChunkBytes];  // of the program; stays as it is

LaneOptions options_of(Input& input) {
  LaneOptions out;
  out.window = 1 + input.byte() % 40;
  out.ack_threshold = 1 + input.byte() % 40;
  const std::uint8_t how = input.byte();
  out.combine = (how & 1) == 0;
  out.messages = (how & 4) != 0;
  out.join = (how & 8) == 0;
  out.strict_window = (how & 16) != 0;
  out.timer = (how & 32) != 0;
  out.first_window = (how & 64) != 0 ? 1 + input.byte() % 8 : 0;
  return out;
}

// A lane and its program.
class End {
 public:
  explicit End(const LaneOptions& options)
      : options_(within_limits(options)), transport_(places_for(options_)), lane_(transport_, options_, transport_.remote()) {}

  void step(unsigned what, Input& input) {
    switch (what) {
      case 0: raw_packet(input); break;
      case 1:
      case 2:
      case 3: packet(input); break;
      case 4: take_in(); break;
      case 5: read(input.number(), input.byte() % 4 == 0); break;
      case 6: write(input); break;
      case 7: transport_.swallow(); break;
      case 8: transport_.complete(); break;
      case 9: lane_.poll(); break;
      case 10: begin(input.byte()); break;
      case 11: finish(input.byte()); break;
      case 12: direct(input.byte()); break;
      case 13: sink(input.byte()); break;
      case 14: message(input.byte()); break;
      default: other(input.byte()); break;
    }
    check();
  }

  void end() {
    while (take_in()) continue;
    end_direct();
    while (lane_.rx.unread() != 0 || lane_.rx.has_turns()) {
      follow();
      read(65'535, false);
    }
    check();
  }

 private:
  struct Packet {
    std::uint32_t immediate;
    std::vector<std::byte> body;
  };
  // Bytes that the lane has taken and that are not read. `turn`: kFlagFirst: behind `number` of the kernel's; kFlagDown:
  // it has none, and ends a stay of `number`; 0: they can be read.
  struct Part {
    std::uint32_t turn;
    std::uint64_t number;
    std::deque<std::byte> bytes;
  };

  void come(std::uint32_t immediate, const void* body, std::size_t bytes) {
    if (!transport_.inject(immediate, body, static_cast<std::uint32_t>(bytes))) return;
    const auto* const from = static_cast<const std::byte*>(body);
    come_.push_back({immediate, {from, from + bytes}});
  }

  void raw_packet(Input& input) {
    const std::uint32_t word = input.word();
    const auto body = input.bytes(input.byte());
    come(word, body.data(), body.size());
  }

  // A packet that a peer could send at some time.
  void packet(Input& input) {
    constexpr std::uint32_t kFirst = 4, kDown = 9;  // no types
    const std::uint32_t kind = 1 + input.byte() % 14u;
    const auto type = kind == kFirst || kind == kDown ? PacketType::kData : static_cast<PacketType>(kind);
    const std::uint8_t how = input.byte();
    const std::uint32_t credits = (how & 3) != 3 ? 0 : 1 + input.byte() % 4;
    std::uint32_t flags = (how & 4) != 0 ? static_cast<std::uint32_t>(how & 0xf0) : 0;
    if (kind == kFirst) return first(credits, how);
    if (kind == kDown) return come(immediate(type, credits, kFlagDown), nullptr, 0);
    const std::uint32_t word = immediate(type, credits, flags);
    const Hello hello{htobe32(kProtocolVersion), htobe32(1 + how / 8), {}, 0, static_cast<std::uint8_t>(how & 1), 0, {}};
    const Leave leave{how};
    switch (type) {
      case PacketType::kWakeup: return come(word, &hello, sizeof hello);
      case PacketType::kLeave: return come(word, &leave, (how & 8) != 0 ? sizeof leave : 0);
      case PacketType::kSink: {
        const Sink sink{htobe64(how), htobe32(how), htobe32((how & 8) != 0 ? 0 : input.number() * 4u), htobe32(how % 4), 0};
        return come(word, &sink, sizeof sink);
      }
      case PacketType::kPlaced:
      case PacketType::kRevoked: {
        const Placed placed{htobe32(how % 4), htobe32(input.word())};
        return come(word, &placed, sizeof placed);
      }
      case PacketType::kData: {
        const std::size_t bytes = (how & 8) != 0 ? 1 + input.byte() : 1 + input.number() % kChunkBytes;
        std::vector<std::byte> body(bytes, std::byte{++number_});
        return come(word, body.data(), bytes);
      }
      default: return come(word, nullptr, 0);
    }
  }

  void first(std::uint32_t credits, std::uint8_t how) {
    std::vector<std::byte> body(1 + how + sizeof(First), std::byte{++number_});
    const First first{htobe64(how)};
    std::memcpy(body.data() + 1 + how, &first, sizeof first);
    come(immediate(PacketType::kData, credits, kFlagFirst), body.data(), body.size());
  }

  // Shows the lane the oldest packet, and learns whether it has taken it.
  bool take_in() {
    if (come_.empty()) return false;
    const Packet packet = std::move(come_.front());
    come_.pop_front();
    const bool was_cut = lane_.control.is_cut();
    const std::uint64_t before = lane_.rx.bytes_received();
    require(transport_.take_in(lane_), "an arrival is lost");
    if (lane_.control.is_cut()) {
      require(was_cut || lane_.control.broken(), "a lane that is cut is broken");
      require(lane_.rx.bytes_received() == before || !was_cut, "a packet counts after the cut");
    }
    const PacketType type = type_of(packet.immediate);
    if (!was_cut) granted_ += credits_of(packet.immediate);
    if (!was_cut && type == PacketType::kWakeup && lane_.greeting.has_hello() && packet.body.size() == sizeof(Hello)) {
      Hello hello;
      std::memcpy(&hello, packet.body.data(), sizeof hello);
      granted_ += be32toh(hello.window);
    }
    const std::uint64_t bytes = lane_.rx.bytes_received() - before;
    require(bytes == 0 || type == PacketType::kData, "bytes of a packet that has none");
    if (type != PacketType::kData || lane_.control.is_cut()) return true;
    const std::uint32_t flags = flags_of(packet.immediate);
    require(bytes + (flags == kFlagFirst ? sizeof(First) : 0) == packet.body.size(), "a packet is taken in part");
    if (flags == kFlagFirst) stay_ = 0;
    stay_ += bytes;
    if (lane_.control.is_reading_closed()) return true;
    std::uint64_t number = flags == kFlagDown ? stay_ : 0;
    if (flags == kFlagFirst) {
      First first;
      std::memcpy(&first, packet.body.data() + bytes, sizeof first);
      number = be64toh(first.kernel_bytes);
    }
    if (flags != 0 || parts_.empty()) parts_.push_back({flags, number, {}});
    std::deque<std::byte>& to = parts_.back().bytes;
    to.insert(to.end(), packet.body.begin(), packet.body.begin() + static_cast<std::ptrdiff_t>(bytes));
    return true;
  }

  std::size_t readable() const { return parts_.empty() || parts_.front().turn != 0 ? 0 : parts_.front().bytes.size(); }
  void drop(std::size_t bytes) {
    require(bytes <= readable(), "bytes that the peer has not sent, or not there");
    if (bytes == 0) return;
    std::deque<std::byte>& from = parts_.front().bytes;
    from.erase(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(bytes));
    if (from.empty()) parts_.pop_front();
  }
  // Goes on where the peer has said, if all before has been read.
  void follow() {
    end_direct();
    const auto first = lane_.rx.first(), down = lane_.rx.take_down();
    const std::uint32_t turn = parts_.empty() ? 0 : parts_.front().turn;
    require(first.has_value() == (turn == kFlagFirst) && down.has_value() == (turn == kFlagDown), "a turn is lost");
    if (turn != 0) require((first ? *first : *down) == parts_.front().number, "a turn with a wrong number");
    if (first) lane_.rx.go_up(), parts_.front().turn = 0;
    if (down) parts_.pop_front();
  }

  void take_from_stream(const std::byte* got, std::size_t bytes, bool peek) {
    require(bytes <= readable(), "bytes that the peer has not sent, or not there");
    require(bytes == 0 || std::equal(got, got + bytes, parts_.front().bytes.begin()), "a wrong byte");
    if (!peek) drop(bytes);
  }

  void read(std::size_t bytes, bool peek) {
    end_direct();
    std::vector<std::byte> room(bytes);
    const iovec pieces[] = {{room.data(), bytes / 3}, {room.data() + bytes / 3, bytes - bytes / 3}};
    take_from_stream(room.data(), lane_.rx.read(pieces, 2, 0, peek), peek);
  }

  void write(Input& input) {
    const std::size_t bytes = input.number() % sizeof g_data;
    const std::uint8_t how = input.byte();
    std::uint64_t ticket;
    if (how % 4 == 0) {
      lane_.tx.write_direct(g_data, static_cast<std::uint32_t>(1 + bytes % kChunkBytes), 7, ticket);
      return;
    }
    const iovec piece{g_data, how % 4 == 1 ? bytes % 100 : bytes};
    lane_.tx.write(&piece, 1, 0, how % 2 != 0);
  }

  void begin(std::uint8_t how) {
    if (!greeted_) lane_.greet(kToken);
    greeted_ = true;
    if (how % 4 != 0 && !std::exchange(trusted_, true)) lane_.trust();
    if (how % 4 >= 2 && lane_.greeting.may_start()) lane_.tx.go_up(how);
  }

  void finish(std::uint8_t how) {
    if (how % 4 == 0) lane_.finish((how & 4) != 0);
    if (how % 4 == 1) lane_.ask_to_leave();
    if (how % 4 == 2) lane_.ask_to_leave(how);
    if (how % 16 == 3) {
      end_direct();
      lane_.rx.close_reading();
      parts_.clear();
    }
  }

  // A reader that waits at memory of its own.
  void direct(std::uint8_t how) {
    if (direct_ != LaneRx::kNoDirect) return end_direct();
    if (!come_.empty()) return;
    buffer_.assign(1 + how * 200u, std::byte{0});
    direct_ = lane_.rx.begin_direct(buffer_.data(), static_cast<std::uint32_t>(buffer_.size()), 7);
  }

  void end_direct() {
    if (direct_ == LaneRx::kNoDirect) return;
    std::uint32_t got = 0;
    while (!lane_.rx.end_direct(direct_, got)) require(take_in(), "a packet is told of that has not come");
    direct_ = LaneRx::kNoDirect;
    require(got <= buffer_.size(), "more bytes than the reader's memory has");
    take_from_stream(buffer_.data(), got, false);
  }

  void sink(std::uint8_t how) {
    using SinkState = LaneSinks::SinkState;
    const SinkState state = lane_.sinks.sink();
    require(lane_.sinks.placed_length() <= kMostMessage, "a message that is too long");
    if (state == SinkState::kClosed && (how & 1) != 0) lane_.sinks.open_sink(how % 4, g_data, 1000, 7);
    if (state == SinkState::kClosed && (how & 1) == 0) lane_.sinks.refuse_sink(how % 4);
    if (state == SinkState::kOpen) lane_.sinks.revoke_sink();
    if (state == SinkState::kPlaced || state == SinkState::kRevoked) lane_.sinks.close_sink();
  }

  // A message to the peer's memory, as long as that is, in as many steps as it takes.
  void message(std::uint8_t how) {
    const std::uint32_t number = how % 4;
    if (lane_.sinks.target(number) != LaneSinks::Target::kSink) return;
    const auto all = std::min(lane_.sinks.target_bytes(), static_cast<std::uint32_t>(sizeof g_data));
    if (number != message_) message_ = number, done_ = 0;
    const std::uint32_t written = lane_.sinks.write_to_sink(g_data, std::min(done_, all), all, 7);
    done_ += written;
    require(done_ <= all || written == 0, "more bytes than the peer's memory has");
    if (done_ >= all && lane_.sinks.tell_placed(all)) message_ = ~0u, lane_.sinks.has_placed();
  }

  void other(std::uint8_t how) {
    switch (how % 8) {
      case 0: lane_.tx.cork((how & 8) != 0); break;
      case 1: lane_.tx.push(); break;
      case 2: lane_.tx.flush(); break;
      case 3: follow(); break;
      case 4: (how & 8) != 0 ? lane_.tx.go_down() : lane_.tx.has_room(); break;
      case 5:
        end_direct();
        drop(lane_.rx.discard(how * 10u));
        break;
      default:
        if (how >= 0xf0) transport_.break_down();
        break;
    }
  }

  std::uint64_t sent() const {
    std::uint64_t out = 0;
    for (unsigned type = 0; type < 16; ++type) out += transport_.sent(static_cast<PacketType>(type));
    return out;
  }

  void check() {
    require(transport_.sent(PacketType::kData) <= granted_, "data without a credit");
    const std::size_t most = (options_.window + 2) * std::size_t{kChunkBytes};
    require(lane_.rx.unread() <= most, "a peer fills the memory");
    std::size_t unread = 0, turns = 0;
    for (const Part& part : parts_) unread += part.bytes.size(), turns += part.turn != 0;
    require(lane_.rx.has_turns() == (turns != 0), "the turns that wait");
    if (direct_ == LaneRx::kNoDirect) {
      require(lane_.rx.unread() == unread, "the bytes that wait");
      require(lane_.rx.unread_here() == readable(), "the bytes that can be read");
    }
    if (lane_.control.is_cut()) {
      if (!cut_) sent_at_cut_ = sent();
      cut_ = true;
      require(sent() == sent_at_cut_, "a lane that was cut sends");
    }
  }

  const LaneOptions options_;
  FakeTransport transport_;
  Lane lane_;
  std::deque<Packet> come_;  // to the transport, not yet shown to the lane
  std::deque<Part> parts_;
  std::uint64_t stay_ = 0;  // bytes of the peer's present stay on the lane
  std::uint64_t granted_ = 0, sent_at_cut_ = 0;
  std::uint8_t number_ = 0;
  bool greeted_ = false, trusted_ = false, cut_ = false;
  LaneRx::DirectNumber direct_ = LaneRx::kNoDirect;
  std::vector<std::byte> buffer_;
  std::uint32_t message_ = ~0u, done_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  testing::FLAGS_gtest_break_on_failure = true;  // the transport's checks
  Input input(data, size);
  End end(options_of(input));
  for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) end.step(input.byte() % 16, input);
  end.end();
  return 0;
}
