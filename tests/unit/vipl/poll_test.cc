// VipxPoll: waiting for a completion queue and descriptors of the kernel's; VipxDescriptors.
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <iterator>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "vipl/vipl_ext.h"
#include "tests/unit/vipl/fixture.h"

namespace viaduct::test {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr timespec kLong{20, 0};
constexpr timespec kShort{0, 20'000'000};
constexpr timespec kNone{0, 0};

class ViplPoll : public ViplTest {
 protected:
  ViplPoll() { EXPECT_EQ(pipe2(pipe_, O_NONBLOCK | O_CLOEXEC), 0); }
  ~ViplPoll() override {
    for (const int fd : pipe_) close(fd);
  }

  pollfd readable() const { return {pipe_[0], POLLIN, 77}; }
  void fill_pipe() const { EXPECT_EQ(write(pipe_[1], "x", 1), 1); }

  // To `vi`.
  void send_one(VIP_VI_HANDLE peer, VIP_VI_HANDLE vi) {
    ASSERT_EQ(VipPostRecv(vi, packet(1, 8), memory), VIP_SUCCESS);
    ASSERT_EQ(VipPostSend(peer, filled(0, 8, 1), memory), VIP_SUCCESS);
  }

  // A thread that polls, and what it said.
  struct Result {
    std::atomic<pid_t> thread{0};
    std::atomic<int> value{99};
    std::atomic<int> error{0};
  };
  std::thread in_background(Result& out, VIP_CQ_HANDLE cq, pollfd* fds = nullptr,
                            unsigned long count = 0, const timespec* timeout = &kLong) {
    return std::thread([=, &out] {
      out.thread = gettid();
      out.value = VipxPoll(cq, fds, count, timeout, nullptr);
      out.error = errno;
    });
  }

  // The kernel's state of a thread: 'S' sleeps, 'R' runs or would like to; 0: it has ended.
  static char state_of(pid_t thread) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread) + "/stat");
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::size_t name_end = text.rfind(')');
    return name_end == std::string::npos || name_end + 2 >= text.size() ? '\0' : text[name_end + 2];
  }

  // Waits until a thread sleeps, and goes on to: one that waits for a lock sleeps for a moment only.
  static bool falls_asleep(const std::atomic<pid_t>& thread) {
    const auto end = steady_clock::now() + 20s;
    for (int looks = 0; looks < 10 && steady_clock::now() < end;) {
      std::this_thread::sleep_for(2ms);
      looks = thread != 0 && state_of(thread) == 'S' ? looks + 1 : 0;
    }
    return state_of(thread) == 'S';
  }

  int pipe_[2];
};

TEST_F(ViplPoll, EndsWhenTheQueueHasAnEntry) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const auto [vi, peer] = connected_pair(nullptr, cq);
  pollfd fd = readable();
  Result result;
  std::thread thread = in_background(result, cq, &fd, 1, nullptr);
  EXPECT_TRUE(falls_asleep(result.thread));
  send_one(peer, vi);
  thread.join();
  EXPECT_EQ(result.value, 0);
  EXPECT_EQ(fd.revents, 0);
  VIP_VI_HANDLE whose;
  VIP_BOOLEAN receive;
  EXPECT_EQ(VipCQDone(cq, &whose, &receive), VIP_SUCCESS) << "the entry is not taken";
}

TEST_F(ViplPoll, DoesNotSleepWhenThereIsAnEntry) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const auto [vi, peer] = connected_pair(nullptr, cq);
  send_one(peer, vi);
  VIP_DESCRIPTOR* done;
  ASSERT_EQ(VipSendWait(peer, 5000, &done), VIP_SUCCESS);
  pollfd fd = readable();
  fill_pipe();
  EXPECT_EQ(VipxPoll(cq, &fd, 1, nullptr, nullptr), 0);
  EXPECT_EQ(fd.revents, 0);
}

