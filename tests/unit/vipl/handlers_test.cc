// The library's calls into the program: error handlers and notifications. And autodiscovery.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <utility>

#include "tests/unit/vipl/calls.h"
#include "tests/unit/vipl/fixture.h"

namespace viaduct::test {
namespace {

class ViplHandlers : public ViplTest {
 protected:
  // Sends one message to the other end.
  void send(VIP_VI_HANDLE vi, std::size_t i) {
    ASSERT_EQ(VipPostSend(vi, filled(i, 8, 1), memory), VIP_SUCCESS);
    VIP_DESCRIPTOR* done;
    ASSERT_EQ(VipSendWait(vi, 5000, &done), VIP_SUCCESS);
  }

  // A connection, of which the first end hears that it is lost.
  VIP_VI_HANDLE lose_a_connection() {
    const auto [vi, peer] = connected_pair();
    end_connection(vi, peer);
    return vi;
  }

  // The ends of a connection on which a message without a receive is lost, and nothing else.
  std::pair<VIP_VI_HANDLE, VIP_VI_HANDLE> unreliable_pair() {
    VIP_VI_ATTRIBUTES a = attributes();
    a.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
    std::pair<VIP_VI_HANDLE, VIP_VI_HANDLE> ends;
    EXPECT_EQ(VipCreateVi(nic, &a, nullptr, nullptr, &ends.first), VIP_SUCCESS);
    EXPECT_EQ(VipCreateVi(nic, &a, nullptr, nullptr, &ends.second), VIP_SUCCESS);
    connect(ends.first, ends.second);
    return ends;
  }

