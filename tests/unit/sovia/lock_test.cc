// The mutex of SOVIA's sockets and lanes.
#include "sovia/process/lock.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <thread>
#include <vector>

namespace viaduct::sovia {
namespace {

TEST(Lock, LetsOneInAtATime) {
  constexpr int kThreads = 4, kTurns = 20'000;
  Lock lock;
  int inside = 0, turns = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int turn = 0; turn < kTurns; ++turn) {
        const std::scoped_lock guard(lock);
        ASSERT_EQ(++inside, 1);
        ++turns;
        // The others find it held for so long that they go to sleep.
        if (turn % 1000 == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
        --inside;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(turns, kThreads * kTurns);
}

TEST(Lock, IsHandedToASleeper) {
  Lock lock;
  for (int i = 0; i < 200; ++i) {
    std::atomic<bool> comes{false};
    lock.lock();
    std::thread other([&] {
      comes = true;
      const std::scoped_lock guard(lock);
    });
    while (!comes) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    lock.unlock();
    other.join();
  }
}

TEST(Lock, CanBeTried) {
  Lock lock;
  ASSERT_TRUE(lock.try_lock());
  std::thread([&] { EXPECT_FALSE(lock.try_lock()); }).join();
  lock.unlock();
  EXPECT_TRUE(lock.try_lock());
  lock.unlock();
}

// A child is forked with the locks held, and gives them back itself.
TEST(Lock, MayBeHeldOverAFork) {
  Lock lock;
  lock.lock();
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    lock.unlock();
    _exit(lock.try_lock() ? 0 : 1);
  }
  lock.unlock();
  int status;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_TRUE(lock.try_lock());
}

}  // namespace
}  // namespace viaduct::sovia
