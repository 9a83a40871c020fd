// RDMA over the simulated network: placement, order, protection, reads, the fence.
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

layout::Segment segment(const void* data, std::uint32_t handle, std::uint32_t length) {
  return {reinterpret_cast<std::uint64_t>(data), handle, length};
}

// A pair whose VIs allow RDMA, with a region on each side.
struct RdmaPair : Pair {
  static constexpr std::size_t kBytes = 200'000;

  explicit RdmaPair(std::uint64_t seed, std::uint16_t level = vip::kReliableDelivery,
                    bool region_allows = true, bool vi_allows = true)
      : Pair(seed, level), here(kBytes), there(kBytes) {
    const bool read = level != vip::kUnreliable;
    client_vi = client->create_vi(level, 0, 0, true, read);
    server_vi = server->create_vi(level, 0, 0, vi_allows, vi_allows && read);
    here_handle = client->register_memory(here.data(), kBytes, 0, true, true);
    there_handle = server->register_memory(there.data(), kBytes, 0, region_allows, region_allows);
    EXPECT_TRUE(connect());
  }

  Completion finished(Program& program, std::uint32_t vi, bool receive) {
    std::optional<Completion> done;
    run(network, hosts, {}, [&] { return (done = program.done(vi, receive)).has_value(); },
        network.now() + 20 * kSecond);
    EXPECT_TRUE(done.has_value()) << "the descriptor never completed";
    return done.value_or(Completion{});
  }

  std::vector<std::byte> here, there;
  std::uint32_t here_handle, there_handle;
};

