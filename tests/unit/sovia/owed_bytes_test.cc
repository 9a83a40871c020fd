#include "sovia/socket/owed_bytes.h"

#include <gtest/gtest.h>

#include <cstring>

namespace viaduct::sovia {
namespace {

class Owed : public testing::Test {
 protected:
  // Of this test.
  unsigned count() const { return OwedBytes::count() - before_; }

  const unsigned before_ = OwedBytes::count();
};

TEST_F(Owed, AreTakenFromTheFrontUntilTheyAreDropped) {
  OwedBytes owed;
  EXPECT_TRUE(owed.empty());
  std::byte* const to = owed.begin(10, false);
  ASSERT_NE(to, nullptr);
  std::memcpy(to, "0123456789", 10);
  EXPECT_FALSE(owed.empty());
  EXPECT_EQ(owed.left(), 10u);
  owed.take(4);
  EXPECT_EQ(owed.left(), 6u);
  EXPECT_EQ(std::memcmp(owed.data(), "456789", 6), 0);
  owed.take(6);
  EXPECT_EQ(owed.left(), 0u);
  EXPECT_FALSE(owed.empty());
  owed.drop();
  EXPECT_TRUE(owed.empty());
}

TEST_F(Owed, BeginAnew) {
  OwedBytes owed;
  owed.begin(10, false);
  owed.take(4);
  ASSERT_NE(owed.begin(3, false), nullptr);
  EXPECT_EQ(owed.left(), 3u);
  EXPECT_EQ(count(), 1u);
}

TEST_F(Owed, AreCountedBySockets) {
  {
    OwedBytes one, other;
    one.begin(10, false);
    other.begin(10, false);
    EXPECT_EQ(count(), 2u);
    one.drop();
    one.drop();
    EXPECT_EQ(count(), 1u);
  }
  EXPECT_EQ(count(), 0u);
}

// Nobody need hurry for a record that goes with the next data.
TEST_F(Owed, AreNotCountedWhileTheyWait) {
  OwedBytes owed;
  owed.begin(10, true);
  EXPECT_TRUE(owed.waits());
  EXPECT_FALSE(owed.empty());
  EXPECT_EQ(count(), 0u);
  owed.urge();
  EXPECT_FALSE(owed.waits());
  EXPECT_EQ(count(), 1u);
  owed.urge();
  EXPECT_EQ(count(), 1u);
  owed.drop();
  EXPECT_EQ(count(), 0u);
  owed.urge();
  EXPECT_EQ(count(), 0u);
}

TEST_F(Owed, AreDroppedUncountedIfTheyWaited) {
  OwedBytes owed;
  owed.begin(10, true);
  owed.drop();
  EXPECT_EQ(count(), 0u);
  owed.begin(10, true);
  owed.begin(10, false);
  EXPECT_EQ(count(), 1u);
  EXPECT_FALSE(owed.waits());
}

TEST_F(Owed, WaitNoLongerOnceAPartHasGone) {
  OwedBytes owed;
  owed.begin(10, true);
  owed.take(1);
  EXPECT_FALSE(owed.waits());
  EXPECT_EQ(count(), 1u);
}

}  // namespace
}  // namespace viaduct::sovia
