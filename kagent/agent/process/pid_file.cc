#include "kagent/agent/process/pid_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

namespace viaduct {

PidFile::PidFile(const std::string& path) : path_(path) {
  fd_ = Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  if (!fd_) throw std::runtime_error("PID file " + path + ": " + std::strerror(errno));
  if (flock(fd_.get(), LOCK_EX | LOCK_NB) != 0) {
    throw std::runtime_error("PID file " + path + ": another viad runs with it");
  }
  const std::string text = std::to_string(getpid()) + "\n";
  const bool written = ftruncate(fd_.get(), 0) == 0 &&
                       write(fd_.get(), text.data(), text.size()) ==
                           static_cast<ssize_t>(text.size());
  if (!written) throw std::runtime_error("PID file " + path + ": " + std::strerror(errno));
}

PidFile::~PidFile() {
  struct stat ours{}, there{};
  const bool same = fstat(fd_.get(), &ours) == 0 && stat(path_.c_str(), &there) == 0 &&
                    ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
  if (same) unlink(path_.c_str());
}

}  // namespace viaduct
