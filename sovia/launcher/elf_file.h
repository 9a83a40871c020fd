// Facts about a program or library before it runs: read from the file, never by running it. 64-bit and 32-bit ELF of
// this machine's byte order.
#ifndef VIADUCT_SOVIA_LAUNCHER_ELF_FILE_H
#define VIADUCT_SOVIA_LAUNCHER_ELF_FILE_H

#include <string>
#include <vector>

namespace viaduct::sovia::launcher {

struct ElfFile {
  bool is_elf = false;
  bool same_machine = false;  // as this program: 64 bits, the same processor
  std::string interpreter;    // the dynamic loader; empty for static programs and most libraries
  bool dynamic = false;
  bool go = false;  // Go's linker has made it
  std::vector<std::string> imports;  // undefined dynamic symbols, sorted
};

// Throws std::runtime_error if the file can't be read or is damaged.
ElfFile read_elf(const std::string& path);

// The interpreter that a script names on its first line, or "".
std::string script_interpreter(const std::string& path);

// The libraries that the loader would map, found by asking the program's own loader to list them.
std::vector<std::string> libraries_of(const std::string& path, const ElfFile& file);

}  // namespace viaduct::sovia::launcher

#endif
