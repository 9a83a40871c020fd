// libvipl's requests to the system, answered by the simulated kernel: seam/vipl/process/sys.h, vipl/process/thread.h,
// seam/xdp/grant/granted_port.h and vipl/granted/guarded_copy.h.
#include <algorithm>
#include <cstring>

#include "tests/sim/world/failure.h"
#include "tests/sim/world/kernel.h"
#include "vipl/granted/guarded_copy.h"
#include "vipl/process/sys.h"
#include "vipl/process/thread.h"
#include "xdp/grant/granted_port.h"

namespace viaduct::vipl {

namespace sys {
namespace {

using sim::PollWakeFile;
using sim::EventFile;
using sim::Fiber;
using sim::Kernel;
using sim::MemoryFile;
using sim::SocketFile;

constexpr std::uint64_t kNsPerMs = 1'000'000;

Kernel& kernel() { return Kernel::the(); }

int error(int number) {
  errno = number;
  return -1;
}

std::uint64_t after(std::uint64_t ns) {
  return ns == ~0ull ? ~0ull : kernel().outside().now() + ns;
}

}  // namespace

// ---------------------------------------------------------------------------- sockets

int socket(int, int, int) { return kernel().install(std::make_shared<SocketFile>()); }

int connect(int fd, const sockaddr*, socklen_t) {
  const auto file = kernel().file<SocketFile>(fd);
  if (file == nullptr) return error(EBADF);
  if (!kernel().outside().connects(file)) return error(ECONNREFUSED);
  file->connected = true;
  return 0;
}

int shutdown(int fd, int) {
  const auto file = kernel().file<SocketFile>(fd);
  if (file == nullptr) return error(EBADF);
  file->shut = true;
  return 0;
}

int getsockopt(int, int, int name, void* value, socklen_t* bytes) {
  if (name != SO_PEERCRED) return error(ENOPROTOOPT);
  std::memset(value, 0, *bytes);
  return 0;
}

int setsockopt(int fd, int, int name, const void* value, socklen_t) {
  timeval time;
  std::memcpy(&time, value, sizeof time);
  const auto file = kernel().file<SocketFile>(fd);
  if (file == nullptr) return error(EBADF);
  if (name == SO_RCVTIMEO) {
    file->patience = static_cast<std::uint64_t>(time.tv_sec) * 1000 * kNsPerMs;
  }
  return 0;
}

long send(int fd, const void* data, std::size_t bytes, int) {
  const auto file = kernel().file<SocketFile>(fd);
  if (file == nullptr) return error(EBADF);
  if (file->hung_up) return error(EPIPE);
  if (bytes != sizeof(control::Hello)) sim::fail("a hello of %zu bytes", bytes);
  file->hello.emplace();
  std::memcpy(static_cast<void*>(&*file->hello), data, bytes);
  return static_cast<long>(bytes);
}

long recv(int fd, void* data, std::size_t, int) {
  const auto poll_wake = kernel().file<PollWakeFile>(fd);
  if (poll_wake == nullptr) return error(EBADF);
  if (poll_wake->messages == 0) return poll_wake->hung_up ? 0 : error(EAGAIN);
  --poll_wake->messages;
  *static_cast<char*>(data) = 1;
  return 1;
}

namespace {

// Hands out descriptors with a message.
void attach(msghdr* message, const std::vector<std::shared_ptr<sim::File>>& files) {
  int fds[control::kGrantedDescriptors];
  for (std::size_t i = 0; i < files.size(); ++i) fds[i] = kernel().install(files[i]);
  const std::size_t bytes = files.size() * sizeof(int);
  message->msg_controllen = 0;
  if (bytes == 0) return;
  message->msg_controllen = CMSG_SPACE(bytes);
  cmsghdr* const head = CMSG_FIRSTHDR(message);
  head->cmsg_level = SOL_SOCKET;
  head->cmsg_type = SCM_RIGHTS;
  head->cmsg_len = CMSG_LEN(bytes);
  std::memcpy(CMSG_DATA(head), fds, bytes);
}

}  // namespace

long recvmsg(int fd, msghdr* message, int flags) {
  const auto file = kernel().file<SocketFile>(fd);
  if (file == nullptr) return error(EBADF);
  if (file->ready() == 0 && (flags & MSG_DONTWAIT) != 0) return error(EAGAIN);
  const std::uint64_t deadline = after(file->patience != 0 ? file->patience : ~0ull);
  pollfd self{fd, POLLIN, 0};
  while (file->ready() == 0) {
    kernel().fibers.current()->polled = {&self, 1};
    kernel().fibers.suspend(Fiber::State::kPolls, deadline);
    if (file->ready() == 0 && kernel().outside().now() >= deadline) return error(EAGAIN);
  }
  message->msg_flags = 0;
  if (file->answer) {
    const SocketFile::Answer answer = std::move(*file->answer);
    file->answer.reset();
    std::memcpy(message->msg_iov->iov_base, &answer.text, sizeof answer.text);
    attach(message, answer.files);
    return sizeof answer.text;
  }
  if (file->messages.empty()) {
    message->msg_controllen = 0;
    return 0;
  }
  const SocketFile::Message told = std::move(file->messages.front());
  file->messages.pop_front();
  std::memcpy(message->msg_iov->iov_base, &told.text, sizeof told.text);
  attach(message, told.files);
  return sizeof told.text;
}

// ---------------------------------------------------------------------------- descriptors

int duplicate(int fd) { return kernel().install(kernel().file<viaduct::sim::File>(fd)); }

int close(int fd) {
  kernel().close(fd);
  return 0;
}

long read(int fd, void* data, std::size_t) {
  kernel().take_time();
  const auto event = kernel().file<EventFile>(fd);
  if (event == nullptr) return error(EBADF);
  if (event->count == 0) return error(EAGAIN);
  std::memcpy(data, &event->count, sizeof event->count);
  event->count = 0;
  return sizeof event->count;
}

long write(int fd, const void* data, std::size_t bytes) {
  if (fd == STDERR_FILENO) {
    sim::tell("  %.*s", static_cast<int>(bytes) - 1, static_cast<const char*>(data));
    return static_cast<long>(bytes);
  }
  const auto event = kernel().file<EventFile>(fd);
  if (event == nullptr) return error(EBADF);
  if (event->rung) {
    event->rung();
  } else {
    ++event->count;
  }
  return static_cast<long>(bytes);
}

int get_seals(int) { return F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL; }

long seek_end(int fd) {
  const auto memory = kernel().file<MemoryFile>(fd);
  return memory == nullptr ? error(EBADF) : static_cast<long>(memory->bytes);
}

int eventfd() { return kernel().install(std::make_shared<EventFile>()); }

int poll(pollfd* fds, nfds_t count, int timeout_ms) {
  return poll_ns(fds, count,
                 timeout_ms < 0 ? ~0ull : static_cast<std::uint64_t>(timeout_ms) * kNsPerMs);
}

int poll_ns(pollfd* fds, nfds_t count, std::uint64_t timeout_ns, const sigset_t*) {
  const std::uint64_t deadline = after(timeout_ns);
  kernel().may_stop();
  for (;;) {
    int ready = 0;
    for (nfds_t i = 0; i < count; ++i) {
      fds[i].revents = 0;
      if (!kernel().is_ready(fds[i])) continue;
      const auto file = kernel().file<sim::File>(fds[i].fd);
      const int events = file == nullptr ? POLLNVAL
                                         : file->ready() & (fds[i].events | POLLHUP | POLLERR);
      fds[i].revents = static_cast<short>(events);
      ++ready;
    }
    if (ready != 0 || kernel().outside().now() >= deadline) return ready;
    kernel().fibers.current()->polled = {fds, count};
    kernel().fibers.suspend(Fiber::State::kPolls, deadline);
  }
}

// ---------------------------------------------------------------------------- memory, time, threads

long random(void* data, std::size_t bytes) {
  const Fiber* const fiber = kernel().fibers.current();
  sim::Random& source = kernel().outside().random_of(fiber != nullptr ? fiber->owner : nullptr);
  for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
    const std::uint64_t word = source.next();
    std::memcpy(static_cast<std::byte*>(data) + at, &word, std::min(sizeof word, bytes - at));
  }
  return static_cast<long>(bytes);
}

void* map(std::size_t bytes, int fd) { return kernel().map(bytes, fd); }
void unmap(void* at, std::size_t bytes) { kernel().unmap(at, bytes); }

std::uint64_t monotonic_ns() {
  if (!kernel().has_world()) return 0;
  kernel().may_stop();
  return kernel().outside().now();
}

// A polling thread must let the clock move on: by more and more, the longer it takes.
void yield() {
  constexpr unsigned kDoublings = 12;
  constexpr std::uint64_t kFirst = 200;
  const unsigned yields = kernel().fibers.current()->yields;
  kernel().fibers.suspend(Fiber::State::kYields,
                          after(kFirst << std::min(yields, kDoublings)));
}

int thread() {
  const Fiber* const fiber = kernel().fibers.current();
  return fiber != nullptr ? fiber->id : 1;
}
bool thread_lives(int id) { return kernel().fibers.lives(id); }

// One processor: a spinning thread must let others run.
int affinity(void* mask, std::size_t) {
  *static_cast<unsigned char*>(mask) = 1;
  return 8;
}

int futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t expected,
               std::uint64_t deadline_ns) {
  kernel().may_stop();
  if (word.load() != expected) return error(EAGAIN);
  if (kernel().outside().now() >= deadline_ns) return error(ETIMEDOUT);
  return kernel().wait(&word, deadline_ns) ? 0 : error(ETIMEDOUT);
}