  Calls calls;
};

TEST_F(ViplHandlers, HearOfErrors) {
  start();
  ASSERT_EQ(VipErrorCallback(nic, &calls, Calls::on_error), VIP_SUCCESS);
  const VIP_VI_HANDLE vi = lose_a_connection();
  ASSERT_TRUE(calls.come(1));
  const auto [receiver, sender] = unreliable_pair();
  VIP_DESCRIPTOR* const receive = packet(5, 8);
  receive->DS[0].Local.Handle += 1000;
  ASSERT_EQ(VipPostRecv(receiver, receive, memory), VIP_SUCCESS);
  send(sender, 6);
  ASSERT_TRUE(calls.come(2));
  EXPECT_EQ(calls.at(0).nic, nic);
  EXPECT_EQ(calls.at(0).vi, vi);
  EXPECT_EQ(calls.at(0).error.ErrorCode, VIP_ERROR_CONN_LOST);
  EXPECT_EQ(calls.at(0).error.ResourceCode, VIP_RESOURCE_VI);
  EXPECT_EQ(calls.at(0).descriptor, nullptr);
  EXPECT_EQ(calls.at(1).vi, receiver);
  EXPECT_EQ(calls.at(1).error.ErrorCode, VIP_ERROR_COMP_PROT);
  EXPECT_EQ(calls.at(1).error.ResourceCode, VIP_RESOURCE_DESCRIPTOR);
  EXPECT_EQ(calls.at(1).descriptor, &arena[5].descriptor);
  EXPECT_FALSE(pthread_equal(calls.at(0).thread, pthread_self()));
}

TEST_F(ViplHandlers, HearOfMoreErrorsThanFitAtOnce) {
  start();
  const auto [vi, peer] = unreliable_pair();
  ASSERT_EQ(VipErrorCallback(nic, &calls, Calls::on_error), VIP_SUCCESS);
  VIP_DESCRIPTOR* done;
  for (std::size_t i = 1; i <= 3 * layout::kErrorEvents; ++i) {
    // The descriptor itself lies where nothing is registered.
    ASSERT_EQ(VipPostSend(vi, packet(1, 8), memory + 1000), VIP_SUCCESS);
    ASSERT_EQ(VipSendWait(vi, 5000, &done), VIP_DESCRIPTOR_ERROR);
    if (i % 100 == 0) {
      ASSERT_TRUE(calls.come(i));
    }
  }
  EXPECT_TRUE(calls.come(3 * layout::kErrorEvents));
}

// In a process whose standard error is read by CanBeTakenBack.
TEST_F(ViplHandlers, DISABLED_AreTakenBack) {
  start();
  ASSERT_EQ(VipErrorCallback(nic, &calls, Calls::on_error), VIP_SUCCESS);
  lose_a_connection();
  ASSERT_TRUE(calls.come(1));
  ASSERT_EQ(VipErrorCallback(nic, nullptr, nullptr), VIP_SUCCESS);
  lose_a_connection();  // an orderly end, without a report
  const auto [receiver, sender] = unreliable_pair();
  send(sender, 0);
  // The thread is through with these when it calls for the next one.
  Calls later;
  const auto taken = [&] { return agent->session().errors_taken() == 3; };
  for (int i = 0; i < 10000 && !taken(); ++i) usleep(1000);
  ASSERT_EQ(VipErrorCallback(nic, &later, Calls::on_error), VIP_SUCCESS);
  lose_a_connection();
  ASSERT_TRUE(later.come(1));
  EXPECT_EQ(calls.count(), 1u);
}

TEST_F(ViplHandlers, CanBeTakenBack) {
  FILE* const file = tmpfile();
  ASSERT_NE(file, nullptr);
  const pid_t child = fork();
  if (child == 0) {
    dup2(fileno(file), STDERR_FILENO);
    execl("/proc/self/exe", "vipl_test", "--gtest_filter=*DISABLED_AreTakenBack",
          "--gtest_also_run_disabled_tests", nullptr);
    _exit(127);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::string text(4096, '\0');
  const ssize_t bytes = pread(fileno(file), text.data(), text.size(), 0);
  text.resize(static_cast<std::size_t>(bytes > 0 ? bytes : 0));
  fclose(file);
  EXPECT_NE(text.find("no receive was posted"), std::string::npos) << text;
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1) << text;
}

TEST_F(ViplHandlers, HearOnceThatAQueueIsFull) {
  start();
  const VIP_VI_HANDLE vi = make_vi();
  ASSERT_EQ(VipErrorCallback(nic, &calls, Calls::on_error), VIP_SUCCESS);
  VIP_NIC_ATTRIBUTES attributes;
  ASSERT_EQ(VipQueryNic(nic, &attributes), VIP_SUCCESS);
  for (std::size_t i = 0; i < attributes.MaxDescriptorsPerQueue; ++i) {
    ASSERT_EQ(VipPostRecv(vi, packet(i, 8), memory), VIP_SUCCESS);
  }
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(VipPostRecv(vi, packet(kPackets - 1, 8), memory), VIP_ERROR_RESOURCE);
  }
  ASSERT_TRUE(calls.come(1));
  EXPECT_EQ(calls.at(0).error.ErrorCode, VIP_ERROR_VI_OVERRUN);
  EXPECT_EQ(calls.at(0).error.OpCode, 3u) << "a receive";
  EXPECT_EQ(calls.at(0).vi, vi);
  lose_a_connection();
  ASSERT_TRUE(calls.come(2));
  EXPECT_EQ(calls.at(1).error.ErrorCode, VIP_ERROR_CONN_LOST);
}

TEST_F(ViplHandlers, HearThatTheAgentIsGone) {
  start();
  ASSERT_EQ(VipErrorCallback(nic, &calls, Calls::on_error), VIP_SUCCESS);
  agent->die();
  ASSERT_TRUE(calls.come(1));
  EXPECT_EQ(calls.at(0).error.ErrorCode, VIP_ERROR_CATASTROPHIC);
  EXPECT_EQ(calls.at(0).error.ResourceCode, VIP_RESOURCE_NIC);
}

TEST_F(ViplHandlers, MayCloseTheNic) {
  start();
  const auto [vi, peer] = connected_pair();
  std::atomic<bool> closed{false};
  calls.first = [&] { closed = VipCloseNic(nic) == VIP_SUCCESS; };
  ASSERT_EQ(VipErrorCallback(nic, &calls, Calls::on_error), VIP_SUCCESS);
  VipDisconnect(peer);
  ASSERT_TRUE(calls.come(1));
  EXPECT_TRUE(closed);
  nic = nullptr;
}

TEST_F(ViplHandlers, MayStayAwayWhileTheNicIsClosed) {
  start();
  std::atomic<bool> inside{false}, leave{false};
  calls.first = [&] {
    inside = true;
    while (!leave) usleep(1000);
  };
  ASSERT_EQ(VipErrorCallback(nic, &calls, Calls::on_error), VIP_SUCCESS);
  lose_a_connection();
  lose_a_connection();
  while (!inside) usleep(1000);
  EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
  // Others are called all the same.
  ASSERT_EQ(VipOpenNic("nic0", &nic), VIP_SUCCESS);
  Calls others;
  ASSERT_EQ(VipErrorCallback(nic, &others, Calls::on_error), VIP_SUCCESS);
  agent->die();
  EXPECT_TRUE(others.come(1));
  leave = true;
  ASSERT_TRUE(calls.come(1));
  EXPECT_EQ(calls.count(), 1u) << "no handler begins after the NIC was closed";
}

TEST_F(ViplHandlers, AreCalledForWhatIsThereAlready) {
  start();
  const auto [vi, peer] = connected_pair();
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  send(peer, 1);
  ASSERT_EQ(VipRecvNotify(vi, &calls, Calls::on_vi), VIP_SUCCESS);
  ASSERT_TRUE(calls.come(1));
  EXPECT_EQ(calls.at(0).nic, nic);
  EXPECT_EQ(calls.at(0).vi, vi);
  EXPECT_EQ(calls.at(0).descriptor, &arena[0].descriptor);
  EXPECT_EQ(arena[0].descriptor.CS.Length, 8u);
  EXPECT_FALSE(pthread_equal(calls.at(0).thread, pthread_self()));
  VIP_DESCRIPTOR* done;
  EXPECT_EQ(VipRecvDone(vi, &done), VIP_DESCRIPTOR_ERROR);
  EXPECT_EQ(done, nullptr) << "it has been taken back already";
}

TEST_F(ViplHandlers, AreCalledOnceForEachTimeTheyWereGiven) {
  start();
  const auto [vi, peer] = connected_pair();
  for (std::size_t i = 0; i < 4; ++i) {
    ASSERT_EQ(VipPostRecv(vi, packet(i, 8), memory), VIP_SUCCESS);
  }
  for (int i = 0; i < 3; ++i) ASSERT_EQ(VipRecvNotify(vi, &calls, Calls::on_vi), VIP_SUCCESS);
  for (std::size_t i = 0; i < 4; ++i) send(peer, 10 + i);
  ASSERT_TRUE(calls.come(3));
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(calls.at(i).descriptor, &arena[i].descriptor);
  VIP_DESCRIPTOR* done;
  EXPECT_EQ(VipRecvWait(vi, 5000, &done), VIP_SUCCESS);
  EXPECT_EQ(done, &arena[3].descriptor);
}

TEST_F(ViplHandlers, AreCalledForSends) {
  start();
  const auto [vi, peer] = connected_pair();
  ASSERT_EQ(VipSendNotify(vi, &calls, Calls::on_vi), VIP_SUCCESS);
  ASSERT_EQ(VipPostRecv(peer, packet(0, 8), memory), VIP_SUCCESS);
  ASSERT_EQ(VipPostSend(vi, filled(1, 8, 1), memory), VIP_SUCCESS);
  ASSERT_TRUE(calls.come(1));
  EXPECT_EQ(calls.at(0).descriptor, &arena[1].descriptor);
}

TEST_F(ViplHandlers, AreCalledForFlushedDescriptors) {
  start();
  const VIP_VI_HANDLE vi = connected_vi();
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  ASSERT_EQ(VipRecvNotify(vi, &calls, Calls::on_vi), VIP_SUCCESS);
  ASSERT_EQ(VipDisconnect(vi), VIP_SUCCESS);
  ASSERT_TRUE(calls.come(1));
  EXPECT_NE(calls.at(0).descriptor->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR, 0u);
}

TEST_F(ViplHandlers, AreCalledForEntriesOfACq) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const auto [vi, peer] = connected_pair(nullptr, cq);
  ASSERT_EQ(VipCQNotify(cq, &calls, Calls::on_cq), VIP_SUCCESS);
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  ASSERT_EQ(VipPostRecv(vi, packet(2, 8), memory), VIP_SUCCESS);
  send(peer, 1);
  ASSERT_TRUE(calls.come(1));
  EXPECT_EQ(calls.at(0).vi, vi);
  EXPECT_EQ(calls.at(0).receive, VIP_TRUE);
  VIP_DESCRIPTOR* done;
  EXPECT_EQ(VipRecvDone(vi, &done), VIP_SUCCESS);
  EXPECT_EQ(done, &arena[0].descriptor);
  send(peer, 1);
  VIP_VI_HANDLE whose;
  VIP_BOOLEAN which;
  EXPECT_EQ(VipCQWait(cq, 5000, &whose, &which), VIP_SUCCESS) << "one call, one entry";
}

