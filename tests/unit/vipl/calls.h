// Tests of handlers collect these: calls of the library, with their arguments.
#ifndef VIADUCT_TESTS_UNIT_VIPL_CALLS_H
#define VIADUCT_TESTS_UNIT_VIPL_CALLS_H

#include <pthread.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <vector>

#include "vipl/vipl.h"

namespace viaduct::test {

inline constexpr auto kSoon = std::chrono::seconds(10);

// Collects calls; tests wait for them.
struct Calls {
  struct Call {
    int kind;  // 0 error, 1 VI, 2 CQ
    VIP_NIC_HANDLE nic;
    VIP_VI_HANDLE vi;
    VIP_DESCRIPTOR* descriptor;
    VIP_BOOLEAN receive;
    VIP_ERROR_DESCRIPTOR error;
    pthread_t thread;
  };

  static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
    static_cast<Calls*>(context)->note({0, error->NicHandle, error->ViHandle, error->DescriptorPtr,
                                        VIP_FALSE, *error, pthread_self()});
  }
  static void on_vi(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_DESCRIPTOR* d) {
    static_cast<Calls*>(context)->note({1, nic, vi, d, VIP_FALSE, {}, pthread_self()});
  }
  static void on_cq(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi, VIP_BOOLEAN receive) {
    static_cast<Calls*>(context)->note({2, nic, vi, nullptr, receive, {}, pthread_self()});
  }

  void note(const Call& call) {
    if (first) first();
    std::lock_guard lock(mutex);
    all.push_back(call);
    news.notify_all();
  }
  // Waits for `count` calls in all.
  bool come(std::size_t count) {
    std::unique_lock lock(mutex);
    return news.wait_for(lock, kSoon, [&] { return all.size() >= count; });
  }
  Call at(std::size_t i) {
    std::lock_guard lock(mutex);
    return all.at(i);
  }
  std::size_t count() {
    std::lock_guard lock(mutex);
    return all.size();
  }

  std::function<void()> first;  // in the handler, before the call is noted
  std::mutex mutex;
  std::condition_variable news;
  std::vector<Call> all;
};

}  // namespace viaduct::test

#endif