void futex_wake(std::atomic<std::uint32_t>& word, int count) { kernel().fibers.wake(&word, count); }

}  // namespace sys

// ---------------------------------------------------------------------------- vipl/process/thread.h

sigset_t all_but_faults() {
  sigset_t none;
  sigemptyset(&none);
  return none;
}

// A thread without an argument serves all sessions of the process.
bool make_thread(void* (*run)(void*), void* argument, std::size_t) {
  sim::Fibers& fibers = sim::Kernel::the().fibers;
  const void* const owner = argument != nullptr ? fibers.current()->owner : nullptr;
  fibers.start(owner, sim::kLibrarysOwn, [run, argument] { run(argument); });
  return true;
}

void await_thread_end(const void*) {}

void at_thread_end(void (*call)(void*), void* argument) {
  sim::Fiber* const fiber = sim::Kernel::the().fibers.current();
  if (fiber == nullptr) return;
  fiber->at_end = call;
  fiber->at_end_argument = argument;
}

// ---------------------------------------------------------------------------- vipl/granted/guarded_copy.h

namespace guarded {

void prepare() {}

bool copy(void* to, const void* from, std::size_t bytes) {
  return sim::Kernel::the().outside().copies(to, from, bytes);
}

}  // namespace guarded
}  // namespace viaduct::vipl

