// The thread that calls handlers: order, what handlers may do, what becomes of it.
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cstdio>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/vipl/calls.h"
#include "tests/unit/vipl/fixture.h"

namespace viaduct::test {
namespace {

class ViplCallbackThread : public ViplTest {
 protected:
  void send(VIP_VI_HANDLE vi, std::size_t i) {
    ASSERT_EQ(VipPostSend(vi, filled(i, 8, 1), memory), VIP_SUCCESS);
    VIP_DESCRIPTOR* done;
    ASSERT_EQ(VipSendWait(vi, 5000, &done), VIP_SUCCESS);
  }
  Calls calls;
};

// Threads of this process that call handlers.
unsigned callers() {
  unsigned count = 0;
  DIR* const tasks = opendir("/proc/self/task");
  while (const dirent* task = readdir(tasks)) {
    const std::string path = std::string("/proc/self/task/") + task->d_name + "/comm";
    char name[32] = {};
    if (FILE* const file = fopen(path.c_str(), "r")) {
      if (fgets(name, sizeof name, file) == nullptr) name[0] = '\0';
      fclose(file);
    }
    count += std::string(name) == "vipl-call\n";
  }
  closedir(tasks);
  return count;
}

bool callers_become(unsigned count) {
  const auto end = std::chrono::steady_clock::now() + kSoon;
  while (callers() != count && std::chrono::steady_clock::now() < end) usleep(1000);
  return callers() == count;
}

// Messages come while the thread looks through the notifications: none is passed over.
TEST_F(ViplCallbackThread, ServesNotificationsInTheirOrder) {
  start();
  const auto [vi, peer] = connected_pair();
  constexpr std::size_t kMessages = 500;
  static std::vector<std::size_t> order;
  static std::atomic<std::size_t> called;
  order.assign(kMessages, 0);
  called = 0;
  for (std::size_t i = 0; i < kMessages; ++i) {
    ASSERT_EQ(VipPostRecv(vi, packet(i, 8), memory), VIP_SUCCESS);
    ASSERT_EQ(VipRecvNotify(vi, reinterpret_cast<void*>(i),
                            [](VIP_PVOID context, VIP_NIC_HANDLE, VIP_VI_HANDLE, VIP_DESCRIPTOR*) {
                              order[called] = reinterpret_cast<std::size_t>(context);
                              ++called;
                            }),
              VIP_SUCCESS);
  }
  // At a pace at which the thread looks again and again.
  for (std::size_t i = 0; i < kMessages; ++i) send(peer, 600 + i);
  const auto end = std::chrono::steady_clock::now() + kSoon;
  while (called < kMessages && std::chrono::steady_clock::now() < end) usleep(1000);
  ASSERT_EQ(called, kMessages);
  for (std::size_t i = 0; i < kMessages; ++i) ASSERT_EQ(order[i], i);
}

TEST_F(ViplCallbackThread, HandsOverWhatIsFlushedWhenTheAgentDies) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const VIP_VI_HANDLE vi = connected_vi(nullptr, nullptr);
  const VIP_VI_HANDLE on_cq = connected_vi(nullptr, cq);
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  ASSERT_EQ(VipPostRecv(on_cq, packet(1, 8), memory), VIP_SUCCESS);
  ASSERT_EQ(VipRecvNotify(vi, &calls, Calls::on_vi), VIP_SUCCESS);
  ASSERT_EQ(VipCQNotify(cq, &calls, Calls::on_cq), VIP_SUCCESS);
  agent->die();
  ASSERT_TRUE(calls.come(2));
  for (const Calls::Call& call : {calls.at(0), calls.at(1)}) {
    if (call.kind == 1) {
      EXPECT_EQ(call.descriptor, &arena[0].descriptor);
      EXPECT_NE(call.descriptor->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR, 0u);
    } else {
      EXPECT_EQ(call.vi, on_cq);
      EXPECT_EQ(call.receive, VIP_TRUE);
    }
  }
}

TEST_F(ViplCallbackThread, CallsNobodyForWhatClosingFlushes) {
  start();
  for (int round = 0; round < 500; ++round) {
    VIP_NIC_HANDLE other;
    VIP_VI_HANDLE vi;
    VIP_VI_ATTRIBUTES a = attributes();
    VIP_MEM_HANDLE handle;
    ASSERT_EQ(VipOpenNic("nic0", &other), VIP_SUCCESS);
    ASSERT_EQ(VipRegisterMem(other, arena.get(), 10000, nullptr, &handle), VIP_SUCCESS);
    ASSERT_EQ(VipCreateVi(other, &a, nullptr, nullptr, &vi), VIP_SUCCESS);
    ASSERT_EQ(VipPostRecv(vi, packet(0, 8), handle), VIP_SUCCESS);
    ASSERT_EQ(VipRecvNotify(vi, &calls, Calls::on_vi), VIP_SUCCESS);
    ASSERT_EQ(VipCloseNic(other), VIP_SUCCESS);
    // Nor is anything written to what is the program's again.
    arena[0].descriptor.CS.Status = 0x5a5a5a5a;
    std::this_thread::yield();
    ASSERT_EQ(arena[0].descriptor.CS.Status, 0x5a5a5a5au);
  }
  EXPECT_EQ(calls.count(), 0u);
}

TEST_F(ViplCallbackThread, LetsHandlersUseAndDestroyWhatTheyAreToldOf) {
  start();
  const auto [vi, peer] = connected_pair();
  std::atomic<unsigned> right{0};
  std::atomic<bool> begun{false};
  calls.first = [&, vi = vi] {
    if (begun.exchange(true)) return;  // the other end hears that the connection has ended
    VIP_VI_STATE state;
    VIP_VI_ATTRIBUTES a;
    VIP_BOOLEAN empty;
    VIP_DESCRIPTOR* done;
    VIP_AUTODISCOVERY_LIST list;
    right += VipQueryVi(vi, &state, &a, &empty, &empty) == VIP_SUCCESS;
    right += VipPostRecv(vi, packet(1, 8), memory) == VIP_SUCCESS;
    right += VipRecvWait(vi, 1, &done) == VIP_TIMEOUT;
    right += VipRecvNotify(vi, &calls, Calls::on_vi) == VIP_SUCCESS;
    right += VipErrorCallback(nic, &calls, Calls::on_error) == VIP_SUCCESS;
    right += VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list) == VIP_SUCCESS;
    right += VipDisconnect(vi) == VIP_SUCCESS;
    right += VipDestroyVi(vi) == VIP_SUCCESS;
  };
  ASSERT_EQ(VipPostRecv(vi, packet(0, 8), memory), VIP_SUCCESS);
  ASSERT_EQ(VipRecvNotify(vi, &calls, Calls::on_vi), VIP_SUCCESS);
  send(peer, 2);
  ASSERT_TRUE(calls.come(1));
  EXPECT_EQ(right, 8u);
  VIP_DESCRIPTOR* done;
  EXPECT_EQ(VipRecvDone(vi, &done), VIP_INVALID_PARAMETER);
}

