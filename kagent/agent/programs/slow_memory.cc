#include "kagent/agent/programs/slow_memory.h"

#include <fcntl.h>

#include <algorithm>
#include <exception>
#include <utility>

#include "xdp/clock.h"

namespace viaduct {
namespace {

constexpr std::uint64_t kReadKeptNs = 5 * kNsPerMs;  // its reader may be gone

std::size_t bytes_of(std::span<const iovec> pieces) {
  std::size_t out = 0;
  for (const iovec& piece : pieces) out += piece.iov_len;
  return out;
}

// The pieces without their first `bytes` bytes.
std::vector<iovec> without(std::span<const iovec> pieces, std::size_t bytes) {
  std::vector<iovec> out;
  for (const iovec& piece : pieces) {
    const std::size_t less = std::min(bytes, piece.iov_len);
    bytes -= less;
    if (less == piece.iov_len) continue;
    out.push_back({static_cast<std::byte*>(piece.iov_base) + less, piece.iov_len - less});
  }
  return out;
}

}  // namespace

std::function<void()> SlowMemory::take_over(std::shared_ptr<ProgramCopy> copy) {
  under_way_ = true;
  left_at_ = monotonic_ns();
  threads_.note_hung(owner_.account);
  if (copy->reads()) {
    read_wanted_ = true;
  } else {
    ++writes_;
    waiting_bytes_ += copy->data().size();
  }
  // The memory stays open as long as the copy may use it.
  return [self = weak_from_this(), file = memory_.file(), copy = std::move(copy), &threads = threads_,
          account = owner_.account] {
    threads.note_over(account);
    if (const auto alive = self.lock()) alive->over({copy});
  };
}

bool SlowMemory::write(std::span<const iovec> remote, std::span<const iovec> local,
                       std::size_t skip) {
  const std::vector<iovec> to = without(remote, skip), from = without(local, skip);
  const std::size_t bytes = bytes_of(to);
  if (!memory_.is_open() || waiting_bytes_ + bytes > 2 * kMostBytes) return false;
  if (bytes == 0) return true;
  auto copy = std::make_shared<ProgramCopy>(bytes);
  copy->begin(memory_.file()->get(), false);
  for (const iovec& piece : to) copy->add(piece);
  if (!gather(from, copy->data())) return false;
  waiting_.push_back(std::move(copy));
  waiting_bytes_ += bytes;
  ++writes_;
  start();
  return true;
}

// Fulfils a read from the data that has been read already. False: that is data of other places, or another message's.
bool SlowMemory::answer(const Environment::Reader& reader, std::span<const iovec> remote,
                        std::span<const iovec> local, bool& good) {
  const std::span<const iovec> have = read_->pieces();
  if (reader != reader_ || remote.size() > have.size()) return false;
  for (std::size_t i = 0; i < remote.size(); ++i) {
    const bool same = remote[i].iov_base == have[i].iov_base &&
                      (remote[i].iov_len == have[i].iov_len ||
                       (remote[i].iov_len < have[i].iov_len && i + 1 == remote.size()));
    if (!same) return false;
  }
  good = read_->good() && scatter(read_->data().first(bytes_of(remote)), local);
  return true;
}

bool SlowMemory::read(const Environment::Reader& reader, std::span<const iovec> remote,
                      std::span<const iovec> local, bool& postponed, std::uint64_t now) {
  if (!memory_.is_open()) return false;
  if (read_ != nullptr) {
    bool good = false;
    if (answer(reader, remote, local, good)) {
      read_.reset();
      next_send_ = true;
      return good;
    }
    look(now);
    if (read_ != nullptr) return postponed = true, false;
  }
  postponed = true;
  if (read_wanted_) return false;
  read_wanted_ = true;
  reader_ = reader;
  auto copy = std::make_shared<ProgramCopy>(bytes_of(remote));
  copy->begin(memory_.file()->get(), true);
  for (const iovec& piece : remote) copy->add(piece);
  waiting_.push_back(std::move(copy));
  start();
  return false;
}

// Gives all copies that wait to the thread, in one piece of work.
void SlowMemory::start() {
  if (under_way_ || given_up_ || waiting_.empty()) return;
  const auto copies =
      std::make_shared<std::vector<std::shared_ptr<ProgramCopy>>>(std::exchange(waiting_, {}));
  UserThreads::Piece piece;
  piece.work = [copies](const UserThreads::Files& files) {
    HangGuard::Turn alone;
    for (const auto& copy : *copies) {
      copy->set_memory(files.empty() ? -1 : files[0].get());
      copy->run(alone);
    }
    return UserThreads::Files();
  };
  piece.done = [self = weak_from_this(), copies](const UserThreads::Files&) {
    if (const auto alive = self.lock()) alive->over(*copies);
  };
  piece.late = [self = weak_from_this()] {
    if (const auto alive = self.lock()) alive->given_up_ = true;
  };
  piece.files.emplace_back(fcntl(memory_.file()->get(), F_DUPFD_CLOEXEC, 0));
  under_way_ = true;
  try {
    threads_.give(owner_, std::move(piece));
  } catch (const std::exception&) {
    given_up_ = true;  // no thread
  }
}

void SlowMemory::over(const std::vector<std::shared_ptr<ProgramCopy>>& copies) {
  under_way_ = false;
  left_at_ = 0;
  for (const auto& copy : copies) {
    if (copy->reads()) {
      read_wanted_ = false;
      read_ = copy;
      read_at_ = monotonic_ns();
      next_send_ = true;
    } else {
      ++written_;
      waiting_bytes_ -= copy->data().size();
      failed_ = failed_ || !copy->good();
    }
  }
  start();
}

bool SlowMemory::await_read(const Environment::Late& what) {
  const bool there = std::any_of(sends_.begin(), sends_.end(),
                                 [&](const Environment::Late& each) { return each.vi == what.vi; });
  if (!there) sends_.push_back(what);
  if (read_ == nullptr && !read_wanted_) next_send_ = true;
  return true;
}

bool SlowMemory::look(std::uint64_t now) {
  if (read_ != nullptr && now >= read_at_ + kReadKeptNs) {
    read_.reset();
    next_send_ = true;
  }
  return !given_up_ && (left_at_ == 0 || now < left_at_ + UserThreads::kPatienceNs);
}

std::uint64_t SlowMemory::next_look() const {
  if (given_up_) return 0;
  const std::uint64_t next = left_at_ != 0 ? left_at_ + UserThreads::kPatienceNs : ~0ull;
  return read_ != nullptr && !sends_.empty() ? std::min(next, read_at_ + kReadKeptNs) : next;
}

bool SlowMemory::take_due(Environment::Late& out, bool& failed) {
  if (next_send_ && !sends_.empty()) {
    out = sends_.front();
    failed = false;
    sends_.pop_front();
    next_send_ = false;
    return true;
  }
  if (late_.empty() || late_.front().after > written_) return false;
  out = late_.front().what;
  failed = failed_;
  late_.pop_front();
  if (!is_late()) failed_ = false;
  return true;
}

}  // namespace viaduct
