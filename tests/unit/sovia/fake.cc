#include "tests/unit/sovia/fake.h"

#include <netinet/in.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "sovia/poll/epoll_set.h"
#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/socket/socket_pool.h"
#include "sovia/sovia.h"
#include "sovia/socket/table.h"
#include "sovia/process/signals.h"
#include "sovia/lane/engine.h"
#include "sovia/lane/waiting.h"

namespace viaduct::sovia {
namespace fake {

Calls calls;
std::atomic<int> sleeping{0};

namespace {

constexpr unsigned kDescriptors = 65536;
table::Entry g_table[kDescriptors];

std::mutex g_lock;
std::map<const SocketRoute*, std::unique_ptr<LaneState>> g_lanes;

struct Sleeper {
  Interest& interest;
  int bell;
};
std::mutex g_sleepers_lock;
std::vector<Sleeper*> g_sleepers;

decltype(kernel::poll) real_poll;
decltype(kernel::ppoll) real_ppoll;
decltype(kernel::epoll_wait) real_epoll_wait;
decltype(kernel::epoll_pwait) real_epoll_pwait;
decltype(kernel::epoll_ctl) real_epoll_ctl;

struct Prepare {
  Prepare() {
    kernel::prepare();
    real_poll = kernel::poll;
    real_ppoll = kernel::ppoll;
    real_epoll_wait = kernel::epoll_wait;
    real_epoll_pwait = kernel::epoll_pwait;
    real_epoll_ctl = kernel::epoll_ctl;
    kernel::poll = [](pollfd* fds, nfds_t count, int timeout) {
      ++calls.poll;
      return real_poll(fds, count, timeout);
    };
    kernel::ppoll = [](pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
      ++calls.poll;
      return real_ppoll(fds, count, timeout, mask);
    };
    kernel::epoll_wait = [](int epfd, epoll_event* events, int most, int timeout) {
      ++calls.epoll_wait;
      return real_epoll_wait(epfd, events, most, timeout);
    };
    kernel::epoll_pwait = [](int epfd, epoll_event* events, int most, int timeout,
                             const sigset_t* mask) {
      ++calls.epoll_wait;
      return real_epoll_pwait(epfd, events, most, timeout, mask);
    };
    kernel::epoll_ctl = [](int epfd, int op, int fd, epoll_event* event) noexcept {
      ++calls.epoll_ctl;
      return real_epoll_ctl(epfd, op, fd, event);
    };
    table::g_entries = g_table;
    table::g_limit = kDescriptors;
  }
} prepare;

}  // namespace

LaneState& lane(SocketRoute& socket) {
  const std::lock_guard guard(g_lock);
  return *g_lanes.at(&socket);
}

void changed(SocketRoute& socket, short what) {
  socket.tell(what);
  const std::lock_guard guard(g_sleepers_lock);
  for (const Sleeper* sleeper : g_sleepers) {
    if (sleeper->interest.concerns(socket)) ::eventfd_write(sleeper->bell, 1);
  }
}

// ---------------------------------------------------------------------------- connections
Connection::Connection() {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const at = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(::bind(listener, at, length), 0);
  EXPECT_EQ(::listen(listener, 1), 0);
  EXPECT_EQ(::getsockname(listener, at, &length), 0);
  fd_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  EXPECT_EQ(::connect(fd_, at, length) == 0 || errno == EINPROGRESS, true);
  peer_ = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
  EXPECT_GE(peer_, 0);
  ::close(listener);
  table::opened(fd_);
  socket_ = table::find(fd_).get();
}

Connection::~Connection() {
  for (int fd = 0; fd < 1024; ++fd) {
    if (table::peek(fd) == socket_) close_descriptor(fd);
  }
  close_peer();
}

void Connection::peer_sends(const std::string& text) {
  EXPECT_EQ(::send(peer_, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
}

std::string Connection::receive() {
  char text[256];
  const ssize_t bytes = ::recv(fd_, text, sizeof text, MSG_DONTWAIT);
  return {text, static_cast<std::size_t>(bytes < 0 ? 0 : bytes)};
}

void Connection::close_peer() {
  if (peer_ >= 0) ::close(peer_);
  peer_ = -1;
}

void Connection::up() {
  lane().in = lane().out = lane().room = true;
  changed(socket());
}

void Connection::down() {
  lane().in = lane().out = lane().data = lane().room = false;
  changed(socket());
}

void Connection::data(bool there) {
  lane().data = there;
  if (there) changed(socket(), POLLIN);
}

void Connection::room(bool there) {
  lane().room = there;
  if (there) changed(socket(), POLLOUT);
}

int Connection::dup() {
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  table::copied(fd_, copy);
  return copy;
}

void close_descriptor(int fd) {
  const SocketRef socket = table::closing(fd);
  epoll_sets::closing(fd, socket.get());
  ::close(fd);
}

Pipe::Pipe() { EXPECT_EQ(::pipe2(fds_, O_CLOEXEC | O_NONBLOCK), 0); }
Pipe::~Pipe() {
  ::close(fds_[0]);
  ::close(fds_[1]);
}
void Pipe::fill() { EXPECT_EQ(::write(fds_[1], "x", 1), 1); }
void Pipe::drain() {
  char buffer[64];
  while (::read(fds_[0], buffer, sizeof buffer) > 0) continue;
}
void Pipe::close_writer() {
  ::close(fds_[1]);
  fds_[1] = -1;
}

Epoll::Epoll() : fd_(sovia_epoll_create1(EPOLL_CLOEXEC)) { EXPECT_GE(fd_, 0); }
Epoll::~Epoll() { close(); }
void Epoll::close() {
  if (fd_ >= 0) close_descriptor(fd_);
  fd_ = -1;
}

int Epoll::add(int fd, std::uint32_t events, std::uint64_t data) {
  epoll_event event{events, {.u64 = data}};
  return sovia_epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}
int Epoll::modify(int fd, std::uint32_t events, std::uint64_t data) {
  epoll_event event{events, {.u64 = data}};
  return sovia_epoll_ctl(fd_, EPOLL_CTL_MOD, fd, &event) == 0 ? 0 : -errno;
}
int Epoll::remove(int fd) {
  return sovia_epoll_ctl(fd_, EPOLL_CTL_DEL, fd, nullptr) == 0 ? 0 : -errno;
}

std::string Epoll::wait(int timeout, int most) {
  epoll_event events[64];
  const int count = sovia_epoll_wait(fd_, events, most, timeout);
  if (count < 0) return strerror(errno);
  std::vector<std::string> lines;
  for (int i = 0; i < count; ++i) {
    std::string line = std::to_string(events[i].data.u64) + ":";
    const std::pair<std::uint32_t, const char*> names[] = {
        {EPOLLIN, "IN"},   {EPOLLOUT, "OUT"},     {EPOLLPRI, "PRI"},
        {EPOLLERR, "ERR"}, {EPOLLHUP, "HUP"},     {EPOLLRDHUP, "RDHUP"}};
    for (const auto& [bit, name] : names) {
      if (events[i].events & bit) line += std::string(line.back() == ':' ? "" : "|") + name;
    }
    lines.push_back(line);
  }
  std::sort(lines.begin(), lines.end());
  std::string all;
  for (const std::string& line : lines) all += (all.empty() ? "" : " ") + line;
  return all;
}

}  // namespace fake

using fake::lane;

// ---------------------------------------------------------------------------- sockets
SocketRef& SocketRef::operator=(SocketRef&& other) noexcept {
  std::swap(socket_, other.socket_);
  return *this;
}
void SocketRef::reset() { socket_ = nullptr; }

bool SocketReady::kernel_knows_all() { 
  const fake::LaneState& state = lane(*this);
  return !state.in && !state.out && !state.open;
}

short SocketReady::ask_kernel(short wanted) {
  const fake::LaneState& state = lane(*this);
  short ask = wanted;
  if (state.in) ask &= static_cast<short>(~(POLLIN | POLLRDHUP | POLLPRI));
  if (state.out) ask &= static_cast<short>(~POLLOUT);
  return ask;
}

short SocketReady::answer(short wanted, short kernel_says, int) {
  fake::LaneState& state = lane(*this);
  ++state.answers;
  short says = kernel_says;
  if (state.in) {
    says &= static_cast<short>(~(POLLIN | POLLRDHUP | POLLHUP | POLLERR | POLLPRI));
    if (state.data) says |= POLLIN;
  }
  if (state.early) says &= static_cast<short>(~(POLLIN | POLLRDHUP | POLLHUP));
  if (state.out) {
    says &= static_cast<short>(~POLLOUT);
    if (state.room) says |= POLLOUT;
  }
  return static_cast<short>(says & (wanted | POLLERR | POLLHUP));
}

void SocketLeave::leave_for_good(int, Reason why) {
  ++lane(*this).left;
  lane(*this).in = lane(*this).out = false;
  forbid(why);
  fake::changed(*this);
}

void SocketLane::forbid(Reason) { lane_wanted_ = false; }

Socket* SocketPool::make(bool read_known) {
  auto* const socket = new Socket(read_known);  // never freed: the tests are short
  const std::lock_guard guard(fake::g_lock);
  fake::g_lanes[socket] = std::make_unique<fake::LaneState>();
  socket->descriptors_ = 1;
  return socket;
}

void SocketPool::add_descriptor(Socket& socket) { ++socket.descriptors_; }
void SocketPool::remove_descriptor(Socket& socket) { --socket.descriptors_; }

// ---------------------------------------------------------------------------- table
namespace table {

constinit Entry* g_entries = nullptr;
constinit unsigned g_limit = 0;

Socket* look(int) { return nullptr; }
SocketRef find(int fd) { return SocketRef(peek(fd)); }
void opened(int fd, Origin origin) {
  g_entries[fd] = reinterpret_cast<std::uintptr_t>(SocketPool::make(origin == Origin::kMade));
}
void copied(int fd, int copy) {
  SocketPool::add_descriptor(*peek(fd));
  g_entries[copy] = g_entries[fd].load();
}
SocketRef closing(int fd) {
  Socket* const socket = peek(fd);
  g_entries[fd] = kUnknown;
  if (socket != nullptr) SocketPool::remove_descriptor(*socket);
  return SocketRef(socket);
}

}  // namespace table

namespace own_descriptors {
int adopt(int fd) { return fd; }
void release(int) {}
}  // namespace own_descriptors

// ---------------------------------------------------------------------------- waiting
bool progress() { return false; }

// Handlers run at once.
namespace signals {
constinit thread_local volatile int t_inside = 0;
constinit thread_local volatile bool t_held_back = false;
bool run_held_back(const sigset_t*) { return true; }
void Inside::run_held_back_at_end() {}
Outside::Outside() : depth_(t_inside) {}
Outside::~Outside() = default;
}  // namespace signals

Woken wait_for(Interest& interest, pollfd* fds, nfds_t count, std::uint64_t deadline,
               const sigset_t* mask, bool, Signals) {
  if (interest.ready()) return Woken::kReady;
  struct Asleep {
    fake::Sleeper sleeper;
    explicit Asleep(Interest& interest)
        : sleeper{interest, ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)} {
      const std::lock_guard guard(fake::g_sleepers_lock);
      fake::g_sleepers.push_back(&sleeper);
      ++fake::sleeping;
    }
    ~Asleep() {
      const std::lock_guard guard(fake::g_sleepers_lock);
      std::erase(fake::g_sleepers, &sleeper);
      ::close(sleeper.bell);
      --fake::sleeping;
    }
  } asleep(interest);
  std::vector<pollfd> all(fds, fds + count);
  all.push_back({asleep.sleeper.bell, POLLIN, 0});
  for (;;) {
    if (interest.ready()) return Woken::kReady;
    const std::uint64_t now = now_ns();
    const std::uint64_t left = deadline > now ? deadline - now : 0;
    const timespec time{static_cast<time_t>(left / 1'000'000'000),
                        static_cast<long>(left % 1'000'000'000)};
    const int ready =
        fake::real_ppoll(all.data(), all.size(), deadline == kNever ? nullptr : &time, mask);
    if (ready < 0) return Woken::kSignal;
    if (ready == 0) return Woken::kTimeout;
    eventfd_t value;
    if (all.back().revents != 0) ::eventfd_read(asleep.sleeper.bell, &value);
    bool any = false;
    for (nfds_t i = 0; i < count; ++i) any |= (fds[i].revents = all[i].revents) != 0;
    if (any) return Woken::kDescriptors;
  }
}

}  // namespace viaduct::sovia
