// The agent reads the state that a dead program's stack has left.
#include <gtest/gtest.h>

#include <sys/mman.h>

#include "tests/sim/pair.h"
#include "kagent/stack/remains.h"

namespace viaduct::sim {
namespace {

std::vector<Remains> remains_of(const void* segment, const StackLimits& limits) {
  std::vector<Remains> out(limits.vis + limits.goodbyes);
  out.resize(remains(segment, limits, out));
  return out;
}

TEST(Remains, AreConnectionsAndGoodbyes) {
  Pair pair;
  EXPECT_TRUE(remains_of(pair.a.segment(), pair.a.limits).empty());
  ASSERT_TRUE(pair.connect());
  const auto left = remains_of(pair.a.segment(), pair.a.limits);
  ASSERT_EQ(left.size(), 1u);
  EXPECT_EQ(left[0].peer, pair.b.port.address());
  EXPECT_EQ(left[0].vi, pair.server_vi);

  // As a DISCONNECT they end the connection.
  wire::Header header{};
  header.type = wire::Type::kDisconnect;
  header.vi = left[0].vi;
  header.key = left[0].key;
  header.psn = left[0].psn;
  header.ack = left[0].ack;
  std::byte frame[wire::kMinFrameBytes];
  wire::encode(header, pair.b.port.address(), pair.a.port.address(), wire::kDefaultEtherType,
               frame);
  pair.network.inject(pair.b.port, frame);
  pair.b.step();
  EXPECT_EQ(pair.server->state(pair.server_vi), vip::kError);

  // A goodbye that the peer has not answered.
  layout::CommandBody bye{};
  bye.op = layout::Op::kDisconnect;
  bye.vi = pair.client_vi;
  pair.client->now(bye);
  const auto goodbye = remains_of(pair.a.segment(), pair.a.limits);
  ASSERT_EQ(goodbye.size(), 1u);
  EXPECT_EQ(goodbye[0].key, left[0].key);
  pair.wait(kSecond);
  EXPECT_TRUE(remains_of(pair.a.segment(), pair.a.limits).empty());
}

// The peer is to know that something is missing.
TEST(Remains, CountWhatTheProgramHadYetToPost) {
  Pair pair;
  ASSERT_TRUE(pair.connect());
  std::vector<Remains> all(4), more(4);
  ASSERT_EQ(remains(pair.a.segment(), pair.a.limits, all, pair.client->view()), 1u);
  layout::Vi& vi = pair.client->view().vi(pair.client_vi);
  vi.send.more = vi.status.generation.load();
  ASSERT_EQ(remains(pair.a.segment(), pair.a.limits, more, pair.client->view()), 1u);
  EXPECT_EQ(more[0].psn, all[0].psn + 1);
}

TEST(Remains, AreNoMoreThanThereIsRoomFor) {
  Pair pair;
  for (int i = 0; i < 5; ++i) {
    const std::uint32_t here = pair.client->create_vi(vip::kReliableDelivery);
    const std::uint32_t there = pair.server->create_vi(vip::kReliableDelivery);
    ASSERT_TRUE(connect(pair.network, pair.hosts, *pair.client, here, *pair.server, there,
                        pair.b.port.address()));
  }
  std::vector<Remains> out(3);
  EXPECT_EQ(remains(pair.a.segment(), pair.a.limits, out), 3u);
  EXPECT_EQ(remains(pair.a.segment(), pair.a.limits, {}), 0u);
}

// The segment ends where its memory does: any read behind it is a fault.
TEST(Remains, OfNonsenseAreNonsenseButNothingElse) {
  const StackLimits limits = small_limits();
  const std::size_t bytes = Stack::footprint(limits);
  const std::size_t page = 4096, mapped = (bytes + page - 1) / page * page;
  auto* memory = static_cast<std::byte*>(mmap(nullptr, mapped + page, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(memory, MAP_FAILED);
  ASSERT_EQ(mprotect(memory + mapped, page, PROT_NONE), 0);
  std::byte* const segment = memory + (mapped - bytes) / 64 * 64;
  std::size_t found = 0;
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    SimRandom random(seed);
    // All of it at first, then here and there, so that what has some sense is seen too.
    if (seed % 20 == 1) {
      for (std::size_t i = 0; i + 8 <= bytes; i += 8) {
        const std::uint64_t word = seed % 40 == 1 ? random.next() : random.below(4);
        std::memcpy(segment + i, &word, 8);
      }
    }
    for (int i = 0; i < 2000; ++i) {
      segment[random.below(bytes)] = static_cast<std::byte>(random.next());
    }
    // The first words are the root's: counts above all.
    for (int i = 0; i < 20; ++i) {
      segment[random.below(600)] = static_cast<std::byte>(random.below(2) ? 0xff : random.next());
    }
    for (const Remains& one : remains_of(segment, limits)) {
      EXPECT_EQ(one.peer[0] & 1, 0);
      EXPECT_NE(one.peer, MacAddress{});
      ++found;
    }
  }
  EXPECT_GT(found, 0u);
  munmap(memory, mapped + page);
}

}  // namespace
}  // namespace viaduct::sim
