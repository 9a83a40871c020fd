// Fuzz target of the rings between programs of one host (doc/local.md): the other end of a pair, which has mapped the
// same memory, writes any words at any moment, also proper records. Both ends by themselves (rings in memory of just
// their length), then a program's peers: beside the hostile one there is a peer that keeps to the rules, of which
// each frame arrives, once, in order and as it was. A frame that was taken does not change any more. A tap reads along.
// When the programs have ended the memory is given back.
//
// The input is a byte that chooses the part, and a list of steps.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <deque>
#include <memory>
#include <vector>

#include "tests/fuzz/fuzz_input.h"
#include "xdp/local/local_peers.h"
#include "xdp/local/local_tap.h"

using namespace viaduct;         // NOLINT: one translation unit
using namespace viaduct::local;  // NOLINT: one translation unit
using fuzz::Input;
using fuzz::require;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

constexpr std::size_t kMostSteps = 300, kAddressBytes = 6, kEthernet = 14;
constexpr MacAddress kOwn{2, 0, 0, 0, 0, 1}, kHostile{2, 0, 0, 0, 0, 2}, kHonest{2, 0, 0, 0, 0, 3};

// Lengths at the borders of lines, of short frames, and of what is allowed.
std::uint32_t length_of(Input& input) {
  static constexpr std::uint32_t kTelling[] = {0, 1, 14, 59, 60, 61, 54, 118, 119, 1514, 4096, 65'535, 65'536};
  const std::uint8_t which = input.byte();
  return which < std::size(kTelling) ? kTelling[which] : which < 200 ? which * 4u : input.number() + 1u;
}

// Words of a record, or of a control or track, as a hostile end would choose them.
std::uint32_t word_of(Input& input) {
  static constexpr std::uint32_t kTelling[] = {0, 1, 60, 61, kMostFrame, kMostFrame + 1, kWrap, kRingBytes, 0x80000000};
  const std::uint8_t which = input.byte();
  return which < std::size(kTelling) ? kTelling[which] : which < 200 ? which : input.word();
}

// Where to write in a ring: near a position, or anywhere; always a whole line or word.
std::size_t place_of(Input& input, std::uint64_t near) {
  const std::uint8_t which = input.byte();
  const std::uint64_t at = which < 128 ? near + which % 16 * kLine : std::uint64_t{input.number()} * 8;
  return static_cast<std::size_t>(at % kRingBytes) & ~std::size_t{3};
}

void store(void* at, std::uint32_t word) {
  reinterpret_cast<std::atomic<std::uint32_t>*>(at)->store(word, std::memory_order_relaxed);
}

// ---------------------------------------------------------------------------- both ends by themselves

// A ring in memory of its own, in which AddressSanitizer sees each access beside it.
struct Ring {
  Ring() : memory(static_cast<std::byte*>(std::aligned_alloc(kLine, kRingBytes))) {
    require(memory != nullptr, "memory");
    std::memset(memory, 0, kRingBytes);
  }
  ~Ring() { std::free(memory); }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  std::byte* memory;
  Control control;
  Track track;
};

void write_hostile_word(Ring& ring, std::uint64_t near, Input& input) {
  switch (input.byte() % 6) {
    case 0: ring.control.taken.store(ring.control.taken.load() + std::uint64_t{input.number()} - 1024); break;
    case 1: ring.control.taken.store(std::uint64_t{word_of(input)} << input.byte() % 33); break;
    case 2: ring.track.published.store(Track::pack(std::uint64_t{input.number()} * kLine, input.byte())); break;
    case 3: ring.track.reserved.store(std::uint64_t{word_of(input)} << input.byte() % 33); break;
    default: store(ring.memory + place_of(input, near), word_of(input)); break;
  }
}

void ends_by_themselves(Input& input) {
  static constexpr std::size_t kRoom = kMostFrame + 2 * kLine;
  Ring ring;
  RingWriter writer(ring.memory, &ring.control, &ring.track);
  RingReader reader(ring.memory, &ring.control);
  RingTap tap(ring.memory, &ring.track, input.byte() % 2 ? RingTap::From::kNow : RingTap::From::kBeginning);
  const std::unique_ptr<std::byte, decltype(&std::free)> room(static_cast<std::byte*>(std::aligned_alloc(kLine, kRoom)),
                                                              &std::free);
  const auto tapped = std::make_unique<std::byte[]>(kMostFrame);
  std::uint64_t near = 0;
  for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) {
    switch (input.byte() % 8) {
      case 0:
      case 1: {
        const std::uint32_t bytes = std::max(1u, length_of(input));
        std::byte* const at = writer.reserve(bytes);
        if (at == nullptr) break;
        require(at >= ring.memory && at + bytes <= ring.memory + kRingBytes, "a place outside of the ring");
        const std::uint32_t used = input.byte() % 4 == 0 ? 1 + input.byte() % bytes : bytes;
        std::memset(at, 0x5a, used);
        writer.publish(used);
        near = static_cast<std::uint64_t>(at - ring.memory);
        break;
      }
      case 2:
      case 3: {
        std::uint32_t length = 0;
        const std::byte* const at = reader.take(room.get(), length);
        if (at == nullptr) break;
        require(length != 0 && length <= kMostFrame && at >= room.get() && at + length <= room.get() + kRoom,
                "the place of a frame");
        if (input.byte() % 2 != 0) reader.give_room();
        break;
      }
      case 4: require(tap.next(tapped.get()) <= kMostFrame, "the length of a tapped frame"); break;
      case 5: writer.must_wake(); break;
      case 6: reader.is_past_mark() ? reader.mark() : reader.sleep(input.byte()); break;
      default: write_hostile_word(ring, near, input); break;
    }
    if (reader.broken()) require(reader.empty(), "a broken ring has frames");
  }
}

