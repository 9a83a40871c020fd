// Streams of messages over simulated links: their throughput, and the links' capacity.
#ifndef VIADUCT_TESTS_SIM_LINK_FLOWS_H
#define VIADUCT_TESTS_SIM_LINK_FLOWS_H

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <vector>

#include "tests/sim/pair.h"

namespace viaduct::sim {

inline constexpr std::uint32_t kFlowMessage = 32 * 1024;
inline constexpr unsigned kFlowDepth = 32;  // messages posted at once

// One sender's stream to the receiver. Every message has its number at both ends, and a pattern of
// the stream in between.
struct Flow {
  Flow(Host& from, Host& to, std::uint32_t discriminator)
      : number(discriminator), sender(from), receiver(to),
        sender_vi(sender.create_vi(vip::kReliableDelivery)),
        receiver_vi(receiver.create_vi(vip::kReliableDelivery)),
        out(std::size_t{size} * kFlowDepth), in(std::size_t{size} * kFlowDepth),
        out_handle(sender.register_memory(out.data(), out.size())),
        in_handle(receiver.register_memory(in.data(), in.size())) {
    for (std::size_t at = 0; at < out.size(); ++at) out[at] = pattern(number, at % size);
    for (unsigned i = 0; i < kFlowDepth; ++i) offer(i);
  }

  bool step() {
    bool worked = false;
    while (going && sent < offered && sent - completed < kFlowDepth) {
      std::byte* const data = &out[std::size_t{sent} % kFlowDepth * size];
      std::memcpy(data, &sent, sizeof sent);
      std::memcpy(data + size - sizeof sent, &sent, sizeof sent);
      sender.post_send(sender_vi, data, size, out_handle, sent, sent);
      ++sent;
      worked = true;
    }
    while (const auto done = sender.done(sender_vi, false)) {
      failed |= (done->status & vip::kErrorMask) != 0;
      ++completed;
      worked = true;
    }
    while (const auto done = receiver.done(receiver_vi, true)) {
      failed |= (done->status & vip::kErrorMask) != 0;
      const std::byte* const data = &in[done->tag * size];
      right &= done->immediate == received && done->length == size &&
               std::memcmp(data, &received, sizeof received) == 0 &&
               std::memcmp(data + size - sizeof received, &received, sizeof received) == 0;
      for (std::size_t at = 4; at + 4 < size; at += stride) {
        right &= data[at] == pattern(number, at);
      }
      ++received;
      bytes += size;
      offer(static_cast<unsigned>(done->tag));
      worked = true;
    }
    return worked;
  }

  void offer(unsigned place) {
    receiver.post_receive(receiver_vi, &in[std::size_t{place} * size], size, in_handle, place);
    ++offered;
  }

  static constexpr std::uint32_t size = kFlowMessage;
  std::uint32_t number;
  Program sender, receiver;
  std::uint32_t sender_vi, receiver_vi;
  std::vector<std::byte> out, in;
  std::uint32_t out_handle, in_handle;
  std::uint32_t sent = 0, completed = 0, received = 0, offered = 0;
  std::uint64_t bytes = 0;
  std::size_t stride = 701;  // of the bytes that are looked at
  bool going = true, failed = false, right = true;
};

// Hosts 2, 3, ... send to host 1, all on one switch.
struct ManyToOne {
  ManyToOne(unsigned senders, const SimOptions& options, std::uint64_t seed = 1,
            bool checksum = true)
      : network(options, seed) {
    StackLimits limits = small_limits();
    limits.checksum = checksum;
    const StackLimits senders_limits = limits;
    limits.sessions = senders + 4;
    limits.vis = 2 * senders + 16;
    limits.peers = limits.requests = limits.goodbyes = senders + 16;
    limits.held = 2048;
    receiver = std::make_unique<Host>(network, std::uint8_t{1}, limits, seed);
    all.push_back(receiver.get());
    for (unsigned i = 0; i < senders; ++i) {
      hosts.push_back(std::make_unique<Host>(network, static_cast<std::uint8_t>(i + 2),
                                             senders_limits, seed + i));
      all.push_back(hosts.back().get());
    }
    for (unsigned i = 0; i < senders; ++i) {
      flows.push_back(std::make_unique<Flow>(*hosts[i], *receiver, i + 1));
    }
  }

  bool connect() {
    for (const auto& flow : flows) {
      if (!sim::connect(network, all, flow->sender, flow->sender_vi, flow->receiver,
                        flow->receiver_vi, receiver->port.address(), flow->number)) {
        return false;
      }
    }
    return true;
  }

  // Lets the flows go for `ns`; returns the bytes that each has delivered.
  std::vector<std::uint64_t> go(std::uint64_t ns) {
    std::vector<std::uint64_t> before;
    for (const auto& flow : flows) before.push_back(flow->bytes);
    const auto logic = [this] {
      bool worked = false;
      for (const auto& flow : flows) worked |= flow->step();
      return worked;
    };
    const std::uint64_t end = network.now() + ns;
    run(network, all, logic, [&] { return network.now() >= end; }, end);
    network.advance_to(end);
    std::vector<std::uint64_t> delivered;
    for (std::size_t i = 0; i < flows.size(); ++i) {
      delivered.push_back(flows[i]->bytes - before[i]);
      EXPECT_FALSE(flows[i]->failed) << "flow " << i;
      EXPECT_TRUE(flows[i]->right) << "flow " << i;
    }
    return delivered;
  }

  SimNetwork network;
  std::unique_ptr<Host> receiver;
  std::vector<std::unique_ptr<Host>> hosts;
  std::vector<Host*> all;
  std::vector<std::unique_ptr<Flow>> flows;
};

inline std::uint64_t sum(const std::vector<std::uint64_t>& values) {
  std::uint64_t total = 0;
  for (const std::uint64_t value : values) total += value;
  return total;
}

// 1: all the same; 1/n: one has everything.
inline double jain(const std::vector<std::uint64_t>& values) {
  double total = 0, squares = 0;
  for (const std::uint64_t value : values) {
    total += static_cast<double>(value);
    squares += static_cast<double>(value) * static_cast<double>(value);
  }
  return squares == 0 ? 0 : total * total / (static_cast<double>(values.size()) * squares);
}

// Message bytes that a link can carry in `ns`, headers and gaps between frames taken off.
inline double capacity(std::uint64_t bits_per_second, std::uint64_t ns, std::uint32_t mtu = 1500) {
  const double data = static_cast<double>((mtu - wire::kHeaderBytes) & ~std::size_t{7});
  const double share = data / (data + wire::kHeaderBytes + wire::kEthernetBytes + 24);
  return static_cast<double>(bits_per_second) / 8 * share * static_cast<double>(ns) / 1e9;
}

}  // namespace viaduct::sim

#endif
