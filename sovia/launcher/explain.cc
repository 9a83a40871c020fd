#include "sovia/launcher/explain.h"

#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <vector>

#include "sovia/launcher/call_kinds.h"
#include "sovia/launcher/elf_file.h"

namespace viaduct::sovia::launcher {
namespace {

namespace fs = std::filesystem;

// The imported symbols of each kind, with the files that import them.
using Imports = std::map<CallKind, std::map<std::string, std::vector<std::string>>>;

struct Section {
  CallKind kind;
  const char* title;
};

constexpr std::array kSections = {
    Section{CallKind::kData, "over the lane, once the connection has one"},
    Section{CallKind::kReady, "for lanes and the kernel at once"},
    Section{CallKind::kStdio, "streams on sockets, which use the lane too"},
    Section{CallKind::kConnection, "to the kernel, with the library looking on: connections"},
    Section{CallKind::kDescriptor, "to the kernel, with the library looking on: descriptors"},
    Section{CallKind::kProcess,
            "to the kernel, with the library looking on: processes (connections leave their lanes "
            "before)"},
    Section{CallKind::kKernel, "to the kernel"},
    Section{CallKind::kLeaving, "to the kernel for good: a connection leaves its lane"},
    Section{CallKind::kRefused,
            "refused with ENOSYS, so that the program does without rings of io_uring (SOVIA_IO_URING)"},
    Section{CallKind::kLookedUp,
            "plug-ins, and functions that are looked up while it runs: as above, with RTLD_DEEPBIND too, but not "
            "from the C library's own handle"},
    Section{CallKind::kUnseen,
            "unseen: system calls that are no functions of the C library, other than close, close_range, "
            "io_submit and io_uring_setup; sockets that are used by them must not be used otherwise"},
};

std::string find_program(const std::string& program) {
  if (program.find('/') != std::string::npos) return program;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "/usr/bin:/bin");
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path candidate = fs::path(folder.empty() ? "." : folder) / program;
    if (access(candidate.c_str(), X_OK) == 0 && !fs::is_directory(candidate)) return candidate;
  }
  throw std::runtime_error("program " + program + " was not found in PATH; give its path");
}

// Whether a library is a part of the system, whose own calls go to the kernel even with the preload library.
bool part_of_system(const std::string& library) {
  const std::string name = fs::path(library).filename();
  for (const char* const prefix :
       {"libc.so.", "ld-linux", "libpthread.so.", "libdl.so.", "librt.so.", "libm.so.",
        "libvipl.so", "libsovia", "libstdc++.so.", "libgcc_s.so."}) {
    if (name.rfind(prefix, 0) == 0) return true;
  }
  return false;
}

void add_imports(const ElfFile& file, const std::string& name, Imports& imports) {
  for (const std::string& symbol : file.imports) {
    const CallKind kind = kind_of(symbol);
    if (kind != CallKind::kNone) imports[kind][symbol].push_back(name);
  }
}

// The system ignores LD_PRELOAD for programs that run with other rights than their user's.
std::string other_rights(const std::string& path) {
  struct stat about;
  if (stat(path.c_str(), &about) != 0) return "";
  if ((about.st_mode & S_ISUID) != 0 && about.st_uid != geteuid()) return "is setuid";
  if ((about.st_mode & S_ISGID) != 0 && about.st_gid != getegid()) return "is setgid";
  if (getxattr(path.c_str(), "security.capability", nullptr, 0) > 0 && geteuid() != 0) {
    return "has file capabilities";
  }
  return "";
}

void print_calls(const Imports& imports, const std::string& program, std::ostream& out) {
  for (const Section& section : kSections) {
    const auto found = imports.find(section.kind);
    if (found == imports.end()) continue;
    out << "  " << section.title << "\n";
    for (const auto& [symbol, files] : found->second) {
      out << "    " << symbol;
      bool first = true;
      for (const std::string& file : files) {
        if (files.size() == 1 && file == program) continue;
        out << (first ? "  (" : ", ") << file;
        first = false;
      }
      out << (first ? "\n" : ")\n");
    }
  }
}

bool makes_sockets(const Imports& imports) {
  const auto connections = imports.find(CallKind::kConnection);
  if (connections == imports.end()) return false;
  for (const char* const symbol : {"socket", "accept", "accept4", "connect"}) {
    if (connections->second.count(symbol) != 0) return true;
  }
  return false;
}

int verdict(std::ostream& out, bool good, const std::string& text) {
  out << (good ? "yes: " : "no: ") << text << "\n";
  return good ? 0 : 1;
}

}  // namespace

int explain(const std::string& program, std::ostream& out) {
  std::string path = find_program(program);
  for (int depth = 0; depth < 4; ++depth) {
    const std::string interpreter = script_interpreter(path);
    if (interpreter.empty()) break;
    out << path << ": a script of " << interpreter << "\n";
    path = interpreter;
  }
  const ElfFile file = read_elf(path);
  if (!file.is_elf) return verdict(out, false, path + " is no program: it is not an ELF file of this system, nor a script");
  if (!file.same_machine) return verdict(out, false, path + " is a program for another kind of processor; explain it on a host of that kind");
  if (file.go) {
    return verdict(out, false,
                   path + " is a Go program, which calls the kernel itself and not by the C library. Its connections stay "
                          "with the kernel.");
  }
  if (!file.dynamic || file.interpreter.empty()) {
    return verdict(out, false,
                   path + " is linked statically: no library can be preloaded. Its connections stay with "
                          "the kernel. Link it dynamically, or with libsovia.");
  }
  if (const std::string rights = other_rights(path); !rights.empty()) {
    return verdict(out, false,
                   path + " " + rights + ": the system does not preload libraries for it. Its "
                          "connections stay with the kernel. A copy without that right can have lanes.");
  }

  Imports imports;
  const std::string name = fs::path(path).filename();
  add_imports(file, name, imports);
  for (const std::string& library : libraries_of(path, file)) {
    if (part_of_system(library)) continue;
    add_imports(read_elf(library), fs::path(library).filename(), imports);
  }
  out << path << ": dynamic; where its calls go, and those of its libraries\n";
  print_calls(imports, name, out);
  if (!makes_sockets(imports)) {
    return verdict(out, false,
                   path + " and its libraries make no sockets (libraries that it loads while it runs "
                          "are not looked at)");
  }
  const bool unseen = imports.count(CallKind::kUnseen) != 0;
  return verdict(out, true,
                 std::string("`sovia run ") + program + "` gives its TCP connections lanes" +
                     (unseen ? ", unless it uses sockets by the unseen calls above" : ""));
}

}  // namespace viaduct::sovia::launcher
