#include "vipl/process/thread.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>

#include "vipl/process/idle.h"
#include "vipl/process/sys.h"

namespace viaduct::vipl {
namespace {

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

bool g_have_key;
pthread_key_t g_key;

// The threads that have been started, of which one can wait for the end. The child of a fork has none of them.
struct Started {
  std::atomic<int> thread;  // kNone, kStarting or its number; that of a thread that is gone means none
  void* (*run)(void*);
  std::atomic<void*> argument;
};
constexpr int kNone = 0;
constexpr int kStarting = -1;
Started g_started[64];

bool lives(int thread) { return thread == kStarting || (thread != kNone && sys::thread_lives(thread)); }

// A place for a thread that is to be started. nullptr: there is none, so one can't wait for the thread's end.
Started* take_place() {
  for (Started& place : g_started) {
    int thread = place.thread.load();
    if (!lives(thread) && place.thread.compare_exchange_strong(thread, kStarting)) return &place;
  }
  return nullptr;
}

void* run_started(void* place) {
  auto& self = *static_cast<Started*>(place);
  void* (*const run)(void*) = self.run;
  void* const argument = self.argument.load();
  self.thread.store(sys::thread());
  return run(argument);
}

bool create(void* (*run)(void*), void* argument, std::size_t stack_bytes) {
  pthread_attr_t attributes;
  if (pthread_attr_init(&attributes) != 0) return false;
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  if (stack_bytes != 0) pthread_attr_setstacksize(&attributes, stack_bytes);
  pthread_t thread;
  const bool created = pthread_create(&thread, &attributes, run, argument) == 0;
  pthread_attr_destroy(&attributes);
  return created;
}

}  // namespace

sigset_t all_but_faults() {
  sigset_t out;
  sigfillset(&out);
  for (const int fault : kFaults) sigdelset(&out, fault);
  return out;
}

bool make_thread(void* (*run)(void*), void* argument, std::size_t stack_bytes) {
  const sigset_t all = all_but_faults();
  sigset_t before;
  if (pthread_sigmask(SIG_SETMASK, &all, &before) != 0) return false;
  Started* const place = take_place();
  if (place != nullptr) {
    place->run = run;
    place->argument.store(argument);
    run = run_started;
    argument = place;
  }
  // A program with much thread-local data needs a larger stack.
  bool created = create(run, argument, stack_bytes);
  if (!created && stack_bytes != 0) created = create(run, argument, 0);
  if (!created && place != nullptr) place->thread.store(kNone);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return created;
}

void await_thread_end(const void* argument) {
  constexpr int kYields = 100;
  constexpr int kMost = kYields + 100;
  const int self = sys::thread();
  for (const Started& place : g_started) {
    for (int i = 0; i < kMost; ++i) {
      const int thread = place.thread.load();
      if (thread == self || place.argument.load() != argument || !lives(thread)) break;
      if (i < kYields) {
        sys::yield();
      } else {
        nap();
      }
    }
  }
}

void at_thread_end(void (*call)(void*), void* argument) {
  if (!g_have_key) g_have_key = pthread_key_create(&g_key, call) == 0;
  if (g_have_key) pthread_setspecific(g_key, argument);
}

}  // namespace viaduct::vipl
