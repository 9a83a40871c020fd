// The start of libvipl's tests: an agent, an open NIC, a registered arena of descriptors.
#ifndef VIADUCT_TESTS_UNIT_VIPL_FIXTURE_H
#define VIADUCT_TESTS_UNIT_VIPL_FIXTURE_H

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "vipl/vipl.h"
#include "tests/unit/vipl/test_agent.h"

namespace viaduct::test {

// A descriptor with two segments and room for data, 64-byte aligned.
struct alignas(64) Packet {
  VIP_DESCRIPTOR descriptor;
  unsigned char data[4032];
};

// One without.
struct alignas(64) Bare {
  VIP_DESCRIPTOR descriptor;
};

// An address of the NIC "nic0", with a discriminator that no other process uses.
class OwnAddress {
 public:
  explicit OwnAddress(std::uint32_t discriminator) {
    std::memset(bytes_, 0, sizeof bytes_);
    get()->HostAddressLen = sizeof kNicAddress;
    get()->DiscriminatorLen = 2 * sizeof discriminator;
    const std::uint32_t unique[] = {static_cast<std::uint32_t>(getpid()), discriminator};
    std::memcpy(bytes_ + 4, kNicAddress, sizeof kNicAddress);
    std::memcpy(bytes_ + 4 + sizeof kNicAddress, unique, sizeof unique);
  }
  VIP_NET_ADDRESS* get() const {
    return reinterpret_cast<VIP_NET_ADDRESS*>(const_cast<unsigned char*>(bytes_));
  }

 private:
  alignas(8) unsigned char bytes_[32];
};

class ViplTest : public testing::Test {
 protected:
  static constexpr std::size_t kPackets = 1200;

  void start(const TestAgent::Options& options = {}) {
    agent = std::make_unique<TestAgent>(options);
    ASSERT_EQ(VipOpenNic("nic0", &nic), VIP_SUCCESS);
    agent->session();
    arena.reset(new Packet[kPackets]());
    ASSERT_EQ(VipRegisterMem(nic, arena.get(), kPackets * sizeof(Packet), nullptr, &memory),
              VIP_SUCCESS);
  }

  void TearDown() override {
    if (nic != nullptr) VipCloseNic(nic);
  }

  static VIP_VI_ATTRIBUTES attributes() {
    VIP_VI_ATTRIBUTES a = {};
    a.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    a.MaxTransferSize = 32768;
    return a;
  }

  VIP_VI_HANDLE make_vi(VIP_CQ_HANDLE send_cq = nullptr, VIP_CQ_HANDLE receive_cq = nullptr) {
    VIP_VI_ATTRIBUTES a = attributes();
    VIP_VI_HANDLE vi = nullptr;
    EXPECT_EQ(VipCreateVi(nic, &a, send_cq, receive_cq, &vi), VIP_SUCCESS);
    return vi;
  }

  VIP_CQ_HANDLE make_cq() {
    VIP_CQ_HANDLE cq = nullptr;
    EXPECT_EQ(VipCreateCQ(nic, 64, &cq), VIP_SUCCESS);
    return cq;
  }

  // Another VI of the same attributes is the other end.
  static void connect(VIP_VI_HANDLE one, VIP_VI_HANDLE other) {
    static std::atomic<std::uint32_t> ends{0};
    const OwnAddress here(++ends), there(++ends);
    ASSERT_EQ(VipConnectPeerRequest(one, here.get(), there.get(), 5000), VIP_SUCCESS);
    ASSERT_EQ(VipConnectPeerRequest(other, there.get(), here.get(), 5000), VIP_SUCCESS);
    VIP_VI_ATTRIBUTES attributes;
    ASSERT_EQ(VipConnectPeerWait(one, &attributes), VIP_SUCCESS);
    ASSERT_EQ(VipConnectPeerWait(other, &attributes), VIP_SUCCESS);
  }

  // The two ends of a connection; the CQs are those of the first.
  std::pair<VIP_VI_HANDLE, VIP_VI_HANDLE> connected_pair(VIP_CQ_HANDLE send_cq = nullptr,
                                                         VIP_CQ_HANDLE receive_cq = nullptr) {
    const std::pair ends{make_vi(send_cq, receive_cq), make_vi()};
    connect(ends.first, ends.second);
    return ends;
  }

  // The other end is of no interest.
  VIP_VI_HANDLE connected_vi(VIP_CQ_HANDLE send_cq = nullptr, VIP_CQ_HANDLE receive_cq = nullptr) {
    return connected_pair(send_cq, receive_cq).first;
  }

