#include "kagent/agent/process/user_threads.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "kagent/agent/process/descriptor_table.h"

namespace viaduct {
namespace {

constexpr std::uint64_t kIdleNs = 10 * kNsPerSecond;  // after which a thread ends

constexpr char kOwnTable = 'o', kSharedTable = 's', kWork = 'w';

[[noreturn]] void fail(const char* what, int error = errno) {
  throw std::system_error(error, std::generic_category(), what);
}

bool send_files(int channel, char what, const UserThreads::Files& files, int flags) {
  alignas(cmsghdr) char room[CMSG_SPACE(UserThreads::kMostFiles * sizeof(int))] = {};
  iovec piece{&what, 1};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!files.empty()) {
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
    cmsghdr* const rights = CMSG_FIRSTHDR(&message);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
    for (std::size_t i = 0; i < files.size(); ++i) {
      const int fd = files[i].get();
      std::memcpy(CMSG_DATA(rights) + i * sizeof fd, &fd, sizeof fd);
    }
  }
  return sendmsg(channel, &message, MSG_NOSIGNAL | flags) == 1;
}

// False: the other end is closed, or nothing is there.
bool receive_files(int channel, char& what, UserThreads::Files& files, int flags) {
  alignas(cmsghdr) char room[CMSG_SPACE(UserThreads::kMostFiles * sizeof(int))];
  iovec piece{&what, 1};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = room;
  message.msg_controllen = sizeof room;
  ssize_t bytes;
  do {
    bytes = recvmsg(channel, &message, MSG_CMSG_CLOEXEC | flags);
  } while (bytes < 0 && errno == EINTR);
  if (bytes != 1) return false;
  const cmsghdr* const rights = CMSG_FIRSTHDR(&message);
  if (rights == nullptr || rights->cmsg_type != SCM_RIGHTS) return true;
  for (std::size_t at = CMSG_LEN(0); at + sizeof(int) <= rights->cmsg_len; at += sizeof(int)) {
    int fd;
    std::memcpy(&fd, reinterpret_cast<const char*>(rights) + at, sizeof fd);
    files.emplace_back(fd);
  }
  return true;
}

}  // namespace

// Work for a thread.
struct UserThreads::Job {
  std::mutex mutex;
  std::function<Files(Files)> work;
};

struct UserThreads::Worker {
  Owner owner;
  std::shared_ptr<Job> job;
  Descriptor channel;            // the loop's end
  EventLoop::Token token;
  bool busy, hangs;
  std::uint64_t since;           // when it began what it does, or when it became idle
  Piece current;                 // without its `work`
  std::deque<Piece> wanted;
};

UserThreads::UserThreads(EventLoop& loop) : loop_(loop) {}

UserThreads::~UserThreads() {
  while (!workers_.empty()) end(workers_.begin());
}

void UserThreads::count(uid_t account, int change) {
  busy_ += static_cast<std::size_t>(change);
  std::size_t& of_account = busy_of_account_[account];
  of_account += static_cast<std::size_t>(change);
  if (of_account == 0) busy_of_account_.erase(account);
}

std::size_t UserThreads::busy(uid_t account) const {
  const auto it = busy_of_account_.find(account);
  return it == busy_of_account_.end() ? 0 : it->second;
}

unsigned UserThreads::hung(uid_t account) const {
  const auto it = hung_.find(account);
  return it == hung_.end() ? 0 : it->second;
}

void UserThreads::note_over(uid_t account) {
  const auto it = hung_.find(account);
  if (it != hung_.end() && --it->second == 0) hung_.erase(it);
}

// The loop waits until a new thread has its own table, so that nothing of the loop's is kept there.
UserThreads::Workers::iterator UserThreads::worker_of(Owner owner) {
  const auto known = by_owner_.find(owner);
  if (known != by_owner_.end()) return known->second;
  if (!may_have(owner.account)) fail("the user's threads hang", EAGAIN);
  const auto others = static_cast<std::size_t>(std::count_if(
      workers_.begin(), workers_.end(), [](const Worker& each) { return each.owner.account != 0; }));
  if (owner.account != 0 && others >= kMostThreads) fail("too many threads", EAGAIN);
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) fail("socketpair");
  Descriptor ours(ends[0]), its(ends[1]);
  const auto job = std::make_shared<Job>();
  std::thread([channel = its.get(), job] { run(Descriptor(channel), job); }).detach();
  char table = kSharedTable;
  Files none;
  receive_files(ours.get(), table, none, 0);
  if (table == kSharedTable) its.release();
  const auto worker = workers_.insert(workers_.end(), Worker{owner, job, std::move(ours), 0, false, false, 0, {}, {}});
  try {
    worker->token = loop_.add(worker->channel.get(), EPOLLIN, [this, worker](std::uint32_t) { report(worker); });
  } catch (...) {
    workers_.erase(worker);
    throw;
  }
  worker->since = monotonic_ns();
  by_owner_.emplace(owner, worker);
  return worker;
}

