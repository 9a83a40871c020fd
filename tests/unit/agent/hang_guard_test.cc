// The service's loop and calls that hang.
#include "kagent/agent/process/hang_guard.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>


namespace viaduct {
namespace {

// Waits for a byte, twice.
struct Hanging final : HangGuard::Call {
  Hanging() {
    if (pipe(ends) != 0) throw std::runtime_error("pipe");
  }
  ~Hanging() override { close(ends[0]), close(ends[1]); }
  void run(HangGuard::Turn& turn) override {
    char byte;
    thread = gettid();
    for (int i = 0; i < 2; ++i) {
      if (i != 0) turn.go_on();
      got += read(ends[0], &byte, 1);
    }
  }
  void end() { EXPECT_EQ(write(ends[1], "ab", 2), 2); }
  int descriptor() const override { return ends[0]; }
  int ends[2];
  std::atomic<long> got{0};
  std::atomic<int> thread{0};
};

// The descriptors of a thread, by its number.
std::size_t descriptors_of(int thread) {
  const std::filesystem::directory_iterator files("/proc/self/task/" + std::to_string(thread) + "/fd");
  return static_cast<std::size_t>(std::distance(begin(files), end(files)));
}

struct Quick final : HangGuard::Call {
  void run(HangGuard::Turn& turn) override { turn.go_on(), ++made; }
  int made = 0;
};

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(HangGuard, GoOnWithoutCallsThatHang) {
  EventLoop loop;
  HangGuard hang_guard(loop);
  int over = 0;
  hang_guard.run([&] {
    std::vector<std::shared_ptr<Hanging>> hang;
    Quick quick;
    for (int i = 0; i < 3; ++i) {
      hang.push_back(std::make_shared<Hanging>());
      ASSERT_FALSE(hang_guard.make(*hang.back()));
      hang_guard.let_go([&over, call = hang.back()] { ++over; });
      for (int n = 0; n < 1000; ++n) ASSERT_TRUE(hang_guard.make(quick));
    }
    EXPECT_EQ(quick.made, 3000);
    EXPECT_EQ(over, 0);
    for (const auto& call : hang) call->end();
    while (over < 3) loop.poll(EventLoop::kForever);
    for (const auto& call : hang) EXPECT_EQ(call->got, 2);
    EXPECT_TRUE(hang_guard.make(quick));
  });
}

// Such a thread would keep the descriptors even if the process was killed.
TEST(HangGuard, LeaveThreadsThatHangWithoutTheDescriptors) {
  EventLoop loop;
  HangGuard hang_guard(loop);
  const Descriptor other(dup(STDERR_FILENO));
  const auto first = std::make_shared<Hanging>(), second = std::make_shared<Hanging>();
  int over = 0;
  hang_guard.run([&] {
    Quick quick;
    for (const auto& call : {first, second}) {
      ASSERT_FALSE(hang_guard.make(*call));
      hang_guard.let_go([&over, call] { ++over; });
      EXPECT_GT(descriptors_of(call->thread), 6u);
      ASSERT_TRUE(hang_guard.shares_table());
      hang_guard.empty_table();
      EXPECT_FALSE(hang_guard.shares_table());
      // The standard ones, the one that the call uses, and the one that tells of its end.
      EXPECT_LE(descriptors_of(call->thread), 5u);
      EXPECT_GE(fcntl(other.get(), F_GETFD), 0);
      ASSERT_TRUE(hang_guard.make(quick));
    }
    for (const auto& call : {first, second}) call->end();
    while (over < 2) loop.poll(EventLoop::kForever);
    EXPECT_EQ(first->got + second->got, 4);
  });
}

TEST(HangGuard, EndThoughACallHangs) {
  const auto call = std::make_shared<Hanging>();
  {
    EventLoop loop;
    HangGuard hang_guard(loop);
    hang_guard.run([&] {
      ASSERT_FALSE(hang_guard.make(*call));
      hang_guard.let_go([call] { ADD_FAILURE() << "nobody is there to be told"; });
    });
  }
  call->end();
}
#endif

TEST(HangGuard, ThrowWhatTheLoopThrows) {
  EventLoop loop;
  HangGuard hang_guard(loop);
  const auto body = [] { throw std::runtime_error("over"); };
  EXPECT_THROW(hang_guard.run(body), std::runtime_error);
}

}  // namespace
}  // namespace viaduct