TEST_F(ViplPoll, EndsWhenADescriptorIsReady) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  pollfd fds[3] = {{pipe_[0], POLLIN, 77}, {-1, POLLIN, 77}, {pipe_[1], POLLOUT, 77}};
  EXPECT_EQ(VipxPoll(cq, fds, 3, nullptr, nullptr), 1);
  EXPECT_EQ(fds[0].revents, 0);
  EXPECT_EQ(fds[1].revents, 0);
  EXPECT_EQ(fds[2].revents, POLLOUT);
  Result result;
  std::thread thread = in_background(result, cq, fds, 2);
  EXPECT_TRUE(falls_asleep(result.thread));
  fill_pipe();
  thread.join();
  EXPECT_EQ(result.value, 1);
  EXPECT_EQ(fds[0].revents, POLLIN);
  fds[0] = {1 << 20, POLLIN, 0};
  EXPECT_EQ(VipxPoll(cq, fds, 1, nullptr, nullptr), 1);
  EXPECT_EQ(fds[0].revents, POLLNVAL);
}

TEST_F(ViplPoll, TakesManyDescriptors) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  std::vector<pollfd> fds(900, pollfd{-1, POLLIN, 77});
  fds[899] = readable();
  EXPECT_EQ(VipxPoll(cq, fds.data(), fds.size(), &kShort, nullptr), 0);
  EXPECT_EQ(fds[0].revents, 0);
  fill_pipe();
  for (const std::size_t count : {900u, 500u, 900u}) {
    fds[count - 1] = readable();
    EXPECT_EQ(VipxPoll(cq, fds.data(), count, &kLong, nullptr), 1);
    EXPECT_EQ(fds[count - 1].revents, POLLIN);
    EXPECT_EQ(fds[0].revents, 0);
    fds[count - 1] = {-1, 0, 0};
  }
}

TEST_F(ViplPoll, EndsWhenTheTimeIsUp) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  pollfd fd = readable();
  const auto begin = steady_clock::now();
  EXPECT_EQ(VipxPoll(cq, &fd, 1, &kShort, nullptr), 0);
  EXPECT_GE(steady_clock::now() - begin, 20ms);
  EXPECT_EQ(fd.revents, 0);
  fd.revents = 77;
  EXPECT_EQ(VipxPoll(cq, &fd, 1, &kNone, nullptr), 0);
  EXPECT_EQ(fd.revents, 0);
  fill_pipe();
  EXPECT_EQ(VipxPoll(cq, &fd, 1, &kNone, nullptr), 1);
  EXPECT_EQ(VipxPoll(cq, nullptr, 0, &kNone, nullptr), 0);
}

TEST_F(ViplPoll, RefusesWhatMakesNoSense) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const auto refused = [](VIP_CQ_HANDLE handle, pollfd* fds, unsigned long count,
                          const timespec* timeout) {
    errno = 0;
    return VipxPoll(handle, fds, count, timeout, nullptr) == -1 && errno == EINVAL;
  };
  const timespec bad[] = {{-1, 0}, {0, -1}, {0, 1'000'000'000}};
  for (const timespec& time : bad) EXPECT_TRUE(refused(cq, nullptr, 0, &time));
  EXPECT_TRUE(refused(cq, nullptr, 1, &kShort));
  EXPECT_TRUE(refused(nullptr, nullptr, 0, &kShort));
  EXPECT_TRUE(refused(nic, nullptr, 0, &kShort));
  ASSERT_EQ(VipDestroyCQ(cq), VIP_SUCCESS);
  EXPECT_TRUE(refused(cq, nullptr, 0, &kShort));
  ASSERT_EQ(VipCloseNic(nic), VIP_SUCCESS);
  nic = nullptr;
  EXPECT_TRUE(refused(cq, nullptr, 0, &kShort));
}

TEST_F(ViplPoll, EndsWithTheAgent) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  Result result;
  std::thread thread = in_background(result, cq);
  EXPECT_TRUE(falls_asleep(result.thread));
  agent->die();
  thread.join();
  EXPECT_EQ(result.value, -1);
  EXPECT_EQ(result.error, ENODEV);
  EXPECT_EQ(VipxPoll(cq, nullptr, 0, &kLong, nullptr), -1);
  EXPECT_EQ(errno, ENODEV);
}

