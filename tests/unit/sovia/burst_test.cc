#include "sovia/socket/burst.h"

#include <gtest/gtest.h>

namespace viaduct::sovia {
namespace {

TEST(Burst, IsLongWithALongSend) {
  const Burst burst;
  EXPECT_FALSE(burst.is_long(1));
  EXPECT_FALSE(burst.is_long(Burst::kLongSend - 1));
  EXPECT_TRUE(burst.is_long(Burst::kLongSend));
}

TEST(Burst, IsLongWithManySends) {
  Burst burst;
  constexpr std::size_t kSend = 1024;
  for (std::size_t sent = kSend; sent < Burst::kLongBurst; sent += kSend) {
    ASSERT_FALSE(burst.is_long(kSend)) << sent;
    burst.sent(kSend);
  }
  EXPECT_TRUE(burst.is_long(kSend));
  EXPECT_FALSE(burst.is_long(kSend - 1));
  burst.sent(kSend);
  EXPECT_TRUE(burst.is_long(1)) << "it goes on";
}

TEST(Burst, EndsWithAReceive) {
  Burst burst;
  burst.received();
  burst.sent(Burst::kLongBurst);
  EXPECT_TRUE(burst.is_long(1));
  burst.received();
  EXPECT_FALSE(burst.is_long(1));
  burst.sent(100);
  EXPECT_FALSE(burst.is_long(1)) << "the sends before do not count";
  EXPECT_TRUE(burst.is_long(Burst::kLongSend));
}

}  // namespace
}  // namespace viaduct::sovia
