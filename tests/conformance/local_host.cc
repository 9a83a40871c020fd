#include <condition_variable>
#include <mutex>
#include <thread>

#include "host.h"

namespace conformance {
namespace {

std::chrono::milliseconds the_patience{60000};

// Shared by the caller and the thread, whichever lives longer.
struct LocalRun {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::string answer;
  std::exception_ptr error;
};

class LocalHost : public Host {
 public:
  explicit LocalHost(std::string name) : Host(std::move(name)), executor_(Executor::make()) {}

 private:
  Executor* executor() override { return executor_.get(); }

  std::string perform_elsewhere(OpNumber number, std::string arguments) override {
    const auto run = std::make_shared<LocalRun>();
    std::thread([run, number, arguments = std::move(arguments), executor = executor_] {
      leave_to_others();
      std::string answer;
      std::exception_ptr error;
      try {
        answer = operation(number).perform(*executor, arguments);
      } catch (...) {
        error = std::current_exception();
      }
      const std::lock_guard lock(run->mutex);
      run->answer = std::move(answer);
      run->error = error;
      run->done = true;
      run->changed.notify_all();
    }).detach();
    std::unique_lock lock(run->mutex);
    const auto end = std::chrono::steady_clock::now() + patience();
    if (!run->changed.wait_until(lock, end, [&] { return run->done; })) {
      throw Hung(std::string(operation(number).name) + " on " + name() + " has not returned for " +
                 std::to_string(patience().count() / 1000) + " s");
    }
    if (run->error) std::rethrow_exception(run->error);
    return run->answer;
  }

  std::shared_ptr<Executor> executor_;
};

}  // namespace

void set_patience(std::chrono::milliseconds patience) { the_patience = patience; }
std::chrono::milliseconds patience() { return the_patience; }

HostPtr make_local_host(std::string name) { return std::make_shared<LocalHost>(std::move(name)); }

}  // namespace conformance