TEST_F(ViplPoll, EndsWithTheNicOrTheQueue) {
  start();
  const VIP_CQ_HANDLE gone = make_cq(), cq = make_cq();
  Result of_queue, of_nic;
  std::thread first = in_background(of_queue, gone), second = in_background(of_nic, cq);
  EXPECT_TRUE(falls_asleep(of_queue.thread));
  EXPECT_TRUE(falls_asleep(of_nic.thread));
  ASSERT_EQ(VipDestroyCQ(gone), VIP_SUCCESS);
  first.join();
  EXPECT_EQ(of_queue.value, -1);
  EXPECT_EQ(of_queue.error, EINVAL);
  ASSERT_EQ(VipCloseNic(nic), VIP_SUCCESS);
  nic = nullptr;
  second.join();
  EXPECT_EQ(of_nic.value, -1);
  EXPECT_EQ(of_nic.error, ENODEV);
}

// ---------------------------------------------------------------------------- signals

std::atomic<int> g_signals{0};
void note_signal(int) { ++g_signals; }

class ViplPollSignals : public ViplPoll {
 protected:
  ViplPollSignals() {
    struct sigaction action {};
    action.sa_handler = note_signal;
    sigaction(SIGUSR1, &action, &before_);
    g_signals = 0;
    sigemptyset(&usr1_);
    sigaddset(&usr1_, SIGUSR1);
  }
  ~ViplPollSignals() override { sigaction(SIGUSR1, &before_, nullptr); }

  struct sigaction before_;
  sigset_t usr1_;
};

TEST_F(ViplPollSignals, EndWithTheirHandlers) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  Result result;
  std::thread thread = in_background(result, cq);
  EXPECT_TRUE(falls_asleep(result.thread));
  pthread_kill(thread.native_handle(), SIGUSR1);
  thread.join();
  EXPECT_EQ(result.value, -1);
  EXPECT_EQ(result.error, EINTR);
  EXPECT_EQ(g_signals, 1);
}

TEST_F(ViplPollSignals, AreTakenByTheMaskAlone) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  sigset_t before, none;
  sigemptyset(&none);
  ASSERT_EQ(pthread_sigmask(SIG_BLOCK, &usr1_, &before), 0);
  pthread_kill(pthread_self(), SIGUSR1);
  EXPECT_EQ(VipxPoll(cq, nullptr, 0, &kShort, nullptr), 0);
  EXPECT_EQ(g_signals, 0) << "the mask that the thread has";
  EXPECT_EQ(VipxPoll(cq, nullptr, 0, &kLong, &none), -1);
  EXPECT_EQ(errno, EINTR);
  EXPECT_EQ(g_signals, 1);
  sigset_t after;
  ASSERT_EQ(pthread_sigmask(SIG_SETMASK, &before, &after), 0);
  EXPECT_EQ(sigismember(&after, SIGUSR1), 1) << "the mask is given back";
  EXPECT_EQ(sigismember(&after, SIGUSR2), 0);
}

// Blocked in the mask, a signal does not end the wait; and waits for its turn.
TEST_F(ViplPollSignals, WaitWhenTheMaskBlocksThem) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  std::thread thread([&] {
    EXPECT_EQ(VipxPoll(cq, nullptr, 0, &kShort, &usr1_), 0);
  });
  pthread_kill(thread.native_handle(), SIGUSR1);
  thread.join();
}

TEST_F(ViplPollSignals, MayForkInTheirHandlers) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  struct sigaction action {};
  static std::atomic<pid_t> child;
  child = -1;
  action.sa_handler = [](int) { child = fork(); };
  sigaction(SIGUSR1, &action, nullptr);
  const pthread_t self = pthread_self();
  const std::atomic<pid_t> caller{gettid()};
  std::thread thread([&] {
    EXPECT_TRUE(falls_asleep(caller));
    pthread_kill(self, SIGUSR1);
  });
  const int value = VipxPoll(cq, nullptr, 0, &kLong, nullptr);
  const int error = errno;
  if (child == 0) _exit(value == -1 && error == EINTR ? 0 : 1);
  thread.join();
  EXPECT_EQ(value, -1);
  EXPECT_EQ(error, EINTR);
  int status = 1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// ---------------------------------------------------------------------------- threads

