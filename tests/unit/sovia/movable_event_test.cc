// Event descriptors that move to other numbers while threads use them.
#include "sovia/process/movable_event.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"

namespace viaduct::sovia {
namespace {

int number_of(MovableEvent& event) { return MovableEvent::Use(&event).fd(); }

bool is_readable(int fd) {
  pollfd polled{fd, POLLIN, 0};
  return poll(&polled, 1, 0) == 1;
}

TEST(MovableEvent, HasAnotherNumberAndIsTheSame) {
  libc::prepare();
  MovableEvent event;
  EXPECT_FALSE(event.is_open());
  EXPECT_EQ(number_of(event), -1);
  ASSERT_TRUE(event.open());
  event.ring();
  const int before = number_of(event);
  EXPECT_TRUE(own_descriptors::has(before));
  EXPECT_FALSE(event.move_from(before + 1));
  EXPECT_FALSE(event.move_from(-1));
  ASSERT_TRUE(event.move_from(before));
  const int after = number_of(event);
  EXPECT_NE(after, before);
  EXPECT_FALSE(own_descriptors::has(before));
  EXPECT_TRUE(own_descriptors::has(after));
  EXPECT_GE(fcntl(before, F_GETFD), 0) << "left open for dup2";
  EXPECT_TRUE(is_readable(after));
  event.empty();
  EXPECT_FALSE(is_readable(before)) << "one event";
  close(before);
  event.forget();
  EXPECT_FALSE(own_descriptors::has(after));
}

TEST(MovableEvent, MayBeANewOne) {
  MovableEvent event;
  ASSERT_TRUE(event.open(1));
  const int before = number_of(event);
  constexpr unsigned kReadable = 1;
  ASSERT_TRUE(event.move_from(before, &kReadable));
  event.empty();
  EXPECT_TRUE(is_readable(before)) << "another event";
  close(before);
  event.forget();
}

// Who holds the number is waited for; who comes meanwhile gets the new one.
TEST(MovableEvent, WaitsForThoseWhoUseIt) {
  MovableEvent event;
  ASSERT_TRUE(event.open());
  const int before = number_of(event);
  std::optional<MovableEvent::Use> use(&event);
  std::atomic<bool> moved{false};
  std::thread mover([&] {
    EXPECT_TRUE(event.move_from(before));
    moved.store(true);
  });
  // The mover rings so that a sleeper wakes, and goes on waiting.
  pollfd polled{use->fd(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 10'000), 1);
  EXPECT_NE(number_of(event), before);
  EXPECT_EQ(use->fd(), before);
  EXPECT_FALSE(moved.load());
  use.reset();
  mover.join();
  EXPECT_TRUE(moved.load());
  close(before);
  event.forget();
}

// Each number that is given away becomes a file. Nobody may write into it.
TEST(MovableEvent, LeavesTheProgramsFilesAlone) {
  const int file = memfd_create("program", 0);
  ASSERT_GE(file, 0);
  MovableEvent event;
  ASSERT_TRUE(event.open());
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      while (!stop.load()) event.ring();
    });
  }
  threads.emplace_back([&] {
    while (!stop.load()) {
      const MovableEvent::Use use(&event);
      pollfd polled{use.fd(), POLLIN, 0};
      poll(&polled, 1, 20);
      event.empty();
    }
  });
  for (int i = 0; i < 300; ++i) {
    const int number = number_of(event);
    ASSERT_TRUE(event.move_from(number));
    ASSERT_EQ(dup2(file, number), number);
    close(number);
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  struct stat status{};
  ASSERT_EQ(fstat(file, &status), 0);
  EXPECT_EQ(status.st_size, 0);
  close(file);
  event.forget();
}

}  // namespace
}  // namespace viaduct::sovia
