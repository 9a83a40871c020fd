// Copies that survive missing memory, and faults with other causes.
#include "vipl/granted/guarded_copy.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <vector>

namespace viaduct::vipl {
namespace {

constexpr std::size_t kPage = 4096;

// Two pages of which the second can't be touched.
class Edge {
 public:
  Edge() {
    base_ = static_cast<std::byte*>(mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    mprotect(base_ + kPage, kPage, PROT_NONE);
  }
  ~Edge() { munmap(base_, 2 * kPage); }
  Edge(const Edge&) = delete;
  Edge& operator=(const Edge&) = delete;
  std::byte* end() const { return base_ + kPage; }

 private:
  std::byte* base_;
};

// Short ones are copied in several ways.
std::vector<std::size_t> lengths(std::initializer_list<std::size_t> long_ones) {
  std::vector<std::size_t> all;
  for (std::size_t length = 0; length <= 200; ++length) all.push_back(length);
  all.insert(all.end(), long_ones);
  return all;
}

class GuardedCopy : public testing::Test {
 protected:
  void SetUp() override {
    guarded::prepare();
    for (std::size_t i = 0; i < sizeof pattern_; ++i) pattern_[i] = static_cast<std::byte>(i * 7 + 1);
  }
  std::byte pattern_[3 * kPage];
};

TEST_F(GuardedCopy, CopiesAnyLengthAndNoByteMore) {
  std::vector<std::byte> to(sizeof pattern_ + 16);
  for (const std::size_t length : lengths({1448, 4097, 12288})) {
    std::fill(to.begin(), to.end(), std::byte{0xee});
    ASSERT_TRUE(guarded::copy(to.data() + 8, pattern_, length)) << length;
    EXPECT_EQ(std::memcmp(to.data() + 8, pattern_, length), 0) << length;
    EXPECT_EQ(to[7], std::byte{0xee}) << length;
    EXPECT_EQ(to[8 + length], std::byte{0xee}) << length;
  }
}

TEST_F(GuardedCopy, FailsWhereTheTargetEnds) {
  const Edge edge;
  for (const std::size_t length : lengths({100, 1448})) {
    if (length == 0) continue;
    EXPECT_TRUE(guarded::copy(edge.end() - length, pattern_, length)) << length;
    EXPECT_FALSE(guarded::copy(edge.end() - length + 1, pattern_, length)) << length;
    EXPECT_FALSE(guarded::copy(edge.end(), pattern_, length)) << length;
  }
}

TEST_F(GuardedCopy, FailsWhereTheSourceEnds) {
  const Edge edge;
  std::byte to[2 * kPage];
  for (const std::size_t length : lengths({100, 1448})) {
    if (length == 0) continue;
    EXPECT_TRUE(guarded::copy(to, edge.end() - length, length)) << length;
    EXPECT_FALSE(guarded::copy(to, edge.end() - length + 1, length)) << length;
  }
}

// The program's own handler, set before ours, goes on hearing of the program's own faults.
void leave(int) { _exit(42); }

TEST(GuardedCopyDeathTest, HandsOtherFaultsToTheHandlerThatWasThere) {
  const Edge edge;
  EXPECT_EXIT(
      {
        signal(SIGSEGV, leave);
        guarded::prepare();
        *edge.end() = std::byte{1};
      },
      testing::ExitedWithCode(42), "");
}

TEST(GuardedCopyDeathTest, WithoutAHandlerAFaultEndsTheProgram) {
  const Edge edge;
  EXPECT_EXIT(
      {
        signal(SIGSEGV, SIG_DFL);
        guarded::prepare();
        *edge.end() = std::byte{1};
      },
      testing::KilledBySignal(SIGSEGV), "");
}

}  // namespace
}  // namespace viaduct::vipl
