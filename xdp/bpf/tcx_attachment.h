// Steering by TCX: a program on the ingress of the interface gives our frames to a macvlan child, whose XDP
// program, in generic mode, gives them to the socket.
//
// An XDP program in generic mode on the interface itself would have the kernel copy every long packet into one piece
// first, those of other protocols too: TCP's segments, and our own trains. In this way only our frames meet an XDP
// program. Both programs hang on links, so they end with this process; the child stays until remove_steering_child().
//
// While the child is there, the kernel attaches no other XDP program to the interface; one that is there already
// stays.
#ifndef VIADUCT_XDP_BPF_TCX_ATTACHMENT_H
#define VIADUCT_XDP_BPF_TCX_ATTACHMENT_H

#include <string>

#include "xdp/bpf/attachment.h"
#include "xdp/descriptor.h"
#include "xdp/interface.h"

struct steer_bpf;

namespace viaduct {

class TcxAttachment final : public Attachment {
 public:
  // Throws PortError; PartsRefused if it may work without `frags`. Kernels before 6.6 have no TCX.
  TcxAttachment(const Interface& interface, const AttachmentOptions& options);
  ~TcxAttachment() override;
  TcxAttachment(const TcxAttachment&) = delete;
  TcxAttachment& operator=(const TcxAttachment&) = delete;

  int sockets() const override;
  const char* socket_interface() const override { return name_.c_str(); }
  void look_after() override {}

 private:
  void attach_to_child(const AttachmentOptions& options);
  void attach_to_ingress(const AttachmentOptions& options);
  [[noreturn]] void fail(const char* what, int error, bool frags = false) const;
  void undo();

  std::string interface_;
  std::string name_;  // the child's
  int child_ = 0;
  steer_bpf* steer_ = nullptr;
  Descriptor on_child_, on_ingress_;
};

// Deletes the child that an agent which was killed has left. The caller must hold the interface's lock.
void remove_steering_child(int ifindex);

}  // namespace viaduct

#endif
