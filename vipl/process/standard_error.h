// The library's messages to the user go to standard error, and only there: a daemon may have closed
// descriptor 2, and opened its data where it was.
#ifndef VIADUCT_VIPL_PROCESS_STANDARD_ERROR_H
#define VIADUCT_VIPL_PROCESS_STANDARD_ERROR_H

#include <cstddef>

namespace viaduct::vipl::standard_error {

// Writes to descriptor 2 if it is still the file that it was when the library was loaded, and not a socket: daemons
// of a superserver have their connection there.
void write(const char* text, std::size_t bytes);

}  // namespace viaduct::vipl::standard_error

#endif
