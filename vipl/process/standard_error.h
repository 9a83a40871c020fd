// The library's messages to the user go to standard error, and only there: a daemon may have closed
// descriptor 2, and opened its data where it was.
#ifndef VIADUCT_VIPL_PROCESS_STANDARD_ERROR_H
#define VIADUCT_VIPL_PROCESS_STANDARD_ERROR_H

#include <cstddef>

namespace viaduct::vipl::standard_error {

// Writes to descriptor 2 if it still is the file that it was when the library was loaded, and no
// socket: a superserver's daemons have a connection there.
void write(const char* text, std::size_t bytes);

}  // namespace viaduct::vipl::standard_error

#endif
