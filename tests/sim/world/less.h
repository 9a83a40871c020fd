// Parts of a world that are left out, so that a seed that fails becomes smaller: "hosts=2,jobs=1,
// messages=1/8,without=trains+event0+event3".
#ifndef VIADUCT_TESTS_SIM_WORLD_LESS_H
#define VIADUCT_TESTS_SIM_WORLD_LESS_H

#include <cstdint>
#include <string>

namespace viaduct::sim {

struct Less {
  unsigned hosts = ~0u;    // at most
  unsigned jobs = ~0u;     // at most
  unsigned messages = 1;   // one in so many
  std::uint64_t events = 0;  // a bit for each that does not happen
  bool trains = false, rings = false, granted = false, faults = false, crimes = false;  // true: there are none

  bool any() const { return *this != Less{}; }
  bool operator==(const Less&) const = default;
};

inline constexpr char kLessUsage[] =
    "hosts=N,jobs=N,messages=1/N,without=trains+rings+granted+faults+crimes+event0+event1+...";

// False: the text is no such list.
bool read_less(const std::string& text, Less& out);
// The text that read_less() reads.
std::string text_of(const Less& less);

}  // namespace viaduct::sim

#endif
