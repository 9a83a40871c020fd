// Rings of io_uring. The kernel takes their calls from memory, past the library, so a connection that a ring uses must have
// no lane.
#ifndef VIADUCT_SOVIA_PROCESS_RINGS_H
#define VIADUCT_SOVIA_PROCESS_RINGS_H

namespace viaduct::sovia::rings {

// Whether the library answers for a kernel without io_uring, so that the program uses its other way; or else the program
// keeps the connections of its rings apart (SOVIA_IO_URING).
bool are_refused();

// Whether the process has rings all the same: it was started with them, or makes its system calls itself. Looks at all
// descriptors.
bool has_any();

}  // namespace viaduct::sovia::rings

#endif
