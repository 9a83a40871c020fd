// The greeting of datagram lanes, over a link that loses what it likes.
#include "sovia/datagram/handshake.h"

#include <gtest/gtest.h>

#include <random>

namespace viaduct::sovia::datagram::test {
namespace {

Handshake::Token token(std::uint8_t first) {
  Handshake::Token made{};
  made[0] = first;
  return made;
}

bool give(Handshake& to, const Handshake::Hello& hello) {
  return to.take(reinterpret_cast<const std::byte*>(&hello), sizeof hello);
}

TEST(DatagramHandshake, EndsWithTrustOnBothSidesAndThenIsSilent) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    Handshake a, b;
    a.begin(token(1));
    b.begin(token(2));
    std::uint64_t now = 1;
    for (int step = 0; step < 4000; ++step, now += kMs) {
      for (auto [from, to] : {std::pair{&a, &b}, std::pair{&b, &a}}) {
        if (from->due() > now) continue;
        const Handshake::Hello hello = from->next(now);
        if (random() % 3 == 0) continue;
        EXPECT_TRUE(give(*to, hello));
      }
      // The agents take their time.
      if (a.heard() && random() % 8 == 0) a.trust();
      if (b.heard() && random() % 50 == 0) b.trust();
      ASSERT_LE(a.trusted(), b.trusts());
      ASSERT_LE(b.trusted(), a.trusts());
    }
    EXPECT_TRUE(a.trusts() && a.trusted() && b.trusts() && b.trusted()) << seed;
    EXPECT_EQ(a.peer_token(), token(2));
    EXPECT_EQ(b.peer_token(), token(1));
    EXPECT_EQ(a.due(), Handshake::kNotDue) << seed;
    EXPECT_EQ(b.due(), Handshake::kNotDue) << seed;
  }
}

TEST(DatagramHandshake, SaysNothingBeforeItHasAToken) {
  EXPECT_EQ(Handshake().due(), Handshake::kNotDue);
}

TEST(DatagramHandshake, KeepsTheTokenThatItWasAskedAbout) {
  Handshake end, peer, other;
  end.begin(token(1));
  peer.begin(token(2));
  other.begin(token(3));
  other.trust();
  ASSERT_TRUE(give(end, peer.next(1)));
  EXPECT_FALSE(give(end, other.next(1)));
  EXPECT_EQ(end.peer_token(), token(2));
  EXPECT_FALSE(end.trusted()) << "by somebody else's greeting";
}

TEST(DatagramHandshake, RefusesWhatIsNoGreeting) {
  Handshake peer;
  peer.begin(token(2));
  const Handshake::Hello good = peer.next(1);
  std::byte bytes[sizeof good + 1] = {};
  std::memcpy(bytes, &good, sizeof good);
  for (std::size_t length = 0; length <= sizeof bytes; ++length) {
    Handshake end;
    EXPECT_EQ(end.take(bytes, length), length == sizeof good) << length;
  }
  for (std::size_t at = 0; at < 4; ++at) {
    Handshake end;
    Handshake::Hello bad = good;
    reinterpret_cast<std::uint8_t*>(&bad)[at] ^= 0x40;
    EXPECT_FALSE(give(end, bad)) << at;
    EXPECT_FALSE(end.heard()) << at;
  }
}

}  // namespace
}  // namespace viaduct::sovia::datagram::test
