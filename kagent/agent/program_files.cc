#include "kagent/agent/program_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "kagent/agent/program_memory.h"

namespace viaduct {
namespace {

constexpr std::string_view kMemory = "/memfd:";

// How /proc calls it, which the file has no part in.
bool is_called_memory(const std::string& link) {
  char name[kMemory.size()];
  const ssize_t bytes = readlink(link.c_str(), name, sizeof name);
  return bytes == static_cast<ssize_t>(sizeof name) &&
         std::string_view(name, sizeof name) == kMemory;
}

}  // namespace

Descriptor open_program_file(const ucred& peer, int process, std::int32_t descriptor,
                             const FileNumber& file) {
  if (peer.pid <= 0 || descriptor < 0) return Descriptor();
  const std::string link =
      "/proc/" + std::to_string(peer.pid) + "/fd/" + std::to_string(descriptor);
  if (!is_called_memory(link)) return Descriptor();
  // No more than a place in the file system, whatever has become of the descriptor meanwhile.
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