// ---------------------------------------------------------------------------- a program and its peers

// The other end of a pair, with the memory as it has it.
struct OtherEnd {
  explicit OtherEnd(const MacAddress& its) : address(its) {
    file = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    require(file >= 0 && ftruncate(file, static_cast<off_t>(kFileBytes)) == 0, "memfd");
    require(fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0, "seals");
    void* const at = mmap(nullptr, kFileBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    require(at != MAP_FAILED, "mmap");
    memory = static_cast<std::byte*>(at);
    // The program is end 0: its ring is the first one.
    writer = RingWriter(ring(1), &control(1), &track(1));
    reader = RingReader(ring(0), &control(0));
    reader.attach();
    tap = RingTap(ring(0), &track(0), RingTap::From::kBeginning);
  }
  ~OtherEnd() {
    munmap(memory, kFileBytes);
    close(file);
  }
  OtherEnd(const OtherEnd&) = delete;
  OtherEnd& operator=(const OtherEnd&) = delete;

  std::byte* ring(unsigned number) const { return memory + kRingsAt + number * std::size_t{kRingBytes}; }
  Control& control(unsigned number) const { return reinterpret_cast<Control*>(memory)[number]; }
  Track& track(unsigned number) const { return reinterpret_cast<Track*>(memory + kTracksAt)[number]; }
  // A proper frame; false: there is no room.
  bool send(const MacAddress& source, std::uint32_t length, std::uint32_t number) {
    std::byte* const at = writer.reserve(length);
    if (at == nullptr) return false;
    std::vector<std::byte> frame(length, std::byte{static_cast<std::uint8_t>(number)});
    std::memcpy(frame.data(), kOwn.data(), std::min<std::size_t>(length, kAddressBytes));
    if (length >= kEthernet) std::memcpy(frame.data() + kAddressBytes, source.data(), kAddressBytes);
    if (length >= kEthernet + sizeof number) std::memcpy(frame.data() + kEthernet, &number, sizeof number);
    std::memcpy(at, frame.data(), length);
    last = at;
    writer.publish(length);
    return true;
  }

  MacAddress address;
  int file;
  std::byte* memory;
  RingWriter writer;
  RingReader reader;
  RingTap tap;
  std::byte* last = nullptr;  // where the last frame lies
};

class Program {
 public:
  static constexpr std::uint32_t kKept = 24;

  Program() : peers_(LocalPeers::make(kOwn, kKept)) {
    require(peers_ != nullptr, "memory");
    for (OtherEnd* end : {&hostile_, &honest_}) add(*end, 1);
  }
  ~Program() { LocalPeers::destroy(peers_); }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void step(unsigned what, Input& input) {
    switch (what) {
      case 0:
      case 1: return scribble(input);
      case 2: return send_hostile(input);
      case 3: return send_honest(input);
      case 4:
      case 5: return receive(1 + input.byte() % 70);
      case 6: return give_back(input.byte());
      case 7:
      case 8: return submit(input.byte() % 2 ? hostile_ : honest_, input);
      case 9: return read(honest_);
      case 10: return read(hostile_);
      case 11: return mark_or_sleep(input.byte());
      case 12:
        if (input.byte() % 8 != 0) return;
        add(hostile_, 1 + input.byte() % 2);
        return;
      default:
        if (input.byte() % 8 == 0) peers_->end(kHostile);
    }
  }

  // Both have ended: all that came before is received, then nothing is left.
  void end() {
    peers_->end(kHostile);
    peers_->end(kHonest);
    constexpr unsigned kMostTurns = 2 * kRingBytes / kLine;
    for (unsigned i = 0; i < kMostTurns && peers_->count() != 0; ++i) {
      receive(70);
      while (!lent_.empty()) give_back(0);
    }
    require(peers_->count() == 0, "a peer that has ended stays");
    require(honest_received_ == honest_sent_, "frames of the peer that keeps to the rules are lost");
    require(!peers_->has_frames(), "frames of nobody");
  }

 private:
  struct Lent {
    Frame frame;
    std::vector<std::byte> copy;
  };

  void add(OtherEnd& end, std::uint64_t program) {
    require(peers_->add(end.address, program, dup(end.file), 0) == nullptr, "a pair that is as it should be");
  }

