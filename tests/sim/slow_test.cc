// A program whose memory can't be reached for a while: others go on, and nothing is told before its data
// is there.
#include <gtest/gtest.h>

#include <deque>
#include <functional>

#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

constexpr std::uint32_t kLongBytes = 3000;  // too much to travel in a slot

// While held, writes to session 0 wait, and nothing can be read from it.
struct SlowHost : Host {
  using Host::Host;

  bool read_program(std::uint32_t program, const Reader& reader, std::span<const iovec> remote,
                    std::span<const iovec> local) override {
    postponed = held && program == 0;
    return !postponed && Host::read_program(program, reader, remote, local);
  }
  bool write_program(std::uint32_t program, std::span<const iovec> remote,
                     std::span<const iovec> local) override {
    if (program != 0 || (!held && late == 0)) return Host::write_program(program, remote, local);
    std::vector<std::byte> data;
    for (const iovec& piece : local) {
      const auto* const begin = static_cast<const std::byte*>(piece.iov_base);
      data.insert(data.end(), begin, begin + piece.iov_len);
    }
    queued.push_back([this, to = std::vector<iovec>(remote.begin(), remote.end()),
                      data = std::move(data)]() mutable {
      const iovec from{data.data(), data.size()};
      return !fails && Host::write_program(0, to, {&from, 1});
    });
    ++writes;
    late = 1;
    return true;
  }
  bool is_late(std::uint32_t program) override { return program == 0 && late != 0; }
  bool is_full(std::uint32_t program) override { return program == 0 && queued.size() > 8; }
  void defer(const Late& what) override { due.emplace_back(what, writes); }
  bool await_read(const Late& what) override {
    if (what.program != 0 || !held) return false;
    late = 1;
    due.emplace_front(what, 0);
    return true;
  }
  bool take_due(Late& out, bool& failed) override {
    if (held) return false;
    while (!held && !queued.empty()) {
      if (!queued.front()()) failed_ = true;
      queued.pop_front();
      ++written;
    }
    if (due.empty() || due.front().second > written) {
      if (queued.empty() && due.empty()) late = 0;
      return false;
    }
    out = due.front().first;
    failed = failed_;
    due.pop_front();
    return true;
  }

  bool held = false, fails = false, failed_ = false;
  std::deque<std::function<bool()>> queued;
  std::deque<std::pair<Late, std::uint64_t>> due;
  std::uint64_t writes = 0, written = 0;
};

// Two programs at `b`, connected to one at `a`; the first one is slow.
class Slow : public testing::TestWithParam<std::uint16_t> {
 protected:
  void SetUp() override {
    const bool reads = GetParam() != vip::kUnreliable;
    for (unsigned i = 0; i < 2; ++i) {
      near[i] = client.create_vi(GetParam(), 0, 0, true, reads);
      far[i] = server[i].create_vi(GetParam(), 0, 0, true, reads);
      ASSERT_TRUE(connect(network, hosts, client, near[i], server[i], far[i], b.port.address()));
      there[i] = server[i].register_memory(target[i].data(), target[i].size(), 0, true, true);
    }
    here = client.register_memory(source.data(), source.size(), 0, true, true);
    for (std::size_t at = 0; at < source.size(); ++at) source[at] = pattern(1, at);
  }
  void post_receives(unsigned i, unsigned count) {
    for (unsigned n = 0; n < count; ++n) {
      server[i].post_receive(far[i], target[i].data() + n * kLongBytes, kLongBytes, there[i], n);
    }
  }
  void send(unsigned i, unsigned count) {
    for (unsigned n = 0; n < count; ++n) {
      client.post_send(near[i], source.data() + n * kLongBytes, kLongBytes, here);
    }
  }
  std::optional<Completion> wait_for(Program& program, std::uint32_t vi, bool receive) {
    std::optional<Completion> out;
    run(network, hosts, {}, [&] { return (out = program.done(vi, receive)).has_value(); },
        network.now() + kSecond);
    return out;
  }
  void pass(std::uint64_t ns) {
    const std::uint64_t end = network.now() + ns;
    run(network, hosts, {}, [] { return false; }, end);
    network.advance_to(end);
  }

  SimNetwork network{SimOptions{}, 1};
  Host a{network, 1, small_limits(), 1};
  SlowHost b{network, 2, small_limits(), 1};
  Host* hosts[2] = {&a, &b};
  Program client{a};
  Program server[2]{Program{b}, Program{b}};
  std::uint32_t near[2], far[2], there[2], here = 0;
  std::vector<std::byte> source = std::vector<std::byte>(4 * kLongBytes);
  std::vector<std::byte> target[2] = {std::vector<std::byte>(4 * kLongBytes),
                                      std::vector<std::byte>(4 * kLongBytes)};
};

