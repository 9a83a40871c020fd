#include "sovia/launcher/elf_file.h"

#include <elf.h>
#include <link.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string_view>

namespace viaduct::sovia::launcher {
namespace {

// The file in memory; reads are checked, as files may be damaged.
class Image {
 public:
  explicit Image(const std::string& path) {
    std::ifstream stream(path, std::ios::binary);
    if (!stream) throw std::runtime_error("cannot read " + path + ": " + std::strerror(errno));
    bytes_.assign(std::istreambuf_iterator<char>(stream), {});
  }

  template <class T>
  T at(std::uint64_t offset) const {
    T value;
    if (offset > bytes_.size() || bytes_.size() - offset < sizeof value) {
      throw std::runtime_error("damaged: it ends too early");
    }
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }

  std::string text(std::uint64_t offset) const {
    if (offset >= bytes_.size()) throw std::runtime_error("damaged: a name lies outside of it");
    const char* const begin = bytes_.data() + offset;
    return std::string(begin, strnlen(begin, bytes_.size() - offset));
  }

  std::size_t size() const { return bytes_.size(); }

 private:
  std::string bytes_;
};

// Symbols are found through the section headers, which stripped files keep.
std::vector<std::string> undefined_symbols(const Image& image, const ElfW(Ehdr) & header) {
  const auto section_at = [&](std::uint64_t i) {
    return image.at<ElfW(Shdr)>(header.e_shoff + i * header.e_shentsize);
  };
  std::vector<std::string> names;
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    const auto section = section_at(i);
    if (section.sh_type != SHT_DYNSYM || section.sh_entsize < sizeof(ElfW(Sym))) continue;
    const auto strings = section_at(section.sh_link);
    const std::uint64_t each = section.sh_entsize;
    for (std::uint64_t at = 0; at + each <= section.sh_size; at += each) {
      const auto symbol = image.at<ElfW(Sym)>(section.sh_offset + at);
      if (symbol.st_shndx != SHN_UNDEF || symbol.st_name == 0) continue;
      names.push_back(image.text(strings.sh_offset + symbol.st_name));
    }
  }
  std::sort(names.begin(), names.end());
  names.erase(std::unique(names.begin(), names.end()), names.end());
  return names;
}

bool has_note(const Image& image, const ElfW(Phdr) & segment, std::string_view owner) {
  const auto padded = [](std::uint64_t bytes) { return (bytes + 3) & ~std::uint64_t{3}; };
  for (std::uint64_t at = 0; at + sizeof(ElfW(Nhdr)) < segment.p_filesz;) {
    const auto note = image.at<ElfW(Nhdr)>(segment.p_offset + at);
    at += sizeof note;
    if (note.n_namesz != 0 && image.text(segment.p_offset + at) == owner) return true;
    at += padded(note.n_namesz) + padded(note.n_descsz);
  }
  return false;
}

constexpr int kThisMachine =
#if defined(__x86_64__)
    EM_X86_64;
#elif defined(__aarch64__)
    EM_AARCH64;
#elif defined(__riscv)
    EM_RISCV;
#else
    EM_NONE;
#endif

// A program's standard output. The arguments are not interpreted by a shell.
std::string output_of(const std::vector<std::string>& arguments) {
  int ends[2];
  if (pipe(ends) != 0) throw std::runtime_error("pipe failed");
  const pid_t child = ::fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    std::vector<char*> pointers;
    for (const std::string& argument : arguments) {
      pointers.push_back(const_cast<char*>(argument.c_str()));
    }
    pointers.push_back(nullptr);
    unsetenv("LD_PRELOAD");
    execv(pointers[0], pointers.data());
    _exit(127);
  }
  close(ends[1]);
  std::string text;
  char piece[4096];
  for (ssize_t got; (got = read(ends[0], piece, sizeof piece)) > 0;) {
    text.append(piece, static_cast<std::size_t>(got));
  }
  close(ends[0]);
  int status = 0;
  if (child > 0) waitpid(child, &status, 0);
  return text;
}

}  // namespace

ElfFile read_elf(const std::string& path) {
  const Image image(path);
  ElfFile file;
  if (image.size() < EI_NIDENT || image.text(0).compare(0, SELFMAG, ELFMAG) != 0) return file;
  file.is_elf = true;
  const auto header = image.at<ElfW(Ehdr)>(0);
  file.same_machine = header.e_ident[EI_CLASS] == (sizeof(void*) == 8 ? ELFCLASS64 : ELFCLASS32) &&
                      header.e_machine == kThisMachine;
  if (!file.same_machine) return file;
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    const auto segment =
        image.at<ElfW(Phdr)>(header.e_phoff + std::uint64_t{i} * header.e_phentsize);
    if (segment.p_type == PT_DYNAMIC) file.dynamic = true;
    if (segment.p_type == PT_INTERP) file.interpreter = image.text(segment.p_offset);
    if (segment.p_type == PT_NOTE) file.go |= has_note(image, segment, "Go");
  }
  file.imports = undefined_symbols(image, header);
  return file;
}

std::string script_interpreter(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  std::string line;
  if (!std::getline(stream, line) || line.compare(0, 2, "#!") != 0) return "";
  std::istringstream words(line.substr(2));
  std::string program;
  words >> program;
  return program;
}

std::vector<std::string> libraries_of(const std::string& path, const ElfFile& file) {
  std::vector<std::string> libraries;
  if (file.interpreter.empty()) return libraries;
  // "  libz.so.1 => /lib/libz.so.1 (0x...)"
  std::istringstream lines(output_of({file.interpreter, "--list", path}));
  for (std::string line; std::getline(lines, line);) {
    const std::size_t arrow = line.find("=> /");
    if (arrow == std::string::npos) continue;
    const std::size_t begin = arrow + 3;
    libraries.push_back(line.substr(begin, line.find(" (", begin) - begin));
  }
  return libraries;
}

}  // namespace viaduct::sovia::launcher
