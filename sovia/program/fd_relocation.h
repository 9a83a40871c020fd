// The program wants a number that VIPL's descriptors have.
#ifndef VIADUCT_SOVIA_PROGRAM_FD_RELOCATION_H
#define VIADUCT_SOVIA_PROGRAM_FD_RELOCATION_H

namespace viaduct::sovia {

// Closes the NIC, which every connection leaves before; it is opened again, at other numbers, when a connection is
// next worth a lane. Whether the number is the library's no longer. Keeps errno.
bool give_way(int fd);

}  // namespace viaduct::sovia

#endif
