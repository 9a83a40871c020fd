// The clean end of a program that has not closed anything: its posted messages still go out.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <tuple>

#include "tests/unit/vipl/fixture.h"

namespace viaduct::test {
namespace {

class ViplExitDrain : public ViplTest {
 protected:
  static constexpr unsigned kSends = 40;

  void SetUp() override {
#ifdef __SANITIZE_THREAD__
    GTEST_SKIP() << "the thread sanitizer allows no threads after fork";
#endif
    agent = std::make_unique<TestAgent>();
  }

  // Starts a program that connects two VIs, and calls last(vi) of the first when the agent is held.
  template <class Last>
  void start_program(Last&& last) {
    int ready[2], held[2];
    ASSERT_EQ(pipe(ready) | pipe(held) | pipe(leaves_), 0);
    fflush(nullptr);
    program_ = fork();
    ASSERT_GE(program_, 0);
    if (program_ == 0) {
      close(leaves_[0]);
      char byte = 0;
      if (VipOpenNic("nic0", &nic) != VIP_SUCCESS) _exit(90);
      arena.reset(new Packet[kPackets]());
      if (VipRegisterMem(nic, arena.get(), kPackets * sizeof(Packet), nullptr, &memory)) _exit(91);
      VIP_VI_HANDLE vi;
      std::tie(vi, peer_) = connected_pair();
      if (write(ready[1], &byte, 1) != 1 || read(held[0], &byte, 1) != 1) _exit(92);
      last(vi);
      _exit(93);
    }
    char byte;
    close(leaves_[1]);
    ASSERT_EQ(read(ready[0], &byte, 1), 1);
    agent->hold();
    ASSERT_EQ(write(held[1], &byte, 1), 1);
    for (const int fd : {ready[0], ready[1], held[0], held[1]}) close(fd);
  }

  void post_sends(VIP_VI_HANDLE vi) {
    for (unsigned i = 0; i < kSends; ++i) {
      if (VipPostRecv(peer_, packet(2 * i, 100), memory) != VIP_SUCCESS) _exit(94);
      if (VipPostSend(vi, packet(2 * i + 1, 100), memory) != VIP_SUCCESS) _exit(95);
    }
  }

  void leave(int status) {
    const char byte = 0;
    if (write(leaves_[1], &byte, 1) != 1) _exit(96);
    exit(status);
  }

  void program_leaves() {
    char byte;
    ASSERT_EQ(read(leaves_[0], &byte, 1), 1);
    left_ = std::chrono::steady_clock::now();
    close(leaves_[0]);
  }

  // How long the program took to leave.
  long ends_with(int expected) {
    int status = -1;
    EXPECT_EQ(waitpid(program_, &status, 0), program_);
    EXPECT_TRUE(WIFEXITED(status));
    EXPECT_EQ(WEXITSTATUS(status), expected);
    const auto took = std::chrono::steady_clock::now() - left_;
    return std::chrono::duration_cast<std::chrono::milliseconds>(took).count();
  }

  VIP_VI_HANDLE peer_ = nullptr;

 private:
  pid_t program_ = -1;
  int leaves_[2] = {-1, -1};
  std::chrono::steady_clock::time_point left_;
};

TEST_F(ViplExitDrain, WaitsUntilWhatIsPostedHasGoneOut) {
  start_program([this](VIP_VI_HANDLE vi) {
    post_sends(vi);
    leave(7);
  });
  program_leaves();
  usleep(20000);
  agent->go_on();
  ends_with(7);
  EXPECT_EQ(agent->counter("messages_sent"), kSends);
}

TEST_F(ViplExitDrain, WaitsInWhicheverThreadEndsTheProcess) {
  start_program([this](VIP_VI_HANDLE vi) {
    post_sends(vi);
    std::thread([this] { leave(7); }).join();
  });
  program_leaves();
  usleep(20000);
  agent->go_on();
  ends_with(7);
  EXPECT_EQ(agent->counter("messages_sent"), kSends);
}

TEST_F(ViplExitDrain, WaitsForWhatOtherThreadsPostButNotForEver) {
  start_program([this](VIP_VI_HANDLE vi) {
    std::thread([this, vi] {
      for (unsigned i = 0;; ++i) {
        VIP_DESCRIPTOR* done;
        VipPostRecv(peer_, packet(2 * (i % 100), 100), memory);
        VipPostSend(vi, packet(2 * (i % 100) + 1, 100), memory);
        while (VipRecvDone(peer_, &done) == VIP_SUCCESS) continue;
        while (VipSendDone(vi, &done) == VIP_SUCCESS) continue;
      }
    }).detach();
    leave(7);
  });
  program_leaves();
  agent->go_on();
  ends_with(7);
}

TEST_F(ViplExitDrain, IsBounded) {
  start_program([this](VIP_VI_HANDLE vi) {
    post_sends(vi);
    leave(0);
  });
  program_leaves();
  EXPECT_GE(ends_with(0), 400);
}

TEST_F(ViplExitDrain, EndsWhenTheAgentDies) {
  start_program([this](VIP_VI_HANDLE vi) {
    post_sends(vi);
    leave(0);
  });
  program_leaves();
  agent->die();
  ends_with(0);
}

// The machine may be slow, but not each time.
constexpr int kTries = 5;

TEST_F(ViplExitDrain, TakesNoTimeWhenNothingIsPosted) {
  long shortest = 10000;
  for (int i = 0; i < kTries; ++i) {
    start_program([this](VIP_VI_HANDLE vi) {
      if (VipPostRecv(vi, packet(0, 100), memory) != VIP_SUCCESS) _exit(94);
      leave(0);
    });
    program_leaves();
    shortest = std::min(shortest, ends_with(0));
    agent->go_on();
  }
  EXPECT_LT(shortest, 400);
}

TEST_F(ViplExitDrain, IsNotForTheChildOfAProgram) {
  long shortest = 10000;
  for (int i = 0; i < kTries; ++i) {
    start_program([this](VIP_VI_HANDLE vi) {
      post_sends(vi);
      const pid_t child = fork();
      if (child == 0) leave(0);
      int status = -1;
      waitpid(child, &status, 0);
      _exit(status == 0 ? 0 : 97);
    });
    program_leaves();
    shortest = std::min(shortest, ends_with(0));
    agent->go_on();
  }
  EXPECT_LT(shortest, 400);
}

TEST_F(ViplExitDrain, CallsNoHandlerOfAProgramThatHasEnded) {
  start_program([this](VIP_VI_HANDLE vi) {
    VipErrorCallback(nic, nullptr, [](void*, VIP_ERROR_DESCRIPTOR*) { _exit(98); });
    post_sends(vi);
    leave(7);
  });
  program_leaves();
  usleep(50000);
  agent->session().report_lost_connection();
  ends_with(7);
}

}  // namespace
}  // namespace viaduct::test
