// Calls that block, begun beside the test's own thread:
//
//     auto waiting = start([=] { return far.connect_wait(address, kInfinite); });
//     ...
//     EXPECT_FALSE(waiting.returned());
//     Incoming incoming = must(waiting.get());
//
// Take what the function uses by value ([=]): it may go on until the NICs are closed at the end of
// the test, which is when it must have returned.
#ifndef CONFORMANCE_STARTED_H
#define CONFORMANCE_STARTED_H

#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <source_location>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>

#include "host.h"

namespace conformance {

// The part of a started function that does not depend on its type.
struct Run {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr error;
  std::string where;

  // False when it has not returned in time.
  bool await(std::chrono::milliseconds limit);
};

// Keeps it for await_all_started().
void remember(const std::shared_ptr<Run>& run);
// Waits until all that were started have returned, and forgets them. The places of those that
// don't.
std::string await_all_started(std::chrono::milliseconds limit);

template <class R>
class Started {
 public:
  // Waits. Throws Hung, or what the function threw. Once.
  R get() {
    if (!run_->await(patience())) {
      throw Hung("what was started at " + run_->where + " has not returned for " +
                 std::to_string(patience().count() / 1000) + " s");
    }
    const std::lock_guard lock(run_->mutex);
    if (run_->error) std::rethrow_exception(run_->error);
    return std::move(*run_->value);
  }
  bool returned() const { return returned_within(0); }
  bool returned_within(std::uint64_t ms) const {
    return run_->await(std::chrono::milliseconds(ms));
  }

 private:
  struct ValueRun : Run {
    std::optional<R> value;
  };
  template <class F>
  friend auto start(F function, std::source_location where) -> Started<std::invoke_result_t<F>>;

  std::shared_ptr<ValueRun> run_ = std::make_shared<ValueRun>();
};

template <class F>
auto start(F function, std::source_location where = std::source_location::current())
    -> Started<std::invoke_result_t<F>> {
  Started<std::invoke_result_t<F>> started;
  const auto run = started.run_;
  run->where = std::string(where.file_name()) + ":" + std::to_string(where.line());
  remember(run);
  std::thread([run, function = std::move(function)] {
    leave_to_others();
    std::optional<std::invoke_result_t<F>> value;
    std::exception_ptr error;
    try {
      value = function();
    } catch (...) {
      error = std::current_exception();
    }
    const std::lock_guard lock(run->mutex);
    run->value = std::move(value);
    run->error = error;
    run->done = true;
    run->changed.notify_all();
  }).detach();
  return started;
}

}  // namespace conformance

#endif
