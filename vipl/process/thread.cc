#include "vipl/process/thread.h"

#include <pthread.h>
#include <signal.h>

namespace viaduct::vipl {
namespace {

constexpr int kFaults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS};

bool g_have_key;
pthread_key_t g_key;

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
  // A program with much thread-local data needs a larger stack.
  bool created = create(run, argument, stack_bytes);
  if (!created && stack_bytes != 0) created = create(run, argument, 0);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return created;
}

void at_thread_end(void (*call)(void*), void* argument) {
  if (!g_have_key) g_have_key = pthread_key_create(&g_key, call) == 0;
  if (g_have_key) pthread_setspecific(g_key, argument);
}

}  // namespace viaduct::vipl
