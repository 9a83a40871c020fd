// Two hosts with a program and a VI each: what most simulations start from.
#ifndef VIADUCT_TESTS_SIM_PAIR_H
#define VIADUCT_TESTS_SIM_PAIR_H

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/sim/sim_host.h"

namespace viaduct::sim {

inline constexpr std::uint64_t kSecond = 1'000'000'000;
inline constexpr std::uint64_t kMillisecond = 1'000'000;

// Bytes that depend on the message, so that a misplaced one is seen.
inline std::byte pattern(std::uint64_t message, std::uint64_t at) {
  return static_cast<std::byte>((message * 131 + at * 7 + (at >> 8)) & 0xff);
}

struct Pair {
  explicit Pair(std::uint64_t seed = 1, std::uint16_t reliability = vip::kReliableDelivery,
                const SimOptions& options = {}, const StackLimits& limits = small_limits(),
                std::uint32_t mtu_a = 1500, std::uint32_t mtu_b = 1500)
      : network(options, seed),
        a(network, 1, limits, seed, mtu_a),
        b(network, 2, limits, seed, mtu_b),
        client(std::make_unique<Program>(a)),
        server(std::make_unique<Program>(b)),
        client_vi(client->create_vi(reliability)),
        server_vi(server->create_vi(reliability)),
        hosts{&a, &b} {}

  bool connect() {
    return sim::connect(network, hosts, *client, client_vi, *server, server_vi, b.port.address());
  }

  // Lets `ns` pass.
  void wait(std::uint64_t ns) {
    const std::uint64_t end = network.now() + ns;
    run(network, hosts, {}, [] { return false; }, end);
    network.advance_to(end);
  }

  SimNetwork network;
  Host a, b;
  std::unique_ptr<Program> client, server;
  std::uint32_t client_vi, server_vi;
  std::vector<Host*> hosts;
};

inline void expect_nothing_left(Host& host) {
  const Stack::Usage usage = host.stack->usage();
  EXPECT_EQ(usage.sessions, 0u);
  EXPECT_EQ(usage.vis, 0u);
  EXPECT_EQ(usage.cqs, 0u);
  EXPECT_EQ(usage.regions, 0u);
  EXPECT_EQ(usage.ptags, 0u);
  EXPECT_EQ(usage.peers, 0u);
  EXPECT_EQ(usage.goodbyes, 0u);
  EXPECT_EQ(usage.requests, 0u);
  EXPECT_EQ(usage.held, 0u);
  EXPECT_EQ(usage.connected, 0u);
  EXPECT_EQ(usage.claims, 0u);
  EXPECT_EQ(usage.members, 0u);
}

}  // namespace viaduct::sim

#endif
