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

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "xdp/port.h"

struct xdp_program;
struct steer_bpf;

namespace viaduct {

class XdpAttachment {
 public:
  using Note = std::function<void(std::string_view)>;

  struct Options {
    int ifindex;
    const char* interface;
    MacAddress address;
    std::uint16_t ether_type;
    std::uint32_t queues;  // receive queues, for the size of the map
    bool native;
    bool frags;  // packets may lie in several pages; costs 0.1 to 0.3 us a frame in generic mode
    int lock;  // the interface's, which the guard holds too
    Note note;
  };

  // Throws PortError.
  explicit XdpAttachment(const Options& options);
  ~XdpAttachment();
  XdpAttachment(const XdpAttachment&) = delete;
  XdpAttachment& operator=(const XdpAttachment&) = delete;

  // The map of AF_XDP sockets by receive queue.
  int sockets() const;

  // Whether one of this process has been attached to a dispatcher: to take it off, or to attach
  // another one, needs CAP_SYS_ADMIN, because libxdp looks programs up by number.
  static bool dispatcher_in_use();

  // Starts another guard if ours has died. To be called now and then.
  void watch_guard();

 private:
  bool attach_to_dispatcher();
  void attach_link();
  std::string start_guard();
  bool guard_lives() const;
  void dismiss_guard();
  void detach();
  [[noreturn]] void fail(int error) const;

  Options options_;
  steer_bpf* skeleton_ = nullptr;
  xdp_program* program_ = nullptr;
  bool dispatched_ = false;  // attached to the dispatcher
  int link_ = -1;            // or by a link
  int guard_pipe_ = -1;
  pid_t guard_ = -1;
  bool guard_missed_ = false;  // it has been said that no guard can be started
};

}  // namespace viaduct

#endif
