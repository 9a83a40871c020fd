#include "sovia/process/counters.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <set>
#include <string>

#include "sovia/launcher/counters_reader.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/sovia.h"

namespace viaduct::sovia {
namespace {

using launcher::read_counters;

std::uint64_t seen(const launcher::ProcessCounters& process, Counter counter) {
  return process.values[static_cast<std::size_t>(counter)];
}

TEST(Counters, AreReadFromOutsideWhileTheyChange) {
  counters::publish();
  const auto before = read_counters(getpid());
  ASSERT_TRUE(before);
  counters::add(Counter::kCombined, 5);
  counters::fell(Reason::kUrgent);
  const auto after = read_counters(getpid());
  ASSERT_TRUE(after);
  EXPECT_EQ(seen(*after, Counter::kCombined), seen(*before, Counter::kCombined) + 5);
  const auto urgent = static_cast<std::size_t>(Reason::kUrgent);
  EXPECT_EQ(after->falls[urgent], before->falls[urgent] + 1);
  EXPECT_EQ(after->process, getpid());
}

TEST(Counters, WhatWasCountedBeforeStaysWhenTheyArePublished) {
  counters::add(Counter::kSleeps, 3);
  counters::publish();
  EXPECT_GE(seen(*read_counters(getpid()), Counter::kSleeps), 3u);
}

// Runs in a child, as it changes what the process has.
template <class F>
int in_child(F&& body) {
  const pid_t child = sovia_fork();
  if (child == 0) _exit(body());
  int status = -1;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

TEST(Counters, OfAChildBeginAnewAndAreItsOwn) {
  counters::publish();
  counters::add(Counter::kAcksSent, 7);
  const std::uint64_t parents = counters::value(Counter::kAcksSent);
  EXPECT_EQ(in_child([] {
              if (counters::value(Counter::kAcksSent) != 0 || counters::descriptor() >= 0) return 1;
              if (read_counters(getpid())) return 2;
              counters::add(Counter::kAcksSent, 100);
              counters::publish();
              const auto own = read_counters(getpid());
              return own && seen(*own, Counter::kAcksSent) == 100 ? 0 : 3;
            }),
            0);
  EXPECT_EQ(counters::value(Counter::kAcksSent), parents);
}

TEST(Counters, ShowNoCharactersThatATerminalObeys) {
  EXPECT_EQ(in_child([] {
              prctl(PR_SET_NAME, "\x1b[31m\x9b\x7f\"red");
              counters::publish();
              return read_counters(getpid())->program == "?[31m??\"red" ? 0 : 1;
            }),
            0);
}

TEST(Counters, HaveADescriptorThatTheProgramCanNotClose) {
  counters::publish();
  const int fd = counters::descriptor();
  ASSERT_GE(fd, 3);
  EXPECT_EQ(sovia_close(fd), -1);
  EXPECT_EQ(errno, EBADF);
  EXPECT_EQ(in_child([fd] {
              counters::publish();
              const int own = counters::descriptor();
              sovia_closefrom(3);
              return fcntl(own, F_GETFD) == FD_CLOEXEC && read_counters(getpid()) ? 0 : 1 + 0 * fd;
            }),
            0);
}

TEST(Counters, TakeNoDescriptorFromAProgramThatMayHaveFew) {
  EXPECT_EQ(in_child([] {
              const rlimit few{8, 8};
              if (setrlimit(RLIMIT_NOFILE, &few) != 0) return 1;
              counters::publish();
              counters::add(Counter::kSleeps, 1);
              return counters::descriptor() == -1 ? 0 : 2;
            }),
            0);
}

TEST(Counters, GiveTheirDescriptorUpWhenTheProgramWantsItsNumber) {
  EXPECT_EQ(in_child([] {
              counters::publish();
              const int fd = counters::descriptor();
              if (sovia_dup2(0, fd) != fd || own_descriptors::has(fd)) return 1;
              return sovia_close(fd) == 0 ? 0 : 2;
            }),
            0);
}

TEST(Counters, HaveNamesOfTheirOwn) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < kCounters; ++i) {
    EXPECT_TRUE(names.insert(counters::name_of(static_cast<Counter>(i))).second);
    EXPECT_GT(std::strlen(counters::text_of(static_cast<Counter>(i))), 0u);
  }
  names.clear();
  for (std::size_t i = 0; i < kReasons; ++i) {
    EXPECT_TRUE(names.insert(counters::name_of(static_cast<Reason>(i))).second);
  }
  EXPECT_STREQ(counters::name_of(Reason::kOffLink), "off_link");
}

}  // namespace
}  // namespace viaduct::sovia
