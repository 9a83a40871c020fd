// The process that finishes what a killed one has begun (VipxSetFinisher).
//
// It shares the program's memory, and has the descriptors of the NIC and no others. It sleeps on a word that a thread of
// the program owns as a robust futex: the kernel marks the word when that thread is gone, however the program ends. It is
// no child of the program. It runs on the thread-local data of the same thread, which does nothing but wait for it.
//
//   start() --> the process sleeps --stop()--> gone
//                  |  \--renew()--> another one, with the session's present descriptors
//                  \--the program is gone--> it makes steps until none is left --> gone
#ifndef VIADUCT_VIPL_SESSION_FINISHER_H
#define VIADUCT_VIPL_SESSION_FINISHER_H

#include <atomic>
#include <cstdint>

#include "vipl/granted/library_thread.h"
#include "vipl/session/registry_lock.h"

namespace viaduct::vipl {

class Driver;

class Finisher {
 public:
  using Step = int (*)(void* context);  // false: nothing is left to do

  // Writes the session's descriptors, up to `most` of them; returns how many there are.
  using Descriptors = int (*)(const void* session, int* fds, int most);

  // Returns when the process is there. False: there can be none, or there is one already. `driver`: the granted
  // session's, or null.
  bool start(const void* session, Descriptors descriptors, Driver* driver, Step step, void* context);
  // Ends process and thread, and waits for that.
  void stop() VIADUCT_EXCLUDES(registry::g_lock);
  // The session has other descriptors. Does not wait.
  void renew();
  // Whether the process is there.
  bool is_ready() const { return state_.load() == kReady; }
  // In a forked child, which has neither the thread nor the process.
  void forget();

 private:
  enum State : std::uint32_t { kNone, kStarting, kReady, kFailed };

  static void run_thread(void* self);
  static int run_process(void* self);
  void keep_processes();
  bool make_process();
  static int run_maker(void* self);
  bool prepare_process();
  void finish();

  Step step_ = nullptr;
  void* context_ = nullptr;
  const void* session_ = nullptr;
  Descriptors describe_ = nullptr;
  Driver* driver_ = nullptr;
  LibraryThread thread_;
  std::atomic<std::uint32_t> state_{kNone};    // start() sleeps on it
  std::atomic<std::uint32_t> word_{0};       // the robust futex; 0: the process is to end
  std::atomic<std::uint32_t> renewals_{0};
  std::atomic<std::uint32_t> process_{0};    // its number; 0: none
  std::atomic<std::uint32_t> reaped_{0};     // 1: the process between has been waited for
  // --- for the next process
  std::uint32_t owned_ = 0;                  // the word while the thread lives
  void* stack_ = nullptr;
  bool made_ = false;
  int program_ = 0;                          // the program's process number
  int program_end_ = 0;                      // the process's own descriptor of it
  int* descriptors_ = nullptr;
  int count_ = 0;
};

}  // namespace viaduct::vipl

#endif
