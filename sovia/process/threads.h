// The process's threads.
#ifndef VIADUCT_SOVIA_PROCESS_THREADS_H
#define VIADUCT_SOVIA_PROCESS_THREADS_H

#if __has_include(<sys/single_threaded.h>)
#include <sys/single_threaded.h>
#endif
#include <pthread.h>
#include <signal.h>

#include <cstddef>

namespace viaduct::sovia {

// Whether this is the only thread. False when in doubt, and for good once there have been two.
inline bool has_one_thread() {
#if __has_include(<sys/single_threaded.h>)
  return __libc_single_threaded != 0;
#else
  return false;
#endif
}

// Whether this thread is one of the library's, which work while the program's are away.
inline constinit thread_local __attribute__((tls_model("initial-exec"))) bool t_is_librarys = false;

// Starts a thread of the library's: detached, with all signals blocked. Its stack is small, as a program that locks all
// its memory has to have all of it. False: there can be none.
inline bool start_thread(void* (*run)(void*), void* argument) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  constexpr std::size_t kStack = 256 * 1024;
  pthread_attr_setstacksize(&attributes, kStack);
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_t thread;
  bool started = pthread_create(&thread, &attributes, run, argument) == 0;
  // A program with much thread-local data needs a larger stack.
  if (!started) started = pthread_create(&thread, nullptr, run, argument) == 0 && pthread_detach(thread) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
  return started;
}

}  // namespace viaduct::sovia

#endif
