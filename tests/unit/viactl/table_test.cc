#include "kagent/tools/viactl/table.h"

#include <gtest/gtest.h>

#include <sstream>

namespace viaduct::tool {
namespace {

TEST(TableTest, LeavesOutWhatHasNoRoom) {
  Table table({{"FIRST", "first"}, {"SECOND", "second", true, 1}, {"THIRD", "third", false, 2}});
  table.add({cell(std::uint64_t{1}), cell("two"), cell(std::uint64_t{3})});
  EXPECT_EQ(table.text(0), "FIRST  SECOND  THIRD\n    1  two         3\n");
  EXPECT_EQ(table.text(20), table.text(0));
  EXPECT_EQ(table.text(19), "FIRST  SECOND\n    1  two\n");
  EXPECT_EQ(table.text(7), "FIRST\n    1\n");
  EXPECT_EQ(table.text(3), "FIR\n   \n");
}

TEST(TableTest, NoLineIsLongerThanTheTerminal) {
  Table table({{"A", "a", true}, {"B", "b", true, 3}, {"C", "c", true, 1}});
  table.add({cell("aaaaaaaaaa"), cell("bbbbbbbbbb"), cell("cccccccccc")});
  for (std::size_t width = 1; width < 50; ++width) {
    std::istringstream lines(table.text(width));
    for (std::string line; std::getline(lines, line);) EXPECT_LE(line.size(), width);
  }
}

TEST(TableTest, JsonHasAllColumnsAndIsEscaped) {
  Table table({{"A", "a"}, {"B", "b", true, 9}});
  EXPECT_EQ(table.json(), "[]");
  table.add({cell_duration(1500), cell("x\"\\\n\x01")});
  table.add({cell_none(), cell_flag(true)});
  EXPECT_EQ(table.json(),
            "[\n  {\"a\": 1500, \"b\": \"x\\\"\\\\\\u000a\\u0001\"},\n  {\"a\": null, \"b\": true}\n]");
}

TEST(TableTest, TextShowsNoControlCharacters) { EXPECT_EQ(cell("a\033[2Jb\n").text, "a?[2Jb?"); }

TEST(TableTest, UnitsSuitTheirValues) {
  EXPECT_EQ(cell_bytes(999).text, "999 B");
  EXPECT_EQ(cell_bytes(1536).text, "1.50 KiB");
  EXPECT_EQ(cell_bytes(~0ull).text, "16.0 EiB");
  EXPECT_EQ(cell_duration(0).text, "0.00 us");
  EXPECT_EQ(cell_duration(12'345).text, "12.3 us");
  EXPECT_EQ(cell_duration(1'500'000'000).text, "1.50 s");
  EXPECT_EQ(cell_duration(3ull * 86400 * 1'000'000'000).text, "3 d");
  EXPECT_EQ(cell_rate(1234).text, "1234");
  EXPECT_EQ(cell_rate(123456).text, "123k");
}

}  // namespace
}  // namespace viaduct::tool