TEST_P(Slow, ReceivesCompleteWhenTheirDataIsThere) {
  post_receives(0, 3);
  post_receives(1, 1);
  b.held = true;
  send(0, 3);
  send(1, 1);
  EXPECT_TRUE(wait_for(server[1], far[1], true)) << "the other program is held";
  pass(10 * kMillisecond);
  EXPECT_FALSE(server[0].done(far[0], true));
  b.held = false;
  for (unsigned n = 0; n < 3; ++n) {
    const auto done = wait_for(server[0], far[0], true);
    ASSERT_TRUE(done);
    EXPECT_EQ(done->tag, n);
    EXPECT_EQ(done->length, kLongBytes);
    EXPECT_EQ(done->status & vip::kErrorMask, 0u);
  }
  EXPECT_EQ(std::memcmp(target[0].data(), source.data(), 3 * kLongBytes), 0);
  EXPECT_EQ(b.late, 0u);
}

TEST_P(Slow, SendsGoOutWhenTheirDataCanBeRead) {
  client.post_receive(near[0], source.data(), kLongBytes, here);
  b.held = true;
  server[0].post_send(far[0], target[0].data(), kLongBytes, there[0]);
  send(1, 1);
  post_receives(1, 1);
  pass(10 * kMillisecond);
  EXPECT_FALSE(client.done(near[0], true));
  b.held = false;
  const auto done = wait_for(client, near[0], true);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status & vip::kErrorMask, 0u);
}

TEST_P(Slow, DataThatCanNotBeWrittenIsAnError) {
  post_receives(0, 1);
  b.held = b.fails = true;
  send(0, 1);
  pass(10 * kMillisecond);
  b.held = false;
  const auto done = wait_for(server[0], far[0], true);
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->status & vip::kProtectionError);
}

TEST_P(Slow, AReadIsDoneWhenItsDataIsThere) {
  if (GetParam() == vip::kUnreliable) GTEST_SKIP() << "has no reads";
  server[0].post_rdma(far[0], layout::kOpRdmaRead, {reinterpret_cast<std::uint64_t>(target[0].data()),
                      there[0], kLongBytes}, source.data(), here);
  pass(kMillisecond / 100);
  b.held = true;
  pass(10 * kMillisecond);
  EXPECT_FALSE(server[0].done(far[0], false));
  b.held = false;
  const auto done = wait_for(server[0], far[0], false);
  ASSERT_TRUE(done);
  EXPECT_EQ(done->status & vip::kErrorMask, 0u);
  EXPECT_EQ(std::memcmp(target[0].data(), source.data(), kLongBytes), 0);
}

// It may be over, and another VI be there, when its data is.
TEST_P(Slow, AProgramMayGoMeanwhile) {
  post_receives(0, 2);
  b.held = true;
  send(0, 2);
  pass(10 * kMillisecond);
  layout::CommandBody body{};
  body.op = layout::Op::kDisconnect;
  body.vi = far[0];
  server[0].now(body);
  body.op = layout::Op::kDestroyVi;
  server[0].now(body);
  b.held = false;
  pass(10 * kMillisecond);
  EXPECT_EQ(b.late, 0u);
  EXPECT_TRUE(b.due.empty());
}

// The host drops data beyond its room for the program, and the reliable levels send it again.
TEST_P(Slow, TooMuchForAProgramIsDropped) {
  for (unsigned round = 0; round < 4; ++round) {
    post_receives(0, 4);
    b.held = round == 0;
    send(0, 4);
    pass(10 * kMillisecond);
    if (round == 0) {
      EXPECT_EQ(b.stack->counters().drop_program_slow, 0u) << "there was room";
      post_receives(0, 4);
      send(0, 4);
      post_receives(0, 4);
      send(0, 4);
      pass(10 * kMillisecond);
      EXPECT_GT(b.stack->counters().drop_program_slow, 0u);
    }
  }
  unsigned arrived = 0;
  while (const auto done = wait_for(server[0], far[0], true)) {
    EXPECT_EQ(done->status & vip::kErrorMask, 0u);
    ++arrived;
  }
  if (GetParam() == vip::kUnreliable) {
    EXPECT_LT(arrived, 24u);
    EXPECT_GE(arrived, 12u);
  } else {
    EXPECT_EQ(arrived, 24u);
  }
}

INSTANTIATE_TEST_SUITE_P(Levels, Slow,
                         testing::Values(vip::kUnreliable, vip::kReliableDelivery,
                                         vip::kReliableReception));

}  // namespace
}  // namespace viaduct::sim
