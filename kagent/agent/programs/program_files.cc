#include "kagent/agent/programs/program_files.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <string_view>
#include <system_error>

#include "kagent/agent/control/peer.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 0x0008U
#endif

namespace viaduct {
namespace {

constexpr std::string_view kMemory = "/memfd:";

// Whether /proc calls it a file in memory, which the file itself can't influence.
bool is_called_memory(const std::string& link) {
  char name[kMemory.size()];
  const ssize_t bytes = readlink(link.c_str(), name, sizeof name);
  return bytes == static_cast<ssize_t>(sizeof name) &&
         std::string_view(name, sizeof name) == kMemory;
}

}  // namespace

void fail_by_errno(const char* what) {
  throw std::system_error(errno, std::generic_category(), what);
}

Descriptor make_sealed_memory(const char* name, std::size_t bytes) {
  int fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_NOEXEC_SEAL);
  if (fd < 0 && errno == EINVAL) fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  Descriptor out(fd);
  if (!out) fail_by_errno("memfd_create");
  if (ftruncate(fd, static_cast<off_t>(bytes)) != 0) fail_by_errno("ftruncate");
  if (fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) fail_by_errno("seal");
  return out;
}

FileNumber number_of(int file) {
  struct stat status {};
  if (fstat(file, &status) != 0) fail_by_errno("fstat");
  return {status.st_dev, status.st_ino};
}

Descriptor open_program_file(const ucred& peer, int process, std::int32_t descriptor,
                             const FileNumber& file) {
  if (peer.pid <= 0 || descriptor < 0) return Descriptor();
  const std::string link =
      "/proc/" + std::to_string(peer.pid) + "/fd/" + std::to_string(descriptor);
  if (!is_called_memory(link)) return Descriptor();
  // Opens no more than a place in the file system, whatever has become of the descriptor meanwhile.
  const Descriptor place(open(link.c_str(), O_PATH | O_CLOEXEC));
  struct statx status {};
  if (!place || !process_lives(process) ||
      statx(place.get(), "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, STATX_INO, &status) != 0 ||
      makedev(status.stx_dev_major, status.stx_dev_minor) != file.device ||
      status.stx_ino != file.inode) {
    return Descriptor();
  }
  const std::string same = "/proc/self/fd/" + std::to_string(place.get());
  Descriptor out(open(same.c_str(), O_RDWR | O_CLOEXEC));
  constexpr int kSealed = F_SEAL_SHRINK | F_SEAL_GROW;
  if (!out || (fcntl(out.get(), F_GET_SEALS) & kSealed) != kSealed) return Descriptor();
  return out;
}

}  // namespace viaduct
