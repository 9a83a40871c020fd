// Time, processor time and memory of a long series of operations, by tenths.
#ifndef VIADUCT_TESTS_SCALE_METER_H
#define VIADUCT_TESTS_SCALE_METER_H

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

namespace scale {

// The middle one of some values, which it reorders; 0 when there are none.
double median(std::vector<double>& values);

class Meter {
 public:
  // `watched`: processes that count too, besides this one.
  Meter(std::string what, std::uint64_t operations, const std::vector<pid_t>& watched);

  // Call after each operation.
  void tick() {
    if (++done_ % block_ == 0) end_block();
  }

  // Prints a line for each tenth and one for the whole. False if some process has grown by more
  // than `allowed_kib` after the second tenth.
  bool report(std::uint64_t allowed_kib) const;

 private:
  // Of a process.
  struct Use {
    std::uint64_t resident_kib;
    std::uint64_t data_kib;
    double processor_ns;
  };
  struct Tenth {
    double mean;            // ns for one operation
    double typical;         // the same, the median of many blocks of operations
    double slowest;         // of these blocks
    double processor;       // ns of all processes together for one operation
    std::vector<Use> uses;  // this process, then the watched ones
  };
  static Use use_of(pid_t process);
  std::vector<Use> all_uses() const;
  void end_block();
  void end_tenth();

  std::string what_;
  std::uint64_t block_, tenth_;  // operations
  std::uint64_t done_ = 0;
  std::vector<pid_t> processes_;
  std::chrono::steady_clock::time_point block_begin_, tenth_begin_;
  double processor_before_ = 0;
  std::vector<double> blocks_;  // of this tenth; ns for one operation
  std::vector<Tenth> tenths_;
};

}  // namespace scale

#endif