TEST(Rdma, WritesAndReadsBackUnderFaults) {
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    RdmaPair pair(seed);
    SimFaults faults;
    faults.loss = 0.02;
    faults.duplication = 0.02;
    faults.reordering = 0.1;
    pair.network.set_faults(faults);
    SimRandom random(seed);
    for (unsigned round = 0; round < 20; ++round) {
      const auto length = static_cast<std::uint32_t>(random.below(65'537));
      const std::size_t from = random.below(1000), to = random.below(1000);
      std::vector<std::byte> untouched(pair.there);
      for (std::uint32_t i = 0; i < length; ++i) pair.here[from + i] = pattern(round, i);
      pair.client->post_rdma(pair.client_vi, layout::kOpRdmaWrite,
                             segment(&pair.here[from], pair.here_handle, length), &pair.there[to],
                             pair.there_handle, round);
      const Completion written = pair.finished(*pair.client, pair.client_vi, false);
      ASSERT_EQ(written.status, vip::kDone | vip::kOpRdmaWrite) << "seed " << seed;
      bool right = true;
      for (std::uint32_t i = 0; i < length; ++i) right &= pair.there[to + i] == pattern(round, i);
      for (std::size_t i = 0; i < to; ++i) right &= pair.there[i] == untouched[i];
      for (std::size_t i = to + length; i < RdmaPair::kBytes; ++i) {
        right &= pair.there[i] == untouched[i];
      }
      ASSERT_TRUE(right) << "seed " << seed << " round " << round;

      std::fill(pair.here.begin(), pair.here.end(), std::byte{0});
      pair.client->post_rdma(pair.client_vi, layout::kOpRdmaRead,
                             segment(&pair.here[from], pair.here_handle, length), &pair.there[to],
                             pair.there_handle, round);
      const Completion read = pair.finished(*pair.client, pair.client_vi, false);
      ASSERT_EQ(read.status, vip::kDone | vip::kOpRdmaRead) << "seed " << seed;
      for (std::uint32_t i = 0; i < length; ++i) right &= pair.here[from + i] == pattern(round, i);
      ASSERT_TRUE(right) << "seed " << seed << " round " << round;
    }
  }
}

TEST(Rdma, ManyReadsAndSendsBothWaysCompleteInOrder) {
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    RdmaPair pair(seed);
    SimFaults faults;
    faults.loss = 0.01;
    faults.reordering = 0.05;
    pair.network.set_faults(faults);
    SimRandom random(seed);
    constexpr unsigned kRounds = 100;
    for (unsigned i = 0; i < kRounds; ++i) {
      pair.client->post_receive(pair.client_vi, pair.here.data() + 150'000, 4000,
                                pair.here_handle, i);
      pair.server->post_receive(pair.server_vi, pair.there.data() + 150'000, 4000,
                                pair.there_handle, i);
    }
    for (unsigned i = 0; i < kRounds; ++i) {
      for (int side = 0; side < 2; ++side) {
        Program& program = side == 0 ? *pair.client : *pair.server;
        const std::uint32_t vi = side == 0 ? pair.client_vi : pair.server_vi;
        auto& mine = side == 0 ? pair.here : pair.there;
        auto& theirs = side == 0 ? pair.there : pair.here;
        const std::uint32_t my_handle = side == 0 ? pair.here_handle : pair.there_handle;
        const std::uint32_t their_handle = side == 0 ? pair.there_handle : pair.here_handle;
        const auto length = static_cast<std::uint32_t>(random.below(4000));
        switch (random.below(3)) {
          case 0:
            program.post_send(vi, mine.data() + 100'000, length, my_handle, i);
            break;
          case 1:
            program.post_rdma(vi, layout::kOpRdmaRead, segment(mine.data(), my_handle, length),
                              theirs.data() + 50'000, their_handle, i);
            break;
          default:
            program.post_rdma(vi, layout::kOpRdmaWrite,
                              segment(mine.data() + 100'000, my_handle, length),
                              theirs.data() + 120'000, their_handle, i);
        }
      }
    }
    unsigned completed[2] = {};
    const auto logic = [&] {
      for (int side = 0; side < 2; ++side) {
        Program& program = side == 0 ? *pair.client : *pair.server;
        const std::uint32_t vi = side == 0 ? pair.client_vi : pair.server_vi;
        while (const auto done = program.done(vi, false)) {
          EXPECT_EQ(done->status & vip::kErrorMask, 0u) << "seed " << seed;
          EXPECT_EQ(done->tag, completed[side]++) << "seed " << seed;
        }
        while (program.done(vi, true)) {}
      }
      return false;
    };
    ASSERT_TRUE(run(pair.network, pair.hosts, logic,
                    [&] { return completed[0] == kRounds && completed[1] == kRounds; },
                    pair.network.now() + 60 * kSecond))
        << "seed " << seed << ": " << completed[0] << " and " << completed[1];
  }
}

TEST(Rdma, ImmediateDataConsumesAReceiveAfterTheData) {
  for (const std::uint16_t level : {vip::kUnreliable, vip::kReliableDelivery}) {
    RdmaPair pair(1, level);
    for (std::size_t i = 0; i < 5000; ++i) pair.here[i] = pattern(9, i);
    pair.server->post_receive(pair.server_vi, nullptr, 0, 0, 77);
    pair.client->post_rdma(pair.client_vi, layout::kOpRdmaWrite,
                           segment(pair.here.data(), pair.here_handle, 5000), pair.there.data(),
                           pair.there_handle, 0, 4711);
    const Completion got = pair.finished(*pair.server, pair.server_vi, true);
    EXPECT_EQ(got.status, vip::kDone | vip::kOpRemoteRdmaWrite | vip::kImmediate);
    EXPECT_EQ(got.immediate, 4711u);
    EXPECT_EQ(got.length, 5000u);
    EXPECT_EQ(got.tag, 77u);
    EXPECT_EQ(pair.there[4999], pattern(9, 4999));
  }
}

TEST(Rdma, IsRefusedWithoutPermission) {
  for (const auto op : {layout::kOpRdmaWrite, layout::kOpRdmaRead}) {
    for (int which = 0; which < 4; ++which) {
      for (const std::uint16_t level :
           {vip::kUnreliable, vip::kReliableDelivery, vip::kReliableReception}) {
        if (op == layout::kOpRdmaRead && level == vip::kUnreliable) continue;
        RdmaPair pair(1, level, which != 0, which != 1);
        const std::byte* target = pair.there.data() + (which == 2 ? RdmaPair::kBytes - 99 : 0);
        const std::uint32_t handle = pair.there_handle + (which == 3 ? 1 : 0);
        const std::vector<std::byte> before(pair.there);
        pair.here[0] = std::byte{1};
        pair.client->post_rdma(pair.client_vi, op, segment(pair.here.data(), pair.here_handle, 100),
                               target, handle);
        const Completion done = pair.finished(*pair.client, pair.client_vi, false);
        pair.wait(10 * kMillisecond);
        EXPECT_EQ(pair.there, before);
        EXPECT_EQ(pair.b.stack->counters().drop_rdma_protection, 1u);
        if (level == vip::kUnreliable) {
          EXPECT_EQ(done.status & vip::kErrorMask, 0u);
          EXPECT_EQ(pair.server->state(pair.server_vi), vip::kConnected);
          continue;
        }
        EXPECT_EQ(pair.client->state(pair.client_vi), vip::kError);
        EXPECT_EQ(pair.server->state(pair.server_vi), vip::kError);
        if (level == vip::kReliableReception || op == layout::kOpRdmaRead) {
          EXPECT_TRUE(done.status & vip::kRdmaProtectionError) << which;
        } else {
          EXPECT_TRUE(done.status & vip::kTransportError) << which;
        }
      }
    }
  }
}

TEST(Rdma, ReadOnUnreliableDeliveryIsAFormatError) {
  RdmaPair pair(1, vip::kUnreliable);
  pair.client->post_rdma(pair.client_vi, layout::kOpRdmaRead,
                         segment(pair.here.data(), pair.here_handle, 10), pair.there.data(),
                         pair.there_handle);
  EXPECT_TRUE(pair.finished(*pair.client, pair.client_vi, false).status & vip::kFormatError);
}

TEST(Rdma, LastWordIsWrittenByItself) {
  // The last write must win: look at the pieces that reach the environment.
  struct Spy : Host {
    using Host::Host;
    bool write_program(std::uint32_t s, std::span<const iovec> remote,
                       std::span<const iovec> local) override {
      if (!remote.empty()) last = remote.back();
      return Host::write_program(s, remote, local);
    }
    iovec last{};
  };
  SimNetwork network(SimOptions{}, 1);
  Host a(network, 1, small_limits(), 1);
  Spy b(network, 2, small_limits(), 1);
  Host* hosts[] = {&a, &b};
  Program client(a), server(b);
  const std::uint32_t x = client.create_vi(vip::kReliableDelivery, 0, 0, true, true);
  const std::uint32_t y = server.create_vi(vip::kReliableDelivery, 0, 0, true, true);
  ASSERT_TRUE(connect(network, hosts, client, x, server, y, b.port.address()));
  alignas(8) static std::byte source[10'000], target[10'000];
  const std::uint32_t from = client.register_memory(source, sizeof source, 0, true, true);
  const std::uint32_t to = server.register_memory(target, sizeof target, 0, true, true);
  const struct {
    std::uint32_t length, tail;
  } cases[] = {{8000, 8}, {8004, 4}, {8, 8}, {4, 4}, {1, 1}, {1448, 8}, {9001, 1}};
  for (const auto& c : cases) {
    client.post_rdma(x, layout::kOpRdmaWrite, segment(source, from, c.length), target, to);
    std::optional<Completion> done;
    run(network, hosts, {}, [&] { return (done = client.done(x, false)).has_value(); },
        network.now() + kSecond);
    ASSERT_TRUE(done);
    EXPECT_EQ(b.last.iov_len, c.tail) << c.length;
    EXPECT_EQ(static_cast<std::byte*>(b.last.iov_base), target + c.length - c.tail);
  }
}

}  // namespace
}  // namespace viaduct::sim
