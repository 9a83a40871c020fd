// Frees a descriptor number that VIPL has and the program wants.
#ifndef VIADUCT_SOVIA_PROGRAM_FD_RELOCATION_H
#define VIADUCT_SOVIA_PROGRAM_FD_RELOCATION_H

namespace viaduct::sovia {

// Closes the NIC, after every connection has left its lane. It is opened again, at other numbers, when a connection is
// next worth a lane. True if the number is not the library's any more. Keeps errno.
bool give_way(int fd);

}  // namespace viaduct::sovia

#endif