  // The connection of `vi` ends, as its other end wants it.
  static void end_connection(VIP_VI_HANDLE vi, VIP_VI_HANDLE other) {
    ASSERT_EQ(VipDisconnect(other), VIP_SUCCESS);
    while (state_of(vi) == VIP_STATE_CONNECTED) usleep(100);
  }

  static VIP_VI_STATE state_of(VIP_VI_HANDLE vi) {
    VIP_VI_STATE state{};
    VIP_VI_ATTRIBUTES attributes;
    VIP_BOOLEAN empty;
    EXPECT_EQ(VipQueryVi(vi, &state, &attributes, &empty, &empty), VIP_SUCCESS);
    return state;
  }

  // The agent's request from a call that makes one.
  template <class Call>
  layout::CommandBody asked_by(Call&& call) {
    agent->hold();
    std::thread caller(std::forward<Call>(call));
    while (agent->session().commands_under_way() == 0) usleep(100);
    const layout::CommandBody body = agent->session().command();
    agent->go_on();
    caller.join();
    return body;
  }

  // A descriptor over the first `bytes` bytes of packet i.
  VIP_DESCRIPTOR* packet(std::size_t i, std::uint32_t bytes) {
    VIP_DESCRIPTOR& d = arena[i].descriptor;
    d.CS.SegCount = 1;
    d.CS.Control = VIP_CONTROL_OP_SENDRECV;
    d.CS.Length = bytes;
    d.DS[0].Local.Data.Address = arena[i].data;
    d.DS[0].Local.Handle = memory;
    d.DS[0].Local.Length = bytes;
    return &d;
  }

  VIP_DESCRIPTOR* filled(std::size_t i, std::uint32_t bytes, unsigned seed) {
    for (std::uint32_t b = 0; b < bytes; ++b) {
      arena[i].data[b] = static_cast<unsigned char>(seed * 31 + b * 7 + 1);
    }
    return packet(i, bytes);
  }

  void expect_filled(std::size_t i, std::uint32_t bytes, unsigned seed) {
    for (std::uint32_t b = 0; b < bytes; ++b) {
      ASSERT_EQ(arena[i].data[b], static_cast<unsigned char>(seed * 31 + b * 7 + 1)) << b;
    }
  }

  // Sends packet `from` from one end to packet `to` at the other and takes both back.
  void exchange(VIP_VI_HANDLE sender, VIP_VI_HANDLE receiver, VIP_DESCRIPTOR* from,
                VIP_DESCRIPTOR* to) {
    ASSERT_EQ(VipPostRecv(receiver, to, memory), VIP_SUCCESS);
    ASSERT_EQ(VipPostSend(sender, from, memory), VIP_SUCCESS);
    VIP_DESCRIPTOR* done = nullptr;
    ASSERT_EQ(VipRecvWait(receiver, 5000, &done), VIP_SUCCESS);
    ASSERT_EQ(done, to);
    ASSERT_EQ(VipSendWait(sender, 5000, &done), VIP_SUCCESS);
    ASSERT_EQ(done, from);
  }

  // Posts more receives on VIs with this CQ than it shows entries at once, and has them flushed.
  static constexpr std::size_t kOverflowOfOne = 1000;
  std::vector<VIP_VI_HANDLE> overflow(VIP_CQ_HANDLE cq) {
    constexpr std::size_t kVis = layout::kCqRingEntries / kOverflowOfOne + 1;
    constexpr std::size_t kAll = kVis * kOverflowOfOne;
    VIP_MEM_HANDLE handle = 0;
    bare.reset(new Bare[kAll]());
    EXPECT_EQ(VipRegisterMem(nic, bare.get(), kAll * sizeof(Bare), nullptr, &handle), VIP_SUCCESS);
    std::vector<VIP_VI_HANDLE> vis;
    for (std::size_t i = 0; i < kAll; ++i) {
      if (i % kOverflowOfOne == 0) vis.push_back(connected_vi(nullptr, cq));
      bare[i].descriptor.CS.Control = VIP_CONTROL_OP_SENDRECV;
      EXPECT_EQ(VipPostRecv(vis.back(), &bare[i].descriptor, handle), VIP_SUCCESS);
    }
    for (const VIP_VI_HANDLE vi : vis) EXPECT_EQ(VipDisconnect(vi), VIP_SUCCESS);
    return vis;
  }

  std::unique_ptr<TestAgent> agent;
  VIP_NIC_HANDLE nic = nullptr;
  VIP_MEM_HANDLE memory = 0;
  std::unique_ptr<Packet[]> arena;
  std::unique_ptr<Bare[]> bare;
};

}  // namespace viaduct::test

#endif
