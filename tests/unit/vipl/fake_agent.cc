#include "tests/unit/vipl/fake_agent.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "kagent/contract/vip_codes.h"

#ifdef __SANITIZE_THREAD__
// Tests fork, and children start threads.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif

namespace viaduct::test {
namespace {

void futex_wake(std::atomic<std::uint32_t>& word) {
  syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

std::uint64_t now_ms() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1000 +
         static_cast<std::uint64_t>(now.tv_nsec) / 1'000'000;
}

// Copies through the kernel, as the agent does: the thread sanitizer doesn't see it, as it would
// not see another process.
bool read_program(std::uint64_t from, void* to, std::size_t bytes) {
  iovec local = {to, bytes};
  iovec remote = {reinterpret_cast<void*>(from), bytes};
  return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}
bool write_program(std::uint64_t to, const void* from, std::size_t bytes) {
  iovec local = {const_cast<void*>(from), bytes};
  iovec remote = {reinterpret_cast<void*>(to), bytes};
  return process_vm_writev(getpid(), &local, 1, &remote, 1, 0) == static_cast<ssize_t>(bytes);
}

}  // namespace

FakeAgent::FakeAgent(Options options) : options_(std::move(options)) {
  static std::atomic<unsigned> made{0};
  name_ = "@viaduct-test-" + std::to_string(getpid()) + "-" + std::to_string(made++);
  setenv(control::kSocketVariable, name_.c_str(), 1);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::memcpy(address.sun_path, name_.data(), name_.size());
  address.sun_path[0] = '\0';
  listener_ = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + name_.size());
  if (bind(listener_, reinterpret_cast<sockaddr*>(&address), bytes) != 0 ||
      listen(listener_, 64) != 0) {
    throw std::runtime_error("cannot listen");
  }
  stop_ = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  thread_ = std::thread([this] { run(); });
}

FakeAgent::~FakeAgent() {
  die();
  close(stop_);
}

void FakeAgent::die() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  const std::uint64_t one = 1;
  if (write(stop_, &one, sizeof one) < 0) std::abort();
  thread_.join();
  close(listener_);
  std::lock_guard lock(mutex_);
  for (auto& session : sessions_) drop(*session);
}

void FakeAgent::hold() {
  std::lock_guard lock(mutex_);
  held_ = true;
}

void FakeAgent::go_on() {
  {
    std::lock_guard lock(mutex_);
    held_ = false;
  }
  const std::uint64_t one = 1;
  if (write(stop_, &one, sizeof one) < 0) std::abort();
}

void FakeAgent::close_politely() {
  std::lock_guard lock(mutex_);
  for (auto& session : sessions_) {
    if (session->base == nullptr) continue;
    session->view.header().closed.store(1);
    for (std::uint32_t v = 0; v < options_.capacity.vis; ++v) {
      wake(*session, session->view.vi(v).send.sleepers);
      wake(*session, session->view.vi(v).receive.sleepers);
    }
    for (std::uint32_t c = 0; c < options_.capacity.cqs; ++c) wake(*session, session->view.cq(c).sleepers);
    for (std::uint32_t c = 0; c < layout::kCommands; ++c) wake(*session, session->view.command(c).sleepers);
  }
}

void FakeAgent::offer(const layout::Address& from) {
  {
    std::lock_guard lock(mutex_);
    offers_.push_back(from);
  }
  const std::uint64_t one = 1;
  if (write(stop_, &one, sizeof one) < 0) std::abort();
}

void FakeAgent::fail_vi(std::uint32_t vi) {
  std::lock_guard lock(mutex_);
  Session& session = *sessions_.front();
  session.vis[vi].connected = false;
  session.vis[vi].error = true;
  session.view.vi(vi).status.state.store(vip::kError);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  flush(session, vi);
}

