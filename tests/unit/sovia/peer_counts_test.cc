// When a UDP socket asks for a lane to a peer.
#include "sovia/datagram/peer_counts.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>

namespace viaduct::sovia::datagram::test {
namespace {

sockaddr_in peer(std::uint16_t port) {
  sockaddr_in made{};
  made.sin_family = AF_INET;
  made.sin_port = htons(port);
  made.sin_addr.s_addr = htonl(0x0a000001);
  return made;
}

TEST(DatagramPeers, AreAskedOnceAndAfterEnoughDatagrams) {
  PeerCounts counts;
  EXPECT_FALSE(counts.count(peer(1), 3, 0));
  EXPECT_FALSE(counts.count(peer(2), 3, 0));
  EXPECT_FALSE(counts.count(peer(1), 3, 0));
  EXPECT_TRUE(counts.count(peer(1), 3, 0));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(counts.count(peer(1), 3, 0));
  EXPECT_FALSE(counts.count(peer(2), 3, 0));
  EXPECT_TRUE(counts.count(peer(2), 3, 0));
}

TEST(DatagramPeers, ThatRefuseAreAskedLaterAndLater) {
  PeerCounts counts;
  std::uint64_t now = 1;
  for (unsigned times = 0; times < 8; ++times) {
    ASSERT_TRUE(counts.count(peer(1), 1, now)) << times;
    counts.refused(peer(1), false, now);
    const std::uint64_t rest = PeerCounts::kAgainNs << std::min(times, PeerCounts::kDoublings);
    EXPECT_FALSE(counts.count(peer(1), 1, now + rest - 1)) << times;
    now += rest;
  }
  ASSERT_TRUE(counts.count(peer(1), 1, now));
  counts.refused(peer(1), true, now);
  EXPECT_FALSE(counts.count(peer(1), 1, ~std::uint64_t{0} - 1)) << "for good";
}

TEST(DatagramPeers, OfAnEndedLaneCountAnew) {
  PeerCounts counts;
  EXPECT_TRUE(counts.count(peer(1), 1, 1));
  counts.ended(peer(1));
  EXPECT_FALSE(counts.count(peer(1), 2, 1));
  EXPECT_TRUE(counts.count(peer(1), 2, 1));
}

// A server with very many clients forgets those that it has not heard of for longest, but none that it has asked.
TEST(DatagramPeers, AreForgottenIfThereAreTooMany) {
  PeerCounts counts;
  EXPECT_TRUE(counts.count(peer(1), 1, 1));
  EXPECT_FALSE(counts.count(peer(2), 3, 1));
  for (std::uint16_t port = 100; port < 1000; ++port) EXPECT_FALSE(counts.count(peer(port), 3, 1));
  EXPECT_FALSE(counts.count(peer(1), 1, 1)) << "asked already";
  EXPECT_FALSE(counts.count(peer(2), 3, 1));
  EXPECT_FALSE(counts.count(peer(2), 3, 1)) << "it was forgotten, and counts anew";
  EXPECT_TRUE(counts.count(peer(2), 3, 1));
  PeerCounts full;
  for (std::uint16_t port = 0; port < PeerCounts::kPeers; ++port) EXPECT_TRUE(full.count(peer(port), 1, 1));
  EXPECT_FALSE(full.count(peer(5000), 1, 1)) << "no room is the kernel's";
  EXPECT_FALSE(full.count(peer(5000), 1, 1));
}

}  // namespace
}  // namespace viaduct::sovia::datagram::test