TEST_F(ViplPoll, WakesAllWhoWaitForTheQueue) {
  start();
  const VIP_CQ_HANDLE cq = make_cq(), quiet = make_cq();
  const auto [vi, peer] = connected_pair(nullptr, cq);
  constexpr std::size_t kThreads = 6;
  Result results[kThreads], other;
  std::vector<std::thread> threads;
  for (Result& result : results) threads.push_back(in_background(result, cq));
  pollfd fd = readable();
  std::thread sleeper = in_background(other, quiet, &fd, 1);
  for (const Result& result : results) EXPECT_TRUE(falls_asleep(result.thread));
  EXPECT_TRUE(falls_asleep(other.thread));
  send_one(peer, vi);
  for (std::thread& thread : threads) thread.join();
  for (const Result& result : results) EXPECT_EQ(result.value, 0);
  EXPECT_EQ(other.value, 99) << "woken by the news of another queue";
  fill_pipe();
  sleeper.join();
  EXPECT_EQ(other.value, 1);
}

TEST_F(ViplPoll, CanBeCancelled) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const auto [vi, peer] = connected_pair(nullptr, cq);
  struct Waiter {
    VIP_CQ_HANDLE queue;
    std::atomic<pid_t> thread{0};
  };
  for (int i = 0; i < 3; ++i) {
    Waiter waiter{cq};
    pthread_t thread;
    ASSERT_EQ(pthread_create(
                  &thread, nullptr,
                  [](void* of) -> void* {
                    auto* const self = static_cast<Waiter*>(of);
                    self->thread = gettid();
                    VipxPoll(self->queue, nullptr, 0, nullptr, nullptr);
                    return nullptr;
                  },
                  &waiter),
              0);
    EXPECT_TRUE(falls_asleep(waiter.thread));
    pthread_cancel(thread);
    void* how = nullptr;
    pthread_join(thread, &how);
    EXPECT_EQ(how, PTHREAD_CANCELED);
  }
  Result result;
  std::thread thread = in_background(result, cq);
  EXPECT_TRUE(falls_asleep(result.thread));
  send_one(peer, vi);
  thread.join();
  EXPECT_EQ(result.value, 0);
}

// Sleepers of all kinds on one CQ; the thread that takes a message answers it, and if one wake-up were lost, all would
// sleep.
TEST_F(ViplPoll, NeverMissesAnything) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const auto [vi, peer] = connected_pair(nullptr, cq);
  constexpr unsigned kMessages = 20'000;
  constexpr unsigned kSleepers = 4;
  std::atomic<unsigned> taken{0}, missed{0};
  std::mutex posting;
  const auto post = [&, vi = vi, peer = peer] {
    std::lock_guard lock(posting);
    VIP_DESCRIPTOR* done;
    send_one(peer, vi);
    ASSERT_EQ(VipSendWait(peer, 20'000, &done), VIP_SUCCESS);
  };
  const auto take = [&, vi = vi](unsigned kind) {
    while (taken < kMessages) {
      VIP_VI_HANDLE whose;
      VIP_BOOLEAN receive;
      const VIP_RETURN result =
          kind == 0 ? VipCQWait(cq, 5, &whose, &receive) : VipCQDone(cq, &whose, &receive);
      if (result == VIP_TIMEOUT) continue;
      if (result == VIP_NOT_DONE) {
        const auto begin = steady_clock::now();
        const timespec time{2, 0};
        pollfd fd = readable();
        const int ready = VipxPoll(cq, &fd, kind % 2, &time, nullptr);
        ASSERT_GE(ready, 0);
        if (steady_clock::now() - begin >= 2s && taken < kMessages) ++missed;
        continue;
      }
      VIP_DESCRIPTOR* done;
      ASSERT_EQ(VipRecvDone(vi, &done), VIP_SUCCESS);
      if (++taken < kMessages) post();
    }
  };
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kSleepers; ++t) threads.emplace_back(take, t);
  post();
  // Threads that still sleep when the last message has come are let go.
  while (taken < kMessages && missed == 0) std::this_thread::sleep_for(1ms);
  fill_pipe();
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(missed, 0u);
}

