// Both ends of a TCP connection over loopback, made by the library.
#ifndef VIADUCT_TESTS_UNIT_SOVIA_CONNECTION_H
#define VIADUCT_TESTS_UNIT_SOVIA_CONNECTION_H

#include <string>

#include "sovia/sovia.h"
#include "tests/unit/sovia/loopback.h"

namespace viaduct::sovia::test {

class Connection : public testing::Test {
 protected:
  void SetUp() override {
    const int listener = sovia_socket(AF_INET, SOCK_STREAM, 0);
    Address address = listen_on_loopback(listener);
    near_ = sovia_socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(sovia_connect(near_, address.any(), Address::kLength), 0);
    far_ = sovia_accept(listener, nullptr, nullptr);
    ASSERT_GE(far_, 0);
    sovia_close(listener);
  }
  void TearDown() override {
    if (near_ >= 0) sovia_close(near_);
    sovia_close(far_);
  }
  std::string receive(std::size_t bytes) {
    std::string text(bytes, '\0');
    const ssize_t got = sovia_recv(far_, text.data(), bytes, MSG_WAITALL);
    text.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return text;
  }

  int near_ = -1, far_ = -1;
};

}  // namespace viaduct::sovia::test

#endif