// ---------------------------------------------------------------------------- xdp/grant/granted_port.h

namespace viaduct {
namespace sim {

bool FileQueue::dead() const { return file == nullptr || file->dead; }
std::size_t FileQueue::receive(std::span<Frame> frames) { return dead() ? 0 : file->port.receive(frames); }
void FileQueue::release(std::span<const Frame> frames) {
  if (!dead()) file->port.release(frames);
}
// An interface that is gone still has buffers.
std::size_t FileQueue::reserve(std::span<Frame> frames) {
  if (!dead()) return file->port.reserve(frames);
  constexpr std::size_t kBuffers = 256, kBytes = 9216;
  static std::byte buffers[kBuffers][kBytes];
  static std::size_t next = 0;
  for (Frame& frame : frames) {
    frame = {buffers[next++ % kBuffers], layout.mtu + 14, 0};
  }
  return frames.size();
}
void FileQueue::submit(std::span<const Frame> frames) {
  if (dead()) return;
  for (const Frame& frame : frames) {
    // The network carries nothing to its sender; macvlan does.
    if (std::memcmp(frame.data, layout.address.data(), layout.address.size()) == 0) {
      file->network.inject(file->port, {frame.data, frame.length});
      file->port.cancel({&frame, 1});
    } else {
      file->port.submit({&frame, 1});
    }
  }
}
void FileQueue::cancel(std::span<const Frame> frames) {
  if (!dead()) file->port.cancel(frames);
}
void FileQueue::flush() {
  if (!dead()) file->port.flush();
}
bool FileQueue::has_frames() const { return !dead() && file->ready() != 0; }

bool FileTrains::knows(const MacAddress& peer) const { return !file->dead && file->port.has_train(peer); }
std::uint32_t FileTrains::payload_limit() const { return file->port.train_payload_limit(); }
bool FileTrains::add(std::span<const std::byte> head, std::span<const iovec> pieces) {
  return file->dead || file->port.submit_pieces(head, pieces);
}
bool FileTrains::add(const Frame& frame) {
  if (!file->dead) file->port.submit_bulk({&frame, 1}, [](Frame&) {});
  return true;
}

}  // namespace sim

const char* GrantedPort::open(int socket, int umem, const GrantedLayout& layout) {
  socket_ = socket, umem_ = umem, layout_ = layout;
  const auto file = sim::Kernel::the().file<sim::PortFile>(socket);
  queue_ = {file, layout};
  trains_ = {file};
  return file != nullptr ? nullptr : "no port";
}

GrantedPort::~GrantedPort() {
  for (const int fd : {socket_, umem_}) {
    if (fd >= 0) vipl::sys::close(fd);
  }
}

const char* GrantedPort::add_local(const MacAddress& peer, std::uint64_t program, int file, unsigned end,
                                   const WholeFrame& wake) {
  const auto rings = sim::Kernel::the().file<sim::RingsFile>(file);
  const int real = rings != nullptr ? rings->file.release() : -1;
  vipl::sys::close(file);
  return GrantedPaths::add_local(layout_.address, lendable(), peer, program, real, end, wake);
}

TrainAddress GrantedPort::train_address() const { return queue_.file->port.train_address(); }
bool GrantedPort::learn_train(const MacAddress& peer, const TrainAddress& at, unsigned attempt) {
  return !queue_.dead() && queue_.file->port.learn_train(peer, at, attempt);
}
void GrantedPort::leave_train(const MacAddress& peer) {
  if (!queue_.dead()) queue_.file->port.leave_train(peer);
}
bool GrantedPort::came_by_train(const Frame& frame) const {
  return (frame.id & local::LocalPeers::kId) == 0 && queue_.file->port.came_by_train(frame);
}
std::uint32_t GrantedPort::lendable() const { return queue_.file->port.lendable(); }
std::uint32_t GrantedPort::backlog() const { return queue_.file->port.backlog(); }

}  // namespace viaduct
