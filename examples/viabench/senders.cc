#include "examples/viabench/senders.h"

#include <unistd.h>

#include <vector>

#include "examples/common/nic.h"
#include "examples/viabench/worker.h"

namespace viabench {

void run_senders(const Case& c, const Reporter& report, bool agent,
                 const std::function<void()>& send) {
  ProcessorTime processor("near", agent);
  processor.begin();
  std::vector<Process> all;
  for (std::uint32_t i = 0; i < c.others; ++i) {
    // Their failures go where this process's go.
    all.push_back(start_worker(report.fd(), [&](const Reporter&) { send(); }));
  }
  const Clock::time_point limit = Clock::now() + kSampleLimit;
  for (Process& one : all) {
    int status = 0;
    while (!one.ended(status)) {
      if (Clock::now() >= limit) throw via::Failure("a sender does not come to an end");
      usleep(1000);
    }
    if (status != 0) throw via::Failure("a sender has failed");
  }
  processor.report(report);
}

}  // namespace viabench