void FakeAgent::report(const Error& event) {
  std::lock_guard lock(mutex_);
  std::size_t at = 0;
  while (at < sessions_.size() && sessions_[at]->base == nullptr) ++at;
  if (at == sessions_.size()) return;
  Session& session = *sessions_[at];
  layout::Errors& errors = session.view.header().errors;
  if (errors.wanted.load() == 0) return;
  if (session.errors - errors.taken.load() >= layout::kErrorEvents) return;
  const std::uint32_t position = session.errors++;
  layout::ErrorEvent& shown = errors.events[position % layout::kErrorEvents];
  shown.vi = event.vi;
  shown.vi_generation = session.vis[event.vi].generation;
  shown.descriptor = event.descriptor;
  shown.resource = event.resource;
  shown.code = event.code;
  shown.op = 0;
  shown.flags = event.flags;
  shown.number.store(position + 1);
  alert(session);
}

std::uint32_t FakeAgent::error_events_taken() {
  std::lock_guard lock(mutex_);
  return sessions_.front()->view.header().errors.taken.load();
}

std::size_t FakeAgent::commands_waiting() {
  std::lock_guard lock(mutex_);
  return sessions_.front()->waiting.size();
}

unsigned FakeAgent::commands_submitted() {
  std::lock_guard lock(mutex_);
  unsigned count = 0;
  for (std::uint32_t c = 0; c < layout::kCommands; ++c) {
    count += sessions_.front()->view.command(c).state.load() == layout::kSubmitted;
  }
  return count;
}

std::string FakeAgent::last_device() {
  std::lock_guard lock(mutex_);
  return last_device_;
}

layout::CommandBody FakeAgent::last_command() {
  std::lock_guard lock(mutex_);
  return last_command_;
}

std::uint32_t FakeAgent::slots_in_use(std::size_t session) {
  std::lock_guard lock(mutex_);
  const layout::View& view = sessions_.at(session)->view;
  std::uint32_t used = view.header().fresh_slots.load();
  for (auto link = static_cast<std::uint32_t>(view.header().free_slots.load()); link != 0;
       link = view.slot(link - 1).completion.length) {
    --used;
  }
  return used;
}

// ---------------------------------------------------------------------------- the thread

void FakeAgent::run() {
  for (;;) {
    bool worked = false;
    std::vector<pollfd> fds = {{stop_, POLLIN, 0}, {listener_, POLLIN, 0}};
    int timeout = 200;
    {
      std::lock_guard lock(mutex_);
      if (stopping_) return;
      while (accept_one()) worked = true;
      for (std::size_t i = 0; i < sessions_.size(); ++i) {
        Session& session = *sessions_[i];
        if (session.base == nullptr) continue;
        fds.push_back({session.socket, POLLIN | POLLRDHUP, 0});
        fds.push_back({session.agent_wake, POLLIN, 0});
        if (!held_ && serve(session)) worked = true;
        if (!session.waiting.empty()) timeout = 1;
      }
    }
    if (worked) continue;
    {
      std::lock_guard lock(mutex_);
      for (auto& session : sessions_) {
        if (session->base == nullptr) continue;
        session->view.header().driver_sleeps.store(1);
        std::atomic_thread_fence(std::memory_order_seq_cst);
        if (!held_ && session->view.header().doorbells.any()) timeout = 0;
      }
    }
    poll(fds.data(), fds.size(), timeout);
    std::lock_guard lock(mutex_);
    std::uint64_t count;
    if (fds[0].revents != 0 && read(stop_, &count, sizeof count) < 0) std::abort();
    for (auto& session : sessions_) {
      if (session->base == nullptr) continue;
      session->view.header().driver_sleeps.store(0);
      for (const pollfd& fd : fds) {
        if (fd.fd == session->agent_wake && fd.revents != 0) {
          agent_wakes_ += read(session->agent_wake, &count, sizeof count) > 0;
        } else if (fd.fd == session->socket && fd.revents != 0) {
          drop(*session);
          break;
        }
      }
    }
  }
}

bool FakeAgent::accept_one() {
  const int fd = accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
  if (fd < 0) return false;
  grant(fd);
  return true;
}

