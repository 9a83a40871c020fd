// What tests of libvipl start from: an agent, an open NIC, a registered arena of descriptors.
#ifndef VIADUCT_TESTS_UNIT_VIPL_FIXTURE_H
#define VIADUCT_TESTS_UNIT_VIPL_FIXTURE_H

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "vipl/vipl.h"
#include "tests/unit/vipl/fake_agent.h"

namespace viaduct::test {

// A descriptor with two segments and room for data, 64-byte aligned.
struct alignas(64) Packet {
  VIP_DESCRIPTOR descriptor;
  unsigned char data[4032];
};

class ViplTest : public testing::Test {
 protected:
  static constexpr std::size_t kPackets = 1200;

  void start(FakeAgent::Options options = {}) {
    agent = std::make_unique<FakeAgent>(std::move(options));
    ASSERT_EQ(VipOpenNic("nic0", &nic), VIP_SUCCESS);
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

  // The fake wire is a loop: a connected VI hears itself.
  static void connect(VIP_VI_HANDLE vi) {
    unsigned char room[64] = {};
    auto* const address = reinterpret_cast<VIP_NET_ADDRESS*>(room);
    address->HostAddressLen = 6;
    VIP_VI_ATTRIBUTES remote;
    ASSERT_EQ(VipConnectRequest(vi, address, address, 1000, &remote), VIP_SUCCESS);
  }

  VIP_VI_HANDLE connected_vi(VIP_CQ_HANDLE send_cq = nullptr, VIP_CQ_HANDLE receive_cq = nullptr) {
    const VIP_VI_HANDLE vi = make_vi(send_cq, receive_cq);
    connect(vi);
    return vi;
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

  // Sends packet `from` to packet `to` and takes both back.
  void exchange(VIP_VI_HANDLE vi, VIP_DESCRIPTOR* from, VIP_DESCRIPTOR* to) {
    ASSERT_EQ(VipPostRecv(vi, to, memory), VIP_SUCCESS);
    ASSERT_EQ(VipPostSend(vi, from, memory), VIP_SUCCESS);
    VIP_DESCRIPTOR* done = nullptr;
    ASSERT_EQ(VipRecvWait(vi, 5000, &done), VIP_SUCCESS);
    ASSERT_EQ(done, to);
    ASSERT_EQ(VipSendWait(vi, 5000, &done), VIP_SUCCESS);
    ASSERT_EQ(done, from);
  }

  std::unique_ptr<FakeAgent> agent;
  VIP_NIC_HANDLE nic = nullptr;
  VIP_MEM_HANDLE memory = 0;
  std::unique_ptr<Packet[]> arena;
};

}  // namespace viaduct::test

#endif
