#include "sovia/program/inheritance.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "sovia/background/background.h"
#include "sovia/datagram/datagram_control.h"
#include "sovia/datagram/datagram_table.h"
#include "sovia/lane/waiting.h"
#include "sovia/process/counters.h"
#include "sovia/process/guarded_copy.h"
#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/process/signals.h"
#include "sovia/program/stdio_streams.h"
#include "sovia/socket/fallback.h"
#include "sovia/socket/fork_handoff.h"
#include "sovia/socket/inherited_bytes.h"
#include "sovia/socket/socket.h"
#include "sovia/socket/table.h"
#include "sovia/sovia.h"

namespace viaduct::sovia {
namespace {

// SOVIA_RESIDUE=INODE:FILE,... The socket is named by its inode, as its descriptor may be another
// one in the next program, or several.
constexpr char kName[] = "SOVIA_RESIDUE";
constexpr std::size_t kNameLength = sizeof kName - 1;

bool is_ours(const char* variable) {
  return strncmp(variable, kName, kNameLength) == 0 && variable[kNameLength] == '=';
}

bool survives(int fd) {
  const int flags = libc::fcntl(fd, F_GETFD);
  return flags >= 0 && (flags & FD_CLOEXEC) == 0;
}

// Whether the socket stays open over exec by any of its descriptors.
bool survives(int fd, const Socket& socket) {
  if (survives(fd)) return true;
  if (socket.descriptors() == 1) return false;
  bool found = false;
  table::for_each([&](int each, Socket& other) { found = found || (&other == &socket && survives(each)); });
  return found;
}

}  // namespace

// ---------------------------------------------------------------------------- to the next program

Inheritance::~Inheritance() {
  const KeepErrno keep;
  for (const Item& item : items_) {
    // The bytes may have been read meanwhile, and the file closed.
    if (own_descriptors::has(item.file)) libc::fcntl(item.file, F_SETFD, FD_CLOEXEC);
  }
}

void Inheritance::add(int fd, Socket& socket) {
  const int file = export_unread(socket, fd);
  struct stat about;
  if (file < 0 || fstat(fd, &about) != 0) return;
  for (const Item& item : items_) {
    if (item.socket == about.st_ino) return;
  }
  libc::fcntl(file, F_SETFD, 0);
  items_.push_back({about.st_ino, file});
}

char* const* Inheritance::environment(char* const own[]) {
  if (items_.empty()) return own;
  constexpr std::size_t kItemLength = 40;
  variable_.resize(kNameLength + 2 + items_.size() * kItemLength);
  char* at = variable_.data();
  at += sprintf(at, "%s=", kName);
  for (const Item& item : items_) {
    at += sprintf(at, "%llu:%d,", static_cast<unsigned long long>(item.socket), item.file);
  }
  environment_.clear();
  for (char* const* from = own; from != nullptr; ++from) {
    char* entry;
    if (!copy_guarded(&entry, from, sizeof entry)) return own;  // EFAULT
    if (entry == nullptr) break;
    if (!can_read(entry, 1)) return own;
    if (!is_ours(entry)) environment_.push_back(entry);
  }
  environment_.push_back(variable_.data());
  environment_.push_back(nullptr);
  return environment_.data();
}

Succession::Succession() {
  libc::prepare();
  const signals::Inside inside;
  const KeepErrno keep;
  datagram::table::give_up_all(Reason::kExec, false);
  datagram::await_ended();
  struct Leaving {
    int fd;
    SocketRef socket;
    LaneEndpoint* end;
  };
  std::vector<Leaving> leaving;
  table::for_each([&](int fd, Socket& socket) {
    LaneEndpoint* const end = socket.begin_leaving(fd, Reason::kExec);
    if (end != nullptr) leaving.push_back({fd, socket.reference(), end});
  });
  const std::uint64_t now = now_ns();
  for (const Leaving& one : leaving) {
    one.socket->end_leaving(one.fd, *one.end, now + Socket::kLeaveNs);
  }
  for (const Leaving& one : leaving) {
    if (survives(one.fd, *one.socket)) await_record(*one.socket, one.fd, now + Socket::kRecordNs);
  }
  table::for_each([this](int fd, Socket& socket) {
    await_kernel(socket, fd);
    if (survives(fd, socket)) {
      inheritance_.add(fd, socket);
    } else {
      detach(socket);
    }
  });
  background::await_closed();
}

Succession::~Succession() {
  const signals::Inside inside;
  const KeepErrno keep;
  table::for_each([](int, Socket& socket) { reattach(socket); });
}

// ---------------------------------------------------------------------------- from the one before

namespace {

// The descriptors of a socket.
std::vector<int> descriptors_of(ino_t socket) {
  std::vector<int> found;
  const auto look_at = [&](int fd) {
    struct stat about;
    if (fstat(fd, &about) == 0 && S_ISSOCK(about.st_mode) && about.st_ino == socket) {
      found.push_back(fd);
    }
  };
  if (DIR* const all = opendir("/proc/self/fd")) {
    while (const dirent* const each = readdir(all)) {
      if (each->d_name[0] != '.') look_at(atoi(each->d_name));
    }
    closedir(all);
  } else {
    constexpr int kLikely = 1024;
    for (int fd = 0; fd < kLikely; ++fd) look_at(fd);
  }
  return found;
}

void take(ino_t inode, int file) {
  InheritedBytes* const inherited_bytes = inherited_bytes_of(file, inode);
  if (inherited_bytes != nullptr) libc::fcntl(file, F_SETFD, FD_CLOEXEC);
  const std::vector<int> fds = descriptors_of(inode);
  const SocketRef socket =
      fds.empty() ? SocketRef() : table::left_unread(fds.data(), fds.size());
  if (!socket) {
    if (inherited_bytes != nullptr) free_inherited_bytes(inherited_bytes);
    return;
  }
  if (inherited_bytes == nullptr) {
    inherit_loss(*socket, fds[0]);
    return;
  }
  inherit(*socket, inherited_bytes, Reason::kInherited);
#ifdef __GLIBC__
  // The C library's stdin would read the kernel's socket, past the unread bytes. stdin is a variable, and gets a stream
  // that reads through the library.
  for (const int fd : fds) {
    if (fd != STDIN_FILENO) continue;
    FILE* const stream = streams::open(fd, "r");
    if (stream != nullptr) stdin = stream;
  }
#endif
}

}  // namespace

void take_inheritance() {
  const char* const text = secure_getenv(kName);
  if (text == nullptr) return;
  const KeepErrno keep;
  for (const char* at = text; *at != '\0';) {
    char* end;
    const unsigned long long socket = strtoull(at, &end, 10);
    if (end == at || *end != ':') break;
    at = end + 1;
    const long file = strtol(at, &end, 10);
    if (end == at || *end != ',') break;
    at = end + 1;
    take(static_cast<ino_t>(socket), static_cast<int>(file));
  }
  unsetenv(kName);
}

}  // namespace viaduct::sovia
