// The service's loop and calls that hang.
#include "kagent/agent/process/hang_guard.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <stdexcept>

#include "kagent/agent/process/user_threads.h"

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
    for (int i = 0; i < 2; ++i) {
      if (i != 0) turn.go_on();
      got += read(ends[0], &byte, 1);
    }
  }
  void end() { EXPECT_EQ(write(ends[1], "ab", 2), 2); }
  int ends[2];
  std::atomic<long> got{0};
};

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

TEST(UserThreads, OneUserDoesNotHoldAnother) {
  EventLoop loop;
  UserThreads threads(loop);
  Hanging call;
  bool behind = false, other = false;
  std::atomic<bool> begun{false};
  const auto hang = [&] {
    begun = true;
    HangGuard::Turn alone;
    call.run(alone);
  };
  threads.give(1, hang);
  threads.give(1, [] {}, [&behind] { behind = true; });
  threads.give(2, [] {}, [&other] { other = true; });
  while (!other) loop.poll(EventLoop::kForever);
  while (!begun) usleep(100);
  EXPECT_FALSE(behind);
  EXPECT_EQ(threads.busy(1), 2u);
  // Another thread takes what the one that hangs has not begun.
  threads.abandon(1);
  while (!behind) loop.poll(EventLoop::kForever);
  call.end();
  while (threads.busy() != 0) loop.poll(EventLoop::kForever);
}

}  // namespace
}  // namespace viaduct
