#include "sovia/process/rings.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <string_view>

#include "sovia/process/options.h"

namespace viaduct::sovia::rings {

bool are_refused() { return options().io_uring == 0 && options().lanes != 0; }

bool has_any() {
  DIR* const all = opendir("/proc/self/fd");
  if (all == nullptr) return false;
  bool any = false;
  while (const dirent* const each = readdir(all)) {
    char target[32];
    const ssize_t length = readlinkat(dirfd(all), each->d_name, target, sizeof target);
    any |= length > 0 && std::string_view(target, static_cast<std::size_t>(length)) == "anon_inode:[io_uring]";
  }
  closedir(all);
  return any;
}

}  // namespace viaduct::sovia::rings
