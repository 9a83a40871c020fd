#include "xdp/interface_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "xdp/port_error.h"
#include "xdp/root_folder.h"

namespace viaduct {
namespace {

constexpr unsigned kPauseUs = 25'000;

[[noreturn]] void fail(const char* interface, const std::string& why) {
  throw PortError(std::string(interface) + ": can't lock: " + why +
                  (geteuid() == 0 ? "" : "; it takes root's permission"));
}

[[noreturn]] void fail_with_errno(const char* interface, const std::string& path) {
  fail(interface, path + ": " + std::strerror(errno));
}

Descriptor open_file(const std::string& path) {
  return Descriptor(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
}

bool lock(const Descriptor& file) { return flock(file.get(), LOCK_EX | LOCK_NB) == 0; }

// Whether the file that was opened is still at its path: the holder before may have removed it.
bool is_there(const Descriptor& file, const std::string& path) {
  struct stat ours{}, there{};
  return fstat(file.get(), &ours) == 0 && lstat(path.c_str(), &there) == 0 &&
         ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
}

std::string holder(const Descriptor& file) {
  char process[16] = {};
  if (pread(file.get(), process, sizeof process - 1, 0) <= 0) return "another agent";
  return std::string("another agent, process ") + process;
}

void name_holder(const Descriptor& file) {
  const std::string process = std::to_string(getpid());
  // The holder's number is for people only: the lock works without it.
  if (ftruncate(file.get(), 0) == 0) (void)!pwrite(file.get(), process.data(), process.size(), 0);
}

}  // namespace

std::string InterfaceLock::path_of(int ifindex) {
  struct stat network{};
  if (stat("/proc/thread-self/ns/net", &network) != 0) return {};
  char path[64];
  std::snprintf(path, sizeof path, "%s/interface-%llu-%d", kFolder,
                static_cast<unsigned long long>(network.st_ino), ifindex);
  return path;
}

InterfaceLock::InterfaceLock(int ifindex, const char* interface, unsigned wait_ms)
    : path_(path_of(ifindex)) {
  if (path_.empty()) fail_with_errno(interface, "/proc/thread-self/ns/net");
  // In a folder that others write to a user could have a file at this path, and lock it.
  const std::string unfit = make_root_folder(kFolder, 0700);
  if (!unfit.empty()) fail(interface, unfit);
  for (unsigned left = wait_ms * 1000 / kPauseUs;;) {
    fd_ = open_file(path_);
    if (!fd_) fail_with_errno(interface, path_);
    if (lock(fd_)) {
      if (!is_there(fd_, path_)) continue;
      name_holder(fd_);
      return;
    }
    if (errno != EWOULDBLOCK) fail_with_errno(interface, path_);
    if (left == 0) {
      throw PortError(std::string(interface) + " is in use by " + holder(fd_) +
                      "; one agent serves an interface");
    }
    --left;
    usleep(kPauseUs);
  }
}

InterfaceLock::~InterfaceLock() {
  fd_.close();
  const Descriptor file(open(path_.c_str(), O_RDWR | O_CLOEXEC | O_NOFOLLOW));
  if (file && lock(file) && is_there(file, path_)) unlink(path_.c_str());
}

}  // namespace viaduct
