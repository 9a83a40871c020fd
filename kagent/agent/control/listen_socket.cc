#include "kagent/agent/control/listen_socket.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <ctime>

#include "kagent/contract/control.h"
#include "xdp/root_folder.h"

namespace viaduct {
namespace {

#ifndef SO_PASSRIGHTS
#define SO_PASSRIGHTS 83
#endif

constexpr int kBacklog = 128;
constexpr unsigned kPauseMs = 10;

void pause() {
  const timespec time{0, kPauseMs * 1'000'000L};
  nanosleep(&time, nullptr);
}

[[noreturn]] void fail(const std::string& name, const std::string& why) {
  throw SocketError("socket " + name + ": " + why);
}
[[noreturn]] void fail_with_errno(const std::string& name, const char* what) {
  fail(name, std::string(what) + ": " + std::strerror(errno));
}

Descriptor new_socket(const std::string& name) {
  Descriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) fail_with_errno(name, "can't be made");
  // Since Linux 6.16: refuse descriptors, on accepted connections too. No request has any, and closing
  // one may last as long as its sender likes. Before 6.16 a thread closes them (ControlSocket).
  const int off = 0;
  setsockopt(fd.get(), SOL_SOCKET, SO_PASSRIGHTS, &off, sizeof off);
  return fd;
}

// Other folders are for the administrator to make.
void make_default_folder(const std::string& name) {
  const std::string folder = name.substr(0, name.rfind('/'));
  const std::string unfit = make_root_folder(folder.c_str(), 0755);
  if (!unfit.empty()) fail(name, unfit);
}

// Keeps two agents that start at once from taking each other's path for a left-over.
class PathLock {
 public:
  explicit PathLock(const std::string& path) : path_(path + ".lock") {
    for (int tries = 0; tries < kTries; ++tries) {
      fd_ = Descriptor(open(path_.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
      if (!fd_) fail_with_errno(path, "can't be made");
      if (flock(fd_.get(), LOCK_EX | LOCK_NB) == 0) {
        struct stat ours{}, there{};
        const bool same = fstat(fd_.get(), &ours) == 0 && stat(path_.c_str(), &there) == 0 &&
                          ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
        if (same) return;
        continue;
      }
      pause();
    }
    fail(path, "another agent is just starting there");
  }
  ~PathLock() {
    if (fd_) unlink(path_.c_str());
  }

 private:
  static constexpr int kTries = 200;
  std::string path_;
  Descriptor fd_;
};

}  // namespace

SocketAddress::SocketAddress(const std::string& name) {
  std::memset(&address, 0, sizeof address);
  address.sun_family = AF_UNIX;
  const std::size_t length = name.copy(address.sun_path, sizeof address.sun_path - 1);
  const bool abstract = name[0] == '@';
  if (abstract) address.sun_path[0] = '\0';
  bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + length + (abstract ? 0 : 1));
}

ListenSocket::ListenSocket(const std::string& name, unsigned wait_ms)
    : name_(name), fd_(new_socket(name)) {
  const bool abstract = name_[0] == '@';
  const bool by_default = name_ == control::kDefaultSocket;
  if (by_default) make_default_folder(name_);
  for (unsigned left = wait_ms / kPauseMs; !(abstract ? bind_abstract() : bind_path()); --left) {
    if (left == 0) {
      fail(name_, abstract ? "another agent serves it in this network namespace"
                           : by_default
                               ? "another agent answers there; one of another network namespace takes "
                                 "another, such as --socket @viaduct"
                               : "another agent answers there");
    }
    pause();
  }
}

bool ListenSocket::bind_abstract() {
  const SocketAddress address(name_);
  if (bind(fd_.get(), address.get(), address.bytes) != 0) {
    if (errno == EADDRINUSE) return false;
    fail_with_errno(name_, "can't be bound");
  }
  if (listen(fd_.get(), kBacklog) != 0) fail_with_errno(name_, "can't listen");
  return true;
}

bool ListenSocket::bind_path() {
  const SocketAddress address(name_);
  const PathLock lock(name_);
  struct stat status{};
  if (lstat(name_.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode)) fail(name_, "exists and is no socket");
    const Descriptor probe = new_socket(name_);
    const bool answers = connect(probe.get(), address.get(), address.bytes) == 0;
    if (answers || errno != ECONNREFUSED) return false;
    if (unlink(name_.c_str()) != 0) fail_with_errno(name_, "the left-over can't be removed");
  }
  if (bind(fd_.get(), address.get(), address.bytes) != 0) fail_with_errno(name_, "can't be bound");
  // [access] decides on sessions, not the file's mode.
  const bool ready = stat(name_.c_str(), &status) == 0 && chmod(name_.c_str(), 0666) == 0 &&
                     listen(fd_.get(), kBacklog) == 0;
  if (!ready) {
    const int error = errno;
    unlink(name_.c_str());
    errno = error;
    fail_with_errno(name_, "can't listen");
  }
  device_ = status.st_dev;
  inode_ = status.st_ino;
  return true;
}

ListenSocket::~ListenSocket() {
  if (name_[0] == '@') return;
  struct stat status{};
  const bool ours = lstat(name_.c_str(), &status) == 0 && status.st_dev == device_ &&
                    status.st_ino == inode_;
  if (ours) unlink(name_.c_str());
}

}  // namespace viaduct