TEST_F(ViplCallbackThread, ThreadsEndWithTheirNics) {
  start();
  make_vi();
  ASSERT_TRUE(callers_become(1)) << callers();
  std::atomic<bool> inside{false}, leave{false};
  VIP_NIC_HANDLE other;
  ASSERT_EQ(VipOpenNic("nic0", &other), VIP_SUCCESS);
  ASSERT_EQ(VipErrorCallback(other, &calls, Calls::on_error), VIP_SUCCESS);
  ASSERT_TRUE(callers_become(2)) << callers();
  ASSERT_EQ(VipCloseNic(other), VIP_SUCCESS);
  ASSERT_TRUE(callers_become(1)) << callers();
  // Also those that were in a handler when the NIC was closed.
  calls.first = [&] {
    inside = true;
    while (!leave) usleep(1000);
  };
  ASSERT_EQ(VipErrorCallback(nic, &calls, Calls::on_error), VIP_SUCCESS);
  const auto [vi, peer] = connected_pair();
  end_connection(vi, peer);
  while (!inside) usleep(1000);
  ASSERT_EQ(VipCloseNic(nic), VIP_SUCCESS);
  nic = nullptr;
  EXPECT_EQ(callers(), 1u);
  leave = true;
  ASSERT_TRUE(calls.come(1));
  EXPECT_TRUE(callers_become(0)) << callers();
}

