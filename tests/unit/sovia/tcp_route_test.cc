#include "sovia/lane/tcp_route.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include "sovia/process/libc.h"
#include "tests/unit/sovia/loopback.h"

namespace viaduct::sovia {
namespace {

// Both ends of a TCP connection over loopback.
struct Connection {
  Connection() {
    libc::prepare();
    const int listener = socket(AF_INET, SOCK_STREAM, 0);
    test::Address address = test::listen_on_loopback(listener);
    near = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(near, address.any(), address.kLength) == 0) far = accept(listener, nullptr, nullptr);
    close(listener);
  }
  ~Connection() {
    close(near);
    if (far >= 0) close(far);
  }

  void set(int name, int value) const {
    EXPECT_EQ(setsockopt(near, IPPROTO_TCP, name, &value, sizeof value), 0);
  }
  int get(int name) const {
    int value = -1;
    socklen_t length = sizeof value;
    EXPECT_EQ(getsockopt(near, IPPROTO_TCP, name, &value, &length), 0);
    return value;
  }

  int near = -1, far = -1;
};

struct Written {
  std::uint64_t bytes, unsent;
};

Written written(const Connection& connection) {
  Written now{~0ull, ~0ull};
  EXPECT_TRUE(bytes_written(connection.near, now.bytes, now.unsent));
  return now;
}

TEST(Link, CountsWhatACorkHoldsBack) {
  const Connection connection;
  ASSERT_GE(connection.far, 0);
  connection.set(TCP_CORK, 1);
  ASSERT_EQ(write(connection.near, "held back", 9), 9);
  EXPECT_EQ(written(connection).bytes, 9u);
  EXPECT_EQ(written(connection).unsent, 9u);
  connection.set(TCP_CORK, 0);
  EXPECT_EQ(written(connection).bytes, 9u);
  EXPECT_EQ(written(connection).unsent, 0u);
}

TEST(Link, PushesWhatACorkHoldsBack) {
  const Connection connection;
  ASSERT_GE(connection.far, 0);
  connection.set(TCP_CORK, 1);
  ASSERT_EQ(write(connection.near, "held back", 9), 9);
  ASSERT_EQ(written(connection).unsent, 9u);
  push(connection.near);
  EXPECT_EQ(written(connection).unsent, 0u);
  EXPECT_EQ(connection.get(TCP_CORK), 1);
  EXPECT_EQ(connection.get(TCP_NODELAY), 0);
}

TEST(Link, PushesWithoutUndoingNoDelay) {
  const Connection connection;
  ASSERT_GE(connection.far, 0);
  connection.set(TCP_NODELAY, 1);
  push(connection.near);
  EXPECT_EQ(connection.get(TCP_NODELAY), 1);
  EXPECT_EQ(connection.get(TCP_CORK), 0);
}

}  // namespace
}  // namespace viaduct::sovia