void FakeAgent::grant(int fd) {
  constexpr int kDescriptors = control::kHostedDescriptors;
  control::Hello hello{};
  if (recv(fd, &hello, sizeof hello, 0) != sizeof hello) {
    close(fd);
    return;
  }
  last_device_ = hello.device;
  auto session = std::make_unique<Session>();
  const layout::Offsets offsets(options_.capacity);
  session->bytes = offsets.total;
  const int memory = memfd_create("session", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (ftruncate(memory, static_cast<off_t>(offsets.total)) != 0) std::abort();
  if (options_.seal) fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  session->base = mmap(nullptr, offsets.total, PROT_READ | PROT_WRITE, MAP_SHARED, memory, 0);
  session->view = layout::View(session->base, options_.capacity);
  layout::Header& header = session->view.header();
  header.magic = layout::kMagic;
  header.version = layout::kLayoutVersion;
  header.bytes = offsets.total;
  header.capacity = options_.capacity;
  session->vis.resize(options_.capacity.vis);
  session->cqs.resize(options_.capacity.cqs);
  session->socket = fd;
  session->agent_wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  int poll_wake[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, poll_wake) != 0) std::abort();
  session->poll_wake = poll_wake[0];

  control::HelloAnswer answer{};
  answer.head.kind = hello.head.kind;
  answer.head.bytes = sizeof answer;
  answer.capacity = options_.capacity;
  answer.segment_bytes = offsets.total;
  answer.busy_poll_us = options_.busy_poll_us;
  std::strcpy(answer.nic.name, "via0");
  for (std::uint8_t i = 0; i < 6; ++i) answer.nic.address[i] = static_cast<std::uint8_t>(2 + i);
  answer.nic.max_discriminator = layout::kMaxDiscriminator;
  answer.nic.max_regions = 1000;
  answer.nic.max_bytes = answer.nic.max_block_bytes = 1 << 30;
  answer.nic.max_vis = options_.capacity.vis;
  answer.nic.max_descriptors = layout::kRingEntries;
  answer.nic.max_segments = layout::kMaxSegments;
  answer.nic.max_cqs = options_.capacity.cqs;
  answer.nic.max_cq_entries = 65536;
  answer.nic.max_transfer = 65536;
  answer.nic.native_mtu = 1500;
  answer.nic.max_ptags = 16;
  answer.nic.reliability_support = 3;
  const int descriptors = options_.spoil ? options_.spoil(answer) : kDescriptors;

  iovec data = {&answer, sizeof answer};
  alignas(cmsghdr) char room[CMSG_SPACE(kDescriptors * sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &data;
  message.msg_iovlen = 1;
  if (descriptors > 0) {
    message.msg_control = room;
    message.msg_controllen = CMSG_SPACE(descriptors * sizeof(int));
    cmsghdr* const c = CMSG_FIRSTHDR(&message);
    c->cmsg_level = SOL_SOCKET;
    c->cmsg_type = SCM_RIGHTS;
    c->cmsg_len = CMSG_LEN(descriptors * sizeof(int));
    const int fds[kDescriptors] = {memory, session->agent_wake, poll_wake[1]};
    std::memcpy(CMSG_DATA(c), fds, descriptors * sizeof(int));
  }
  ++sessions_open_;
  if (sendmsg(fd, &message, MSG_NOSIGNAL) < 0) std::abort();
  close(memory);
  close(poll_wake[1]);
  sessions_.push_back(std::move(session));
}

void FakeAgent::drop(Session& session) {
  if (session.base == nullptr) return;
  munmap(session.base, session.bytes);
  session.base = nullptr;
  close(session.socket);
  close(session.agent_wake);
  close(session.poll_wake);
  --sessions_open_;
}

bool FakeAgent::serve(Session& session) {
  const unsigned answered = session.view.header().doorbells.answer([&](std::uint32_t bit) {
    if (bit < layout::kCommands) {
      command(session, bit);
    } else if (bit < layout::kCommands + options_.capacity.vis) {
      work(session, bit - layout::kCommands);
    } else {
      announce(session, bit - layout::kCommands - options_.capacity.vis);
    }
  });
  for (std::uint32_t v = 0; v < session.vis.size(); ++v) {
    if (!session.vis[v].stalled.empty()) work(session, v);
  }
  auto& waiting = session.waiting;
  for (std::size_t i = 0; i < waiting.size();) {
    const std::uint32_t number = waiting[i].command;
    layout::CommandBody body;
    std::memcpy(&body, &session.view.command(number).body, sizeof body);
    if (!offers_.empty()) {
      body.remote = offers_.front();
      offers_.pop_front();
      body.handle = 77;
      body.vi_attributes = {2, 4096, 99, 1, 0};
      finish(session, number, body, vip::kSuccess);
    } else if (now_ms() >= waiting[i].deadline) {
      finish(session, number, body, vip::kTimeout);
    } else {
      ++i;
      continue;
    }
    waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(i));
  }
  return answered != 0;
}

// ---------------------------------------------------------------------------- commands

void FakeAgent::finish(Session& session, std::uint32_t number, layout::CommandBody& body,
                       std::uint32_t result) {
  body.result = result;
  layout::Command& slot = session.view.command(number);
  std::memcpy(&slot.body, &body, sizeof body);
  slot.state.store(layout::kFinished, std::memory_order_release);
  wake(session, slot.sleepers);
}

void FakeAgent::command(Session& session, std::uint32_t number) {
  layout::Command& slot = session.view.command(number);
  if (slot.state.load(std::memory_order_acquire) != layout::kSubmitted) return;
  for (const Waiting& waiting : session.waiting) {
    if (waiting.command == number) return;
  }
  layout::CommandBody body;
  std::memcpy(&body, &slot.body, sizeof body);
  last_command_ = body;
  std::uint32_t result = vip::kSuccess;
  switch (body.op) {
    case layout::Op::kCreatePtag:
      body.handle = 0x100000 + session.next_handle++;
      break;
    case layout::Op::kRegisterMemory:
      body.handle = session.next_handle;
      session.next_handle += options_.handle_step;
      session.regions[body.handle] = {body.memory.address, body.memory.length};
      break;
    case layout::Op::kDeregisterMemory: {
      const auto region = session.regions.find(body.handle);
      if (region == session.regions.end() || region->second.first != body.memory.address) {
        result = vip::kInvalidParameter;
      } else {
        session.regions.erase(region);
      }
      break;
    }
    case layout::Op::kCreateVi: {
      std::uint32_t v = 0;
      while (v < session.vis.size() && session.vis[v].in_use) ++v;
      if (v == session.vis.size()) {
        result = vip::kErrorResource;
        break;
      }
      const std::uint32_t generation = session.vis[v].generation + 1;
      session.vis[v] = Vi{};
      session.vis[v].generation = generation;
      session.vis[v].in_use = true;
      session.vis[v].cq[0] = body.send_cq;
      session.vis[v].cq[1] = body.receive_cq;
      for (const std::uint32_t cq : {body.send_cq, body.receive_cq}) {
        if (cq != 0) ++session.cqs[cq - 1].users;
      }
      session.view.vi(v).status.generation.store(generation);
      session.view.vi(v).status.state.store(vip::kIdle);
      body.vi = v;
      body.generation = generation;
      break;
    }
    case layout::Op::kDestroyVi: {
      if (!names_vi(session, body)) {
        result = vip::kInvalidParameter;
        break;
      }
      Vi& vi = session.vis[body.vi];
      if (vi.connected || vi.error) {
        result = vip::kInvalidState;
        break;
      }
      for (const std::uint32_t cq : vi.cq) {
        if (cq != 0) --session.cqs[cq - 1].users;
      }
      vi.in_use = false;
      vi.stalled.clear();
      session.view.vi(body.vi).status.generation.store(++vi.generation);
      break;
    }
    case layout::Op::kCreateCq: {
      std::uint32_t c = 0;
      while (c < session.cqs.size() && session.cqs[c].in_use) ++c;
      if (c == session.cqs.size()) {
        result = vip::kErrorResource;
        break;
      }
      const std::uint32_t generation = session.cqs[c].generation + 1;
      session.cqs[c] = Cq{};
      session.cqs[c].generation = generation;
      session.cqs[c].in_use = true;
      session.view.cq(c).consumed.store(0);
      session.view.cq(c).starved.store(0);
      session.view.cq(c).generation.store(generation);
      body.handle = c;
      body.generation = generation;
      break;
    }
    case layout::Op::kDestroyCq: {
      if (!names_cq(session, body)) {
        result = vip::kInvalidParameter;
        break;
      }
      Cq& cq = session.cqs[body.handle];
      if (cq.users != 0) {
        result = vip::kErrorResource;
        break;
      }
      cq.in_use = false;
      session.view.cq(body.handle).generation.store(++cq.generation);
      break;
    }
    case layout::Op::kConnectWait:
      session.waiting.push_back(
          {number, body.timeout_ms == layout::kForever ? ~0ull : now_ms() + body.timeout_ms});
      return;
    case layout::Op::kConnectRequest:
      if (!names_vi(session, body)) {
        result = vip::kInvalidParameter;
        break;
      }
      session.vis[body.vi].connected = true;
      session.view.vi(body.vi).status.state.store(vip::kConnected);
      body.vi_attributes = {2, 8192, 99, 1, 0};
      break;
    case layout::Op::kConnectAccept:
      if (!names_vi(session, body)) {
        result = vip::kInvalidParameter;
        break;
      }
      [[fallthrough]];
    case layout::Op::kConnectReject:
      if (body.handle != 77) result = vip::kInvalidParameter;
      break;
    case layout::Op::kDisconnect:
      if (!names_vi(session, body)) {
        result = vip::kInvalidParameter;
        break;
      }
      session.vis[body.vi].connected = false;
      session.vis[body.vi].error = false;
      flush(session, body.vi);
      session.view.vi(body.vi).status.state.store(vip::kIdle);
      break;
    case layout::Op::kCancel:
      for (auto it = session.waiting.begin(); it != session.waiting.end(); ++it) {
        if (it->command != body.handle) continue;
        session.waiting.erase(it);
        layout::CommandBody ended{};
        ended.op = layout::Op::kConnectWait;
        finish(session, body.handle, ended, vip::kTimeout);
        break;
      }
      break;
    case layout::Op::kDiscover:
      body.handle = 3 + session.discoveries++ % 7;
      break;
    case layout::Op::kDiscovered:
      // The last but one byte tells which of the discoveries it was.
      std::memcpy(body.remote.host, "\x02\x00\x00\x00\x00\x10", 6);
      body.remote.host[4] = static_cast<std::uint8_t>(session.discoveries - 1);
      body.remote.host[5] = static_cast<std::uint8_t>(body.remote.host[5] + body.entries);
      break;
    case layout::Op::kHostByName:
      if (std::strcmp(body.name, "b") == 0 && body.entries == 0) {
        std::memcpy(body.remote.host, "\x02\x00\x00\x00\x00\x0b", 6);
      } else {
        result = vip::kErrorNameService;
      }
      break;
    case layout::Op::kClaim:
      body.token.fill(static_cast<std::uint8_t>(body.flow.local_port));
      break;
    case layout::Op::kUnclaim:
      break;
    case layout::Op::kVerify:
      if (body.token[0] != static_cast<std::uint8_t>(body.flow.remote_port)) {
        result = vip::kErrorNameService;
      }
      break;
    case layout::Op::kSetVi:
      if (!names_vi(session, body)) result = vip::kInvalidParameter;
      break;
    case layout::Op::kDestroyPtag:
      break;
    default:
      result = vip::kNotSupported;
      break;
  }
  finish(session, number, body, result);
}

// ---------------------------------------------------------------------------- work queues

bool FakeAgent::next(Session& session, std::uint32_t v, bool receive, std::uint32_t& slot) {
  Vi& vi = session.vis[v];
  std::uint32_t& position = vi.taken[receive];
  layout::RingEntry* const ring =
      receive ? session.view.receive_ring(v) : session.view.send_ring(v);
  const std::uint64_t word =
      ring[position % layout::kRingEntries].word.load(std::memory_order_acquire);
  if (!layout::ring_word_is(word, position, vi.generation)) return false;
  slot = layout::ring_word_slot(word);
  ++position;
  return true;
}

void FakeAgent::work(Session& session, std::uint32_t v) {
  Vi& vi = session.vis[v];
  if (!vi.in_use) return;
  if (!vi.connected) {
    if (vi.error) return flush(session, v);
    std::uint32_t slot;
    while (next(session, v, false, slot)) {
      complete(session, v, false, slot, vip::kFlushedError | vip::kOpSend, 0, 0, 0);
    }
    return;
  }
  std::uint32_t slot;
  while (next(session, v, false, slot)) vi.stalled.push_back(slot);
  while (!vi.stalled.empty()) {
    std::uint32_t to;
    if (!next(session, v, true, to)) return;
    slot = vi.stalled.front();
    vi.stalled.pop_front();
    transfer(session, v, slot, to);
  }
}

void FakeAgent::flush(Session& session, std::uint32_t v) {
  Vi& vi = session.vis[v];
  for (const std::uint32_t slot : vi.stalled) {
    complete(session, v, false, slot, vip::kFlushedError | vip::kOpSend, 0, 0, 0);
  }
  vi.stalled.clear();
  std::uint32_t slot;
  while (next(session, v, false, slot)) {
    complete(session, v, false, slot, vip::kFlushedError | vip::kOpSend, 0, 0, 0);
  }
  while (next(session, v, true, slot)) {
    complete(session, v, true, slot, vip::kFlushedError | vip::kOpReceive, 0, 0, 0);
  }
}

bool FakeAgent::names_vi(const Session& session, const layout::CommandBody& body) const {
  return body.vi < session.vis.size() && session.vis[body.vi].in_use &&
         session.vis[body.vi].generation == body.generation;
}

bool FakeAgent::names_cq(const Session& session, const layout::CommandBody& body) const {
  return body.handle < session.cqs.size() && session.cqs[body.handle].in_use &&
         session.cqs[body.handle].generation == body.generation;
}

bool FakeAgent::covered(Session& session, const layout::Segment& segment) const {
  const auto region = session.regions.find(segment.handle);
  return region != session.regions.end() && segment.address >= region->second.first &&
         segment.address + segment.length <= region->second.first + region->second.second;
}

void FakeAgent::transfer(Session& session, std::uint32_t v, std::uint32_t from, std::uint32_t to) {
  layout::SlotRequest out;
  std::memcpy(&out, &session.view.slot(from).request, sizeof out);
  std::uint32_t error = 0;
  if (out.op != layout::kOpSend || out.segment_count > layout::kMaxSegments ||
      (out.flags & 0x7ff0) != 0) {
    error = vip::kFormatError;
  } else {
    std::uint64_t total = 0;
    for (unsigned i = 0; i < out.segment_count; ++i) {
      const layout::Segment& segment = out.payload.segments[i];
      if (segment.length != 0 && !covered(session, segment)) error = vip::kProtectionError;
      total += segment.length;
    }
    if (total != out.length) error = vip::kLengthError;
  }
  std::vector<std::byte> data(error == 0 ? out.length : 0);
  if ((out.flags & layout::kSlotInline) != 0) ++inline_sends_;
  if (error == 0 && (out.flags & layout::kSlotInline) != 0) {
    const std::byte* const from_slot = out.payload.inline_data + 16 * out.segment_count;
    data.assign(from_slot, from_slot + out.length);
  } else if (error == 0) {
    std::size_t at = 0;
    for (unsigned i = 0; i < out.segment_count; ++i) {
      const layout::Segment& segment = out.payload.segments[i];
      if (!read_program(segment.address, data.data() + at, segment.length)) std::abort();
      at += segment.length;
    }
  }
  complete(session, v, false, from, error | vip::kOpSend, out.length, 0, 0);
  layout::Slot& target = session.view.slot(to);
  layout::SlotRequest in;
  std::memcpy(&in, &target.request, sizeof in);
  std::uint32_t status = vip::kOpReceive;
  std::uint64_t room = 0;
  for (unsigned i = 0; i < in.segment_count && i < layout::kMaxSegments; ++i) {
    room += in.payload.segments[i].length;
  }
  std::uint32_t length = error == 0 ? out.length : 0;
  if (length > room) status |= vip::kLengthError, length = 0;
  if (error != 0) status |= vip::kTransportError;
  if ((out.flags & layout::kSlotImmediate) != 0) status |= vip::kImmediate;
  std::uint32_t inline_length = 0;
  if (length <= options_.inline_receive) {
    inline_length = length;
    if (length != 0)
      std::memcpy(reinterpret_cast<std::byte*>(&target) + sizeof(layout::SlotCompletion),
                  data.data(), length);
  } else {
    ++placed_;
    std::size_t at = 0;
    for (unsigned i = 0; at < length; ++i) {
      const layout::Segment& segment = in.payload.segments[i];
      const std::size_t here = std::min<std::size_t>(segment.length, length - at);
      if (!write_program(segment.address, data.data() + at, here)) std::abort();
      at += here;
    }
  }
  complete(session, v, true, to, status, length, out.immediate, inline_length);
}

void FakeAgent::complete(Session& session, std::uint32_t v, bool receive, std::uint32_t slot,
                         std::uint32_t status, std::uint32_t length, std::uint32_t immediate,
                         std::uint32_t inline_length) {
  Vi& vi = session.vis[v];
  layout::SlotCompletion& completion = session.view.slot(slot).completion;
  completion.length = length;
  completion.immediate = immediate;
  completion.inline_length = inline_length;
  completion.status.store(status | vip::kDone, std::memory_order_release);
  const std::uint32_t sequence = vi.completed[receive]++;
  if (const std::uint32_t cq = vi.cq[receive]; cq != 0) {
    session.cqs[cq - 1].backlog.push_back({v, vi.generation, sequence, receive});
    announce(session, cq - 1);
  }
  layout::Vi& shared = session.view.vi(v);
  wake(session, receive ? shared.receive.sleepers : shared.send.sleepers);
}

void FakeAgent::announce(Session& session, std::uint32_t c) {
  Cq& cq = session.cqs[c];
  layout::Cq& shared = session.view.cq(c);
  if (!cq.in_use) return;
  for (;;) {
    while (!cq.backlog.empty() && cq.tail - shared.consumed.load() < options_.cq_window) {
      layout::CqEntry& entry = session.view.cq_ring(c)[cq.tail % layout::kCqRingEntries];
      const auto& [vi, generation, sequence, receive] = cq.backlog.front();
      entry.vi = vi;
      entry.vi_generation = generation;
      entry.sequence = sequence;
      entry.receive = receive;
      entry.tag.store(layout::cq_tag(cq.tail, cq.generation), std::memory_order_release);
      ++cq.tail;
      cq.backlog.pop_front();
    }
    shared.starved.store(!cq.backlog.empty());
    if (cq.backlog.empty() || cq.tail - shared.consumed.load() >= options_.cq_window) break;
  }
  wake(session, shared.sleepers);
}

void FakeAgent::wake(Session& session, std::atomic<std::uint32_t>& sleepers) {
  // The news must be out before we look who sleeps.
  std::atomic_thread_fence(std::memory_order_seq_cst);
  const std::uint32_t who = layout::take_waiting(sleepers);
  if (who & layout::kSleeper) futex_wake(sleepers);
  if (who & layout::kCallbackThread) alert(session);
  if (who & layout::kPoller) {
    ++poll_wakes_;
    const char anything = 0;
    send(session.poll_wake, &anything, sizeof anything, MSG_DONTWAIT | MSG_NOSIGNAL);
  }
}

void FakeAgent::alert(Session& session) {
  std::atomic<std::uint32_t>& word = session.view.header().alert;
  ++alerts_;
  if (word.exchange(1) == 0) futex_wake(word);
}

}  // namespace viaduct::test
