// What calls say of a connection that was reset as its lane was lost: as of any that was reset.
#include <errno.h>
#include <gtest/gtest.h>

#include "sovia/socket/table.h"
#include "tests/unit/sovia/connection.h"

namespace viaduct::sovia {
namespace {

class Reset : public test::Connection {
 protected:
  void SetUp() override {
    Connection::SetUp();
    table::find(near_)->inherit_loss(near_);
  }
  // Bytes, or errno below 0.
  long send() const { return result(sovia_send(near_, "x", 1, MSG_NOSIGNAL)); }
  long receive() const {
    char to;
    return result(sovia_recv(near_, &to, 1, 0));
  }

 private:
  static long result(ssize_t bytes) { return bytes < 0 ? -errno : bytes; }
};

TEST_F(Reset, IsToldToWhoSendsFirst) {
  EXPECT_EQ(send(), -ECONNRESET);
  EXPECT_EQ(send(), -EPIPE);
  EXPECT_EQ(receive(), 0);
}

TEST_F(Reset, IsToldToWhoReceivesFirst) {
  EXPECT_EQ(receive(), -ECONNRESET);
  EXPECT_EQ(receive(), 0);
  EXPECT_EQ(send(), -EPIPE);
}

TEST_F(Reset, EndsTheOtherEndToo) {
  char to;
  EXPECT_EQ(sovia_recv(far_, &to, 1, 0), -1);
  EXPECT_EQ(errno, ECONNRESET);
}

}  // namespace
}  // namespace viaduct::sovia
