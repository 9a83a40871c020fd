#include "kagent/agent/reports/counter_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <sstream>

namespace viaduct {
namespace {

using testing::HasSubstr;

NicReport report(const std::string& interface) {
  NicReport out{interface, StackLimits(), NicReport::Live{}};
  out.live->mode = "sim";
  out.live->address = {2, 0, 0, 0, 0, 1};
  out.live->mtu = 1500;
  return out;
}

TEST(CounterTable, HasEveryCounterWithItsValueAndMeaning) {
  NicReport nic = report("via0");
  nic.live->stack.drop_short = 5;
  nic.live->stack.drop_not_supported = 6;
  nic.live->port.rx_frames = 7;
  nic.live->port.rebinds = 8;
  nic.live->usage.connected = 9;
  nic.live->granted_ports = 12;
  nic.live->granted_ready = 10;
  nic.live->granted_made = 13;
  nic.live->granted.forged_source = 14;
  nic.live->granted.tx_dropped_invalid = 15;
  ServiceCounters service;
  service.sessions_opened = 10;
  service.longest_round_ns = 11;
  const std::string text = counter_table({&nic, 1}, service);
  EXPECT_THAT(text, HasSubstr("# HELP viaduct_stack_drop_short received frames dropped: shorter "
                              "than a header\n# TYPE viaduct_stack_drop_short counter\n"
                              "viaduct_stack_drop_short{nic=\"via0\"} 5\n"));
  EXPECT_THAT(text, HasSubstr("viaduct_stack_drop_not_supported{nic=\"via0\"} 6\n"));
  EXPECT_THAT(text, HasSubstr("viaduct_port_rx_frames{nic=\"via0\"} 7\n"));
  EXPECT_THAT(text, HasSubstr("viaduct_port_rebinds{nic=\"via0\"} 8\n"));
  EXPECT_THAT(text, HasSubstr("viaduct_nic_connected_vis{nic=\"via0\"} 9\n"));
  EXPECT_THAT(text, HasSubstr("viaduct_nic_vis_limit{nic=\"via0\"} 12288\n"));
  EXPECT_THAT(text, HasSubstr("viaduct_nic_info{nic=\"via0\",mode=\"sim\","
                              "address=\"02:00:00:00:00:01\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("viaduct_nic_mtu_bytes{nic=\"via0\"} 1500\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE viaduct_granted_ports gauge\n"
                              "viaduct_granted_ports{nic=\"via0\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("viaduct_granted_ready{nic=\"via0\"} 10\n"));
  EXPECT_THAT(text, HasSubstr("viaduct_granted_made{nic=\"via0\"} 13\n"));
  EXPECT_THAT(text, HasSubstr("# HELP viaduct_granted_filter_forged_source frames of programs "
                              "dropped: another source address\n"
                              "# TYPE viaduct_granted_filter_forged_source counter\n"
                              "viaduct_granted_filter_forged_source{nic=\"via0\"} 14\n"));
  EXPECT_THAT(text, HasSubstr("viaduct_granted_tx_dropped_invalid{nic=\"via0\"} 15\n"));
  EXPECT_THAT(text, HasSubstr("viaduct_service_sessions_opened 10\n"));
  EXPECT_THAT(text, HasSubstr("viaduct_service_longest_round_ns 11\n"));
}

TEST(CounterTable, HasAllRowsOfACounterUnderOneHeading) {
  const NicReport nics[] = {report("a"), report("b")};
  std::istringstream lines(counter_table(nics, ServiceCounters()));
  std::set<std::string> seen;
  std::string current, line;
  int rows = 0, most_rows = 0;
  while (std::getline(lines, line)) {
    if (line.rfind("# HELP ", 0) == 0) {
      current = line.substr(7, line.find(' ', 7) - 7);
      EXPECT_TRUE(seen.insert(current).second) << "twice: " << current;
      rows = 0;
    } else if (line.rfind("# TYPE ", 0) == 0) {
      EXPECT_EQ(line.substr(7, current.size() + 1), current + " ");
    } else {
      EXPECT_EQ(line.substr(0, current.size()), current);
      EXPECT_NE(std::string("{ ").find(line[current.size()]), std::string::npos) << line;
      most_rows = std::max(most_rows, ++rows);
    }
  }
  EXPECT_EQ(most_rows, 2);
  EXPECT_GT(seen.size(), 80u);
}

TEST(CounterTable, SaysWhichInterfaceIsAway) {
  NicReport nics[] = {report("a"), report("b")};
  nics[0].live.reset();
  nics[1].live->stack.acks_sent = 3;
  const std::string text = counter_table(nics, ServiceCounters());
  EXPECT_THAT(text, HasSubstr("viaduct_nic_up{nic=\"a\"} 0\nviaduct_nic_up{nic=\"b\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("# TYPE viaduct_stack_acks_sent counter\n"
                              "viaduct_stack_acks_sent{nic=\"b\"} 3\n"));
}

TEST(CounterTable, AddsUpWhatPortsCount) {
  GrantedCounters sum, more;
  sum.passed = 1;
  more.passed = 2;
  more.tx_dropped_invalid = 3;
  add_to(sum, more);
  EXPECT_EQ(sum.passed, 3u);
  EXPECT_EQ(sum.tx_dropped_invalid, 3u);
}

TEST(CounterTable, EscapesWhatTheFormatKnows) {
  NicReport nic = report("a\"b\\c\nd");
  EXPECT_THAT(counter_table({&nic, 1}, ServiceCounters()),
              HasSubstr("viaduct_nic_up{nic=\"a\\\"b\\\\c\\nd\"} 1\n"));
}

}  // namespace
}  // namespace viaduct
