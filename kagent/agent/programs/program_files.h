// Files in memory that an agent has made and a program has open.
#ifndef VIADUCT_KAGENT_AGENT_PROGRAMS_PROGRAM_FILES_H
#define VIADUCT_KAGENT_AGENT_PROGRAMS_PROGRAM_FILES_H

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>

#include "xdp/descriptor.h"

namespace viaduct {

// Identifies a file in memory: the same file has the same numbers.
struct FileNumber {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(const FileNumber&) const = default;
};

// Throws std::system_error of errno; `what` failed.
[[noreturn]] void fail_by_errno(const char* what);

// A file in memory of this size that can't be made smaller or larger. Throws std::system_error.
Descriptor make_sealed_memory(const char* name, std::size_t bytes);

// Throws std::system_error.
FileNumber number_of(int file);

// Opens the file behind a descriptor of the process `peer` (whose pidfd is `process`) if it is this file and sealed
// against another size; else an empty Descriptor. Whatever the descriptor is, only such a file is opened, asked or
// closed: a program's descriptor can be of a file system, or a socket, that makes every access wait.
Descriptor open_program_file(const ucred& peer, int process, std::int32_t descriptor,
                             const FileNumber& file);

}  // namespace viaduct

#endif
