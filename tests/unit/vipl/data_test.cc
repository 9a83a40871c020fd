// Posting descriptors and taking them back.
#include <fstream>
#include <string>
#include <thread>

#include "vipl/vipl_ext.h"
#include "tests/unit/vipl/fixture.h"

namespace viaduct::test {
namespace {

using ViplData = ViplTest;

TEST_F(ViplData, CarriesMessagesOfEverySize) {
  start();
  const auto [vi, peer] = connected_pair();
  for (const std::uint32_t bytes :
       {1u, 3u, 8u, 9u, 64u, 399u, 400u, 401u, 416u, 480u, 495u, 496u, 497u, 512u, 1500u, 4000u}) {
    SCOPED_TRACE(bytes);
    std::memset(arena[1].data, 0, sizeof arena[1].data);
    exchange(vi, peer, filled(0, bytes, bytes), packet(1, bytes));
    expect_filled(1, bytes, bytes);
    EXPECT_EQ(arena[1].descriptor.CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE);
    EXPECT_EQ(arena[1].descriptor.CS.Length, bytes);
    EXPECT_EQ(arena[0].descriptor.CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_SEND);
    EXPECT_EQ(arena[0].descriptor.CS.Length, bytes);
  }
}

TEST_F(ViplData, SendsSmallMessagesInlineAndNoOthers) {
  start();
  const auto [vi, peer] = connected_pair();
  struct {
    std::uint32_t bytes;
    bool inline_send, inline_receive;
  } const cases[] = {{400, true, true}, {401, false, true}, {496, false, true}, {497, false, false}};
  for (const auto& c : cases) {
    SCOPED_TRACE(c.bytes);
    VIP_DESCRIPTOR* done = nullptr;
    ASSERT_EQ(VipPostRecv(peer, packet(1, c.bytes), memory), VIP_SUCCESS);
    ASSERT_EQ(VipPostSend(vi, filled(0, c.bytes, 1), memory), VIP_SUCCESS);
    const auto flags = agent->session().posted(false).request.flags;
    EXPECT_EQ((flags & layout::kSlotInline) != 0, c.inline_send);
    ASSERT_EQ(VipSendWait(vi, 5000, &done), VIP_SUCCESS);
    const std::uint32_t travelled = agent->session().posted(true).completion.inline_length;
    EXPECT_EQ(travelled, c.inline_receive ? c.bytes : 0);
    ASSERT_EQ(VipRecvWait(peer, 5000, &done), VIP_SUCCESS);
    expect_filled(1, c.bytes, 1);
  }
}

TEST_F(ViplData, TakesZeroLengthWithAndWithoutASegment) {
  start();
  const auto [vi, peer] = connected_pair();
  exchange(vi, peer, packet(0, 0), packet(1, 0));
  VIP_DESCRIPTOR* const send = packet(0, 0);
  VIP_DESCRIPTOR* const receive = packet(1, 0);
  send->CS.SegCount = receive->CS.SegCount = 0;
  exchange(vi, peer, send, receive);
  EXPECT_EQ(receive->CS.Length, 0u);
}

TEST_F(ViplData, GathersAndScattersOverSegmentsInOrder) {
  start();
  const auto [vi, peer] = connected_pair();
  for (const std::uint32_t whole : {60u, 300u, 3000u}) {
    SCOPED_TRACE(whole);
    VIP_DESCRIPTOR* const send = filled(0, whole, 3);
    VIP_DESCRIPTOR* const receive = packet(1, whole);
    std::memset(arena[1].data, 0, whole);
    send->CS.SegCount = receive->CS.SegCount = 2;
    send->DS[0].Local.Length = 11;
    send->DS[1].Local = {{reinterpret_cast<std::uint64_t>(arena[0].data + 11)}, memory, whole - 11};
    receive->DS[0].Local.Length = 37;
    receive->DS[1].Local = {
        {reinterpret_cast<std::uint64_t>(arena[1].data + 37)}, memory, whole - 37};
    exchange(vi, peer, send, receive);
    expect_filled(1, whole, 3);
  }
}

TEST_F(ViplData, LeavesBytesBeyondTheMessageAlone) {
  start();
  const auto [vi, peer] = connected_pair();
  std::memset(arena[1].data, 0xee, 100);
  exchange(vi, peer, filled(0, 10, 1), packet(1, 100));
  EXPECT_EQ(arena[1].descriptor.CS.Length, 10u);
  EXPECT_EQ(arena[1].data[10], 0xee);
  EXPECT_EQ(arena[1].data[9], static_cast<unsigned char>(31 + 63 + 1));
}

TEST_F(ViplData, ChangesNothingOfADescriptorButWhatItOwns) {
  start();
  const auto [vi, peer] = connected_pair();
  VIP_DESCRIPTOR* const receive = packet(1, 64);
  receive->CS.Control = VIP_CONTROL_IMMEDIATE;
  receive->CS.Status = 0x90001;
  receive->CS.ImmediateData = 0x1234;
  const VIP_DESCRIPTOR before = *receive;
  exchange(vi, peer, filled(0, 20, 1), receive);
  EXPECT_EQ(receive->CS.SegCount, before.CS.SegCount);
  EXPECT_EQ(receive->CS.Control, before.CS.Control);
  EXPECT_EQ(receive->CS.ImmediateData, 0x1234u);
  EXPECT_EQ(receive->CS.Status, VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE);
  EXPECT_EQ(std::memcmp(&receive->DS, &before.DS, sizeof before.DS), 0);
}

TEST_F(ViplData, DeliversImmediateDataOnlyWhenItWasSent) {
  start();
  const auto [vi, peer] = connected_pair();
  VIP_DESCRIPTOR* const send = filled(0, 4, 1);
  send->CS.Control = VIP_CONTROL_IMMEDIATE;
  send->CS.ImmediateData = 0xdeadbeef;
  exchange(vi, peer, send, packet(1, 4));
  EXPECT_EQ(arena[1].descriptor.CS.ImmediateData, 0xdeadbeefu);
  EXPECT_TRUE(arena[1].descriptor.CS.Status & VIP_STATUS_IMMEDIATE);
  EXPECT_EQ(send->CS.ImmediateData, 0xdeadbeefu);
}

TEST_F(ViplData, TakesDescriptorsBackInPostingOrder) {
  start();
  const auto [vi, peer] = connected_pair();
  for (unsigned round = 0; round < 40; ++round) {
    for (unsigned i = 0; i < 100; ++i) {
      ASSERT_EQ(VipPostRecv(peer, packet(200 + i, 32), memory), VIP_SUCCESS);
    }
    for (unsigned i = 0; i < 100; ++i) {
      ASSERT_EQ(VipPostSend(vi, filled(i, 1 + i % 32, i), memory), VIP_SUCCESS);
    }
    for (unsigned i = 0; i < 100; ++i) {
      VIP_DESCRIPTOR* done = nullptr;
      ASSERT_EQ(VipRecvWait(peer, 5000, &done), VIP_SUCCESS);
      ASSERT_EQ(done, &arena[200 + i].descriptor);
      ASSERT_EQ(done->CS.Length, 1 + i % 32);
      expect_filled(200 + i, 1 + i % 32, i);
      ASSERT_EQ(VipSendWait(vi, 5000, &done), VIP_SUCCESS);
      ASSERT_EQ(done, &arena[i].descriptor);
    }
  }
  for (const VIP_VI_HANDLE end : {vi, peer}) {
    VipDisconnect(end);
    EXPECT_EQ(VipDestroyVi(end), VIP_SUCCESS);
  }
  EXPECT_EQ(agent->session().slots_in_use(), 0u);
}

TEST_F(ViplData, LinksPostedDescriptorsAndClearsTheirStatus) {
  start();
  const VIP_VI_HANDLE vi = make_vi();
  packet(0, 8)->CS.Status = 0x90001;
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  EXPECT_EQ(arena[0].descriptor.CS.Status, 0u);
  ASSERT_EQ(VipPostRecv(vi, packet(1, 8), memory), VIP_SUCCESS);
  EXPECT_EQ(arena[0].descriptor.CS.Next.Address, &arena[1].descriptor);
  EXPECT_EQ(arena[1].descriptor.CS.Next.Address, nullptr);
}

TEST_F(ViplData, AnswersAnEmptyQueueWithDescriptorErrorAndNull) {
  start();
  const VIP_VI_HANDLE vi = connected_vi();
  auto* done = reinterpret_cast<VIP_DESCRIPTOR*>(8);
  EXPECT_EQ(VipSendDone(vi, &done), VIP_DESCRIPTOR_ERROR);
  EXPECT_EQ(done, nullptr);
  done = reinterpret_cast<VIP_DESCRIPTOR*>(8);
  EXPECT_EQ(VipRecvWait(vi, VIP_INFINITE, &done), VIP_DESCRIPTOR_ERROR);
  EXPECT_EQ(done, nullptr);
}

TEST_F(ViplData, AnswersAPendingDescriptorWithNotDoneOrTimeoutAndNull) {
  start();
  const VIP_VI_HANDLE vi = connected_vi();
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  for (const VIP_ULONG timeout : {0ul, 1ul, 30ul}) {
    auto* done = reinterpret_cast<VIP_DESCRIPTOR*>(8);
    EXPECT_EQ(VipRecvDone(vi, &done), VIP_NOT_DONE);
    EXPECT_EQ(done, nullptr);
    done = reinterpret_cast<VIP_DESCRIPTOR*>(8);
    EXPECT_EQ(VipRecvWait(vi, timeout, &done), VIP_TIMEOUT);
    EXPECT_EQ(done, nullptr);
  }
}

TEST_F(ViplData, WakesASleeperWhenItsMessageComes) {
  start();
  const auto [vi, peer] = connected_pair();
  for (int round = 0; round < 20; ++round) {
    ASSERT_EQ(VipPostRecv(vi, packet(1, 8), memory), VIP_SUCCESS);
    std::thread sleeper([&, vi = vi] {
      VIP_DESCRIPTOR* done = nullptr;
      EXPECT_EQ(VipRecvWait(vi, VIP_INFINITE, &done), VIP_SUCCESS);
      EXPECT_EQ(done, &arena[1].descriptor);
    });
    usleep(round % 2 * 3000);
    EXPECT_EQ(VipPostSend(peer, filled(0, 8, 1), memory), VIP_SUCCESS);
    sleeper.join();
    VIP_DESCRIPTOR* done = nullptr;
    ASSERT_EQ(VipSendWait(peer, 5000, &done), VIP_SUCCESS);
  }
}

TEST_F(ViplData, RefusesMoreDescriptorsThanTheQueueHolds) {
  start();
  const VIP_VI_HANDLE vi = connected_vi();
  VIP_NIC_ATTRIBUTES limits;
  ASSERT_EQ(VipQueryNic(nic, &limits), VIP_SUCCESS);
  for (unsigned i = 0; i < limits.MaxDescriptorsPerQueue; ++i) {
    ASSERT_EQ(VipPostRecv(vi, packet(i, 8), memory), VIP_SUCCESS);
  }
  EXPECT_EQ(VipPostRecv(vi, packet(1100, 8), memory), VIP_ERROR_RESOURCE);
  VIP_DESCRIPTOR* done = nullptr;
  ASSERT_EQ(VipDisconnect(vi), VIP_SUCCESS);
  ASSERT_EQ(VipRecvDone(vi, &done), VIP_DESCRIPTOR_ERROR);
  EXPECT_EQ(done, &arena[0].descriptor);
  EXPECT_EQ(VipPostRecv(vi, packet(1100, 8), memory), VIP_SUCCESS);
}

TEST_F(ViplData, RefusesWhenTheSessionHasNoSlotLeft) {
  TestAgent::Options options;
  options.slots = 64;
  start(options);
  const VIP_VI_HANDLE vi = make_vi();
  for (unsigned i = 0; i < 64; ++i) {
    ASSERT_EQ(VipPostRecv(vi, packet(i, 8), memory), VIP_SUCCESS);
  }
  EXPECT_EQ(VipPostRecv(vi, packet(64, 8), memory), VIP_ERROR_RESOURCE);
  EXPECT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
  const VIP_VI_HANDLE other = make_vi();
  for (unsigned i = 0; i < 64; ++i) {
    ASSERT_EQ(VipPostRecv(other, packet(i, 8), memory), VIP_SUCCESS);
  }
}

TEST_F(ViplData, LeavesBadContentsToTheDriver) {
  start();
  struct Case {
    const char* what;
    std::uint32_t status;
    void (*spoil)(VIP_DESCRIPTOR&);
  };
  const Case cases[] = {
      {"segment count", VIP_STATUS_FORMAT_ERROR,
       [](VIP_DESCRIPTOR& d) { d.CS.SegCount = layout::kMaxSegments + 1; }},
      {"reserved operation", VIP_STATUS_FORMAT_ERROR,
       [](VIP_DESCRIPTOR& d) { d.CS.Control = VIP_CONTROL_OP_RESERVED; }},
      {"reserved bit 15", VIP_STATUS_FORMAT_ERROR,
       [](VIP_DESCRIPTOR& d) { d.CS.Control = 0x8000; }},
      {"handle", VIP_STATUS_PROTECTION_ERROR,
       [](VIP_DESCRIPTOR& d) { d.DS[0].Local.Handle += 1000; }},
      {"address that nothing lies at", VIP_STATUS_PROTECTION_ERROR,
       [](VIP_DESCRIPTOR& d) { d.DS[0].Local.Data.AddressBits = 16; }},
      {"range", VIP_STATUS_PROTECTION_ERROR,
       [](VIP_DESCRIPTOR& d) { d.DS[0].Local.Data.AddressBits -= sizeof(Packet); }},
      {"longer than a message may be", VIP_STATUS_LENGTH_ERROR,
       [](VIP_DESCRIPTOR& d) { d.DS[0].Local.Length = d.CS.Length = 0x7fffffff; }},
      {"length above the segments'", VIP_STATUS_LENGTH_ERROR,
       [](VIP_DESCRIPTOR& d) { d.CS.Length = 9; }},
      {"length below the segments'", VIP_STATUS_LENGTH_ERROR,
       [](VIP_DESCRIPTOR& d) { d.CS.Length = 7; }},
  };
  for (const Case& c : cases) {
    SCOPED_TRACE(c.what);
    const auto [vi, peer] = connected_pair();
    ASSERT_EQ(VipPostRecv(peer, packet(1, 8), memory), VIP_SUCCESS);
    VIP_DESCRIPTOR* const send = filled(0, 8, 1);
    c.spoil(*send);
    ASSERT_EQ(VipPostSend(vi, send, memory), VIP_SUCCESS);
    VIP_DESCRIPTOR* done = nullptr;
    EXPECT_EQ(VipSendWait(vi, 5000, &done), VIP_DESCRIPTOR_ERROR);
    ASSERT_EQ(done, send);
    EXPECT_EQ(done->CS.Status & VIP_STATUS_ERROR_MASK, c.status);
    EXPECT_EQ(VipRecvWait(peer, 5000, &done), VIP_DESCRIPTOR_ERROR);
    for (const VIP_VI_HANDLE end : {vi, peer}) {
      ASSERT_EQ(VipDisconnect(end), VIP_SUCCESS);
      ASSERT_EQ(VipDestroyVi(end), VIP_SUCCESS);
    }
  }
}

TEST_F(ViplData, TakesDescriptorsAtAnyMultipleOfEightOnly) {
  start();
  const VIP_VI_HANDLE vi = make_vi();
  packet(0, 8);
  auto* const moved = reinterpret_cast<VIP_DESCRIPTOR*>(arena[1].data + 8);
  *moved = arena[0].descriptor;
  EXPECT_EQ(VipPostRecv(vi, moved, memory), VIP_SUCCESS);
  auto* const crooked = reinterpret_cast<VIP_DESCRIPTOR*>(arena[2].data + 4);
  EXPECT_EQ(VipPostRecv(vi, crooked, memory), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipPostSend(vi, nullptr, memory), VIP_INVALID_PARAMETER);
}

TEST_F(ViplData, FlushesReceivesPostedInTheErrorState) {
  start();
  const auto [vi, peer] = connected_pair();
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  end_connection(vi, peer);
  VIP_VI_STATE state;
  VIP_VI_ATTRIBUTES a;
  VIP_BOOLEAN send_empty, receive_empty;
  ASSERT_EQ(VipQueryVi(vi, &state, &a, &send_empty, &receive_empty), VIP_SUCCESS);
  EXPECT_EQ(state, VIP_STATE_ERROR);
  EXPECT_EQ(send_empty, VIP_TRUE);
  EXPECT_EQ(receive_empty, VIP_FALSE);
  ASSERT_EQ(VipPostRecv(vi, packet(1, 8), memory), VIP_SUCCESS);
  for (int i = 0; i < 2; ++i) {
    VIP_DESCRIPTOR* done = nullptr;
    EXPECT_EQ(VipRecvWait(vi, 5000, &done), VIP_DESCRIPTOR_ERROR);
    ASSERT_EQ(done, &arena[i].descriptor);
    EXPECT_EQ(done->CS.Status & VIP_STATUS_ERROR_MASK, VIP_STATUS_DESC_FLUSHED_ERROR);
    EXPECT_EQ(done->CS.Length, 0u);
  }
}

TEST_F(ViplData, FreesTheSlotsOfADestroyedVi) {
  start();
  for (int round = 0; round < 5; ++round) {
    const auto [vi, peer] = connected_pair();
    exchange(vi, peer, filled(0, 8, 1), packet(1, 8));
    ASSERT_EQ(VipDisconnect(peer), VIP_SUCCESS);
    ASSERT_EQ(VipDestroyVi(peer), VIP_SUCCESS);
    for (unsigned i = 0; i < 50; ++i) {
      ASSERT_EQ(VipPostRecv(vi, packet(i, 8), memory), VIP_SUCCESS);
    }
    ASSERT_EQ(VipDisconnect(vi), VIP_SUCCESS);
    VIP_DESCRIPTOR* done = nullptr;
    ASSERT_EQ(VipRecvDone(vi, &done), VIP_DESCRIPTOR_ERROR);
    ASSERT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
    EXPECT_EQ(agent->session().slots_in_use(), 0u);
    EXPECT_EQ(VipRecvDone(vi, &done), VIP_INVALID_PARAMETER);
    EXPECT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_INVALID_PARAMETER);
    EXPECT_EQ(VipDestroyVi(vi), VIP_INVALID_PARAMETER);
  }
}

TEST_F(ViplData, StartsANewViWithEmptyQueues) {
  start();
  const VIP_VI_HANDLE old = make_vi();
  ASSERT_EQ(VipPostRecv(old, packet(0, 8), memory), VIP_SUCCESS);
  VipSetUserData(old, arena.get());
  EXPECT_EQ(VipGetUserData(old), arena.get());
  ASSERT_EQ(VipDestroyVi(old), VIP_SUCCESS);
  const auto [vi, peer] = connected_pair();
  EXPECT_NE(vi, old);
  EXPECT_EQ(VipGetUserData(vi), nullptr);
  VIP_DESCRIPTOR* done;
  EXPECT_EQ(VipRecvDone(vi, &done), VIP_DESCRIPTOR_ERROR);
  EXPECT_EQ(done, nullptr);
  exchange(vi, peer, filled(2, 8, 1), packet(3, 8));
}

TEST_F(ViplData, LetsAWaiterGoWhenItsViIsDestroyed) {
  start();
  const VIP_VI_HANDLE vi = make_vi();
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  std::thread waiter([&] {
    VIP_DESCRIPTOR* done = nullptr;
    EXPECT_EQ(VipRecvWait(vi, VIP_INFINITE, &done), VIP_INVALID_PARAMETER);
    EXPECT_EQ(done, nullptr);
  });
  usleep(20000);
  EXPECT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
  waiter.join();
}

// The number of times the program has rung the agent's wakes, which are never reset.
std::uint64_t rings() {
  int fds[100];
  const int count = VipxDescriptors(fds, 100);
  std::uint64_t sum = 0;
  for (int i = 0; i < count; ++i) {
    std::ifstream info("/proc/self/fdinfo/" + std::to_string(fds[i]));
    for (std::string word; info >> word;) {
      if (word == "eventfd-count:" && info >> word) sum += std::stoull(word, nullptr, 16);
    }
  }
  return sum;
}

TEST_F(ViplData, RingsTheAgentWakeOfASleepingDriverOnly) {
  start();
  const auto [vi, peer] = connected_pair();
  do {
    agent->go_on();
    usleep(1000);
    agent->hold();
  } while (!agent->session().driver_sleeps());
  const std::uint64_t before = rings();
  ASSERT_EQ(VipPostRecv(peer, packet(1, 8), memory), VIP_SUCCESS);
  EXPECT_EQ(rings(), before) << "posting a receive needs no agent wake";
  ASSERT_EQ(VipPostSend(vi, filled(0, 8, 1), memory), VIP_SUCCESS);
  EXPECT_EQ(rings(), before + 1);
  ASSERT_EQ(VipPostSend(vi, filled(2, 8, 1), memory), VIP_SUCCESS);
  EXPECT_EQ(rings(), before + 1) << "it is awake by now";
  agent->go_on();
  VIP_DESCRIPTOR* done = nullptr;
  ASSERT_EQ(VipRecvWait(peer, 5000, &done), VIP_SUCCESS);
}

// The flag that the driver looks at if the program dies.
TEST_F(ViplData, TellsTheDriverThatMoreFollows) {
  start();
  const VIP_VI_HANDLE vi = make_vi();
  EXPECT_FALSE(agent->session().more_follows());
  EXPECT_EQ(VipxSetMore(vi, VIP_TRUE), VIP_SUCCESS);
  EXPECT_TRUE(agent->session().more_follows());
  EXPECT_EQ(VipxSetMore(vi, VIP_FALSE), VIP_SUCCESS);
  EXPECT_FALSE(agent->session().more_follows());
  EXPECT_EQ(VipxSetMore(nullptr, VIP_TRUE), VIP_INVALID_PARAMETER);
  ASSERT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
  EXPECT_EQ(VipxSetMore(vi, VIP_TRUE), VIP_INVALID_PARAMETER);
}

TEST_F(ViplData, TellsTheDriverThatNothingWaitsForCompletions) {
  start();
  const VIP_VI_HANDLE vi = make_vi();
  EXPECT_FALSE(agent->session().is_patient());
  EXPECT_EQ(VipxSetPatient(vi, VIP_TRUE), VIP_SUCCESS);
  EXPECT_TRUE(agent->session().is_patient());
  EXPECT_EQ(VipxSetPatient(vi, VIP_FALSE), VIP_SUCCESS);
  EXPECT_FALSE(agent->session().is_patient());
  EXPECT_EQ(VipxSetPatient(nullptr, VIP_TRUE), VIP_INVALID_PARAMETER);
  ASSERT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
  EXPECT_EQ(VipxSetPatient(vi, VIP_TRUE), VIP_INVALID_PARAMETER);
}

TEST_F(ViplData, OfHostedProgramsIsNotHeld) {
  start();
  EXPECT_EQ(VipxHoldPosts(nic, VIP_TRUE), VIP_SUCCESS);
  EXPECT_EQ(VipxHoldPosts(nic, VIP_FALSE), VIP_SUCCESS);
  EXPECT_EQ(VipxHoldPosts(nullptr, VIP_TRUE), VIP_INVALID_PARAMETER);
}

// There is no cheap way to tell an agent that is about to write.
TEST_F(ViplData, IsNotRedirectedForHostedPrograms) {
  start();
  const VIP_VI_HANDLE vi = connected_vi();
  ASSERT_EQ(VipPostRecv(vi, packet(1, 8), memory), VIP_SUCCESS);
  EXPECT_EQ(VipxRedirect(vi, arena[2].data, memory, 8), VIP_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(VipxUnredirect(vi), VIP_ERROR_NOT_SUPPORTED);
  EXPECT_EQ(VipxRedirect(vi, nullptr, memory, 8), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipxRedirect(vi, arena[2].data, memory, 0), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipxRedirect(nic, arena[2].data, memory, 8), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipxUnredirect(nullptr), VIP_INVALID_PARAMETER);
}

}  // namespace
}  // namespace viaduct::test
