// Programs in all places, and what they ask for to find each other.
#ifndef VIADUCT_TESTS_SIM_FORWARD_H
#define VIADUCT_TESTS_SIM_FORWARD_H

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "tests/sim/commands.h"
#include "tests/sim/granted_host.h"
#include "tests/sim/pair.h"

namespace viaduct::sim {

using layout::CommandBody;
using layout::Op;

// Seeds of a test; VIADUCT_SEEDS multiplies them.
inline std::uint64_t seeds(std::uint64_t count) {
  const char* text = std::getenv("VIADUCT_SEEDS");
  return text == nullptr ? count : std::max<std::uint64_t>(std::strtoull(text, nullptr, 10), count);
}

inline SimFaults rough() {
  SimFaults faults;
  faults.loss = 0.2;
  faults.duplication = 0.2;
  faults.reordering = 0.2;
  return faults;
}

inline CommandBody peer_request(std::uint32_t vi, const MacAddress& to, std::uint8_t local,
                                std::uint8_t remote, std::uint64_t timeout_ms = 30'000) {
  CommandBody body{};
  body.op = Op::kPeerRequest;
  body.vi = vi;
  body.timeout_ms = timeout_ms;
  std::memcpy(body.remote.host, to.data(), to.size());
  body.local.discriminator_length = body.remote.discriminator_length = 1;
  body.local.discriminator[0] = local;
  body.remote.discriminator[0] = remote;
  return body;
}

inline CommandBody of_vi(Op op, std::uint32_t vi) {
  CommandBody body{};
  body.op = op;
  body.vi = vi;
  return body;
}

// Where the two programs are: which host, and with a stack of their own?
struct Places {
  bool client_granted, server_granted, same_host, same_program;
};

inline std::vector<Places> all_places() {
  std::vector<Places> all;
  for (const bool client : {false, true}) {
    for (const bool server : {false, true}) {
      for (const bool same : {false, true}) all.push_back({client, server, same, false});
    }
    all.push_back({client, client, true, true});
  }
  return all;
}

inline std::string name_of(const Places& p) {
  return std::string(p.client_granted ? "granted" : "hosted") + " to " +
         (p.same_program ? "itself"
                         : std::string(p.server_granted ? "granted" : "hosted") +
                               (p.same_host ? " on the same host" : " on another host"));
}

// A world with a client and a server and a VI each.
struct Two : World {
  Two(std::uint64_t its_seed, const Places& places, const SimFaults& faults = {})
      : World(its_seed, faults),
        client(open(0, places.client_granted)),
        server(places.same_program ? client : open(places.same_host ? 0 : 1,
                                                   places.server_granted)),
        server_host(address(places.same_host ? 0 : 1)),
        client_vi(client.create_vi(vip::kReliableDelivery)),
        server_vi(server.create_vi(vip::kReliableDelivery)) {}

  Program& client;
  Program& server;
  MacAddress server_host;
  std::uint32_t client_vi, server_vi;
};

// A message each way.
inline void talk(World& world, Program& a, std::uint32_t a_vi, Program& b, std::uint32_t b_vi) {
  std::vector<std::byte> out(3000), in(3000);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = pattern(world.seed, i);
  for (int way = 0; way < 2; ++way) {
    Program& from = way == 0 ? a : b;
    Program& to = way == 0 ? b : a;
    const std::uint32_t from_vi = way == 0 ? a_vi : b_vi, to_vi = way == 0 ? b_vi : a_vi;
    const std::uint32_t there = to.register_memory(in.data(), in.size());
    to.post_receive(to_vi, in.data(), 3000, there);
    world.wait(kMillisecond);
    const std::uint32_t here = from.register_memory(out.data(), out.size());
    std::fill(in.begin(), in.end(), std::byte{0});
    from.post_send(from_vi, out.data(), 3000, here);
    std::optional<Completion> got, sent;
    run(world.network, world.hosts, {},
        [&] {
          if (!got) got = to.done(to_vi, true);
          if (!sent) sent = from.done(from_vi, false);
          return got && sent;
        },
        world.network.now() + 20 * kSecond);
    ASSERT_TRUE(got && sent) << "seed " << world.seed;
    EXPECT_EQ(got->status & vip::kErrorMask, 0u);
    EXPECT_EQ(in, out);
  }
}

}  // namespace viaduct::sim

#endif
