#include "sovia/process/signals.h"

#include <errno.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <new>
#include <utility>

#include "sovia/process/libc.h"
#include "sovia/process/seccomp.h"
#include "sovia/process/wake_event.h"
#include "sovia/sovia.h"
#include "xdp/mutex.h"

using namespace viaduct::sovia;

namespace viaduct::sovia::signals {

#define SOVIA_THREAD_LOCAL constinit thread_local __attribute__((tls_model("initial-exec")))
SOVIA_THREAD_LOCAL volatile int t_inside = 0;
SOVIA_THREAD_LOCAL volatile bool t_held_back = false;

namespace {

SOVIA_THREAD_LOCAL sigset_t t_blocked{};  // signals that the library has blocked, as they are held back
SOVIA_THREAD_LOCAL volatile int t_wake_event = -1;
SOVIA_THREAD_LOCAL timespec* volatile t_left = nullptr;
SOVIA_THREAD_LOCAL volatile bool t_ran = false;         // a handler has run since this was cleared
SOVIA_THREAD_LOCAL volatile bool t_interrupts = false;  // a handler without SA_RESTART has run since
#undef SOVIA_THREAD_LOCAL

using Handler = void (*)(int, siginfo_t*, void*);

// The program's own handler and flags, where the kernel has the library's.
struct Wanted {
  std::atomic<Handler> handler{nullptr};  // nullptr: the kernel has no handler of the library's
  std::atomic<int> flags{0};
};
constinit Wanted g_wanted[NSIG];
constinit Mutex g_lock;                  // for changes of g_wanted
constinit std::atomic<bool> g_breaks[NSIG]{};  // siginterrupt(3) has been called for the signal
constinit std::atomic<pid_t> g_process{0};

bool is_fault(int signal) {
  return signal == SIGSEGV || signal == SIGBUS || signal == SIGFPE || signal == SIGILL ||
         signal == SIGTRAP || signal == SIGSYS;
}

void run(int signal, siginfo_t* info, void* context) {
  Wanted& wanted = g_wanted[signal];
  const Handler handler = wanted.handler.load();
  const int flags = wanted.flags.load();
  if (handler == nullptr) return;  // the program has just removed its handler
  if ((flags & static_cast<int>(SA_RESETHAND)) != 0) {
    wanted.handler.store(nullptr);
    struct sigaction once {};
    once.sa_handler = SIG_DFL;
    libc::sigaction(signal, &once, nullptr);
  }
  t_ran = true;
  if ((flags & SA_RESTART) == 0) t_interrupts = true;
  // Handlers that expect only the number ignore the other arguments.
  handler(signal, info, context);
}

// Blocks the signal for the thread, and sends it to the thread again. False: that has failed.
bool hold_back(int signal, siginfo_t* info, ucontext_t* context) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, signal);
  pthread_sigmask(SIG_BLOCK, &one, nullptr);  // SA_NODEFER would bring it back at once
  if (syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), signal, info) != 0) return false;
  if (sigismember(&context->uc_sigmask, signal) != 1) {
    sigaddset(&context->uc_sigmask, signal);
    sigaddset(&t_blocked, signal);
  }
  t_held_back = true;
  if (volatile timespec* const left = t_left; left != nullptr) {
    left->tv_sec = 0;
    left->tv_nsec = 0;
  }
  wake_event::ring(t_wake_event);
  return true;
}

void handle(int signal, siginfo_t* info, void* context) {
  const int error = errno;
  if (t_inside == 0 || !hold_back(signal, info, static_cast<ucontext_t*>(context))) {
    run(signal, info, context);
  }
  errno = error;
}

