// The two halves of the flow control against each other, in random order.
#include <gtest/gtest.h>

#include <deque>
#include <random>

#include "vipl/fabric/credits.h"

namespace viaduct::fabric {
namespace {

TEST(Credits, NothingMayBeSentBeforeItIsPromised) {
  SendCredits credits;
  EXPECT_FALSE(credits.available());
  EXPECT_TRUE(credits.grant(1));
  EXPECT_TRUE(credits.available());
  credits.use();
  EXPECT_FALSE(credits.available());
}

TEST(Credits, APromiseThatCameLateTakesNothingBack) {
  SendCredits credits;
  credits.grant(10);
  EXPECT_TRUE(credits.grant(4));
  for (int i = 0; i < 10; ++i) credits.use();
  EXPECT_FALSE(credits.available());
}

TEST(Credits, MoreThanTheWindowIsNotBelieved) {
  SendCredits credits;
  EXPECT_FALSE(credits.grant(kWindow + 1));
  EXPECT_TRUE(credits.grant(kWindow));
}

TEST(Credits, NoMoreThanTheWindowIsPromised) {
  ReceiveCredits credits;
  for (std::uint32_t i = 0; i < 3 * kWindow; ++i) credits.post();
  EXPECT_EQ(credits.possible(), kWindow);
}

TEST(Credits, APeerThatHasHalfIsNotTold) {
  ReceiveCredits credits;
  for (int i = 0; i < 128; ++i) credits.post();
  ASSERT_TRUE(credits.due());
  credits.promise(credits.possible());
  for (int i = 0; i < 63; ++i) {
    credits.consume();
    credits.post();
    ASSERT_FALSE(credits.due()) << i;
  }
  credits.consume();
  credits.post();
  EXPECT_TRUE(credits.due());
}

// Promises and messages travel for a while. Whatever the order: no message finds no receive, and all
// come through. Counts wrap on the way.
TEST(Credits, NoMessageFindsNoReceiveAndNoneIsStuck) {
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    SendCredits sender;
    ReceiveCredits receiver;
    const auto depth = static_cast<std::uint32_t>(1 + random() % 400);
    std::deque<std::uint32_t> promises;
    unsigned flying = 0;
    unsigned to_send = 5000;
    unsigned come = 0;
    unsigned idle = 0;
    while (come < 5000) {
      ASSERT_LT(++idle, 100000u) << "seed " << seed << " is stuck";
      switch (random() % 5) {
        case 0:
          if (receiver.posted() - receiver.consumed() < depth) receiver.post();
          break;
        case 1:
          if (receiver.due()) {
            receiver.promise(receiver.possible());
            promises.push_back(receiver.promised());
          }
          break;
        case 2:
          if (!promises.empty()) {
            ASSERT_TRUE(sender.grant(promises.front()));
            promises.pop_front();
          }
          break;
        case 3:
          if (to_send != 0 && sender.available()) {
            sender.use();
            --to_send;
            ++flying;
          }
          break;
        default:
          if (flying != 0) {
            ASSERT_NE(receiver.posted(), receiver.consumed()) << "seed " << seed;
            receiver.consume();
            --flying;
            ++come;
            idle = 0;
          }
      }
    }
  }
}

}  // namespace
}  // namespace viaduct::fabric
