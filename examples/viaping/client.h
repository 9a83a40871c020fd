// The client of viaping: measures, and prints what it has measured.
#ifndef VIADUCT_EXAMPLES_VIAPING_CLIENT_H
#define VIADUCT_EXAMPLES_VIAPING_CLIENT_H

#include <cstdint>
#include <string>

#include "examples/common/nic.h"
#include "examples/viaping/messages.h"

namespace viaping {

struct Options {
  bool server = false;
  std::string host;
  std::string device = "nic0";
  std::uint32_t size = 0;
  bool size_given = false;
  std::uint32_t count = 10000;
  std::uint32_t interval_ms = 0;
  std::string reliability = "rd";
  std::string wait = "poll";
  bool bandwidth = false;
  std::string operation = "send";
  bool json = false;
};

// Throws Failure.
void run_client(Nic& nic, const Options& options);

}  // namespace viaping

#endif
