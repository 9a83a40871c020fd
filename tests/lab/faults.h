// The faults of a lab's forwarder: its settings, and the fate of each frame. The fate depends on the seed, the
// direction and the number of the frame alone, so that a run can be repeated and a change of one setting leaves the
// effects of the others.
#ifndef VIADUCT_TESTS_LAB_FAULTS_H
#define VIADUCT_TESTS_LAB_FAULTS_H

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace viaduct::lab {

// Of one direction.
struct Faults {
  double loss = 0;
  double reorder = 0;
  double duplicate = 0;
  double corrupt = 0;
  std::uint64_t delay_ns = 0;
  double rate = 0;                         // bits in a second on the cable, 0: as fast as it goes
  std::uint64_t queue_bytes = 512 * 1024;  // that wait for the rate at most
  std::uint64_t seed = 1;
};

inline constexpr int kDirections = 2;
using Settings = std::array<Faults, kDirections>;  // of what host a sends, and host b

struct Parsed {
  std::string error;  // empty if all is well
  std::array<bool, kDirections> seeded{};
};

// Options as `vialab up` and `vialab faults` take them ("--loss", "1%", ...), applied to `settings`,
// which is unchanged if there is an error.
Parsed apply(const std::vector<std::string>& options, Settings& settings);

std::string text(const Faults& faults);

struct Fate {
  bool lost = false;
  bool duplicated = false;
  unsigned overtaken_by = 0;   // so many of the frames that follow; 0: stays in order
  std::uint32_t flip_bit = 0;  // of what follows the Ethernet header; valid if `corrupted`
  bool corrupted = false;
};

// `length` is that of the whole frame.
Fate fate(const Faults& faults, int direction, std::uint64_t number, std::uint32_t length);

}  // namespace viaduct::lab

#endif
