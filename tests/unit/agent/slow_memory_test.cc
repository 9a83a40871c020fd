// Copies of the memory of a program that can't be reached at once.
#include "kagent/agent/programs/slow_memory.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>
#include <memory>
#include <string>

#include "xdp/clock.h"

namespace viaduct {
namespace {

using Reader = Environment::Reader;

class SlowMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    const Descriptor process(static_cast<int>(syscall(SYS_pidfd_open, getpid(), 0)));
    std::string why;
    ASSERT_TRUE(memory.open(Peer(ucred{getpid(), geteuid(), getegid()}), process.get(), why)) << why;
    slow = std::make_shared<SlowMemory>(memory, threads, UserThreads::Owner{geteuid()});
  }
  // The bytes that the reader gets at the place; "": not yet.
  std::string read(const Reader& reader, std::uint64_t now = 0) {
    char out[sizeof place] = {};
    const iovec remote{place, sizeof place}, local{out, sizeof out};
    bool postponed = false;
    const bool good = slow->read(reader, {&remote, 1}, {&local, 1}, postponed, now);
    EXPECT_NE(good, postponed);
    return good ? out : "";
  }
  void finish() {
    while (threads.busy() != 0) loop.poll(kNsPerMs);
  }

  EventLoop loop;
  UserThreads threads{loop};
  ProgramMemory memory;
  std::shared_ptr<SlowMemory> slow;
  char place[16] = "first";
  const Reader first{Reader::What::kFrames, 1, 1, 100}, second{Reader::What::kFrames, 1, 1, 108};
};

TEST_F(SlowMemoryTest, ReadsWhenTheThreadHasRead) {
  EXPECT_EQ(read(first), "");
  finish();
  EXPECT_EQ(read(first), "first");
}

TEST_F(SlowMemoryTest, GivesAMessageNoDataOfTheOneBefore) {
  EXPECT_EQ(read(first), "");
  finish();
  // The peer has acknowledged the first message meanwhile, so that it is not sent again.
  std::strcpy(place, "second");
  std::string got;
  for (std::uint64_t now = 0; got.empty(); now += 1'000'000'000) {
    got = read(second, monotonic_ns() + now);
    finish();
  }
  EXPECT_EQ(got, "second");
}

}  // namespace
}  // namespace viaduct
