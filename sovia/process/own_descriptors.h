// Descriptors that belong to the library and not to the program it lives in. The program neither
// closes nor replaces them, though it may try: daemons close all descriptors there are.
#ifndef VIADUCT_SOVIA_PROCESS_OWN_DESCRIPTORS_H
#define VIADUCT_SOVIA_PROCESS_OWN_DESCRIPTORS_H

namespace viaduct::sovia::own_descriptors {

// Moves `fd` off the low numbers, which programs count on getting, and makes it the library's.
// Returns its new number; -1 closes nothing and is passed on.
int adopt(int fd);

// Makes `fd` the library's without moving it.
void mark(int fd);

// Whether the program may have so few descriptors that each of them counts: then the library takes none, and has no
// lanes.
bool scarce();

// The library is about to close its descriptor `fd` itself.
void release(int fd);

// Closes a descriptor of the library's; -1 is passed over.
void close(int fd);

// A NIC is open: VIPL's present descriptors are the library's too, whatever their numbers. `list`: VipxDescriptors.
void count_vipl(int (*list)(int* fds, int most));

// Whether `fd` is the library's. Takes a few instructions while there are none, and for numbers below all of them.
bool has(int fd);

// Whether `fd` is one of VIPL's descriptors.
bool is_of_vipl(int fd);

// The least number after `fd` that is the library's, or -1: to close ranges around them.
int next_from(int fd);

}  // namespace viaduct::sovia::own_descriptors

#endif
