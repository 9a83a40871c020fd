#ifndef VIADUCT_TESTS_SCALE_OPTIONS_H
#define VIADUCT_TESTS_SCALE_OPTIONS_H

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace scale {

struct Options {
  std::string device = "nic0";
  std::string host;
  std::uint32_t count = 0;    // 0: the mode's default
  std::uint32_t live = 0;     // regions that are registered beside
  std::uint32_t threads = 1;  // that connect
  std::uint32_t nics = 1;     // handles that VIs are opened on
  std::uint32_t rounds = 5;
  std::uint32_t messages = 20000;
  std::uint64_t allowed_kib = 256;
  std::vector<pid_t> watch;

  std::uint32_t count_or(std::uint32_t usual) const { return count != 0 ? count : usual; }
};

}  // namespace scale

#endif
