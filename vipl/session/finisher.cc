#include "vipl/session/finisher.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>

#include <new>

#include "vipl/granted/driver.h"
#include "vipl/process/confinement.h"
#include "vipl/process/idle.h"
#include "vipl/process/sys.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#endif

namespace viaduct::vipl {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;
constexpr std::size_t kMakerStackBytes = 16 * 1024;
constexpr int kMostKept = 256;
constexpr int kLastThreadsMs = 50;   // for the program's other threads to be gone, too
constexpr int kStepSeconds = 5;      // a step that takes longer waits for what a killed thread has held
constexpr int kSignals = 64;
constexpr std::uint64_t kReapNs = 10'000'000;  // between two looks whether the program still lives

// As the kernel has it: the C library's sigaction() may be the program's.
struct KernelAction {
  void (*handler)(int);
  unsigned long flags;
  void (*restorer)();
  unsigned long mask;
};

// A word that the kernel marks when its thread ends: the only element of the thread's robust list. It takes the place of
// the C library's list, of which the library's own threads make no use.
class RobustWord {
 public:
  explicit RobustWord(std::atomic<std::uint32_t>& word) {
    head_.list.next = &head_.list;
    head_.futex_offset = 0;
    head_.list_op_pending = reinterpret_cast<robust_list*>(&word);
    own(&head_);
  }
  ~RobustWord() {
    head_.list_op_pending = nullptr;
    own(nullptr);
  }
  RobustWord(const RobustWord&) = delete;
  RobustWord& operator=(const RobustWord&) = delete;

 private:
  static void own(robust_list_head* head) { ::syscall(SYS_set_robust_list, head, sizeof *head); }
  robust_list_head head_;
};

// AddressSanitizer's marks stay behind on the stack of a process that ends within functions.
void clear_marks([[maybe_unused]] void* stack, [[maybe_unused]] std::size_t bytes) {
#if defined(__SANITIZE_ADDRESS__)
  __asan_unpoison_memory_region(stack, bytes);
#endif
}

// Keeps the program's handlers from running in the process.
void forget_handlers() {
  const KernelAction none{};
  for (int signal = 1; signal <= kSignals; ++signal) {
    ::syscall(SYS_rt_sigaction, signal, &none, nullptr, sizeof none.mask);
  }
}

void set_mask(const sigset_t& mask) {
  constexpr long kMaskBytes = 8;
  ::syscall(SYS_rt_sigprocmask, SIG_SETMASK, &mask, nullptr, kMaskBytes);
}

// Whether this process is the parent of all orphans below it, and so would be that of its finisher.
bool adopts_orphans() {
  int subreaper = 0;
  ::syscall(SYS_prctl, PR_GET_CHILD_SUBREAPER, &subreaper, 0, 0, 0);
  return subreaper != 0 || sys::process() == 1;
}

// Ends the process if it does not say so again in time.
void end_unless_again() {
  const itimerval in{{0, 0}, {kStepSeconds, 0}};
  ::syscall(SYS_setitimer, ITIMER_REAL, &in, nullptr);
}

}  // namespace

bool Finisher::start(const void* session, Descriptors descriptors, Driver* driver, Step step, void* context) {
  if (adopts_orphans()) return false;
  std::uint32_t none = kNone;
  if (!state_.compare_exchange_strong(none, kStarting)) return false;
  session_ = session, describe_ = descriptors, driver_ = driver, step_ = step, context_ = context;
  new (&thread_) LibraryThread;
  if (!thread_.start("vipl-finisher", run_thread, this)) {
    state_.store(kNone);
    return false;
  }
  while (state_.load() == kStarting) sys::futex_wait(state_, kStarting, kNever);
  return state_.load() == kReady;
}

void Finisher::stop() {
  if (state_.load() == kNone) return;
  thread_.dismiss();
  word_.store(0);
  sys::futex_wake(word_);
  // A process that is stopped would not end by itself.
  if (const std::uint32_t process = process_.load(); process != 0) ::syscall(SYS_kill, process, SIGKILL);
  thread_.stop();
  state_.store(kNone);
}

void Finisher::renew() {
  if (state_.load() != kReady) return;
  renewals_.fetch_add(1);
  word_.store(0);
  sys::futex_wake(word_);
}

void Finisher::forget() { state_.store(kNone); }