// The library was loaded with descriptor 2 as one end of a pipe; the other end is descriptor 3.
TEST_F(ViplCallbackThread, DISABLED_HasAPipeAsStandardError) {
  start();
  const auto [receiver, sender] = connected_pair();
  ASSERT_EQ(fcntl(STDERR_FILENO, F_SETFL, O_NONBLOCK), 0);
  const char filling[4096] = {};
  while (write(STDERR_FILENO, filling, sizeof filling) > 0) {
  }
  ASSERT_EQ(fcntl(STDERR_FILENO, F_SETFL, 0), 0);
  // No receive is posted: errors, of which the thread takes the first and tells of it.
  ASSERT_EQ(VipPostSend(sender, packet(0, 8), memory), VIP_SUCCESS);
  for (int i = 0; i < 10000 && agent->session().errors_taken() == 0; ++i) usleep(1000);
  EXPECT_EQ(agent->session().errors_taken(), 1u);
  EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
  nic = nullptr;
  std::vector<VIP_NIC_HANDLE> open;
  VIP_NIC_HANDLE handle;
  while (VipOpenNic("nic0", &handle) == VIP_SUCCESS) open.push_back(handle);
  EXPECT_EQ(open.size(), 128u) << "the closed NIC's place is free again";
  for (const VIP_NIC_HANDLE each : open) VipCloseNic(each);
  // Lets the thread get rid of its line.
  constexpr int kReader = 3;
  ASSERT_EQ(fcntl(kReader, F_SETFL, O_NONBLOCK), 0);
  std::string drained(1 << 17, '\0');
  std::size_t bytes = 0;
  const auto end = std::chrono::steady_clock::now() + kSoon;
  while ((callers() != 0 || bytes == 0) && std::chrono::steady_clock::now() < end) {
    const ssize_t got = read(kReader, drained.data() + bytes, drained.size() - bytes);
    if (got < 0) usleep(1000);
    if (got > 0) bytes += static_cast<std::size_t>(got);
  }
  EXPECT_EQ(callers(), 0u);
  const ssize_t rest = read(kReader, drained.data() + bytes, drained.size() - bytes);
  drained.resize(bytes + static_cast<std::size_t>(rest > 0 ? rest : 0));
  EXPECT_NE(drained.find("libvipl: "), std::string::npos);
}

TEST_F(ViplCallbackThread, DoesNotHoldANicWhileNobodyReadsStandardError) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    const int reader = fcntl(ends[0], F_DUPFD, 10);
    dup2(ends[1], STDERR_FILENO);
    dup2(reader, 3);
    execl("/proc/self/exe", "vipl_test", "--gtest_filter=*HasAPipeAsStandardError",
          "--gtest_also_run_disabled_tests", nullptr);
    _exit(127);
  }
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(ends[0]);
  close(ends[1]);
}

// A daemon has closed descriptors 0 to 2, and a file of its own has the number.
TEST_F(ViplCallbackThread, WritesToNoOtherFileThanTheFirstStandardError) {
  start();
  const auto [receiver, sender] = connected_pair();
  FILE* const data = tmpfile();
  ASSERT_NE(data, nullptr);
  const int before = dup(STDERR_FILENO);
  ASSERT_EQ(dup2(fileno(data), STDERR_FILENO), STDERR_FILENO);
  // No receive is posted: that is one error, and the connection is lost for both ends. The thread that takes the last
  // error is done with the first.
  EXPECT_EQ(VipPostSend(sender, packet(0, 8), memory), VIP_SUCCESS);
  for (int i = 0; i < 10000 && agent->session().errors_taken() < 3; ++i) usleep(1000);
  dup2(before, STDERR_FILENO);
  close(before);
  EXPECT_EQ(agent->session().errors_taken(), 3u);
  struct stat about;
  ASSERT_EQ(fstat(fileno(data), &about), 0);
  EXPECT_EQ(about.st_size, 0);
  fclose(data);
}

TEST_F(ViplCallbackThread, HasSignalsBlockedButThoseOfFaults) {
  start();
  sigset_t blocked;
  calls.first = [&] { pthread_sigmask(SIG_SETMASK, nullptr, &blocked); };
  ASSERT_EQ(VipErrorCallback(nic, &calls, Calls::on_error), VIP_SUCCESS);
  const auto [lost, other] = connected_pair();
  end_connection(lost, other);
  ASSERT_TRUE(calls.come(1));
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1, SIGALRM, SIGCHLD, SIGPIPE}) {
    EXPECT_EQ(sigismember(&blocked, signal), 1) << signal;
  }
  for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
    EXPECT_EQ(sigismember(&blocked, signal), 0) << signal;
  }
}