TEST_F(ViplHandlers, AreForgottenWithTheVi) {
  start();
  for (int round = 0; round < 50; ++round) {
    const VIP_VI_HANDLE vi = make_vi();
    ASSERT_EQ(VipRecvNotify(vi, &calls, Calls::on_vi), VIP_SUCCESS);
    ASSERT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
    const VIP_CQ_HANDLE cq = make_cq();
    ASSERT_EQ(VipCQNotify(cq, &calls, Calls::on_cq), VIP_SUCCESS);
    ASSERT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
  }
  const VIP_CQ_HANDLE cq = make_cq();
  const auto [vi, peer] = connected_pair(nullptr, cq);
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  send(peer, 1);
  VIP_VI_HANDLE whose;
  VIP_BOOLEAN which;
  EXPECT_EQ(VipCQWait(cq, 5000, &whose, &which), VIP_SUCCESS);
  EXPECT_EQ(calls.count(), 0u);
}

// Also those that the thread has not got to yet.
TEST_F(ViplHandlers, MakeRoomWhenTheirViIsDestroyed) {
  start();
  std::atomic<bool> leave{false};
  calls.first = [&] {
    while (!leave) usleep(1000);
  };
  ASSERT_EQ(VipErrorCallback(nic, &calls, Calls::on_error), VIP_SUCCESS);
  const VIP_VI_HANDLE vi = make_vi();
  lose_a_connection();
  for (int i = 0; i < 10000 && agent->session().errors_taken() == 0; ++i) usleep(1000);
  while (VipRecvNotify(vi, &calls, Calls::on_vi) == VIP_SUCCESS) {
  }
  ASSERT_EQ(VipDestroyVi(vi), VIP_SUCCESS);
  EXPECT_EQ(VipRecvNotify(make_vi(), &calls, Calls::on_vi), VIP_SUCCESS);
  leave = true;
  EXPECT_TRUE(calls.come(1));
}

