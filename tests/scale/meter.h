// Time and memory of a long series of operations, by tenths.
#ifndef VIADUCT_TESTS_SCALE_METER_H
#define VIADUCT_TESTS_SCALE_METER_H

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace scale {

// Resident memory of a process in KiB; 0 if it is gone.
std::uint64_t resident_kib(pid_t process);

class Meter {
 public:
  // `watched`: processes whose memory counts, besides this one.
  Meter(std::string what, std::uint64_t operations, const std::vector<pid_t>& watched);

  // Call after each operation.
  void tick() {
    if (++done_ % tenth_ == 0) note();
  }

  // Prints a line for each tenth and one for the whole. False if some process has grown by more
  // than `allowed_kib` after the second tenth.
  bool report(std::uint64_t allowed_kib) const;

  // Time per operation of the last tenth against that of the first.
  double change() const;

 private:
  struct Tenth {
    double ns;                         // for one operation
    std::vector<std::uint64_t> kib;    // this process, then the watched ones
  };
  void note();

  std::string what_;
  std::uint64_t tenth_;
  std::uint64_t done_ = 0;
  std::vector<pid_t> processes_;
  std::chrono::steady_clock::time_point begun_;
  std::vector<Tenth> tenths_;
};

}  // namespace scale

#endif
