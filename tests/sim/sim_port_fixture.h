// Hosts of the simulated network, and frames that carry a number.
#ifndef VIADUCT_TESTS_SIM_SIM_PORT_FIXTURE_H
#define VIADUCT_TESTS_SIM_SIM_PORT_FIXTURE_H

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "tests/sim/sim_port.h"

namespace viaduct {

using Bytes = std::vector<std::byte>;

inline MacAddress mac(unsigned n) {
  return {0x02, 0, 0, 0, static_cast<std::uint8_t>(n >> 8), static_cast<std::uint8_t>(n)};
}

// A frame that carries a number, so that its order of arrival can be told.
inline Bytes numbered(const MacAddress& to, const MacAddress& from, std::uint32_t number,
                      std::size_t length = 64) {
  Bytes frame(length, std::byte{0x5a});
  std::memcpy(frame.data(), to.data(), 6);
  std::memcpy(frame.data() + 6, from.data(), 6);
  std::memcpy(frame.data() + 14, &number, sizeof number);
  return frame;
}

inline bool send(SimPort& port, const Bytes& bytes) {
  Frame frame;
  if (port.reserve({&frame, 1}) != 1) return false;
  std::memcpy(frame.data, bytes.data(), bytes.size());
  frame.length = static_cast<std::uint32_t>(bytes.size());
  port.submit({&frame, 1});
  port.flush();
  return true;
}

inline bool send(SimPort& from, const SimPort& to, std::uint32_t number, std::size_t length = 64) {
  return send(from, numbered(to.address(), from.address(), number, length));
}

// Takes everything that has arrived and gives the buffers back.
inline std::vector<std::uint32_t> take(SimPort& port) {
  std::vector<std::uint32_t> numbers;
  Frame frames[16];
  for (std::size_t n; (n = port.receive(frames)) != 0;) {
    for (std::size_t i = 0; i < n; ++i) {
      std::uint32_t number;
      std::memcpy(&number, frames[i].data + 14, sizeof number);
      numbers.push_back(number);
    }
    port.release({frames, n});
  }
  return numbers;
}

// Runs until nothing is under way, and takes what arrives at `port` as it comes.
inline std::vector<std::uint32_t> run(SimNetwork& net, SimPort& port) {
  std::vector<std::uint32_t> numbers;
  while (net.next_event() != SimNetwork::kNever) {
    net.advance_to(net.next_event());
    const auto more = take(port);
    numbers.insert(numbers.end(), more.begin(), more.end());
  }
  return numbers;
}

inline std::uint64_t sum_of_losses(const SimCounters& c) {
  return c.lost_fault + c.lost_filter + c.lost_cut + c.lost_no_host + c.lost_queue_full +
         c.lost_receive + c.lost_too_long + c.lost_stranger;
}

inline void expect_all_accounted_for(const SimNetwork& net) {
  const SimCounters& c = net.counters();
  EXPECT_EQ(c.sent + c.duplicated + c.injected, c.delivered + sum_of_losses(c));
}

struct Pair {
  explicit Pair(const SimOptions& options = {}, std::uint64_t seed = 1)
      : net(options, seed), a(net.add_host(mac(1), 1500)), b(net.add_host(mac(2), 1500)) {}
  SimNetwork net;
  SimPort& a;
  SimPort& b;
};

// Sends `count` frames from a to b, one each microsecond, and returns what arrived.
inline std::vector<std::uint32_t> stream(Pair& p, std::uint32_t count) {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t i = 0; i < count; ++i) {
    EXPECT_TRUE(send(p.a, p.b, i));
    p.net.advance_to(p.net.now() + 1000);
    const auto more = take(p.b);
    numbers.insert(numbers.end(), more.begin(), more.end());
  }
  const auto more = run(p.net, p.b);
  numbers.insert(numbers.end(), more.begin(), more.end());
  return numbers;
}

inline std::vector<std::uint32_t> first_numbers(std::uint32_t count) {
  std::vector<std::uint32_t> numbers(count);
  for (std::uint32_t i = 0; i < count; ++i) numbers[i] = i;
  return numbers;
}

}  // namespace viaduct

#endif
