// Copying to and from memory that a program has registered and may have unmapped since: the NIC in
// hardware would have pinned it. A fault during such a copy makes the copy fail and does not reach
// the program.
//
// A handler for SIGSEGV and SIGBUS tells our faults by the instruction they happen at, and hands
// all others to the handler that was there before. A program that sets a handler of its own later
// takes it away; then a fault in a copy is a fault of the program, like any other.
#ifndef VIADUCT_VIPL_GRANTED_GUARDED_COPY_H
#define VIADUCT_VIPL_GRANTED_GUARDED_COPY_H

#include <cstddef>

namespace viaduct::vipl::guarded {

// Installs the handler, once in a process. Any thread may call it at any time.
void prepare();

// False if some of the bytes could not be copied. A length of 1, 2, 4 or 8 is stored in one go.
bool copy(void* to, const void* from, std::size_t bytes);

}  // namespace viaduct::vipl::guarded

#endif
