#include "vipl/process/standard_error.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vipl/process/sys.h"

namespace viaduct::vipl::standard_error {
namespace {

struct File {
  bool open = false;
  struct statx about = {};
};

constinit File g_kept{};

File file_at(int fd) {
  File file;
  file.open = ::syscall(SYS_statx, fd, "", AT_EMPTY_PATH, STATX_TYPE | STATX_INO, &file.about) == 0;
  return file;
}

bool same(const File& a, const File& b) {
  return a.open && b.open && a.about.stx_ino == b.about.stx_ino &&
         a.about.stx_dev_major == b.about.stx_dev_major &&
         a.about.stx_dev_minor == b.about.stx_dev_minor;
}

[[gnu::constructor]] void begin() {
  const int before = errno;
  g_kept = file_at(STDERR_FILENO);
  errno = before;
}

}  // namespace

void write(const char* text, std::size_t bytes) {
  const int before = errno;
  const File now = file_at(STDERR_FILENO);
  if (same(now, g_kept) && !S_ISSOCK(now.about.stx_mode)) sys::write(STDERR_FILENO, text, bytes);
  errno = before;
}

}  // namespace viaduct::vipl::standard_error
