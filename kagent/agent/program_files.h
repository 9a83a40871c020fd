// Files in memory that an agent has made and a program has open.
#ifndef VIADUCT_KAGENT_AGENT_PROGRAM_FILES_H
#define VIADUCT_KAGENT_AGENT_PROGRAM_FILES_H

#include <sys/socket.h>

#include <cstdint>

#include "xdp/descriptor.h"
#include "kagent/agent/granter.h"

namespace viaduct {

// Opens the file behind a descriptor of the process `peer` (whose pidfd is `process`) if it is this
// one and sealed against another size; else an empty Descriptor. Whatever the descriptor is,
// nothing of it is opened, asked or closed but such a file: a descriptor of a program's can be of a
// file system, or a socket, that makes every access wait.
Descriptor open_program_file(const ucred& peer, int process, std::int32_t descriptor,
                             const FileNumber& file);

}  // namespace viaduct

#endif
