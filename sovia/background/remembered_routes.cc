#include "sovia/background/remembered_routes.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/own_descriptors.h"

namespace viaduct::sovia::background::remembered {
namespace {

// Of the process's effective user, which may change.
RouteMemory memory() {
  if (options().remember == 0) return RouteMemory("");
  return RouteMemory("/dev/shm/sovia-routes-" + std::to_string(::geteuid()));
}

// FNV-1a
class Hash {
 public:
  void add(const void* from, std::size_t bytes) {
    const auto* const each = static_cast<const unsigned char*>(from);
    for (std::size_t i = 0; i < bytes; ++i) value_ = (value_ ^ each[i]) * 0x100000001b3u;
  }
  void add_file(const char* path) {
    struct stat is {};
    if (::stat(path, &is) != 0) return;
    add(&is.st_dev, sizeof is.st_dev);
    add(&is.st_ino, sizeof is.st_ino);
  }
  std::uint64_t value() const { return value_ != 0 ? value_ : 1; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325u;
};

// The first argument that names a file: the script of an interpreter, or a server's configuration. Empty: there is none.
std::string file_argument() {
  constexpr std::size_t kMost = 4096;
  std::array<char, kMost> arguments{};
  const long opened = syscall(SYS_openat, AT_FDCWD, "/proc/self/cmdline", O_RDONLY | O_CLOEXEC);
  if (opened < 0) return {};
  const int fd = own_descriptors::adopt(static_cast<int>(opened));
  const ssize_t bytes = libc::read(fd, arguments.data(), kMost - 1);
  own_descriptors::close(fd);
  const char* const end = arguments.data() + std::max<ssize_t>(bytes, 0);
  const char* each = arguments.data();
  for (each += strlen(each) + 1; each < end; each += strlen(each) + 1) {  // after the program itself
    struct stat is {};
    if (::stat(each, &is) == 0 && S_ISREG(is.st_mode)) return each;
  }
  return {};
}

// The program, its script, its network and its placement. Looked up once: they stay the same until exec().
const Hash& program() {
  static std::optional<Hash> g_known;  // a child of fork() has them too
  if (g_known) return *g_known;
  Hash hash;
  hash.add_file("/proc/self/exe");
  hash.add_file("/proc/self/ns/net");
  const std::string argument = file_argument();
  hash.add(argument.data(), argument.size());
  if (const char* const placement = kept_variable("VIADUCT_PLACEMENT"); placement != nullptr) {
    hash.add(placement, strlen(placement));
  }
  return g_known.emplace(hash);
}

}  // namespace

std::uint64_t service_number(Role role, bool local, const FlowEnd& at) {
  Hash hash = program();
  hash.add(&role, sizeof role);
  hash.add(&local, sizeof local);
  hash.add(at.address, sizeof at.address);
  return hash.value();
}

bool doubts_lanes(std::uint64_t service, std::uint64_t now) { return memory().doubts_lanes(service, now); }

RouteMemory::Finding recall(std::uint64_t service, unsigned load) { return memory().recall(service, load); }

void keep(std::uint64_t service, unsigned load, const RouteMemory::Finding& finding) {
  memory().remember(service, load, finding);
}

}  // namespace viaduct::sovia::background::remembered
