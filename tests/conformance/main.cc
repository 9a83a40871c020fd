#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <thread>

#include "coverage.h"
#include "host.h"
#include "options.h"
#include "records.h"

namespace {

using namespace conformance;

// Calls that tests make in their own thread can't be left alone: when one hangs, all is over.
void watch_forever() {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::seconds(1));
    const std::string call = overdue_call(patience() + std::chrono::seconds(5));
    if (call.empty()) continue;
    const auto* const test = testing::UnitTest::GetInstance()->current_test_info();
    std::printf("\nFAILED: %s has not returned for %lld s, in %s.%s; giving up\n", call.c_str(),
                static_cast<long long>(patience().count() / 1000),
                test != nullptr ? test->test_suite_name() : "no test",
                test != nullptr ? test->name() : "");
    std::fflush(stdout);
    std::_Exit(1);
  }
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  options = parse(argc, argv);
  if (options.serve) return serve(options.port);
  if (GTEST_FLAG_GET(list_tests)) return RUN_ALL_TESTS();
  set_patience(std::chrono::seconds(options.patience_s));
  std::thread(watch_forever).detach();

  const int failed = RUN_ALL_TESTS();
  const int missing = print_coverage();
  std::fflush(stdout);
  const bool full = GTEST_FLAG_GET(filter) == "*" && options.demand;
  if (failed == 0 && missing > 0 && full) {
    std::printf("FAILED: %d expected things were not produced\n", missing);
    return 1;
  }
  return failed;
}
