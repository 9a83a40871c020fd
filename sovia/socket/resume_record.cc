#include "sovia/socket/resume_record.h"

#include <endian.h>
#include <errno.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "sovia/lane/tcp_route.h"
#include "sovia/process/clock.h"
#include "sovia/process/libc.h"
#include "sovia/process/units.h"

namespace viaduct::sovia {
namespace {

// The first bytes of a message may look like those of a record, which the network may have cut. So many are enough to know.
constexpr std::size_t kSureBytes = 4;
constexpr std::uint64_t kDoubtNs = 1'000'000'000;

}  // namespace

void ResumeRecord::expect(const std::uint8_t* token, std::uint64_t received, bool finished, bool complete) {
  std::copy_n(token, kTokenBytes, token_);
  finished_.store(finished);
  complete_.store(complete);
  received_.store(received);
  doubtful_since_.store(0);
  state_.store(State::kExpected);
}

void ResumeRecord::move_to(ResumeRecord& to) {
  std::copy_n(token_, kTokenBytes, to.token_);
  to.doubtful_since_.store(0);
  to.received_.store(received_.load());
  to.skip_.store(skip_.load());
  to.finished_.store(finished_.load());
  to.complete_.store(complete_.load());
  to.state_.store(state_.exchange(State::kNone));
}

// A record has the token reversed, as the token begins with a small number.
bool ResumeRecord::can_begin(const std::uint8_t* token, const Resume& resume, std::size_t bytes) {
  for (std::size_t i = 0; i < std::min(bytes, kTokenBytes); ++i) {
    if (resume.token[i] != token[kTokenBytes - 1 - i]) return false;
  }
  return true;
}

std::uint64_t ResumeRecord::brought_twice(int fd, std::uint64_t at, const std::uint8_t* token, std::uint64_t received) {
  Resume resume;
  // The bytes before are copied over each other.
  constexpr std::size_t kPieces = 256;
  char dropped[kPage];
  iovec pieces[kPieces];
  std::size_t count = 0;
  for (std::uint64_t left = at; left != 0; left -= pieces[count++].iov_len) {
    if (count == kPieces - 1) return 0;
    pieces[count] = {dropped, std::min<std::uint64_t>(left, sizeof dropped)};
  }
  pieces[count++] = {&resume, sizeof resume};
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = count;
  const ssize_t got = libc::recvmsg(fd, &message, MSG_PEEK | MSG_DONTWAIT);
  if (got != static_cast<ssize_t>(at + sizeof resume) || !can_begin(token, resume, sizeof resume)) return 0;
  return received - std::min(received, be64toh(resume.offset));
}

ResumeRecord::Take ResumeRecord::take(int fd, std::uint64_t& taken) {
  const auto self = static_cast<std::int32_t>(getpid());
  std::int32_t before = 0;
  if (!taker_.compare_exchange_strong(before, self)) {
    if (kill(before, 0) == 0 || errno != ESRCH || !taker_.compare_exchange_strong(before, self)) return Take::kAgain;
  }
  const Take result = take_alone(fd, taken);
  taker_.store(0);
  return result;
}

namespace {

bool is_again() { return errno == EAGAIN || errno == EINTR; }

}  // namespace

// kDone: the bytes to drop are known.
ResumeRecord::Take ResumeRecord::take_head(int fd, std::uint64_t& taken) {
  errno = 0;
  if (has_only_error(fd)) return complete_.load() && has_end_before_error(fd, taken) ? Take::kEnded : Take::kReset;
  const bool more = may_get_more(fd);  // asked first, as the end may come at any time
  Resume resume;
  const ssize_t got = libc::recv(fd, &resume, sizeof resume, MSG_PEEK | MSG_DONTWAIT);
  if (got < 0) return is_again() ? Take::kAgain : Take::kReset;
  if (got == 0 && more) return Take::kAgain;
  errno = 0;
  if (got == 0) return complete_.load() ? Take::kEnded : Take::kReset;
  bool there = can_begin(token_, resume, static_cast<std::size_t>(got));
  if (there && static_cast<std::size_t>(got) < sizeof resume) {
    if (static_cast<std::size_t>(got) >= kSureBytes) return Take::kAgain;
    const std::uint64_t now = now_ns();
    if (doubtful_since_.load() == 0) doubtful_since_.store(now);
    if (now - doubtful_since_.load() < kDoubtNs) return Take::kAgain;
    there = false;
  }
  const std::uint64_t received = received_.load();
  std::uint64_t offset = finished_.load() ? received : 0;
  if (there) {
    libc::recv(fd, &resume, sizeof resume, MSG_DONTWAIT);
    taken += sizeof resume;
    offset = be64toh(resume.offset);
  }
  if (offset > received) return Take::kForged;
  skip_.store(received - offset);
  state_.store(State::kSkipping);
  return Take::kDone;
}

ResumeRecord::Take ResumeRecord::take_alone(int fd, std::uint64_t& taken) {
  if (state_.load() == State::kExpected) {
    const Take head = take_head(fd, taken);
    if (head == Take::kEnded) state_.store(State::kNone);
    if (head != Take::kDone) return head;
  }
  while (const std::uint64_t skip = skip_.load()) {
    constexpr std::uint64_t kMost = 1 << 20;
    errno = 0;
    if (has_only_error(fd)) return Take::kReset;
    const bool more = may_get_more(fd);
    const ssize_t got = libc::recv(fd, nullptr, std::min(skip, kMost), MSG_TRUNC | MSG_DONTWAIT);
    if (got < 0) return is_again() ? Take::kAgain : Take::kReset;
    if (got == 0 && more) return Take::kAgain;
    errno = 0;
    if (got == 0) return Take::kReset;
    taken += static_cast<std::uint64_t>(got);
    skip_.store(skip - static_cast<std::uint64_t>(got));
  }
  state_.store(State::kNone);
  return Take::kDone;
}

}  // namespace viaduct::sovia
