#include "vipl/session/debug_log.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "vipl/process/environment.h"
#include "vipl/process/standard_error.h"

namespace viaduct::vipl {

void explain(const char* format, ...) {
  if (!environment::explains()) return;
  char text[512];
  constexpr char kPrefix[] = "libvipl: ";
  constexpr std::size_t kPrefixBytes = sizeof kPrefix - 1;
  memcpy(text, kPrefix, kPrefixBytes);
  va_list arguments;
  va_start(arguments, format);
  int bytes = vsnprintf(text + kPrefixBytes, sizeof text - kPrefixBytes - 1, format, arguments);
  va_end(arguments);
  if (bytes < 0) return;
  const int most = static_cast<int>(sizeof text - kPrefixBytes - 2);
  if (bytes > most) bytes = most;
  std::size_t end = kPrefixBytes + static_cast<std::size_t>(bytes);
  text[end++] = '\n';
  standard_error::write(text, end);
}

}  // namespace viaduct::vipl
