#include "kagent/tools/viactl/top.h"

#include <gtest/gtest.h>

#include "kagent/contract/vip_codes.h"

namespace viaduct::tool {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;

report::Vi connected(std::uint32_t number, std::uint32_t next, std::uint32_t awaited, std::uint16_t resends) {
  report::Vi out{};
  out.session = 1;
  out.vi = number;
  out.state = vip::kConnected;
  out.connection = 77;
  out.next_psn = next;
  out.awaited_psn = awaited;
  out.resends = resends;
  return out;
}

TEST(TopTest, RatesCountAcrossTheEndOfTheNumbers) {
  const auto rows = paces({connected(0, 0xfffffff0, 0xfffffffe, 0xffff)}, {connected(0, 16, 2, 1)}, 2 * kSecond);
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_DOUBLE_EQ(rows[0].out, 16);
  EXPECT_DOUBLE_EQ(rows[0].in, 2);
  EXPECT_DOUBLE_EQ(rows[0].resent, 1);
}

TEST(TopTest, AConnectionThatIsNewHasNoRateYet) {
  report::Vi again = connected(0, 500, 500, 0);
  again.connection = 78;
  report::Vi idle = connected(2, 9, 9, 0);
  idle.state = vip::kIdle;
  const auto rows = paces({connected(0, 10, 10, 0)}, {again, connected(1, 1000, 1000, 0), idle}, kSecond);
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0].out, 0);
  EXPECT_EQ(rows[1].out, 0);
}

TEST(TopTest, SortsByWhatIsAskedFor) {
  std::vector<Pace> rows{{connected(0, 0, 0, 0), 1, 9, 0}, {connected(1, 0, 0, 0), 5, 0, 3}};
  sort_paces(rows, "frames");
  EXPECT_EQ(rows[0].vi.vi, 0u);
  sort_paces(rows, "out");
  EXPECT_EQ(rows[0].vi.vi, 1u);
  sort_paces(rows, "in");
  EXPECT_EQ(rows[0].vi.vi, 0u);
  sort_paces(rows, "resent");
  EXPECT_EQ(rows[0].vi.vi, 1u);
  EXPECT_TRUE(is_top_order("rtt"));
  EXPECT_FALSE(is_top_order("colour"));
}

}  // namespace
}  // namespace viaduct::tool
