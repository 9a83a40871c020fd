// The arguments of execl and its kin as an array.
#ifndef VIADUCT_SOVIA_API_ARGUMENT_ARRAY_H
#define VIADUCT_SOVIA_API_ARGUMENT_ARRAY_H

#include <stdarg.h>

#include <cstddef>

// Defines `into`, in a function whose last named parameter is `argument`. It ends with a null
// pointer and lies on the stack, as exec is called where malloc must not be. `after` may take what
// follows the null pointer from `given`.
#define SOVIA_ARGUMENT_ARRAY(into, after)                                            \
  va_list given;                                                                     \
  std::size_t count = 1;                                                             \
  va_start(given, argument);                                                         \
  if (argument != nullptr) {                                                         \
    for (++count; va_arg(given, char*) != nullptr; ++count) continue;                \
  }                                                                                  \
  va_end(given);                                                                     \
  char** const into = static_cast<char**>(__builtin_alloca(count * sizeof(char*)));  \
  into[0] = const_cast<char*>(argument);                                             \
  va_start(given, argument);                                                         \
  for (std::size_t i = 1; i < count; ++i) into[i] = va_arg(given, char*);            \
  after;                                                                             \
  va_end(given)

#endif
