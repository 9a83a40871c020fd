#ifndef SEMANTICS_OPTIONS_H
#define SEMANTICS_OPTIONS_H

#include <cstdint>
#include <string>

#include "case.h"

namespace semantics {

struct Options {
  bool serve = false, list = false;
  in_addr server{};           // for the client
  std::uint16_t port = 7757;  // of the control connection
  std::string only = "*";     // a pattern of names
  std::string directory = ".";
  int limit_ms = 8000;  // for each case
  Settings settings;
};

Options parse(int argc, char** argv);

}  // namespace semantics

#endif