TEST_F(ViplHandlers, AreBoundInNumber) {
  start();
  const VIP_VI_HANDLE vi = make_vi();
  int given = 0;
  while (given < 5000 && VipRecvNotify(vi, &calls, Calls::on_vi) == VIP_SUCCESS) ++given;
  EXPECT_EQ(given, 1024);
  EXPECT_EQ(VipRecvNotify(vi, &calls, Calls::on_vi), VIP_ERROR_RESOURCE);
}

TEST_F(ViplHandlers, MustBeGiven) {
  start();
  EXPECT_EQ(VipSendNotify(make_vi(), &calls, nullptr), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipRecvNotify(make_vi(), &calls, nullptr), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipCQNotify(make_cq(), &calls, nullptr), VIP_INVALID_PARAMETER);
}

TEST_F(ViplHandlers, ShareAQueueWithThreadsThatPollAndWait) {
  start();
  const auto [vi, peer] = connected_pair();
  constexpr std::size_t kMessages = 400;
  for (std::size_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(VipPostRecv(vi, packet(i, 8), memory), VIP_SUCCESS);
  }
  std::atomic<std::size_t> taken{0};
  std::atomic<bool> stop{false};
  for (std::size_t i = 0; i < kMessages / 4; ++i) {
    ASSERT_EQ(VipRecvNotify(vi, &calls, Calls::on_vi), VIP_SUCCESS);
  }
  std::thread poller([&, vi = vi] {
    VIP_DESCRIPTOR* done;
    while (!stop) taken += VipRecvDone(vi, &done) == VIP_SUCCESS;
  });
  std::thread waiter([&, vi = vi] {
    VIP_DESCRIPTOR* done;
    while (!stop) taken += VipRecvWait(vi, 10, &done) == VIP_SUCCESS;
  });
  for (std::size_t i = 0; i < kMessages; ++i) send(peer, 500);
  const auto end = std::chrono::steady_clock::now() + kSoon;
  while (taken + calls.count() < kMessages && std::chrono::steady_clock::now() < end) usleep(1000);
  stop = true;
  poller.join();
  waiter.join();
  EXPECT_EQ(taken + calls.count(), kMessages);
}

