// Debug messages of the library, for users who ask for them.
#ifndef VIADUCT_VIPL_SESSION_DEBUG_LOG_H
#define VIADUCT_VIPL_SESSION_DEBUG_LOG_H

namespace viaduct::vipl {

// Reports to standard error if $VIADUCT_DEBUG is set.
void explain(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace viaduct::vipl

#endif
