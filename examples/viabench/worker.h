// Processes: each sample is measured by processes of its own, so that none can harm another.
#ifndef VIADUCT_EXAMPLES_VIABENCH_WORKER_H
#define VIADUCT_EXAMPLES_VIABENCH_WORKER_H

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "examples/viabench/lines.h"

namespace viabench {

// A child process. It ends with this object, and with its parent, however that ends.
class Process {
 public:
  Process() = default;
  explicit Process(pid_t pid) : pid_(pid) {}
  Process(Process&& other) noexcept;
  Process& operator=(Process&& other) noexcept;
  ~Process() { end(); }

  pid_t pid() const { return pid_; }
  bool running() const { return pid_ > 0; }

  // Whether it has ended, and how (as waitpid says).
  bool ended(int& status);

  // SIGTERM, and SIGKILL a while later.
  void end();

 private:
  pid_t pid_ = -1;
};

// Runs `work` in a child process. An exception is reported as a failure.
Process start_worker(int report_to, const std::function<void(const Reporter&)>& work);

// Starts a program, found on the search path, with the standard files of this one; `quiet`: without
// standard output.
Process start_program(const std::vector<std::string>& arguments, bool quiet = false);

// Runs a program and waits for it. Returns its status, or -1 if it had to be ended. `output`: gets its output, from
// both standard files.
int run_program(const std::vector<std::string>& arguments, std::string* output = nullptr,
                int seconds = 30);

}  // namespace viabench

#endif