TEST_F(ViplCallbackThread, TellsOfTheEndAlsoWhenMuchElseWaits) {
  TestAgent::Options options;
  options.vis = 40;
  options.slots = 8;
  start(options);
  std::vector<VIP_VI_HANDLE> vis;
  for (int i = 0; i < 40; ++i) vis.push_back(make_vi());
  std::atomic<bool> inside{false}, leave{false};
  calls.first = [&] {
    inside = true;
    while (!leave) usleep(1000);
  };
  ASSERT_EQ(VipErrorCallback(nic, &calls, Calls::on_error), VIP_SUCCESS);
  for (std::size_t i = 0; i < 8; ++i) {
    ASSERT_EQ(VipPostRecv(vis[0], packet(i, 8), memory), VIP_SUCCESS);
  }
  for (const VIP_VI_HANDLE vi : vis) {
    EXPECT_EQ(VipPostSend(vi, packet(20, 8), memory), VIP_ERROR_RESOURCE);
    while (!inside) usleep(1000);
  }
  agent->die();
  VIP_DESCRIPTOR* done;
  ASSERT_EQ(VipRecvWait(vis[0], VIP_INFINITE, &done), VIP_DESCRIPTOR_ERROR);
  // The agent monitor marks the session as lost before it tells of it.
  usleep(20000);
  leave = true;
  const auto end = std::chrono::steady_clock::now() + kSoon;
  VIP_ERROR_CODE last = VIP_ERROR_POST_DESC;
  while (last != VIP_ERROR_CATASTROPHIC && std::chrono::steady_clock::now() < end) {
    usleep(1000);
    std::lock_guard lock(calls.mutex);
    if (!calls.all.empty()) last = calls.all.back().error.ErrorCode;
  }
  EXPECT_EQ(last, VIP_ERROR_CATASTROPHIC);
  EXPECT_EQ(calls.at(0).error.ErrorCode, VIP_ERROR_VI_OVERRUN);
  EXPECT_EQ(calls.at(0).error.OpCode, static_cast<VIP_ULONG>(VIP_CONTROL_OP_SENDRECV));
}

TEST_F(ViplCallbackThread, LetsAHandlerEndTheProcess) {
  start();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    VIP_NIC_HANDLE mine;
    VIP_VI_HANDLE vi;
    VIP_VI_ATTRIBUTES a = attributes();
    if (VipOpenNic("nic0", &mine) != VIP_SUCCESS ||
        VipCreateVi(mine, &a, nullptr, nullptr, &vi) != VIP_SUCCESS ||
        VipErrorCallback(mine, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR*) { exit(7); }) !=
            VIP_SUCCESS ||
        write(ready[1], "", 1) != 1) {
      _exit(1);
    }
    for (;;) pause();
  }
  close(ready[1]);
  char byte;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  agent->die();
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
}

// Each thread's answer is of one discovery, and stays so while others ask: of the hosts of one group.
TEST_F(ViplCallbackThread, GivesThreadsThatDiscoverAtOnceWholeAnswers) {
  TestAgent::Options options;
  options.others = {3, 4, 5};
  start(options);
  constexpr unsigned kThreads = 8;
  for (int round = 0; round < 2; ++round) {
    std::barrier together(kThreads);
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < kThreads; ++t) {
      threads.emplace_back([&] {
        VIP_AUTODISCOVERY_LIST list;
        together.arrive_and_wait();
        EXPECT_EQ(VipQuerySystemManagementInfo(nic, VIP_SMI_AUTODISCOVERY, &list), VIP_SUCCESS);
        together.arrive_and_wait();
        ASSERT_GE(list.NumAdAddrs, 3u);
        const unsigned group = list.ADAddrArray[0]->HostAddress[4];
        EXPECT_EQ(list.NumAdAddrs, 3 + group);
        std::set<unsigned> numbers;
        for (unsigned i = 0; i < list.NumAdAddrs; ++i) {
          EXPECT_EQ(list.ADAddrArray[i]->HostAddress[4], group);
          numbers.insert(list.ADAddrArray[i]->HostAddress[5]);
        }
        EXPECT_EQ(numbers.size(), list.NumAdAddrs);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace viaduct::test
