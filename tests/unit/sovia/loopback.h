// TCP over loopback.
#ifndef VIADUCT_TESTS_UNIT_SOVIA_LOOPBACK_H
#define VIADUCT_TESTS_UNIT_SOVIA_LOOPBACK_H

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace viaduct::sovia::test {

struct Address {
  sockaddr_in in{};

  sockaddr* any() { return reinterpret_cast<sockaddr*>(&in); }
  static constexpr socklen_t kLength = sizeof(sockaddr_in);
};

// Has a socket listen at a port of its own, and tells which.
inline Address listen_on_loopback(int listener) {
  Address address;
  address.in.sin_family = AF_INET;
  address.in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = Address::kLength;
  EXPECT_EQ(bind(listener, address.any(), length), 0);
  EXPECT_EQ(listen(listener, 1), 0);
  EXPECT_EQ(getsockname(listener, address.any(), &length), 0);
  return address;
}

}  // namespace viaduct::sovia::test

#endif
