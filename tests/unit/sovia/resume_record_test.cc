// The record behind which a direction goes on through the kernel, as its receiver takes it.
#include "sovia/socket/resume_record.h"

#include <endian.h>
#include <errno.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <thread>

#include "sovia/process/libc.h"
#include "tests/unit/sovia/loopback.h"

namespace viaduct::sovia {
namespace {

using Take = ResumeRecord::Take;

constexpr std::uint8_t kPeersToken[kTokenBytes] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};

std::string record_with(std::uint64_t offset, const std::uint8_t (&token)[kTokenBytes] = kPeersToken) {
  Resume resume{};
  std::reverse_copy(std::begin(token), std::end(token), resume.token);
  resume.offset = htobe64(offset);
  return {reinterpret_cast<const char*>(&resume), sizeof resume};
}

class RecordInTheKernel : public testing::Test {
 protected:
  void SetUp() override {
    libc::prepare();
    const int listener = ::socket(AF_INET, SOCK_STREAM, 0);
    test::Address address = test::listen_on_loopback(listener);
    near_ = ::socket(AF_INET, SOCK_STREAM, 0);
    ASSERT_EQ(::connect(near_, address.any(), test::Address::kLength), 0);
    far_ = ::accept(listener, nullptr, nullptr);
    ASSERT_GE(far_, 0);
    ::close(listener);
  }
  void TearDown() override {
    ::close(near_);
    end();
  }
  void comes(const std::string& bytes) {
    int before = 0, now = 0;
    ::ioctl(near_, FIONREAD, &before);
    EXPECT_EQ(::send(far_, bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    while (now != before + static_cast<int>(bytes.size())) ::ioctl(near_, FIONREAD, &now);
  }
  void await() {
    pollfd at{near_, POLLIN, 0};
    EXPECT_EQ(::poll(&at, 1, 1000), 1);
  }
  void end() {
    if (far_ >= 0) ::close(far_);
    far_ = -1;
  }
  Take take(ResumeRecord& from) {
    errno = 0;
    return from.take(near_, taken_);
  }
  Take take() { return take(record_); }
  // What the program gets.
  std::string rest() {
    char text[256];
    const ssize_t bytes = ::recv(near_, text, sizeof text, MSG_DONTWAIT);
    return {text, static_cast<std::size_t>(bytes < 0 ? 0 : bytes)};
  }
  static void let_doubt_pass() { std::this_thread::sleep_for(std::chrono::milliseconds(1050)); }

  int near_ = -1, far_ = -1;
  std::uint64_t taken_ = 0;
  ResumeRecord record_;
};

TEST_F(RecordInTheKernel, IsTakenBeforeTheNewBytes) {
  record_.expect(kPeersToken, 100, false, true);
  EXPECT_TRUE(record_.is_expected());
  EXPECT_EQ(take(), Take::kAgain) << "nothing has come";
  comes(record_with(100) + "new");
  EXPECT_EQ(take(), Take::kDone);
  EXPECT_FALSE(record_.is_expected());
  EXPECT_EQ(taken_, sizeof(Resume));
  EXPECT_EQ(rest(), "new");
}

TEST_F(RecordInTheKernel, MayBeAllThatComes) {
  record_.expect(kPeersToken, 100, true, true);
  comes(record_with(100));
  EXPECT_EQ(take(), Take::kDone);
  EXPECT_EQ(rest(), "");
}

TEST_F(RecordInTheKernel, IsMissingBeforeNewBytesIfThePeerHasFinished) {
  record_.expect(kPeersToken, 3, true, true);
  EXPECT_TRUE(record_.may_be_missing());
  comes("abcd");
  EXPECT_EQ(take(), Take::kDone);
  EXPECT_EQ(taken_, 0u);
  EXPECT_EQ(rest(), "abcd");
}

TEST_F(RecordInTheKernel, IsMissingBeforeAllOfTheLanesBytesIfNot) {
  record_.expect(kPeersToken, 3, false, true);
  EXPECT_FALSE(record_.may_be_missing());
  comes("abcd");
  EXPECT_EQ(take(), Take::kDone);
  EXPECT_EQ(taken_, 3u);
  EXPECT_EQ(rest(), "d");
}

TEST_F(RecordInTheKernel, SaysWhatComesAgain) {
  record_.expect(kPeersToken, 10, true, false);
  comes(record_with(4) + "456789new");
  EXPECT_EQ(take(), Take::kDone);
  EXPECT_EQ(taken_, sizeof(Resume) + 6);
  EXPECT_EQ(rest(), "new");
}

TEST_F(RecordInTheKernel, LetsWhatComesAgainComeInPieces) {
  record_.expect(kPeersToken, 10, false, true);
  comes(record_with(4) + "45");
  EXPECT_EQ(take(), Take::kAgain);
  EXPECT_TRUE(record_.is_expected());
  EXPECT_EQ(taken_, sizeof(Resume) + 2);
  EXPECT_EQ(take(), Take::kAgain);
  comes("67");
  EXPECT_EQ(take(), Take::kAgain);
  comes("89new");
  EXPECT_EQ(take(), Take::kDone);
  EXPECT_EQ(taken_, sizeof(Resume) + 6);
  EXPECT_EQ(rest(), "new");
}

TEST_F(RecordInTheKernel, MayNotLeaveAGap) {
  record_.expect(kPeersToken, 10, false, true);
  comes(record_with(11) + "new");
  EXPECT_EQ(take(), Take::kForged);
  EXPECT_EQ(errno, 0);
}

TEST_F(RecordInTheKernel, IsNotNeededBeforeTheEndIfAllHasCome) {
  for (const bool finished : {false, true}) {
    record_.expect(kPeersToken, 10, finished, true);
    end();
    await();
    EXPECT_EQ(take(), Take::kEnded);
    EXPECT_FALSE(record_.is_expected());
  }
}

TEST_F(RecordInTheKernel, MissingBeforeTheEndIsALossIfNotAllHasCome) {
  record_.expect(kPeersToken, 10, false, false);
  end();
  await();
  EXPECT_EQ(take(), Take::kReset);
  EXPECT_EQ(errno, 0);
}

TEST_F(RecordInTheKernel, IsFollowedByAllThatItSays) {
  record_.expect(kPeersToken, 10, false, true);
  comes(record_with(4) + "45");
  end();
  EXPECT_EQ(take(), Take::kReset);
  EXPECT_EQ(errno, 0);
}

TEST_F(RecordInTheKernel, GivesWayToTheKernelsReset) {
  record_.expect(kPeersToken, 10, false, true);
  const linger now{1, 0};
  ASSERT_EQ(::setsockopt(far_, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
  end();
  await();
  EXPECT_EQ(take(), Take::kReset);
  EXPECT_EQ(errno, 0);
  int error = 0;
  socklen_t length = sizeof error;
  EXPECT_EQ(::getsockopt(near_, SOL_SOCKET, SO_ERROR, &error, &length), 0);
  EXPECT_EQ(error, ECONNRESET) << "it may be another process's";
}

// A reset follows, as this end sends.
TEST_F(RecordInTheKernel, MayBeMissingBeforeAnEnd) {
  for (const bool complete : {true, false}) {
    record_.expect(kPeersToken, 10, false, complete);
    end();
    await();
    if (complete) {
      EXPECT_EQ(::send(near_, "x", 1, 0), 1);
    }
    for (pollfd at{near_, POLLIN, 0}; (at.revents & POLLERR) == 0;) ::poll(&at, 1, 1);
    EXPECT_EQ(take(), complete ? Take::kEnded : Take::kReset);
  }
}

TEST_F(RecordInTheKernel, MayComeInTwoParts) {
  for (std::size_t part = 1; part < sizeof(Resume); ++part) {
    record_.expect(kPeersToken, 10, true, true);
    const std::string record = record_with(10);
    comes(record.substr(0, part));
    EXPECT_EQ(take(), Take::kAgain) << part;
    comes(record.substr(part) + "new");
    EXPECT_EQ(take(), Take::kDone) << part;
    EXPECT_EQ(rest(), "new") << part;
  }
}

// A short message may look like the beginning of a record.
TEST_F(RecordInTheKernel, IsNotAwaitedForLongBehindAFewBytesThatLookLikeIt) {
  const std::string few = record_with(0).substr(0, 3);
  record_.expect(kPeersToken, 10, true, true);
  comes(few);
  EXPECT_EQ(take(), Take::kAgain);
  EXPECT_EQ(take(), Take::kAgain);
  let_doubt_pass();
  EXPECT_EQ(take(), Take::kDone);
  EXPECT_EQ(taken_, 0u);
  EXPECT_EQ(rest(), few);

  record_.expect(kPeersToken, 3, false, true);
  comes(few);
  EXPECT_EQ(take(), Take::kAgain) << "the doubt begins anew";
  let_doubt_pass();
  EXPECT_EQ(take(), Take::kDone);
  EXPECT_EQ(rest(), "") << "the lane has brought them";
}

// The network may lose the packet with the rest.
TEST_F(RecordInTheKernel, IsAwaitedBehindAPartThatOnlyThePeerKnows) {
  record_.expect(kPeersToken, 10, true, true);
  const std::string record = record_with(10);
  comes(record.substr(0, 4));
  EXPECT_EQ(take(), Take::kAgain);
  let_doubt_pass();
  EXPECT_EQ(take(), Take::kAgain);
  comes(record.substr(4) + "new");
  EXPECT_EQ(take(), Take::kDone);
  EXPECT_EQ(rest(), "new");
}

TEST_F(RecordInTheKernel, HasThePeersTokenAndNoOther) {
  for (std::size_t wrong = 0; wrong < kTokenBytes; ++wrong) {
    std::uint8_t token[kTokenBytes];
    std::copy(std::begin(kPeersToken), std::end(kPeersToken), token);
    token[wrong] ^= 0x40;
    record_.expect(kPeersToken, 10, true, true);
    const std::string record = record_with(10, token);
    comes(record);
    EXPECT_EQ(take(), Take::kDone);
    EXPECT_EQ(rest(), record) << "these are data";
  }
}

TEST_F(RecordInTheKernel, IsForgotten) {
  record_.expect(kPeersToken, 10, true, true);
  record_.forget();
  EXPECT_FALSE(record_.is_expected());
}

// ---------------------------------------------------------------------------- several processes

// In memory that a child shares.
class SharedRecord : public RecordInTheKernel {
 protected:
  void SetUp() override {
    RecordInTheKernel::SetUp();
    memory_ = ::mmap(nullptr, sizeof(ResumeRecord), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory_, MAP_FAILED);
    shared_ = new (memory_) ResumeRecord;
  }
  void TearDown() override {
    ::munmap(memory_, sizeof(ResumeRecord));
    RecordInTheKernel::TearDown();
  }
  template <class F>
  static int in_child(F&& f) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(f());
    int status = -1;
    ::waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  }

  void* memory_ = nullptr;
  ResumeRecord* shared_ = nullptr;
};

TEST_F(SharedRecord, IsTakenByOneForAll) {
  shared_->expect(kPeersToken, 10, false, true);
  comes(record_with(8) + "89new");
  EXPECT_EQ(in_child([&] { return static_cast<int>(take(*shared_)); }), static_cast<int>(Take::kDone));
  EXPECT_FALSE(shared_->is_expected());
  EXPECT_EQ(rest(), "new");
}

TEST_F(SharedRecord, TakesTheRecordOfOneProcess) {
  record_.expect(kPeersToken, 10, true, false);
  record_.move_to(*shared_);
  EXPECT_FALSE(record_.is_expected());
  EXPECT_TRUE(shared_->is_expected() && shared_->may_be_missing());
  comes(record_with(8) + "89new");
  EXPECT_EQ(in_child([&] { return static_cast<int>(take(*shared_)); }), static_cast<int>(Take::kDone));
  EXPECT_EQ(rest(), "new");
}

TEST_F(SharedRecord, TakesOverWhatHasYetToBeDropped) {
  record_.expect(kPeersToken, 10, false, true);
  comes(record_with(4) + "45");
  EXPECT_EQ(take(), Take::kAgain);
  record_.move_to(*shared_);
  comes("6789new");
  EXPECT_EQ(take(*shared_), Take::kDone);
  EXPECT_EQ(rest(), "new");
}

TEST_F(SharedRecord, KnowsWhetherTheEndMayComeInstead) {
  record_.expect(kPeersToken, 10, false, false);
  record_.move_to(*shared_);
  end();
  await();
  EXPECT_EQ(take(*shared_), Take::kReset);
}

// The child is in the middle of taking it.
TEST_F(SharedRecord, IsTakenByOneAtATimeAndByTheNextIfThatDies) {
  static int told[2];
  ASSERT_EQ(::pipe(told), 0);
  shared_->expect(kPeersToken, 10, true, true);
  comes(record_with(10) + "new");
  const pid_t child = ::fork();
  if (child == 0) {
    libc::recv = [](int, void*, std::size_t, int) -> ssize_t {
      [[maybe_unused]] const ssize_t put = ::write(told[1], "x", 1);
      for (;;) ::pause();
    };
    take(*shared_);
  }
  char byte;
  ASSERT_EQ(::read(told[0], &byte, 1), 1);
  EXPECT_EQ(take(*shared_), Take::kAgain);
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(take(*shared_), Take::kDone);
  EXPECT_EQ(rest(), "new");
  ::close(told[0]);
  ::close(told[1]);
}

}  // namespace
}  // namespace viaduct::sovia
