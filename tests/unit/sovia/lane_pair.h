// Two lanes that face each other over fake transports, with two streams of known bytes.
#ifndef VIADUCT_TESTS_UNIT_SOVIA_LANE_PAIR_H
#define VIADUCT_TESTS_UNIT_SOVIA_LANE_PAIR_H

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <vector>

#include "sovia/lane/lane.h"
#include "tests/unit/sovia/fake_transport.h"

namespace viaduct::sovia {

// The byte at a position of a stream.
inline std::byte stream_byte(unsigned stream, std::uint64_t at) {
  return static_cast<std::byte>((at * 0x9e3779b97f4a7c15ull + stream * 0x5bd1e995ull) >> 56);
}

inline LaneOptions window(std::uint32_t w, std::uint32_t t, bool combine = true) {
  return {w, t, combine};
}

class LaneSide {
 public:
  LaneSide(const LaneOptions& options, unsigned stream)
      : transport(places_for(options)), lane(transport, options, transport.remote()), out_(stream), in_(stream ^ 1) {
    lane.trust();
  }

  // The direction comes to the lane, behind so many bytes of the kernel's.
  bool go_up(std::uint64_t kernel_bytes = 0) {
    if (!lane.tx.go_up(kernel_bytes)) return false;
    written_before = written;
    return true;
  }
  // What the lane has said about the direction from the peer, as far as all before has been read.
  void follow() {
    for (;;) {
      if (const auto first = lane.rx.first()) {
        came_behind = *first;
        lane.rx.go_up();
        read_before_ = read;
      } else if (const auto down = lane.rx.take_down()) {
        EXPECT_EQ(*down, read - read_before_);
        ++downs;
      } else {
        return;
      }
    }
  }

  // Writes the next bytes of the stream, as two pieces behind some that were written before.
  std::size_t put(std::size_t bytes, bool combine = false) {
    constexpr std::size_t kSkip = 5;
    std::vector<std::byte> data(kSkip + bytes);
    for (std::size_t i = 0; i < bytes; ++i) data[kSkip + i] = stream_byte(out_, written + i);
    const std::size_t first = kSkip + bytes / 3;
    const iovec pieces[] = {{data.data(), 2},
                            {data.data() + 2, 0},
                            {data.data() + 2, first - 2},
                            {data.data() + first, data.size() - first}};
    const std::size_t taken = lane.tx.write(pieces, 4, kSkip, combine);
    EXPECT_LE(taken, bytes);
    written += taken;
    return taken;
  }
  bool put_direct(std::uint32_t bytes) {
    Direct direct;
    direct.data.resize(bytes);
    for (std::uint32_t i = 0; i < bytes; ++i) direct.data[i] = stream_byte(out_, written + i);
    if (!lane.tx.write_direct(direct.data.data(), bytes, 7, direct.ticket)) return false;
    written += bytes;
    directs_.push_back(std::move(direct));
    return true;
  }
  // The program's memory is its own again once a ticket has completed.
  void free_directs() {
    while (!directs_.empty() && lane.ring.has_completed(directs_.front().ticket)) {
      for (std::byte& byte : directs_.front().data) byte = ~byte;
      directs_.pop_front();
    }
  }
  std::size_t directs() const { return directs_.size(); }

  // A program that waits for the next packet at memory of its own. False: it has to read.
  bool wait_direct(std::uint32_t bytes) {
    if (waits_) return false;
    buffer_.assign(bytes + 1, std::byte{0x5a});
    number_ = lane.rx.begin_direct(buffer_.data(), bytes, 7);
    return waits_ = number_ != LaneRx::kNoDirect;
  }
  bool direct_is_there() const { return waits_ && lane.rx.direct_is_there(number_); }
  // It would wait no longer. False: something has come there that the lane is yet to be told of.
  bool direct_has_ended() {
    std::uint32_t bytes;
    return lane.rx.end_direct(number_, bytes);
  }
  // It waits no longer. Bytes that have come.
  std::uint32_t end_direct() {
    if (!waits_) return 0;
    waits_ = false;
    std::uint32_t got;
    while (!lane.rx.end_direct(number_, got)) EXPECT_TRUE(transport.take_in(lane)) << "nothing has come";
    EXPECT_LT(got, buffer_.size());
    EXPECT_EQ(buffer_.back(), std::byte{0x5a}) << "overrun";
    for (std::uint32_t i = 0; i < got; ++i) {
      if (buffer_[i] == stream_byte(in_, read + i)) continue;
      ADD_FAILURE() << "wrong byte at " << read + i;
      break;
    }
    read += got;
    directly += got;
    buffer_.clear();
    buffer_.shrink_to_fit();  // the sanitizer reports later writes
    return got;
  }

