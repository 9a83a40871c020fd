// A stack that takes no new connections, and goes on with those that it has.
#include <gtest/gtest.h>

#include "tests/sim/commands.h"
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

class DrainTest : public testing::Test {
 protected:
  // The result of the client's request for a connection to the server, which waits.
  std::optional<std::uint32_t> ask(std::uint32_t vi) {
    std::optional<std::uint32_t> result;
    pair.server->command(wait_for(9, 50), [](const CommandBody&) {});
    pair.client->command(request(vi, pair.b.port.address(), 9, 50),
                         [&](const CommandBody& body) { result = body.result; });
    pair.wait(60 * kMillisecond);
    return result;
  }

  Pair pair;
};

TEST_F(DrainTest, RequestsOfOthersAreRejected) {
  pair.b.stack->set_draining(true);
  EXPECT_EQ(ask(pair.client_vi), static_cast<std::uint32_t>(vip::kReject));
  EXPECT_EQ(pair.b.stack->usage().requests, 0u);
  pair.b.stack->set_draining(false);
  EXPECT_TRUE(pair.connect());
}

TEST_F(DrainTest, RequestsOfOwnProgramsFail) {
  pair.a.stack->set_draining(true);
  EXPECT_EQ(ask(pair.client_vi), static_cast<std::uint32_t>(vip::kErrorResource));
  CommandBody peer = request(pair.client_vi, pair.b.port.address(), 9, 50);
  peer.op = Op::kPeerRequest;
  EXPECT_EQ(pair.client->now(peer).result, static_cast<std::uint32_t>(vip::kErrorResource));
}

TEST_F(DrainTest, ConnectionsGoOn) {
  ASSERT_TRUE(pair.connect());
  pair.a.stack->set_draining(true), pair.b.stack->set_draining(true);
  std::vector<std::byte> data(64);
  const std::uint32_t in = pair.server->register_memory(data.data(), data.size());
  const std::uint32_t out = pair.client->register_memory(data.data(), data.size());
  pair.server->post_receive(pair.server_vi, data.data(), 64, in);
  pair.client->post_send(pair.client_vi, data.data(), 64, out);
  pair.wait(kMillisecond);
  EXPECT_TRUE(pair.server->done(pair.server_vi, true));
  EXPECT_EQ(pair.a.stack->usage().connected, 1u);
}

}  // namespace
}  // namespace viaduct::sim
