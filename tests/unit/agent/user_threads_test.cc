// Threads for work that users can make last.
#include "kagent/agent/process/user_threads.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <iterator>
#include <list>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace viaduct {
namespace {

using Files = UserThreads::Files;

// Work that lasts until end() is called.
class Hanging {
 public:
  Hanging() {
    if (pipe2(ends_, O_CLOEXEC) != 0) throw std::runtime_error("pipe");
  }
  ~Hanging() { close(ends_[0]), end(); }
  void end() {
    if (ends_[1] >= 0) close(std::exchange(ends_[1], -1));
  }
  UserThreads::Piece piece() {
    UserThreads::Piece out;
    out.work = [](Files files) {
      char byte;
      EXPECT_EQ(read(files.at(0).get(), &byte, 1), 0);
      return Files();
    };
    out.done = [this](const Files&) { is_done = true; };
    out.late = [this] { is_late = true; };
    out.files.emplace_back(fcntl(ends_[0], F_DUPFD_CLOEXEC, 0));
    return out;
  }
  bool is_done = false, is_late = false;

 private:
  int ends_[2];
};

class UserThreadsTest : public testing::Test {
 protected:
  // A time at which work that is under way has lasted too long.
  static std::uint64_t too_late() { return monotonic_ns() + UserThreads::kPatienceNs; }
  void run(const bool& until) {
    while (!until) loop.poll(EventLoop::kForever);
  }
  UserThreads::Piece quick(bool& done) {
    return {[](Files) { return Files(); }, [&done](const Files&) { done = true; }, [] {}};
  }

  EventLoop loop;
  UserThreads threads{loop};
};

TEST_F(UserThreadsTest, OneUserDoesNotHoldAnother) {
  Hanging hanging;
  bool behind = false, other = false;
  threads.give({1}, hanging.piece());
  threads.give({1}, quick(behind));
  threads.give({2}, quick(other));
  run(other);
  EXPECT_FALSE(behind);
  EXPECT_EQ(threads.busy(1), 2u);
  threads.look(monotonic_ns());
  EXPECT_FALSE(hanging.is_late);
  // Another thread takes what the one that hangs has not begun.
  threads.look(too_late());
  EXPECT_TRUE(hanging.is_late);
  run(behind);
  EXPECT_EQ(threads.busy(), 0u);
  EXPECT_EQ(threads.hung(1), 1u);
  hanging.end();
  while (threads.any_hung()) loop.poll(EventLoop::kForever);
  EXPECT_FALSE(hanging.is_done);
}

TEST_F(UserThreadsTest, FewThreadsOfAUserHang) {
  std::list<Hanging> hanging(UserThreads::kMostHung);
  for (Hanging& each : hanging) {
    threads.give({1}, each.piece());
    threads.look(too_late());
    EXPECT_TRUE(each.is_late);
  }
  EXPECT_FALSE(threads.may_have(1));
  bool done = false, other = false;
  EXPECT_THROW(threads.give({1}, quick(done)), std::system_error);
  EXPECT_EQ(threads.busy(), 0u);
  threads.give({2}, quick(other));
  run(other);
  hanging.front().end();
  while (!threads.may_have(1)) loop.poll(EventLoop::kForever);
  threads.give({1}, quick(done));
  run(done);
}

TEST_F(UserThreadsTest, WorkThatWaitsForTheLastThreadIsNotForgotten) {
  std::list<Hanging> hanging(UserThreads::kMostHung);
  for (Hanging& each : hanging) {
    if (&each == &hanging.back()) break;
    threads.give({1}, each.piece());
    threads.look(too_late());
  }
  Hanging behind;
  threads.give({1}, hanging.back().piece());
  threads.give({1}, behind.piece());
  threads.look(too_late());
  EXPECT_TRUE(hanging.back().is_late);
  EXPECT_TRUE(behind.is_late);
  EXPECT_EQ(threads.busy(), 0u);
}

// A thread that hangs would keep them, even if the process was killed.
TEST_F(UserThreadsTest, AThreadHasNoDescriptorsButWhatItIsGiven) {
  std::size_t count = 0;
  bool done = false;
  UserThreads::Piece piece;
  piece.work = [&count](Files) {
    const std::filesystem::directory_iterator files("/proc/thread-self/fd");
    count = static_cast<std::size_t>(std::distance(begin(files), end(files)));
    return Files();
  };
  piece.done = [&done](const Files&) { done = true; };
  piece.files.emplace_back(dup(STDERR_FILENO));
  threads.give({1}, std::move(piece));
  run(done);
  EXPECT_EQ(count, 3u);  // its channel, the file, and the folder that it reads
}

TEST_F(UserThreadsTest, AThreadReturnsDescriptors) {
  bool done = false;
  char got = 0;
  UserThreads::Piece piece;
  piece.work = [](Files) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    EXPECT_EQ(write(ends[1], "x", 1), 1);
    close(ends[1]);
    Files out;
    out.emplace_back(ends[0]);
    return out;
  };
  piece.done = [&](const Files& files) {
    done = true;
    EXPECT_EQ(read(files.at(0).get(), &got, 1), 1);
  };
  threads.give({1}, std::move(piece));
  run(done);
  EXPECT_EQ(got, 'x');
}

}  // namespace
}  // namespace viaduct
