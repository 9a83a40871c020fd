#include "tests/unit/sovia/laned_connection.h"

#include <endian.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "sovia/poll/epoll_set.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/lane_life.h"
#include "sovia/socket/table.h"
#include "sovia/sovia.h"

namespace viaduct::sovia::ready {

Calls calls;

namespace {

decltype(libc::poll) real_poll;
decltype(libc::ppoll) real_ppoll;
decltype(libc::epoll_wait) real_epoll_wait;
decltype(libc::epoll_pwait) real_epoll_pwait;
decltype(libc::epoll_ctl) real_epoll_ctl;

void set_route(std::uint64_t route) { const_cast<Options&>(options()).route = route; }

struct Prepare {
  Prepare() {
    libc::prepare();
    set_route(kRouteLane);
    real_poll = libc::poll;
    real_ppoll = libc::ppoll;
    real_epoll_wait = libc::epoll_wait;
    real_epoll_pwait = libc::epoll_pwait;
    real_epoll_ctl = libc::epoll_ctl;
    libc::poll = [](pollfd* fds, nfds_t count, int timeout) {
      ++calls.poll;
      return real_poll(fds, count, timeout);
    };
    libc::ppoll = [](pollfd* fds, nfds_t count, const timespec* timeout, const sigset_t* mask) {
      ++calls.poll;
      return real_ppoll(fds, count, timeout, mask);
    };
    libc::epoll_wait = [](int epfd, epoll_event* events, int most, int timeout) {
      ++calls.epoll_wait;
      return real_epoll_wait(epfd, events, most, timeout);
    };
    libc::epoll_pwait = [](int epfd, epoll_event* events, int most, int timeout,
                             const sigset_t* mask) {
      ++calls.epoll_wait;
      return real_epoll_pwait(epfd, events, most, timeout, mask);
    };
    libc::epoll_ctl = [](int epfd, int op, int fd, epoll_event* event) noexcept {
      ++calls.epoll_ctl;
      return real_epoll_ctl(epfd, op, fd, event);
    };
  }
} prepare;

// A socket asks for a lane when enough has gone over it, and not for a peer on this host.
void ask_for_lane(Socket& socket) { socket.link.on(LaneEvent::kAsked); }

constexpr std::uint8_t kToken[kTokenBytes] = {1};

}  // namespace

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
  const int on = 1;
  EXPECT_EQ(::setsockopt(peer_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on), 0);
  ::close(listener);
  table::opened(fd_);
  socket_ = table::find(fd_);
  socket_->modes.on_created(true, false);
}

Connection::~Connection() {
  down();
  for (int fd = 0; fd < 1024; ++fd) {
    if (table::peek(fd) == socket_.get()) close_descriptor(fd);
  }
  close_peer();
}

