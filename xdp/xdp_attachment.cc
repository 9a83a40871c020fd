#include "xdp/xdp_attachment.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "xdp/open_port.h"
#include "xdp/steer.skel.h"
#include "xdp/steering.h"

#ifndef VIADUCT_LIBEXECDIR
#define VIADUCT_LIBEXECDIR "/usr/local/libexec/viaduct"
#endif

namespace viaduct {
namespace {

// Beside the running program (a build tree), in $VIADUCT_LIBEXEC, or where it is installed.
std::string guard_path() {
  if (const char* asked = std::getenv("VIADUCT_LIBEXEC")) return std::string(asked) + "/xdp-guard";
  char self[4096];
  const ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n > 0) {
    std::string path(self, static_cast<std::size_t>(n));
    path.resize(path.rfind('/') + 1);
    for (const char* relative : {"xdp-guard", "../xdp-guard", "../../xdp-guard", "../xdp/xdp-guard",
                                 "../../xdp/xdp-guard"}) {
      if (access((path + relative).c_str(), X_OK) == 0) return path + relative;
    }
  }
  return VIADUCT_LIBEXECDIR "/xdp-guard";
}

}  // namespace

XdpAttachment::XdpAttachment(int ifindex, const char* interface, const MacAddress& address,
                             std::uint16_t ether_type, bool native, int lock, const Note& note)
    : ifindex_(ifindex), interface_(interface), native_(native), lock_(lock) {
  silence_xdp_libraries();
  // Without a file system to pin in there is no dispatcher; inside "ip netns exec" it is missing.
  setenv("LIBXDP_BPFFS_AUTOMOUNT", "1", 0);
  remove_steering(ifindex_);  // of an earlier agent: the lock is ours
  skeleton_ = steer_bpf__open();
  if (skeleton_ == nullptr) {
    throw PortError(std::string(interface) + ": can't open the steering program: " +
                    std::strerror(errno));
  }
  skeleton_->rodata->ether_type = ether_type;
  std::memcpy(const_cast<std::uint8_t*>(skeleton_->rodata->address), address.data(),
              address.size());
  try {
    if (attach_to_dispatcher(note)) {
      start_guard();
    } else {
      attach_link();
    }
  } catch (...) {
    detach();
    throw;
  }
}

XdpAttachment::~XdpAttachment() { detach(); }

int XdpAttachment::sockets() const { return bpf_map__fd(skeleton_->maps.sockets); }

// False when there can be no dispatcher here; then nothing is attached.
bool XdpAttachment::attach_to_dispatcher(const Note& note) {
  DECLARE_LIBXDP_OPTS(xdp_program_opts, options, .obj = skeleton_->obj, .prog_name = kSteerName);
  program_ = xdp_program__create(&options);
  if (const long error = libxdp_get_error(program_)) {
    program_ = nullptr;
    throw PortError(std::string(interface_) + ": steering program: " +
                    std::strerror(static_cast<int>(-error)));
  }
  const xdp_attach_mode mode = native_ ? XDP_MODE_NATIVE : XDP_MODE_SKB;
  const int error = -xdp_program__attach(program_, ifindex_, mode, 0);
  if (error == 0) {
    xdp_multiprog* all = xdp_multiprog__get_from_ifindex(ifindex_);
    const bool dispatched = libxdp_get_error(all) == 0 && !xdp_multiprog__is_legacy(all);
    if (libxdp_get_error(all) == 0) xdp_multiprog__close(all);
    if (dispatched) return true;
    // Attached alone, and for ever: take it off again and use a link.
    xdp_program__detach(program_, ifindex_, mode, 0);
    note("no dispatcher here (no BPF file system?); the steering program is attached alone");
    return false;
  }
  if (error == EBUSY) {
    throw PortError(std::string(interface_) +
                    ": another XDP program is attached without libxdp's dispatcher; load that one "
                    "with xdp-loader, or take it off");
  }
  if (error == EPERM || error == EACCES) {
    throw PortError(std::string(interface_) +
                    ": no permission to attach an XDP program (CAP_NET_ADMIN and CAP_BPF needed)");
  }
  throw PortError(std::string(interface_) + ": can't attach the steering program in " +
                  (native_ ? "native" : "generic") + " mode: " + std::strerror(error));
}

void XdpAttachment::attach_link() {
  DECLARE_LIBBPF_OPTS(bpf_link_create_opts, options,
                      .flags = native_ ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE);
  link_ = bpf_link_create(xdp_program__fd(program_), ifindex_, BPF_XDP, &options);
  if (link_ < 0) {
    throw PortError(std::string(interface_) + ": can't attach the steering program in " +
                    (native_ ? "native" : "generic") + " mode: " + std::strerror(errno));
  }
}

void XdpAttachment::detach() {
  const xdp_attach_mode mode = native_ ? XDP_MODE_NATIVE : XDP_MODE_SKB;
  if (link_ >= 0) {
    close(link_);
  } else if (guard_pipe_ >= 0) {
    xdp_program__detach(program_, ifindex_, mode, 0);
  }
  if (guard_pipe_ >= 0) {
    close(guard_pipe_);  // the guard finds nothing to do and goes
    waitpid(guard_, nullptr, 0);
  }
  if (program_ != nullptr) xdp_program__close(program_);
  steer_bpf__destroy(skeleton_);
}

// The guard gets the read end of a pipe whose write end only we hold, and the lock.
void XdpAttachment::start_guard() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) throw PortError(std::string("pipe: ") + std::strerror(errno));
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  constexpr int kPipe = 3, kLock = 4;
  for (const int fd : {0, 1, 2}) {
    posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  }
  // By way of high numbers, so that neither end is overwritten by the other.
  const int pipe_copy = fcntl(ends[0], F_DUPFD_CLOEXEC, 10);
  const int lock_copy = fcntl(lock_, F_DUPFD_CLOEXEC, 10);
  posix_spawn_file_actions_adddup2(&actions, pipe_copy, kPipe);
  posix_spawn_file_actions_adddup2(&actions, lock_copy, kLock);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, usual;
  sigemptyset(&none);
  sigemptyset(&usual);
  for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGPIPE, SIGCHLD}) sigaddset(&usual, s);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &usual);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  const std::string path = guard_path();
  const std::string index = std::to_string(ifindex_);
  char name[] = "xdp-guard";
  char* arguments[] = {name, const_cast<char*>(index.c_str()), nullptr};
  const int error =
      posix_spawn(&guard_, path.c_str(), &actions, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(pipe_copy);
  close(lock_copy);
  close(ends[0]);
  if (error != 0) {
    close(ends[1]);
    xdp_program__detach(program_, ifindex_, native_ ? XDP_MODE_NATIVE : XDP_MODE_SKB, 0);
    throw PortError("can't start " + path + ": " + std::strerror(error) +
                    " (set VIADUCT_LIBEXEC to its directory)");
  }
  guard_pipe_ = ends[1];
}

void XdpAttachment::watch_guard() {
  if (guard_pipe_ < 0 || waitpid(guard_, nullptr, WNOHANG) != guard_) return;
  close(guard_pipe_);
  guard_pipe_ = -1;
  start_guard();
}

}  // namespace viaduct