class AllBlocked {
 public:
  AllBlocked() : blocks_(!seccomp::in_force()) {
    if (!blocks_) return;
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~AllBlocked() {
    if (blocks_) pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  AllBlocked(const AllBlocked&) = delete;

 private:
  const bool blocks_;
  sigset_t before_;
};

bool has_handler(const struct sigaction& action) {
  return action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN;
}

// Whether all handlers of the process have SA_RESTART: asked if handlers have run that the library has not installed.
bool all_restart() {
  for (int signal = 1; signal < NSIG; ++signal) {
    struct sigaction action;
    if (libc::sigaction(signal, nullptr, &action) != 0) continue;
    if (has_handler(action) && (action.sa_flags & SA_RESTART) == 0) return false;
  }
  return true;
}

// A child of vfork has the memory of its parent, but handlers of its own.
bool is_own_memory() {
  const pid_t process = getpid();
  pid_t known = 0;
  return g_process.compare_exchange_strong(known, process) || known == process;
}

// Turns the kernel's sigaction into the one that the program has set.
void translate(struct sigaction& action, Handler handler, int flags) {
  if ((action.sa_flags & SA_SIGINFO) == 0 || action.sa_sigaction != handle) return;
  constexpr int kRestorer = 0x04000000;  // the C library's own
  action.sa_flags = flags | (action.sa_flags & kRestorer);
  if (handler == nullptr) {
    action.sa_handler = SIG_DFL;
  } else {
    action.sa_sigaction = handler;
  }
}

int set(int signal, const struct sigaction* action, struct sigaction* before) {
  Wanted& wanted = g_wanted[signal];
  const AllBlocked blocked;  // a signal handler that took the same lock would deadlock
  const LockGuard guard(g_lock);
  const Handler old_handler = wanted.handler.load();
  const int old_flags = wanted.flags.load();
  struct sigaction given;
  if (action != nullptr) given = *action;
  const bool ours = action != nullptr && has_handler(given);
  if (ours) {
    wanted.flags.store(given.sa_flags);
    wanted.handler.store(given.sa_sigaction);
    given.sa_flags = static_cast<int>(
        (static_cast<unsigned>(given.sa_flags) | SA_SIGINFO) & ~static_cast<unsigned>(SA_RESETHAND));
    given.sa_sigaction = handle;
  }
  struct sigaction old;
  const int result = libc::sigaction(signal, action != nullptr ? &given : nullptr, &old);
  if (result != 0 && ours) {
    wanted.flags.store(old_flags);
    wanted.handler.store(old_handler);
  }
  if (result != 0) return result;
  if (action != nullptr && !ours) wanted.handler.store(nullptr);
  translate(old, old_handler, old_flags);
  if (before != nullptr) *before = old;
  return 0;
}

}  // namespace

bool run_held_back(const sigset_t* asked) {
  const int error = errno;
  const int depth = t_inside;
  t_inside = 0;
  t_held_back = false;
  t_ran = false;
  t_interrupts = false;
  const sigset_t blocked = std::exchange(t_blocked, sigset_t{});
  pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
  if (asked != nullptr) {
    constexpr timespec kNoTime{};
    libc::ppoll(nullptr, 0, &kNoTime, asked);
  }
  t_inside = depth;
  const bool goes_on = t_ran ? !t_interrupts : all_restart();
  errno = error;
  return goes_on;
}

void Inside::run_held_back_at_end() { run_held_back(); }

Outside::Outside() : depth_(t_inside) {
  if (t_held_back) run_held_back();
  t_inside = 0;
}

Outside::~Outside() { t_inside = depth_; }

Alarm::Alarm(timespec* left, int eventfd) {
  t_wake_event = eventfd;
  t_left = left;
}
Alarm::~Alarm() {
  t_left = nullptr;
  t_wake_event = -1;
}

void after_fork_in_child() {
  new (&g_lock) Mutex;
  g_process.store(getpid());
}

}  // namespace viaduct::sovia::signals

int sovia_sigaction(int signal, const struct sigaction* action, struct sigaction* before) {
  libc::prepare();
  if (signal <= 0 || signal >= NSIG || signals::is_fault(signal) || !signals::is_own_memory()) {
    return libc::sigaction(signal, action, before);
  }
  return signals::set(signal, action, before);
}

namespace {

sighandler_t set_simply(int signal, sighandler_t handler, int flags, bool masks_itself) {
  struct sigaction action {}, before;
  action.sa_handler = handler;
  constexpr int kRestorer = 0x04000000;  // the C library's own
  action.sa_flags = flags | (action.sa_flags & kRestorer);
  sigemptyset(&action.sa_mask);
  if (masks_itself && signal > 0 && signal < NSIG) sigaddset(&action.sa_mask, signal);
  if (handler == SIG_ERR) {
    errno = EINVAL;
    return SIG_ERR;
  }
  return sovia_sigaction(signal, &action, &before) == 0 ? before.sa_handler : SIG_ERR;
}

}  // namespace

sighandler_t sovia_signal(int signal, sighandler_t handler) {
  const bool breaks = signal > 0 && signal < NSIG && signals::g_breaks[signal].load();
  return set_simply(signal, handler, breaks ? 0 : SA_RESTART, true);
}

sighandler_t sovia_sysv_signal(int signal, sighandler_t handler) {
  return set_simply(signal, handler, static_cast<int>(SA_RESETHAND) | SA_NODEFER, false);
}

sighandler_t sovia_sigset(int signal, sighandler_t disposition) {
  sigset_t one, blocked;
  sigemptyset(&one);
  if (sigaddset(&one, signal) != 0) return SIG_ERR;
  struct sigaction before;
  if (disposition == SIG_HOLD) {
    if (sovia_sigaction(signal, nullptr, &before) != 0) return SIG_ERR;
    pthread_sigmask(SIG_BLOCK, &one, &blocked);
  } else {
    before.sa_handler = set_simply(signal, disposition, 0, false);
    if (before.sa_handler == SIG_ERR) return SIG_ERR;
    pthread_sigmask(SIG_UNBLOCK, &one, &blocked);
  }
  return sigismember(&blocked, signal) == 1 ? SIG_HOLD : before.sa_handler;
}

int sovia_siginterrupt(int signal, int interrupts) {
  struct sigaction action;
  if (sovia_sigaction(signal, nullptr, &action) != 0) return -1;
  signals::g_breaks[signal].store(interrupts != 0);
  action.sa_flags = interrupts != 0 ? action.sa_flags & ~SA_RESTART : action.sa_flags | SA_RESTART;
  return sovia_sigaction(signal, &action, nullptr);
}