// Every one of several sleepers hears of every message.
TEST_F(ViplPoll, WakesEachOfSeveralEachTime) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const auto [vi, peer] = connected_pair(nullptr, cq);
  constexpr unsigned kRounds = 2'000;
  constexpr unsigned kThreads = 4;
  std::atomic<unsigned> round{0}, asleep{0}, woken{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (unsigned mine = 1; mine <= kRounds; ++mine) {
        while (round < mine) std::this_thread::yield();
        ++asleep;
        ASSERT_EQ(VipxPoll(cq, nullptr, 0, &kLong, nullptr), 0);
        ++woken;
      }
    });
  }
  for (unsigned r = 1; r <= kRounds; ++r) {
    asleep = woken = 0;
    round = r;
    while (asleep < kThreads) std::this_thread::yield();
    if (r % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds(r % 100));
    send_one(peer, vi);
    const auto begin = steady_clock::now();
    while (woken < kThreads && steady_clock::now() - begin < 10s) std::this_thread::yield();
    ASSERT_EQ(woken, kThreads) << "round " << r;
    VIP_VI_HANDLE whose;
    VIP_BOOLEAN receive;
    VIP_DESCRIPTOR* done;
    ASSERT_EQ(VipCQWait(cq, 1000, &whose, &receive), VIP_SUCCESS);
    ASSERT_EQ(VipRecvDone(vi, &done), VIP_SUCCESS);
    ASSERT_EQ(VipSendWait(peer, 1000, &done), VIP_SUCCESS);
  }
  for (std::thread& thread : threads) thread.join();
}

// ---------------------------------------------------------------------------- descriptors

std::set<int> open_files() {
  std::set<int> out;
  for (int fd = 0; fd < 1024; ++fd) {
    if (fcntl(fd, F_GETFD) >= 0) out.insert(fd);
  }
  return out;
}

std::vector<int> told() {
  std::vector<int> fds(100);
  fds.resize(static_cast<std::size_t>(VipxDescriptors(fds.data(), 100)));
  return fds;
}

TEST_F(ViplPoll, AllDescriptorsAreTold) {
  agent = std::make_unique<TestAgent>();
  const std::set<int> before = open_files();
  const std::vector<int> told_before = told();
  VIP_NIC_HANDLE mine = nullptr;
  ASSERT_EQ(VipOpenNic("nic0", &mine), VIP_SUCCESS);
  const std::vector<int> during = told();
  EXPECT_GE(during.size(), told_before.size() + 3);
  for (const int fd : during) {
    EXPECT_EQ(fcntl(fd, F_GETFD), FD_CLOEXEC) << fd;
    EXPECT_GE(fd, 700);
  }
  EXPECT_EQ(VipxDescriptors(nullptr, 0), static_cast<int>(during.size()));
  int one[2] = {-5, -5};
  EXPECT_EQ(VipxDescriptors(one, 1), static_cast<int>(during.size()));
  EXPECT_EQ(one[1], -5);
  const int next = dup(0);
  EXPECT_EQ(before.count(next), 0u);
  EXPECT_LT(next, 700) << "the program gets what it would have got";
  close(next);
  ASSERT_EQ(VipCloseNic(mine), VIP_SUCCESS);
  EXPECT_EQ(told().size(), std::max<std::size_t>(told_before.size(), 1));
}

TEST_F(ViplPoll, DescriptorsGoWhereTheLimitAllows) {
  agent = std::make_unique<TestAgent>();
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit little = before;
  little.rlim_cur = 300;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &little), 0);
  VIP_NIC_HANDLE mine = nullptr;
  EXPECT_EQ(VipOpenNic("nic0", &mine), VIP_SUCCESS);
  unsigned low = 0;
  for (const int fd : told()) low += fd >= 200 && fd < 300;
  EXPECT_EQ(low, 3u);
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_EQ(VipCloseNic(mine), VIP_SUCCESS);
}

}  // namespace
}  // namespace viaduct::test