void Finisher::run_thread(void* self) {
  auto& finisher = *static_cast<Finisher*>(self);
  finisher.keep_processes();
  finisher.state_.store(kFailed);
  sys::futex_wake(finisher.state_);
}

void Finisher::keep_processes() {
  stack_ = sys::map(kStackBytes, -1);
  if (stack_ == nullptr) return;
  int descriptors[kMostKept];
  descriptors_ = descriptors;
  program_ = sys::process();
  owned_ = static_cast<std::uint32_t>(sys::thread()) | FUTEX_WAITERS;
  {
    const RobustWord robust(word_);
    std::uint32_t renewals;
    do {
      count_ = describe_(session_, descriptors, kMostKept);
      renewals = renewals_.load();
      word_.store(owned_);
      if (thread_.stopping() || count_ > kMostKept) break;
      clear_marks(stack_, kStackBytes);
      if (!make_process()) break;
      if (renewals_.load() != renewals || thread_.stopping()) {
        word_.store(0);
        sys::futex_wake(word_);
      }
      for (std::uint32_t process; (process = process_.load()) != 0;) sys::futex_wait(process_, process, kNever);
    } while (renewals_.load() != renewals && !thread_.stopping());
  }
  sys::unmap(stack_, kStackBytes);
}

// A process between makes it an orphan, which init adopts: the program and its scripts know all children of the program.
// The kernel clears process_ when the process uses the program's memory no more.
bool Finisher::make_process() {
  process_.store(0);
  reaped_.store(0);
  const int maker = ::clone(run_maker, static_cast<char*>(stack_) + kStackBytes, CLONE_VM | CLONE_VFORK | CLONE_UNTRACED, this);
  if (maker < 0) return false;
  while (::syscall(SYS_wait4, maker, nullptr, __WCLONE, nullptr) < 0 && errno == EINTR) {
  }
  reaped_.store(1);
  sys::futex_wake(reaped_);
  return made_;
}

int Finisher::run_maker(void* self) {
  auto& finisher = *static_cast<Finisher*>(self);
  constexpr int kKind = CLONE_VM | CLONE_UNTRACED | CLONE_PARENT_SETTID | CLONE_CHILD_CLEARTID;
  char* const stack = static_cast<char*>(finisher.stack_) + kStackBytes - kMakerStackBytes;
  auto* const number = reinterpret_cast<pid_t*>(&finisher.process_);
  finisher.made_ = ::clone(run_process, stack, kKind, self, number, nullptr, number) > 0;
  ::syscall(SYS_exit_group, 0);
  __builtin_unreachable();
}

int Finisher::run_process(void* self) {
  auto& finisher = *static_cast<Finisher*>(self);
  if (finisher.prepare_process()) {
    // The process between is a child of the program until it has been waited for.
    while (finisher.reaped_.load() == 0 && finisher.word_.load() == finisher.owned_) {
      sys::futex_wait(finisher.reaped_, 0, now_ns() + kReapNs);
    }
    finisher.state_.store(kReady);
    sys::futex_wake(finisher.state_);
    finisher.finish();
  }
  ::syscall(SYS_exit_group, 0);
  __builtin_unreachable();
}

bool Finisher::prepare_process() {
  sigset_t all;
  sigfillset(&all);
  set_mask(all);
  forget_handlers();
  if (!close_all_but(descriptors_, count_)) return false;
  program_end_ = static_cast<int>(::syscall(SYS_pidfd_open, program_, 0));
  // A signal to the program's group or from its terminal is not for this process.
  ::syscall(SYS_setsid);
  sys::name_thread("vipl-finisher");
  const rlimit none{0, 0};
  ::syscall(SYS_prlimit64, 0, RLIMIT_CORE, &none, nullptr);
  return confine();
}

void Finisher::finish() {
  while (word_.load() == owned_) sys::futex_wait(word_, owned_, kNever);
  if ((word_.load() & FUTEX_OWNER_DIED) == 0) return;
  pollfd end{program_end_, POLLIN, 0};
  sys::poll(&end, 1, kLastThreadsMs);
  if (driver_ != nullptr && !driver_->outlive()) return;
  sigset_t alarm;
  sigfillset(&alarm);
  sigdelset(&alarm, SIGALRM);
  set_mask(alarm);
  do {
    end_unless_again();
  } while (step_(context_) != 0);
}

}  // namespace viaduct::vipl