  void scribble(Input& input) {
    OtherEnd& its = hostile_;
    const std::uint64_t near = its.last == nullptr ? 0 : static_cast<std::uint64_t>(its.last - its.ring(1));
    switch (input.byte() % 8) {
      case 0: its.control(0).taken.store(its.control(0).taken.load() + input.number() * std::uint64_t{kLine}); break;
      case 1: its.control(0).taken.store(std::uint64_t{word_of(input)} << input.byte() % 33); break;
      case 2: its.control(0).asleep.store(input.byte()), its.control(0).attached.store(input.byte() % 4); break;
      case 3: its.track(0).published.store(Track::pack(input.number() * std::uint64_t{kLine}, input.byte())); break;
      case 4: its.track(0).reserved.store(std::uint64_t{word_of(input)} << input.byte() % 33); break;
      case 5: store(its.memory + (input.number() * 16 + input.byte() % 4 * 4) % kRingsAt, input.word()); break;
      case 6: store(its.ring(0) + place_of(input, near), word_of(input)); break;
      default: store(its.ring(1) + place_of(input, near), word_of(input)); break;
    }
  }

  void send_hostile(Input& input) {
    const std::uint8_t how = input.byte();
    hostile_.send((how & 1) != 0 ? kHonest : kHostile, std::max(1u, length_of(input)), how);
  }

  void send_honest(Input& input) {
    const std::uint32_t length = std::max(length_of(input), std::uint32_t{kEthernet + sizeof honest_sent_});
    honest_sent_ += honest_.send(kHonest, std::min(length, LocalPeers::kPayloadLimit), honest_sent_) ? 1 : 0;
  }

  void receive(std::size_t most) {
    std::vector<Frame> room(most);
    const std::size_t got = peers_->receive(room);
    require(got <= most, "more frames than there is room");
    for (std::size_t i = 0; i < got; ++i) take(room[i]);
  }

  void take(const Frame& frame) {
    require(frame.length >= kEthernet && frame.length <= kMostFrame, "the length of a frame");
    require(std::memcmp(frame.data, kOwn.data(), kAddressBytes) == 0, "a frame to another");
    const bool honest = std::memcmp(frame.data + kAddressBytes, kHonest.data(), kAddressBytes) == 0;
    require(honest || std::memcmp(frame.data + kAddressBytes, kHostile.data(), kAddressBytes) == 0, "a frame of nobody");
    if (honest) {
      std::uint32_t number;
      std::memcpy(&number, frame.data + kEthernet, sizeof number);
      require(number == honest_received_++, "a frame of the peer that keeps to the rules, out of order");
      for (std::size_t i = kEthernet + sizeof number; i < frame.length; ++i) {
        require(frame.data[i] == std::byte{static_cast<std::uint8_t>(number)}, "its frame has other bytes");
      }
    }
    lent_.push_back({frame, {frame.data, frame.data + frame.length}});
  }

  void give_back(std::size_t which) {
    if (lent_.empty()) return;
    const auto it = lent_.begin() + static_cast<std::ptrdiff_t>(which % lent_.size());
    require(std::memcmp(it->frame.data, it->copy.data(), it->copy.size()) == 0, "a frame has changed after it was taken");
    peers_->release(it->frame);
    lent_.erase(it);
  }

  void submit(OtherEnd& to, Input& input) {
    const std::uint32_t bytes = std::max(length_of(input), std::uint32_t{kEthernet});
    Frame frame;
    if (!peers_->reserve(to.address, bytes, frame)) return;
    require(frame.length == bytes, "a frame of another length");
    std::memset(frame.data, static_cast<int>(sent_to_honest_ & 0xff), bytes);
    if (&to == &honest_) wanted_.push_back({bytes, sent_to_honest_++});
    peers_->submit(frame);
    if (input.byte() % 2 != 0) peers_->flush([](const MacAddress&) {});
  }

  void read(OtherEnd& end) {
    alignas(kLine) static std::byte room[kMostFrame + 2 * kLine], tapped[kMostFrame];
    require(end.tap.next(tapped) <= kMostFrame, "the length of a tapped frame");
    std::uint32_t length = 0;
    const std::byte* const frame = end.reader.take(room, length);
    if (frame == nullptr || &end == &hostile_) return;
    require(!wanted_.empty() && wanted_.front().first == length, "a frame that was not sent");
    require(frame[0] == std::byte{static_cast<std::uint8_t>(wanted_.front().second)}, "another frame");
    wanted_.pop_front();
    end.reader.give_room();
  }

  void mark_or_sleep(std::uint8_t how) {
    if (how % 3 == 0) peers_->mark();
    if (how % 3 == 1) peers_->is_past_mark();
    if (how % 3 == 2) peers_->prepare_to_sleep();
  }

  OtherEnd hostile_{kHostile}, honest_{kHonest};
  LocalPeers* peers_;
  std::deque<Lent> lent_;
  std::uint32_t honest_sent_ = 0, honest_received_ = 0, sent_to_honest_ = 0;
  std::deque<std::pair<std::uint32_t, std::uint32_t>> wanted_;  // at the honest peer
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Input input(data, size);
  if (input.byte() % 4 == 0) {
    ends_by_themselves(input);
    return 0;
  }
  Program program;
  for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) program.step(input.byte() % 14, input);
  program.end();
  return 0;
}
