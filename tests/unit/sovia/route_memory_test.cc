// The file of one user that keeps what trials of routes have found.
#include "sovia/background/route_memory.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "sovia/process/libc.h"

namespace viaduct::sovia {
namespace {

using Route = RouteMemory::Route;

class RouteMemoryTest : public testing::Test {
 protected:
  RouteMemoryTest() {
    libc::prepare();
    char name[] = "/tmp/route-memory-XXXXXX";
    directory_ = mkdtemp(name);
    path_ = directory_ + "/routes";
  }
  ~RouteMemoryTest() override {
    unlink(path_.c_str());
    unlink((directory_ + "/other").c_str());
    rmdir(directory_.c_str());
  }

  std::string directory_, path_;
};

TEST_F(RouteMemoryTest, KeepsFindingsBetweenProcesses) {
  RouteMemory(path_).remember(7, 2, {.route = Route::kKernel, .until = 100, .wait_ns = 8});
  RouteMemory(path_).remember(7, 3, {.route = Route::kLanes, .until = 200, .wait_ns = 9});
  const RouteMemory other(path_);
  EXPECT_EQ(other.recall(7, 2).route, Route::kKernel);
  EXPECT_EQ(other.recall(7, 2).until, 100u);
  EXPECT_EQ(other.recall(7, 2).wait_ns, 8u);
  EXPECT_EQ(other.recall(7, 3).route, Route::kLanes);
  EXPECT_EQ(other.recall(7, 1).route, Route::kUnknown);
  EXPECT_EQ(other.recall(8, 2).route, Route::kUnknown);
}

TEST_F(RouteMemoryTest, AnotherServiceAtTheSamePlaceReplacesIt) {
  RouteMemory memory(path_);
  memory.remember(7, 2, {.route = Route::kKernel, .until = 100});
  memory.remember(7 + 64, 3, {.route = Route::kKernel, .until = 100});
  EXPECT_EQ(memory.recall(7, 2).route, Route::kUnknown);
  EXPECT_EQ(memory.recall(7 + 64, 3).route, Route::kKernel);
}

TEST_F(RouteMemoryTest, DoubtsLanesWhileAKernelCounts) {
  RouteMemory memory(path_);
  EXPECT_FALSE(memory.doubts_lanes(7, 50));
  memory.remember(7, 5, {.route = Route::kKernel, .until = 100});
  EXPECT_TRUE(memory.doubts_lanes(7, 50));
  EXPECT_FALSE(memory.doubts_lanes(7, 100));
  memory.remember(7, 5, {.route = Route::kLanes, .until = 100});
  EXPECT_FALSE(memory.doubts_lanes(7, 50));
}

TEST_F(RouteMemoryTest, WithoutAFileNothingIsKept) {
  RouteMemory memory("");
  memory.remember(7, 0, {.route = Route::kKernel, .until = 100});
  EXPECT_EQ(memory.recall(7, 0).route, Route::kUnknown);
}

TEST_F(RouteMemoryTest, AFileThatOthersCanWriteOrAnotherFileCountsAsNone) {
  RouteMemory memory(path_);
  memory.remember(7, 0, {.route = Route::kKernel, .until = 100});
  ASSERT_EQ(chmod(path_.c_str(), 0620), 0);
  EXPECT_EQ(memory.recall(7, 0).route, Route::kUnknown);
  ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
  EXPECT_EQ(memory.recall(7, 0).route, Route::kKernel);
  ASSERT_EQ(rename(path_.c_str(), (directory_ + "/other").c_str()), 0);
  ASSERT_EQ(symlink("other", path_.c_str()), 0);
  EXPECT_EQ(memory.recall(7, 0).route, Route::kUnknown);
}

TEST_F(RouteMemoryTest, NonsenseCountsAsNone) {
  RouteMemory memory(path_);
  memory.remember(7, 0, {.route = Route::kKernel, .until = 100});
  std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp(7 * 256 + 8);
  file.put('x');
  file.close();
  EXPECT_EQ(memory.recall(7, 0).route, Route::kUnknown);
  ASSERT_EQ(truncate(path_.c_str(), 7 * 256 + 100), 0);
  EXPECT_EQ(memory.recall(7, 0).route, Route::kUnknown);
}

TEST(RouteMemory, LoadsAreOfSimilarSize) {
  EXPECT_EQ(RouteMemory::load_of(1), 0u);
  EXPECT_EQ(RouteMemory::load_of(2), RouteMemory::load_of(7));
  EXPECT_EQ(RouteMemory::load_of(8), RouteMemory::load_of(31));
  EXPECT_LT(RouteMemory::load_of(16), RouteMemory::load_of(64));
  EXPECT_LT(RouteMemory::load_of(~0ull), RouteMemory::kLoads);
}

}  // namespace
}  // namespace viaduct::sovia
