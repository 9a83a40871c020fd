#include "kagent/agent/process/hang_guard.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "kagent/agent/process/descriptor_table.h"
#include "xdp/clock.h"
#include "xdp/descriptor.h"

// Sanitizers keep books on each stack.
#if (defined(__x86_64__) || defined(__aarch64__)) && !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)
#define VIADUCT_CAN_CARRY
#endif

namespace viaduct {
namespace {

constexpr std::size_t kStackBytes = 8 << 20;
constexpr long kLookEveryNs = 2 * kNsPerMs;     // a call that lasts from one look to the next may hang
constexpr std::uint64_t kRunNs = 4 * kNsPerMs;  // processor time that shows that a call does not just wait to run
constexpr unsigned kLooksWithoutCalls = 500;    // after which the watchdog sleeps
constexpr std::uint32_t kAll = INT_MAX;         // of the watchdogs that sleep: one that is to end, and the next
constexpr std::size_t kMostLate = 64;           // threads whose calls hang

// The state and the processor time of one of our own threads.
struct ThreadUse {
  char state = '?';        // 'R': runs or waits for a processor
  std::uint64_t ran = 0;   // ns
};

std::string read_file(const std::string& name) {
  const Descriptor file(open(name.c_str(), O_RDONLY | O_CLOEXEC));
  char room[512];
  const ssize_t bytes = file ? read(file.get(), room, sizeof room) : 0;
  return bytes > 0 ? std::string(room, static_cast<std::size_t>(bytes)) : std::string();
}

ThreadUse use_of(int thread) {
  const std::string folder = "/proc/self/task/" + std::to_string(thread);
  const std::string status = read_file(folder + "/stat");
  ThreadUse out;
  const std::size_t name_end = status.rfind(')');
  if (name_end != status.npos && name_end + 2 < status.size()) out.state = status[name_end + 2];
  out.ran = std::strtoull(read_file(folder + "/schedstat").c_str(), nullptr, 10);
  return out;
}

long futex(std::atomic<std::uint32_t>& word, int op, std::uint32_t value) {
  return syscall(SYS_futex, &word, op, value, nullptr, nullptr, 0);
}

}  // namespace

#ifdef VIADUCT_CAN_CARRY

// Saves what a called function must keep, changes stacks, and loads it from there.
extern "C" void viaduct_change_stack(void** save, void* load);
#if defined(__x86_64__)
asm(R"(
    .text
    .p2align 4
    .type viaduct_change_stack, @function
    .globl viaduct_change_stack
    .hidden viaduct_change_stack
viaduct_change_stack:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size viaduct_change_stack, . - viaduct_change_stack
)");
constexpr std::size_t kFrameWords = 8, kEntryWord = 6;  // what is taken from a new stack
#else
asm(R"(
    .text
    .p2align 4
    .type viaduct_change_stack, %function
    .globl viaduct_change_stack
    .hidden viaduct_change_stack
viaduct_change_stack:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp d8, d9, [sp, #80]
    stp d10, d11, [sp, #96]
    stp d12, d13, [sp, #112]
    stp d14, d15, [sp, #128]
    stp x29, x30, [sp, #144]
    mov x9, sp
    str x9, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp d8, d9, [sp, #80]
    ldp d10, d11, [sp, #96]
    ldp d12, d13, [sp, #112]
    ldp d14, d15, [sp, #128]
    ldp x29, x30, [sp, #144]
    add sp, sp, #160
    ret
    .size viaduct_change_stack, . - viaduct_change_stack
)");
constexpr std::size_t kFrameWords = 20, kEntryWord = 19;
#endif

#endif

// Shared with threads whose calls hang, so that it outlives the loop.
struct HangGuard::State {
  // Counts the beginnings and ends of calls: odd while a call is under way, which has that number.
  std::atomic<std::uint64_t> clock{0};
  std::atomic<std::uint32_t> watching{1};  // 0: the watchdog sleeps
  std::atomic<bool> stop{false};

  // About the carrier, the thread that runs the loop.
  std::atomic<int> thread{0};
  const std::function<void()>* body = nullptr;
  bool running = false;
  Call* call = nullptr;
  bool late = false;
  std::uint64_t taken = 0;  // the last call from which the loop was taken
  void* loop_stack = nullptr;
  void* carrier_stack = nullptr;

  struct Late {
    std::uint64_t table = 0;
    int descriptor = -1;
    bool let_go = false;
    std::function<void()> done = nullptr;
  };
  std::mutex mutex;
  std::condition_variable change;
  bool ended = false;
  std::exception_ptr error;
  std::map<std::uint64_t, Late> late_calls;  // by number
  std::atomic<std::size_t> late_count{0};    // of late_calls
  std::atomic<std::uint64_t> table{0};       // counts the loop's tables of descriptors; the watchdog shares the last
  bool watched = false;                      // it has a watchdog
  bool shared = false;                       // with a thread that hangs
  std::deque<std::function<void()>> finished;
  Descriptor wake_event{eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};

HangGuard::HangGuard(EventLoop& loop) : loop_(loop), state_(std::make_shared<State>()) {
  if (!state_->wake_event) throw std::system_error(errno, std::generic_category(), "eventfd");
  token_ = loop_.add(state_->wake_event.get(), EPOLLIN, [this](std::uint32_t) { report(); });
}

HangGuard::~HangGuard() { loop_.remove(token_); }

void HangGuard::Turn::go_on() {
  if (state_ == nullptr || state_->clock.load(std::memory_order_relaxed) == number_) return;
  std::unique_lock lock(state_->mutex);
  state_->change.wait(lock, [this] { return state_->late_calls.at(number_).let_go; });
}

void HangGuard::let_go(std::function<void()> done) {
  const std::lock_guard lock(state_->mutex);
  State::Late& late = state_->late_calls.at(state_->taken);
  late.let_go = true;
  late.done = std::move(done);
  state_->change.notify_all();
}

void HangGuard::report() {
  eventfd_t count;
  eventfd_read(state_->wake_event.get(), &count);
  std::deque<std::function<void()>> finished;
  {
    const std::lock_guard lock(state_->mutex);
    finished.swap(state_->finished);
  }
  for (const auto& done : finished) done();
}

bool HangGuard::is_full() const { return state_->late_count.load(std::memory_order_relaxed) >= kMostLate; }

bool HangGuard::shares_table() const { return state_->running && (state_->shared || !state_->watched); }

#ifndef VIADUCT_CAN_CARRY

void HangGuard::empty_table() {}

void HangGuard::run(const std::function<void()>& body) { body(); }

bool HangGuard::make(Call& call) {
  Turn turn;
  call.run(turn);
  return true;
}

#else

namespace {

// The state of the loop that is about to be entered on this thread.
thread_local void* t_entering = nullptr;

}  // namespace

// Where the loop's stack begins.
void HangGuard::enter() {
  auto* const state = static_cast<State*>(t_entering);
  try {
    (*state->body)();
  } catch (...) {
    state->error = std::current_exception();
  }
  state->running = false;
  void* nowhere;
  viaduct_change_stack(&nowhere, state->carrier_stack);
  std::abort();
}

void HangGuard::run(const std::function<void()>& body) {
  void* const stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (stack == MAP_FAILED) throw std::system_error(errno, std::generic_category(), "mmap");
  mprotect(stack, static_cast<std::size_t>(sysconf(_SC_PAGESIZE)), PROT_NONE);
  auto** const frame =
      reinterpret_cast<void**>(static_cast<std::byte*>(stack) + kStackBytes) - kFrameWords;
  frame[kEntryWord] = reinterpret_cast<void*>(&HangGuard::enter);
  State& state = *state_;
  state.loop_stack = frame;
  state.body = &body;
  state.running = true;
  if (!start_watchdog(state_, 0)) throw std::system_error(EAGAIN, std::generic_category(), "thread");
  std::thread([shared = state_] { carry(shared); }).detach();
  {
    std::unique_lock lock(state.mutex);
    state.change.wait(lock, [&] { return state.ended; });
  }
  state.stop = true;
  state.watching = 1;
  futex(state.watching, FUTEX_WAKE_PRIVATE, kAll);
  munmap(stack, kStackBytes);
  if (state.error) std::rethrow_exception(std::exchange(state.error, nullptr));
}

bool HangGuard::start_watchdog(const std::shared_ptr<State>& state, std::uint64_t table) {
  try {
    std::thread([state, table] { watch(state, table); }).detach();
    state->watched = true;
  } catch (const std::system_error&) {
    state->watched = false;
  }
  return state->watched;
}

// No call is under way, so the watchdog that shares the former table does not take the loop, and ends.
void HangGuard::empty_table() {
  State& state = *state_;
  {
    const std::lock_guard lock(state.mutex);
    std::vector<int> kept{state.wake_event.get()};  // by which the thread tells that its call is over
    for (const auto& [number, late] : state.late_calls) {
      if (late.table == state.table && late.descriptor >= 0) kept.push_back(late.descriptor);
    }
    if (state.shared && !viaduct::empty_table(std::move(kept))) return;
    ++state.table;
    state.shared = false;
  }
  start_watchdog(state_, state.table);
  state.watching.store(1);
  futex(state.watching, FUTEX_WAKE_PRIVATE, kAll);
}

bool HangGuard::make(Call& call) {
  State& state = *state_;
  if (!state.running) {
    Turn turn;
    call.run(turn);
    return true;
  }
  state.call = &call;
  // Advance the clock, then look at `watching`: the watchdog clears `watching`, then looks at the clock.
  state.clock.fetch_add(1);
  if (state.watching.load() == 0) [[unlikely]] {
    state.watching.store(1);
    futex(state.watching, FUTEX_WAKE_PRIVATE, kAll);
  }
  viaduct_change_stack(&state.loop_stack, state.carrier_stack);
  return !state.late;
}

// Carries the loop until it has ended or another thread carries it.
void HangGuard::carry(const std::shared_ptr<State>& shared) {
  State& state = *shared;
  state.thread = gettid();
  t_entering = &state;
  for (;;) {
    viaduct_change_stack(&state.carrier_stack, state.loop_stack);
    if (!state.running) break;
    Turn turn;
    turn.state_ = &state;
    turn.number_ = state.clock.load(std::memory_order_relaxed);
    state.call->run(turn);
    std::uint64_t mine = turn.number_;
    if (state.clock.compare_exchange_strong(mine, turn.number_ + 1)) {
      state.late = false;
      continue;
    }
    turn.go_on();
    const std::lock_guard lock(state.mutex);
    const auto late = state.late_calls.find(turn.number_);
    state.finished.push_back(std::move(late->second.done));
    state.late_calls.erase(late);
    --state.late_count;
    eventfd_write(state.wake_event.get(), 1);
    return;
  }
  const std::lock_guard lock(state.mutex);
  state.ended = true;
  state.change.notify_all();
}

// Takes the loop from a carrier whose call hangs. False if the call is over, or the loop has another table by now.
bool HangGuard::take_over(const std::shared_ptr<State>& shared, std::uint64_t table, std::uint64_t number) {
  State& state = *shared;
  const std::lock_guard lock(state.mutex);
  if (state.table != table) return false;
  std::uint64_t expected = number;
  if (!state.clock.compare_exchange_strong(expected, number + 1)) return false;
  state.late_calls.emplace(number, State::Late{table, state.call->descriptor()});
  ++state.late_count;
  state.shared = true;
  state.taken = number;
  state.late = true;
  return true;
}

void HangGuard::watch(const std::shared_ptr<State>& shared, std::uint64_t table) {
  State& state = *shared;
  std::uint64_t last = 0, ran = 0;
  unsigned quiet = 0;
  bool suspect = false;
  while (!state.stop && state.table == table) {
    const timespec pause{0, kLookEveryNs};
    nanosleep(&pause, nullptr);
    const std::uint64_t clock = state.clock.load();
    if (clock % 2 != 0 && clock == last) {
      const ThreadUse use = use_of(state.thread);
      // A thread that is ready to run may only wait for a processor.
      const bool hangs = use.state != 'R' || (suspect && use.ran - ran >= kRunNs);
      if (!suspect) ran = use.ran;
      suspect = true;
      if (hangs) {
        try {
          std::thread([shared, table] { watch(shared, table); }).detach();
        } catch (const std::system_error&) {
          continue;  // no thread now
        }
        if (take_over(shared, table, clock)) carry(shared);
        return;  // the new watchdog watches
      }
      continue;
    }
    suspect = false;
    quiet = clock == last ? quiet + 1 : 0;
    last = clock;
    if (quiet < kLooksWithoutCalls || clock % 2 != 0) continue;
    quiet = 0;
    state.watching.store(0);
    if (state.clock.load() == clock && !state.stop) futex(state.watching, FUTEX_WAIT_PRIVATE, 0);
    state.watching.store(1);
  }
}

#endif

}  // namespace viaduct
