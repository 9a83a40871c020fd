// The steering program on an interface, for as long as this object (and this process) lives.
//
// It is attached through libxdp's dispatcher where that works, so that other XDP programs on the
// interface go on. The dispatcher outlives its loader, so a guard process (xdp-guard) watches us
// and takes the program off when we die, however we die. Without a dispatcher the program hangs on
// a bpf_link, which the kernel takes off by itself.
#ifndef VIADUCT_XDP_XDP_ATTACHMENT_H
#define VIADUCT_XDP_XDP_ATTACHMENT_H

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string_view>

#include "xdp/port.h"

struct xdp_program;
struct steer_bpf;

namespace viaduct {

class XdpAttachment {
 public:
  using Note = std::function<void(std::string_view)>;

  // `lock` is the interface's lock, which the guard holds too. Throws PortError.
  XdpAttachment(int ifindex, const char* interface, const MacAddress& address,
                std::uint16_t ether_type, bool native, int lock, const Note& note);
  ~XdpAttachment();
  XdpAttachment(const XdpAttachment&) = delete;
  XdpAttachment& operator=(const XdpAttachment&) = delete;

  // The map of AF_XDP sockets by receive queue.
  int sockets() const;
  static constexpr unsigned kMaxQueues = 64;

  // Starts another guard if ours has died. To be called now and then.
  void watch_guard();

 private:
  bool attach_to_dispatcher(const Note& note);
  void attach_link();
  void start_guard();
  void detach();

  int ifindex_;
  const char* interface_;
  bool native_;
  int lock_;
  steer_bpf* skeleton_ = nullptr;
  xdp_program* program_ = nullptr;  // attached to the dispatcher
  int link_ = -1;                   // or by a link
  int guard_pipe_ = -1;
  pid_t guard_ = -1;
};

}  // namespace viaduct

#endif
