#include "xdp/bpf/xdp_attachment.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/if_link.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>

#include "xdp/grant/child_programs.h"
#include "xdp/port_error.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "xdp/bpf/steer.skel.h"
#pragma GCC diagnostic pop
#include "xdp/bpf/steering.h"

#ifndef VIADUCT_LIBEXECDIR
#define VIADUCT_LIBEXECDIR "/usr/local/libexec/viaduct"
#endif

namespace viaduct {
namespace {

constexpr std::uint32_t kLeastQueues = 64;

bool dispatcher_used = false;

// Whether libxdp may look programs up by number. Without that right it would attach our program alone and for ever,
// and could not take it off.
bool may_look_up_programs() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  __user_cap_data_struct data[2]{};
  return syscall(SYS_capget, &header, data) == 0 && (data[0].effective >> CAP_SYS_ADMIN & 1) != 0;
}

std::string guard_path() {
  if (const char* asked = secure_getenv("VIADUCT_LIBEXEC")) {
    return std::string(asked) + "/xdp-guard";
  }
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

XdpAttachment::XdpAttachment(const AttachmentOptions& options) : options_(options) {
  silence_xdp_libraries();
  // Without a file system to pin in there is no dispatcher; inside "ip netns exec" it is missing.
  setenv("LIBXDP_BPFFS_AUTOMOUNT", "1", 0);
  remove_steering(options_.ifindex);  // of an earlier agent, which is gone: we have the lock
  skeleton_ = steer_bpf__open();
  if (skeleton_ == nullptr) {
    throw PortError(std::string(options_.interface) +
                    ": can't open the steering program: " + std::strerror(errno));
  }
  skeleton_->rodata->ether_type = options_.ether_type;
  std::memcpy(const_cast<std::uint8_t*>(skeleton_->rodata->address), options_.address.data(),
              options_.address.size());
  bpf_map__set_max_entries(skeleton_->maps.sockets, std::max(kLeastQueues, options_.queues));
  if (options_.frags) {
    bpf_program__set_flags(skeleton_->progs.viaduct_steer, BPF_F_XDP_HAS_FRAGS);
  }
  try {
    const std::string missing =
        may_look_up_programs() ? start_guard() : "CAP_SYS_ADMIN is missing";
    std::optional<ChildProgramsAside> aside(options_.ifindex);
    if (missing.empty()) {
      dispatched_ = attach_to_dispatcher();
    } else {
      options_.note(std::string(options_.interface) +
                    ": no room is left for other XDP programs: " + missing);
    }
    if (!dispatched_) {
      attach_link();
      aside.reset();
      dismiss_guard();
    }
  } catch (...) {
    detach();
    throw;
  }
}

XdpAttachment::~XdpAttachment() { detach(); }

bool XdpAttachment::dispatcher_in_use() { return dispatcher_used; }

int XdpAttachment::sockets() const { return bpf_map__fd(skeleton_->maps.sockets); }

void XdpAttachment::fail(int error) const {
  const std::string interface = options_.interface;
  switch (error) {
    case EBUSY:
    case EEXIST:
      throw PortError(interface +
                      ": another XDP program is attached, and ours can't be added to it (it is "
                      "there without libxdp's dispatcher, in the other mode, or this kernel has "
                      "no dispatcher); see \"ip -d link show " + interface + "\"");
    case EPERM:
    case EACCES:
      throw PortError(interface +
                      ": no permission to attach an XDP program (CAP_NET_ADMIN and CAP_BPF needed)");
    default: {
      const std::string text = interface + ": can't attach the steering program in " +
                               (options_.native ? "native" : "generic") +
                               " mode: " + std::strerror(error);
      if (options_.frags) throw PartsRefused(text + " (it knows frames of several chunks)");
      throw PortError(text);
    }
  }
}

// Attaches the program to libxdp's dispatcher. False when there can be none here; then nothing is attached.
bool XdpAttachment::attach_to_dispatcher() {
  DECLARE_LIBXDP_OPTS(xdp_program_opts, of, .obj = skeleton_->obj, .prog_name = kSteerName);
  program_ = xdp_program__create(&of);
  if (const long error = libxdp_get_error(program_)) {
    program_ = nullptr;
    fail(static_cast<int>(-error));
  }
  const xdp_attach_mode mode = options_.native ? XDP_MODE_NATIVE : XDP_MODE_SKB;
  if (const int error = -xdp_program__attach(program_, options_.ifindex, mode, 0)) fail(error);
  xdp_multiprog* all = xdp_multiprog__get_from_ifindex(options_.ifindex);
  const bool known = libxdp_get_error(all) == 0;
  const bool dispatched = known && !xdp_multiprog__is_legacy(all);
  if (known) xdp_multiprog__close(all);
  if (dispatched) {
    dispatcher_used = true;
    return true;
  }
  // libxdp has attached the program alone and for ever: takes it off again, and uses a link.
  xdp_program__detach(program_, options_.ifindex, mode, 0);
  options_.note(std::string(options_.interface) +
                ": libxdp's dispatcher does not work here (no BPF file system, or no extension "
                "programs in this kernel); the steering program is attached alone");
  return false;
}

void XdpAttachment::attach_link() {
  bpf_program* program = skeleton_->progs.viaduct_steer;
  if (bpf_program__fd(program) < 0) {
    if (const int error = -steer_bpf__load(skeleton_)) fail(error);
  }
  DECLARE_LIBBPF_OPTS(bpf_link_create_opts, of,
                      .flags = options_.native ? XDP_FLAGS_DRV_MODE : XDP_FLAGS_SKB_MODE);
  link_ = bpf_link_create(program_ ? xdp_program__fd(program_) : bpf_program__fd(program), options_.ifindex, BPF_XDP, &of);
  if (link_ < 0) fail(errno);
}

void XdpAttachment::detach() {
  if (link_ >= 0) close(link_);
  if (dispatched_) {
    xdp_program__detach(program_, options_.ifindex,
                        options_.native ? XDP_MODE_NATIVE : XDP_MODE_SKB, 0);
  }
  dismiss_guard();
  if (program_ != nullptr) xdp_program__close(program_);
  steer_bpf__destroy(skeleton_);
}

// ---------------------------------------------------------------------------- the guard

// The guard gets the read end of a pipe whose write end only we hold, and the lock. Returns why it
// can't be started, or nothing.
std::string XdpAttachment::start_guard() {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return std::string("pipe: ") + std::strerror(errno);
  // The descriptors are duplicated to high numbers first, so that neither is overwritten by the other.
  constexpr int kPipe = 3, kLock = 4;
  const int pipe_copy = fcntl(ends[0], F_DUPFD_CLOEXEC, 10);
  const int lock_copy = fcntl(options_.lock, F_DUPFD_CLOEXEC, 10);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  for (const int fd : {0, 1, 2}) {
    posix_spawn_file_actions_addopen(&actions, fd, "/dev/null", O_RDWR, 0);
  }
  posix_spawn_file_actions_adddup2(&actions, pipe_copy, kPipe);
  posix_spawn_file_actions_adddup2(&actions, lock_copy, kLock);
  posix_spawn_file_actions_addchdir_np(&actions, "/");
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGMASK);
  const std::string path = guard_path();
  std::string index = std::to_string(options_.ifindex);
  char name[] = "xdp-guard";
  char* arguments[] = {name, index.data(), nullptr};
  const int error = posix_spawn(&guard_, path.c_str(), &actions, &attributes, arguments, environ);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  close(pipe_copy);
  close(lock_copy);
  close(ends[0]);
  if (error != 0) {
    close(ends[1]);
    guard_ = -1;
    return "can't start " + path + ": " + std::strerror(error) +
           " (set VIADUCT_LIBEXEC to its directory)";
  }
  guard_pipe_ = ends[1];
  return {};
}

// The guard has ended if the pipe has no reader.
bool XdpAttachment::guard_lives() const {
  pollfd state{guard_pipe_, 0, 0};
  return poll(&state, 1, 0) == 0;
}

// Ends the guard; to be called when there is nothing left for it to take off.
void XdpAttachment::dismiss_guard() {
  if (guard_pipe_ < 0) return;
  kill(guard_, SIGKILL);
  waitpid(guard_, nullptr, 0);
  close(guard_pipe_);
  guard_pipe_ = -1;
}

void XdpAttachment::look_after() {
  if (!dispatched_ || (guard_pipe_ >= 0 && guard_lives())) return;
  dismiss_guard();
  const std::string reason = start_guard();
  if (!reason.empty() && !no_guard_reported_) {
    options_.note(std::string(options_.interface) +
                  ": nobody would take the steering program off if this process were killed: " +
                  reason);
  }
  no_guard_reported_ = !reason.empty();
}

}  // namespace viaduct
