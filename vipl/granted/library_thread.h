// A thread of the library that rests most of the time: it can be woken early, and be told to end.
#ifndef VIADUCT_VIPL_GRANTED_LIBRARY_THREAD_H
#define VIADUCT_VIPL_GRANTED_LIBRARY_THREAD_H

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace viaduct::vipl {

class LibraryThread {
 public:
  // Calls body(of) in a new thread of that name. False: there is none.
  bool start(const char* name, void (*body)(void* of), void* of);

  // dismiss() tells the thread to end; stop() waits until it has.
  void dismiss();
  void stop();
  bool stopping() const { return stopping_.load(); }

  std::uint32_t id() const { return id_.load(); }

  // Called by the thread itself: sleeps for so long, unless it is woken. end_long_rest() ends a `long_rest` too,
  // which is begun only if may_rest().
  template <class MayRest>
  void rest(std::uint64_t ns, bool long_rest, MayRest&& may_rest) {
    word_.store(0);
    resting_.store(long_rest);
    std::atomic_thread_fence(std::memory_order_seq_cst);
    if (!stopping_.load() && (!long_rest || may_rest())) sleep(ns);
    resting_.store(false);
  }
  void end_long_rest();

 private:
  static constexpr std::size_t kStack = 256 * 1024;
  static void* run(void* self);
  void sleep(std::uint64_t ns);

  const char* name_ = nullptr;
  void (*body_)(void*) = nullptr;
  void* of_ = nullptr;
  alignas(64) std::atomic<std::uint32_t> word_{0};  // the thread rests on this word
  std::atomic<bool> resting_{false};                // ... for long
  std::atomic<bool> stopping_{false};
  std::atomic<std::uint32_t> id_{0};
  std::atomic<std::uint32_t> gone_{0};  // 1: it has ended
};

}  // namespace viaduct::vipl

#endif
