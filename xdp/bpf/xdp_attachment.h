// The steering program on an interface, for as long as this object (and this process) lives.
//
// It is attached through libxdp's dispatcher where that works, so that other XDP programs on the
// interface go on. The dispatcher outlives its loader, so a guard process (xdp-guard) watches us
// and takes the program off when we die, however we die; it is there before the program is.
// Without a dispatcher (no BPF file system, or a kernel that loads no extension programs) the
// program hangs on a bpf_link, which the kernel takes off by itself, and the guard is sent away.
//
// The guard is looked for in $VIADUCT_LIBEXEC, else beside the running program and in the build tree
// around it, else where it is installed.
#ifndef VIADUCT_XDP_BPF_XDP_ATTACHMENT_H
#define VIADUCT_XDP_BPF_XDP_ATTACHMENT_H

#include <sys/types.h>

#include <string>

#include "xdp/bpf/attachment.h"

struct xdp_program;
struct steer_bpf;

namespace viaduct {

class XdpAttachment final : public Attachment {
 public:
  // Throws PortError.
  explicit XdpAttachment(const AttachmentOptions& options);
  ~XdpAttachment() override;
  XdpAttachment(const XdpAttachment&) = delete;
  XdpAttachment& operator=(const XdpAttachment&) = delete;

  int sockets() const override;
  const char* socket_interface() const override { return options_.interface; }
  // Starts another guard if ours has died.
  void look_after() override;

  // Whether a program of this process has been attached to a dispatcher. To take it off, or to attach another one,
  // needs CAP_SYS_ADMIN, because libxdp looks programs up by number.
  static bool dispatcher_in_use();

 private:
  bool attach_to_dispatcher();
  void attach_link();
  std::string start_guard();
  bool guard_lives() const;
  void dismiss_guard();
  void detach();
  [[noreturn]] void fail(int error) const;

  AttachmentOptions options_;
  steer_bpf* skeleton_ = nullptr;
  xdp_program* program_ = nullptr;
  bool dispatched_ = false;  // attached to the dispatcher
  int link_ = -1;            // or by a link
  int guard_pipe_ = -1;
  pid_t guard_ = -1;
  bool no_guard_reported_ = false;
};

}  // namespace viaduct

#endif