void Connection::peer_sends(const std::string& text) {
  EXPECT_EQ(::send(peer_, text.data(), text.size(), MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
  peer_sent_ += text.size();
}

std::string Connection::receive() {
  char text[256];
  const ssize_t bytes = sovia_recv(fd_, text, sizeof text, MSG_DONTWAIT);
  return {text, static_cast<std::size_t>(bytes < 0 ? 0 : bytes)};
}

void Connection::close_peer() {
  if (peer_ >= 0) ::close(peer_);
  peer_ = -1;
}

void Connection::reset_by_peer() {
  const linger now{1, 0};
  EXPECT_EQ(::setsockopt(peer_, SOL_SOCKET, SO_LINGER, &now, sizeof now), 0);
  close_peer();
}

void Connection::peer_has_more() {
  const std::lock_guard guard(mutex_);
  const std::vector<char> much(kChunkBytes);
  const iovec piece{const_cast<char*>(much.data()), much.size()};
  while (far_->tx.write(&piece, 1, 0, false) != 0) settle();
}

void Connection::lane_misses() {
  const std::scoped_lock guard(mutex_, end_->lane.lock());
  end_->lane.control.miss();
}

std::string Connection::record_of_peer(std::uint64_t offset) const {
  Resume resume{};
  std::reverse_copy(std::begin(kToken), std::end(kToken), resume.token);
  resume.offset = htobe64(stays_first_ + offset);
  return {reinterpret_cast<const char*>(&resume), sizeof resume};
}

// Each packet goes one step further. False if none is left.
bool Connection::step() {
  const std::lock_guard guard(mutex_);
  ProcessNic::Arrival arrival{};
  bool moved, came;
  {
    const std::scoped_lock lane_guard(end_->lane.lock());
    moved = transports_->near.deliver();
    moved |= transports_->far.deliver();
    moved |= transports_->near.complete();
    moved |= transports_->far.complete();
    came = transports_->near.take(arrival);
    moved |= transports_->far.take_in(*far_);
    if (far_->control.peer_leaves()) far_->finish(false);  // as a socket does
    far_->poll();
  }
  if (came) end_->arrived(arrival);
  return moved || came;
}

void Connection::settle() {
  const std::lock_guard guard(mutex_);
  while (step()) continue;
}

// Of the near end's direction: the peer reads the kernel's bytes elsewhere.
void Connection::peer_follows() {
  while (far_->rx.first() || far_->rx.take_down()) {
    if (far_->rx.first()) far_->rx.go_up();
  }
}

void Connection::peer_reads() {
  do {
    peer_follows();
    far_->rx.discard(far_->rx.unread());
    peer_follows();
  } while (step() || far_->rx.has_turns());
}

void Connection::open_lane() {
  const std::lock_guard guard(mutex_);
  if (end_ != nullptr) return;
  LaneOptions options;
  options.copy = copy_guarded;
  options.messages = socket_->modes.carries_messages();
  transports_ = new Transports(places_for(options));
  end_ = new LaneEndpoint(table::find(fd_), *socket_, transports_->near, options);
  far_ = std::make_unique<Lane>(transports_->far, options, transports_->far.remote());
  ask_for_lane(*socket_);
  EXPECT_TRUE(lane_opened(*socket_, *end_));
  {
    const std::scoped_lock lane_guard(end_->lane.lock());
    end_->lane.greet(kToken);
  }
  far_->greet(kToken);
  settle();
  trust_lane(*socket_, *end_, fd_);
  far_->trust();
  settle();
  refresh_watchers(*socket_);
  socket_->changed();
}

void Connection::receives_on_lane() {
  const std::lock_guard guard(mutex_);
  open_lane();
  if (std::exchange(in_, true)) return;
  EXPECT_TRUE(far_->tx.go_up(peer_sent_));
  int unread = 0;
  EXPECT_EQ(::ioctl(fd_, FIONREAD, &unread), 0);
  if (unread != 0 || socket_->modes.carries_messages()) return;
  data();
  char first;
  EXPECT_EQ(sovia_recv(fd_, &first, 1, MSG_DONTWAIT), 1);
  stays_first_ = 1;
  settle();
}

void Connection::sends_on_lane() {
  const std::lock_guard guard(mutex_);
  open_lane();
  if (std::exchange(out_, true)) return;
  EXPECT_EQ(sovia_send(fd_, "u", 1, MSG_DONTWAIT), 1);
  peer_reads();
  EXPECT_EQ(far_->control.receiving(), Lane::State::kUp);
  socket_->changed();
}

void Connection::up() {
  receives_on_lane();
  sends_on_lane();
}

void Connection::peer_goes_down() {
  const std::lock_guard guard(mutex_);
  EXPECT_TRUE(far_->tx.go_down());
  settle();
}

void Connection::peer_ends_lane() {
  const std::lock_guard guard(mutex_);
  far_->finish(false);
  settle();
}

void Connection::peer_ends_lane_unanswered() {
  const std::lock_guard guard(mutex_);
  far_->finish(false);
  arrive_unanswered();
}

void Connection::arrive_unanswered() {
  const std::lock_guard guard(mutex_);
  ProcessNic::Arrival arrival{};
  while (transports_->far.deliver()) continue;
  while (transports_->near.take(arrival)) end_->arrived(arrival);
}

void Connection::down() {
  const std::lock_guard guard(mutex_);
  if (end_ == nullptr) return;
  bool fails;
  {
    const std::scoped_lock lane_guard(end_->lane.lock());
    fails = end_->lane.control.broken() && !end_->lane.control.is_cut();
  }
  if (fails) lane_breaks();  // of a connection that was reset; as the background thread does
  data(false);
  far_->finish(false);
  peer_reads();
  {
    const std::scoped_lock both(socket_->rx.lock, socket_->tx.lock);
    const std::scoped_lock lane_guard(end_->lane.lock());
    leave_lane(*socket_, fd_, true);
  }
  peer_reads();
  socket_->answer(POLLIN | POLLOUT, 0);
  EXPECT_TRUE(lane_over(*socket_, *end_));
  end_ = nullptr;
  in_ = out_ = full_ = false;
  socket_->changed();
}

void Connection::lane_is_refused() {
  ask_for_lane(*socket_);
  lane_refused(*socket_, Reason::kNoPeer);
}

void Connection::lane_breaks() {
  lane_cuts();
  fall_back(*socket_, fd_);
}

void Connection::lane_cuts() {
  const std::scoped_lock guard(mutex_, end_->lane.lock());
  end_->lane.cut();
}

bool Connection::lane_is_over() {
  const std::lock_guard guard(mutex_);
  socket_->answer(POLLIN | POLLOUT, 0);  // a look at the socket meets the end of the lane
  if (!lane_over(*socket_, *end_)) return false;
  end_ = nullptr;
  return true;
}

void Connection::sends(const std::string& text) {
  EXPECT_EQ(sovia_send(fd_, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL), static_cast<ssize_t>(text.size()));
}

void Connection::lane_brings(const std::string& bytes) {
  const std::lock_guard guard(mutex_);
  lane_brings_unanswered(bytes);
  settle();
}

void Connection::lane_brings_unanswered(const std::string& bytes) {
  const std::lock_guard guard(mutex_);
  if (far_->control.sending() == Lane::State::kIdle) {
    EXPECT_TRUE(far_->tx.go_up(peer_sent_));
    stays_first_ = 0;
  }
  const iovec piece{const_cast<char*>(bytes.data()), bytes.size()};
  EXPECT_EQ(far_->tx.write(&piece, 1, 0, false), bytes.size());
  arrive_unanswered();
}

std::string Connection::lane_takes() {
  const std::lock_guard guard(mutex_);
  settle();
  std::string bytes;
  for (peer_follows(); far_->rx.unread() != 0; peer_follows()) {
    std::string here(far_->rx.unread_here(), '\0');
    const iovec piece{here.data(), here.size()};
    EXPECT_EQ(far_->rx.read(&piece, 1, 0, false), here.size());
    bytes += here;
  }
  settle();
  return bytes;
}

void Connection::data(bool there) {
  const std::lock_guard guard(mutex_);
  if (!in_) return;
  if (there) {
    const iovec piece{const_cast<char*>("d"), 1};
    EXPECT_EQ(far_->tx.write(&piece, 1, 0, false), 1u);
  } else {
    char text[64];
    while (sovia_recv(fd_, text, sizeof text, MSG_DONTWAIT) > 0) continue;
  }
  settle();
}

void Connection::room(bool there) {
  const std::lock_guard guard(mutex_);
  if (!out_ || full_ != there) return;
  full_ = !there;
  if (there) return peer_reads();
  static const std::vector<char> much(kChunkBytes);
  while (sovia_send(fd_, much.data(), much.size(), MSG_DONTWAIT) > 0) continue;
}

int Connection::dup() {
  const int copy = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  table::copied(fd_, copy);
  return copy;
}

Answering::Answering(Connection& connection)
    : thread_([&] {
        while (!done_) {
          connection.settle();
          std::this_thread::sleep_for(std::chrono::milliseconds(1));
        }
      }) {}

Answering::~Answering() {
  done_ = true;
  thread_.join();
}

Routes::Routes(std::uint64_t route) { set_route(route); }
Routes::~Routes() { set_route(kRouteLane); }

void close_descriptor(int fd) { sovia_close(fd); }

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

}  // namespace viaduct::sovia::ready
