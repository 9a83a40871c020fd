// Many senders: processes that send to one receiver at the same time.
#ifndef VIADUCT_EXAMPLES_VIABENCH_SENDERS_H
#define VIADUCT_EXAMPLES_VIABENCH_SENDERS_H

#include <cstdint>
#include <functional>

#include "examples/viabench/measure.h"

namespace viabench {

// Messages that each of them sends.
inline std::uint32_t share_of_sender(const Case& c) {
  return c.count / c.others > 0 ? c.count / c.others : 1;
}

// Runs as many processes as the case says and waits for them. Throws Failure if one fails.
void run_senders(const Case& c, const Reporter& report, bool agent,
                 const std::function<void()>& send);

}  // namespace viabench

#endif