void UserThreads::give(Owner owner, Piece piece) {
  Worker& worker = *worker_of(owner);
  count(owner.account, 1);
  worker.wanted.push_back(std::move(piece));
  if (!worker.busy) begin(worker);
}

// Hands the next piece to the thread, which waits for it.
void UserThreads::begin(Worker& worker) {
  worker.current = std::move(worker.wanted.front());
  worker.wanted.pop_front();
  worker.busy = true;
  worker.since = monotonic_ns();
  {
    const std::lock_guard lock(worker.job->mutex);
    worker.job->work = std::move(worker.current.work);
  }
  // Without its files the work fails, and says so.
  if (!send_files(worker.channel.get(), kWork, worker.current.files, MSG_DONTWAIT)) {
    send_files(worker.channel.get(), kWork, {}, MSG_DONTWAIT);
  }
  worker.current.files.clear();
}

void UserThreads::run(Descriptor channel, std::shared_ptr<Job> job) {
  char what = leave_table(channel.get()) ? kOwnTable : kSharedTable;
  send_files(channel.get(), what, {}, 0);
  for (Files files; receive_files(channel.get(), what, files, 0); files.clear()) {
    std::function<Files(Files)> work;
    {
      const std::lock_guard lock(job->mutex);
      work = std::exchange(job->work, nullptr);
    }
    const Files out = work(std::move(files));
    work = nullptr;
    if (!send_files(channel.get(), kWork, out, 0)) send_files(channel.get(), kWork, {}, 0);
  }
}

void UserThreads::report(Workers::iterator worker) {
  char what;
  Files files;
  if (!receive_files(worker->channel.get(), what, files, MSG_DONTWAIT)) return;
  if (worker->hangs) {
    note_over(worker->owner.account);
    return end(worker);
  }
  const Piece piece = std::exchange(worker->current, {});
  worker->busy = false;
  worker->since = monotonic_ns();
  count(worker->owner.account, -1);
  if (!worker->wanted.empty()) begin(*worker);
  if (piece.done) piece.done(std::move(files));
}

// The thread ends when it sees its channel closed.
void UserThreads::end(Workers::iterator worker) {
  loop_.remove(worker->token);
  const auto known = by_owner_.find(worker->owner);
  if (known != by_owner_.end() && known->second == worker) by_owner_.erase(known);
  workers_.erase(worker);
}

void UserThreads::give_up(Workers::iterator worker, std::vector<std::function<void()>>& late) {
  const Owner owner = worker->owner;
  worker->hangs = true;
  by_owner_.erase(owner);
  note_hung(owner.account);
  count(owner.account, -1);
  late.push_back(std::exchange(worker->current, {}).late);
  std::deque<Piece> wanted = std::exchange(worker->wanted, {});
  if (wanted.empty()) return;
  try {
    Worker& other = *worker_of(owner);
    other.wanted = std::move(wanted);
    begin(other);
  } catch (const std::exception&) {
    for (Piece& piece : wanted) {
      count(owner.account, -1);
      if (piece.late) late.push_back(std::move(piece.late));
    }
  }
}

void UserThreads::look(std::uint64_t now) {
  std::vector<std::function<void()>> late;
  for (auto it = workers_.begin(); it != workers_.end();) {
    const auto worker = it++;
    if (worker->hangs) continue;
    if (!worker->busy) {
      if (now >= worker->since + kIdleNs) end(worker);
    } else if (worker->current.late && now >= worker->since + kPatienceNs) {
      give_up(worker, late);
    }
  }
  for (const auto& each : late) each();
}

std::uint64_t UserThreads::next_look() const {
  std::uint64_t next = ~0ull;
  for (const Worker& worker : workers_) {
    if (worker.hangs || (worker.busy && !worker.current.late)) continue;
    next = std::min(next, worker.since + (worker.busy ? kPatienceNs : kIdleNs));
  }
  return next;
}

}  // namespace viaduct