TEST_F(ViplHandlers, CostQueuesNothingThatAreNotWatched) {
  start();
  const VIP_VI_HANDLE watched = make_vi();
  ASSERT_EQ(VipRecvNotify(watched, &calls, Calls::on_vi), VIP_SUCCESS);
  const auto [vi, peer] = connected_pair();
  while (agent->session().watched_queues() == 0) usleep(1000);
  for (int i = 0; i < 10; ++i) {
    exchange(vi, peer, filled(0, 8, 1), packet(1, 8));
    EXPECT_EQ(agent->session().watched_queues(), 1u);
  }
}

TEST_F(ViplHandlers, OfAParentAreNotCalledInItsChild) {
  start();
  ASSERT_EQ(VipErrorCallback(nic, &calls, Calls::on_error), VIP_SUCCESS);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    VIP_NIC_HANDLE mine;
    const bool right = VipErrorCallback(nic, nullptr, nullptr) == VIP_INVALID_PARAMETER &&
                       VipOpenNic("nic0", &mine) == VIP_SUCCESS &&
                       VipErrorCallback(mine, &calls, Calls::on_error) == VIP_SUCCESS;
    _exit(right ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  lose_a_connection();
  EXPECT_TRUE(calls.come(1));
}

TEST_F(ViplHandlers, ComeAndGoWithThousandsOfNics) {
  start();
  for (int i = 0; i < 300; ++i) {
    VIP_NIC_HANDLE other;
    ASSERT_EQ(VipOpenNic("nic0", &other), VIP_SUCCESS);
    ASSERT_EQ(VipErrorCallback(other, &calls, Calls::on_error), VIP_SUCCESS);
    ASSERT_EQ(VipCloseNic(other), VIP_SUCCESS);
  }
}

TEST_F(ViplHandlers, DiscoveryFindsTheHostsOnTheLink) {
  TestAgent::Options options;
  options.others = {3};
  start(options);
  VIP_AUTODISCOVERY_LIST list;
  std::memset(&list, 0xa5, sizeof list);
  ASSERT_EQ(VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list), VIP_SUCCESS);
  EXPECT_EQ(list.NumberOfHops, 1u);
  ASSERT_EQ(list.NumAdAddrs, 3u);
  std::set<unsigned> numbers;
  for (unsigned i = 0; i < 3; ++i) {
    EXPECT_EQ(list.ADAddrArray[i]->HostAddressLen, 6);
    EXPECT_EQ(list.ADAddrArray[i]->DiscriminatorLen, 0);
    EXPECT_EQ(list.ADAddrArray[i]->HostAddress[4], 0);
    numbers.insert(list.ADAddrArray[i]->HostAddress[5]);
  }
  EXPECT_EQ(numbers, (std::set<unsigned>{0x10, 0x11, 0x12}));
  EXPECT_EQ(VipQuerySystemManagementInfo(nic, 2, &list), VIP_INVALID_PARAMETER);
  EXPECT_EQ(VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, nullptr),
            VIP_INVALID_PARAMETER);
}

TEST_F(ViplHandlers, AThreadThatIsCancelledInAWaitTakesItsRequestBack) {
#ifdef __SANITIZE_ADDRESS__
  GTEST_SKIP() << "the address sanitizer does not know that a cancelled thread's frames are gone";
#endif
  start();
  for (int round = 0; round < 300; ++round) {
    std::atomic<bool> waits{false};
    pthread_t thread;
    struct Shared {
      VIP_NIC_HANDLE nic;
      std::atomic<bool>* waits;
    } shared{nic, &waits};
    ASSERT_EQ(pthread_create(
                  &thread, nullptr,
                  [](void* argument) -> void* {
                    const auto* mine = static_cast<Shared*>(argument);
                    alignas(8) unsigned char here[40] = {}, there[40] = {};
                    VIP_VI_ATTRIBUTES attributes;
                    VIP_CONN_HANDLE connection;
                    *mine->waits = true;
                    VipConnectWait(mine->nic, reinterpret_cast<VIP_NET_ADDRESS*>(here),
                                   VIP_INFINITE, reinterpret_cast<VIP_NET_ADDRESS*>(there),
                                   &attributes, &connection);
                    return nullptr;
                  },
                  &shared),
              0);
    while (!waits) usleep(100);
    pthread_cancel(thread);
    void* result = nullptr;
    pthread_join(thread, &result);
    ASSERT_EQ(result, PTHREAD_CANCELED);
  }
  while (agent->session().commands_under_way() != 0) usleep(1000);
}

}  // namespace
}  // namespace viaduct::test
