// Brings the frames of an interface to AF_XDP sockets, for as long as this object (and this process) lives.
#ifndef VIADUCT_XDP_BPF_ATTACHMENT_H
#define VIADUCT_XDP_BPF_ATTACHMENT_H

#include <cstdint>
#include <functional>
#include <string_view>

#include "xdp/port.h"

namespace viaduct {

struct AttachmentOptions {
  int ifindex;
  const char* interface;
  MacAddress address;
  std::uint16_t ether_type;
  std::uint32_t queues;  // receive queues, for the size of the map
  bool native;
  bool frags;  // packets may lie in several pages; costs 0.1 to 0.3 us a frame in generic mode
  int lock;    // the interface's lock, which a guard holds too
  std::function<void(std::string_view)> note;
};

class Attachment {
 public:
  virtual ~Attachment() = default;

  // The map of AF_XDP sockets by receive queue.
  virtual int sockets() const = 0;
  // The interface on which the sockets are to be opened.
  virtual const char* socket_interface() const = 0;
  // To be called now and then.
  virtual void look_after() = 0;
};

}  // namespace viaduct

#endif