  std::size_t get(std::size_t bytes, bool peek = false) {
    end_direct();
    follow();
    std::vector<std::byte> data(bytes + 3, std::byte{0x5a});
    const iovec pieces[] = {{data.data(), bytes / 2}, {data.data() + bytes / 2, bytes - bytes / 2}};
    const std::size_t before = lane.rx.unread();
    const std::size_t here = lane.rx.unread_here();
    const std::size_t got = lane.rx.read(pieces, 2, 0, peek);
    EXPECT_EQ(got, std::min(bytes, here));
    EXPECT_EQ(lane.rx.unread(), peek ? before : before - got);
    for (std::size_t i = 0; i < got; ++i) {
      if (data[i] == stream_byte(in_, read + i)) continue;
      ADD_FAILURE() << "wrong byte at " << read + i;
      break;
    }
    EXPECT_EQ(data[bytes], std::byte{0x5a}) << "overrun";
    if (peek) return got;
    read += got;
    follow();
    return got;
  }
  std::size_t drop(std::size_t bytes) {
    end_direct();
    follow();
    const std::size_t got = lane.rx.discard(bytes);
    read += got;
    follow();
    return got;
  }

  unsigned stream() const { return out_; }

  FakeTransport transport;
  Lane lane;
  std::uint64_t written = 0, read = 0;
  std::uint64_t written_before = 0;  // the direction came to the lane last
  std::uint64_t directly = 0;  // of `read`
  // What the peer has said when its direction came up last, and the times that it went down.
  std::uint64_t came_behind = 0;
  unsigned downs = 0;

 private:
  struct Direct {
    std::vector<std::byte> data;
    std::uint64_t ticket;
  };
  const unsigned out_, in_;
  std::deque<Direct> directs_;
  std::uint64_t read_before_ = 0;  // when the direction came up
  bool waits_ = false;
  LaneRx::DirectNumber number_ = LaneRx::kNoDirect;
  std::vector<std::byte> buffer_;
};

class LanePair {
 public:
  explicit LanePair(const LaneOptions& both = {}) : LanePair(both, both) {}
  LanePair(const LaneOptions& of_a, const LaneOptions& of_b) : a(of_a, 0), b(of_b, 1) {
    a.transport.connect(b.transport);
    b.transport.connect(a.transport);
  }

  void greet() {
    a.lane.greet(kTokenA);
    b.lane.greet(kTokenB);
    settle();
    ASSERT_TRUE(a.lane.greeting.greeted() && b.lane.greeting.greeted());
  }
  // Both directions are about to come to the lane: the peers know of it by the first packets.
  void start() {
    greet();
    EXPECT_TRUE(a.go_up() && b.go_up());
  }
  // ... and have come there, each with a byte that has been read.
  void start_with_a_byte() {
    start();
    EXPECT_EQ(a.put(1) + b.put(1), 2u);
    drain();
  }
  // Packets in flight reach the lanes; sends do not complete.
  void pass() {
    for (bool any = true; any;) {
      any = false;
      while (a.transport.deliver()) any = true;
      while (b.transport.deliver()) any = true;
      while (a.transport.take_in(a.lane)) any = true;
      while (b.transport.take_in(b.lane)) any = true;
    }
  }
  // Until nothing moves any more.
  void settle() {
    for (bool any = true; any;) {
      pass();
      any = false;
      while (a.transport.complete()) any = true;
      while (b.transport.complete()) any = true;
      a.lane.poll();
      b.lane.poll();
      any = any || !a.transport.idle() || !b.transport.idle();
    }
  }
  // ... with programs that read all.
  void drain() {
    do {
      settle();
      a.get(a.lane.rx.unread());
      b.get(b.lane.rx.unread());
      settle();
    } while (a.lane.rx.unread() != 0 || b.lane.rx.unread() != 0 || a.lane.rx.has_turns() || b.lane.rx.has_turns());
  }
  void expect_all_read() {
    EXPECT_EQ(b.read, a.written);
    EXPECT_EQ(a.read, b.written);
  }

  static constexpr std::uint8_t kTokenA[kTokenBytes] = {1, 2, 3};
  static constexpr std::uint8_t kTokenB[kTokenBytes] = {4, 5, 6};

  LaneSide a, b;
};

}  // namespace viaduct::sovia

#endif
