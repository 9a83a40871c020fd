// Frames from one program of a host to another: a ring in memory that both have mapped, with one
// producer and one consumer, neither of which trusts the other.
//
//   file    | control 0 -> 1 | control 1 -> 0 | pad | track 0 -> 1 | track 1 -> 0 | pad | ring 0 -> 1 | ring 1 -> 0 |
//   ring    | record | record | record | free ...                               |
//   record  word (4) | frame                      a frame of at most kShort bytes
//           word (4) | pad (6) | frame            a longer one: its payload begins on a line
//
// Records begin on cache lines. A record's word is its frame's length, written last; before that the
// producer zeroes the word of the place behind the record, so the consumer, which knows that place,
// needs to look at nothing else: a short frame takes one cache line from one end to the other.
//
// Each end keeps its own position to itself. The other end's words (a record's, or how far the consumer
// is) are read once, and must make sense; if one does not, the ring is broken for good and nothing more
// is read or written. A frame is copied out of the ring before it is looked at.
//
// The producer also leaves a track, two stores for a frame to a line that no other touches: a third party that
// has mapped the file (local_tap.h) can read along, and neither end does anything for it or waits for it.
//
// boost::lockfree::spsc_queue keeps both positions in the shared memory and believes them: a hostile
// end could have the other one write anywhere in its address space. doc/local.md says more.
#ifndef VIADUCT_XDP_LOCAL_LOCAL_RING_H
#define VIADUCT_XDP_LOCAL_LOCAL_RING_H

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace viaduct::local {

inline constexpr std::uint32_t kLine = 64;
inline constexpr std::uint32_t kRingBytes = 1u << 19;
inline constexpr std::uint32_t kMostFrame = 64u << 10;  // bytes of a frame
inline constexpr std::uint32_t kShort = 60;             // bytes of a frame that shares its word's line
inline constexpr std::uint32_t kLongAt = 10;            // where a longer one begins in its record
inline constexpr std::uint32_t kShortAt = 4;

// Words by which the consumer of a ring informs its producer.
struct Control {
  alignas(kLine) std::atomic<std::uint64_t> taken{0};   // bytes of the ring taken so far
  alignas(kLine) std::atomic<std::uint32_t> asleep{0};  // not 0: the consumer is to be woken; changes each time
  alignas(kLine) std::atomic<std::uint32_t> attached{0};  // 1: there is a consumer
  alignas(kLine) std::byte pad[kLine];
};
static_assert(sizeof(Control) == 4 * kLine);

// Words that the producer of a ring leaves for a third party.
struct Track {
  alignas(kLine) std::atomic<std::uint64_t> reserved{0};  // bytes of the ring written so far, or about to be
  std::atomic<std::uint64_t> published{0};                // pack(): where the next record begins, after how many frames
  std::atomic<std::uint32_t> ended{0};                    // 1: the agent says that a program of the pair has ended

  // Both numbers are in one word, so that they fit each other; both are modulo 2^32.
  static constexpr std::uint64_t pack(std::uint64_t position, std::uint64_t frames) {
    return frames << 32 | static_cast<std::uint32_t>(position / kLine);
  }
};
static_assert(sizeof(Track) == kLine);

inline constexpr std::size_t kTracksAt = 1024;
inline constexpr std::size_t kRingsAt = 4096;
inline constexpr std::size_t kFileBytes = kRingsAt + 2 * std::size_t{kRingBytes};

constexpr std::uint32_t frame_at(std::uint32_t length) { return length <= kShort ? kShortAt : kLongAt; }
constexpr std::uint32_t record_bytes(std::uint32_t length) {
  return (frame_at(length) + length + kLine - 1) / kLine * kLine;
}

// The words of records, as each end sees them.
class Words {
 public:
  Words() = default;
  explicit Words(std::byte* ring) : ring_(ring) {}
  std::atomic<std::uint32_t>& at(std::uint64_t position) const {
    return *reinterpret_cast<std::atomic<std::uint32_t>*>(place(position));
  }
  std::byte* place(std::uint64_t position) const { return ring_ + position % kRingBytes; }
  static constexpr std::uint32_t to_end(std::uint64_t position) {
    return kRingBytes - static_cast<std::uint32_t>(position % kRingBytes);
  }

 private:
  std::byte* ring_ = nullptr;
};
inline constexpr std::uint32_t kWrap = 0xffffffff;  // a word: the next record is at the ring's beginning

// The producer's end.
class RingWriter {
 public:
  RingWriter() = default;
  RingWriter(std::byte* ring, Control* control, Track* track) : words_(ring), control_(control), track_(track) {}

  // Whether the other end has come.
  bool has_consumer() const { return control_->attached.load(std::memory_order_acquire) != 0; }

  // Room for a frame of so many bytes, at most kMostFrame; nullptr if there is none. The consumer sees nothing before
  // publish().
  std::byte* reserve(std::uint32_t bytes) {
    const std::uint32_t record = record_bytes(bytes);
    const std::uint32_t to_end = Words::to_end(head_);
    // The word behind the record is zeroed, so its line must be free as well.
    const bool wraps = record > to_end;
    const std::uint32_t needed = (wraps ? to_end : 0) + record + kLine;
    if (needed > free_ && needed > look_at_free()) return nullptr;
    begin_ = wraps ? head_ + to_end : head_;
    at_ = frame_at(bytes);
    reserved_ = std::max(reserved_, begin_ + record + kLine);  // less may be published, but more was written
    track_->reserved.store(reserved_, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);  // before anything is written there
    return words_.place(begin_) + at_;
  }

  // Hands over the frame that was put at the reserved place, of no more bytes than were reserved.
  void publish(std::uint32_t bytes) {
    // A frame that is shorter than reserved may have to lie elsewhere in its record.
    const std::uint32_t at = frame_at(bytes);
    if (at != at_) [[unlikely]] std::memmove(words_.place(begin_) + at, words_.place(begin_) + at_, bytes);
    const std::uint64_t end = begin_ + record_bytes(bytes);
    words_.at(end).store(0, std::memory_order_relaxed);
    words_.at(begin_).store(bytes, std::memory_order_release);
    if (begin_ != head_) words_.at(head_).store(kWrap, std::memory_order_release);
    free_ -= static_cast<std::uint32_t>(end - head_);
    head_ = end;
    track_->published.store(Track::pack(head_, ++frames_), std::memory_order_release);
  }

  // Whether the consumer has to be woken: it sleeps, and it has not been woken since it fell asleep. It is woken
  // again now and then, as a wake-up may be lost.
  bool must_wake() {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    const std::uint32_t asleep = control_->asleep.load(std::memory_order_relaxed);
    if (asleep == 0) [[likely]] return false;
    if (asleep == woken_ && ++asked_ % kWakeAgain != 0) return false;
    woken_ = asleep;
    return true;
  }

  bool broken() const { return broken_; }

 private:
  static constexpr std::uint32_t kWakeAgain = 64;

  std::uint32_t look_at_free() {
    if (broken_) return 0;
    const std::uint64_t used = head_ - control_->taken.load(std::memory_order_acquire);
    if (used > kRingBytes || used % kLine != 0) {
      broken_ = true;
      return free_ = 0;
    }
    return free_ = kRingBytes - static_cast<std::uint32_t>(used);
  }

  Words words_;
  Control* control_ = nullptr;
  Track* track_ = nullptr;
  std::uint64_t frames_ = 0, reserved_ = 0;  // as the track has them
  std::uint64_t head_ = 0;   // where the next record begins, or kWrap goes
  std::uint64_t begin_ = 0;  // where the record begins that is reserved
  std::uint32_t at_ = 0;     // where its frame lies in the record
  std::uint32_t free_ = kRingBytes;  // bytes that are free at least
  std::uint32_t woken_ = 0, asked_ = 0;
  bool broken_ = false;
};

// The consumer's end.
class RingReader {
 public:
  RingReader() = default;
  RingReader(std::byte* ring, Control* control) : words_(ring), control_(control) {}

  void attach() { control_->attached.store(1, std::memory_order_release); }

  bool empty() const {
    return words_.at(tail_).load(std::memory_order_relaxed) == 0 || broken_;
  }

  // Copies the next record to `room`, which is aligned to a line and has room for kMostFrame + kLongAt bytes. Returns
  // where the frame lies, and its length; nullptr: there is no record.
  std::byte* take(std::byte* room, std::uint32_t& length) {
    if (broken_) [[unlikely]] return nullptr;
    std::uint32_t word = words_.at(tail_).load(std::memory_order_acquire);
    if (word == 0) return nullptr;
    if (word == kWrap && Words::to_end(tail_) != kRingBytes) {
      tail_ += Words::to_end(tail_);
      word = words_.at(tail_).load(std::memory_order_acquire);
    }
    if (word == 0 || word > kMostFrame || record_bytes(word) > Words::to_end(tail_)) [[unlikely]] {
      broken_ = true;
      return nullptr;
    }
    const std::uint32_t at = frame_at(word);
    std::memcpy(room, words_.place(tail_), at + word);
    tail_ += record_bytes(word);
    length = word;
    return room + at;
  }

  // Frees taken records for the producer. To be called after some take()s.
  void give_room() { control_->taken.store(tail_, std::memory_order_release); }

  // is_past_mark(): whether all frames that were in the ring at mark() have been taken. A ring has no more bytes than
  // its length, so a producer that goes on and on delays that by no more.
  void mark() { mark_ = tail_ + kRingBytes; }
  bool is_past_mark() {
    if (empty()) mark_ = tail_;
    return static_cast<std::int64_t>(tail_ - mark_) >= 0;
  }

  // Tells the producer that the consumer sleeps unless the ring gets something, in a way that may
  // cross with a publish(): look at empty() after a fence that is behind all of them.
  void sleep(std::uint32_t number) { control_->asleep.store(number, std::memory_order_relaxed); }
  void awake() { control_->asleep.store(0, std::memory_order_relaxed); }

  bool broken() const { return broken_; }

 private:
  Words words_;
  Control* control_ = nullptr;
  std::uint64_t tail_ = 0, mark_ = 0;
  bool broken_ = false;
};

}  // namespace viaduct::local

#endif
