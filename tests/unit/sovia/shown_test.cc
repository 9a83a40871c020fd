// The page of a process's sockets that `sovia sockets` shows.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <optional>
#include <sstream>

#include "sovia/launcher/counters_reader.h"
#include "sovia/launcher/sockets.h"
#include "sovia/process/counters.h"
#include "sovia/sovia.h"
#include "tests/unit/sovia/laned_connection.h"

namespace viaduct::sovia::ready {
namespace {

using counters::Way;

// As another process reads it.
std::optional<std::pair<Way, Reason>> shown(int fd, int process = getpid()) {
  const auto read = launcher::read_counters(process);
  if (!read) return std::nullopt;
  for (const launcher::SocketRow& row : read->sockets) {
    if (row.descriptor == fd) return std::pair(row.way, row.reason);
  }
  return std::nullopt;
}

TEST(Shown, TellsWhenALaneComesAndGoes) {
  Connection connection;
  const int fd = connection.fd();
  EXPECT_EQ(shown(fd), std::pair(Way::kKernel, Reason::kShort));
  connection.up();
  EXPECT_EQ(shown(fd), std::pair(Way::kLane, Reason::kNone));
  connection.down();
  EXPECT_EQ(shown(fd), std::pair(Way::kKernel, Reason::kEnd));
}

TEST(Shown, TellsWhyNoneCame) {
  Connection connection;
  connection.lane_is_refused();
  EXPECT_EQ(shown(connection.fd()), std::pair(Way::kKernel, Reason::kNoPeer));
}

TEST(Shown, TellsThatALaneWasLost) {
  Connection connection;
  connection.up();
  connection.lane_breaks();
  ASSERT_TRUE(connection.lane_is_over());
  EXPECT_EQ(shown(connection.fd()), std::pair(Way::kKernel, Reason::kLost));
}

TEST(Shown, IsAtTheNewestDescriptorUntilThatIsClosed) {
  Connection connection;
  const int copy = connection.dup();
  EXPECT_FALSE(shown(connection.fd()));
  EXPECT_TRUE(shown(copy));
  EXPECT_EQ(sovia_close(copy), 0);
  EXPECT_FALSE(shown(copy));
}

TEST(Shown, ListenersHaveNoData) {
  const int listener = sovia_socket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(sovia_listen(listener, 1), 0);
  EXPECT_EQ(shown(listener), std::pair(Way::kListens, Reason::kNone));
  EXPECT_EQ(sovia_close(listener), 0);
  EXPECT_FALSE(shown(listener));
}

TEST(Shown, AddressesAreTheKernels) {
  Connection connection;
  std::ostringstream table, json;
  EXPECT_EQ(launcher::show_sockets({{getpid()}, false}, table), 0);
  EXPECT_EQ(launcher::show_sockets({{getpid()}, true}, json), 0);
  EXPECT_NE(table.str().find("127.0.0.1:"), std::string::npos) << table.str();
  EXPECT_NE(table.str().find("kernel  too little has gone"), std::string::npos) << table.str();
  EXPECT_NE(json.str().find("\"way\": \"kernel\", \"reason\": \"short\""), std::string::npos) << json.str();
}

// Another process may write nonsense there.
TEST(Shown, WhatIsNoSocketIsLeftOut) {
  counters::publish();
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  counters::show_socket(ends[0], Way::kLane, Reason::kNone);
  counters::g_page.sockets[ends[1]].store(0xffff);
  std::ostringstream json;
  launcher::show_sockets({{getpid()}, true}, json);
  EXPECT_EQ(json.str().find("\"descriptor\": " + std::to_string(ends[0])), std::string::npos);
  EXPECT_EQ(json.str().find("\"descriptor\": " + std::to_string(ends[1])), std::string::npos);
  for (const int end : ends) {
    counters::g_page.sockets[end].store(0);
    ::close(end);
  }
}

}  // namespace
}  // namespace viaduct::sovia::ready
