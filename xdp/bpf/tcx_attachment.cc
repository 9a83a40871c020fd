#include "xdp/bpf/tcx_attachment.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <linux/if_link.h>

#include <cerrno>
#include <cstring>
#include <memory>

#include "xdp/bpf/steering.h"
#include "xdp/grant/macvlan.h"
#include "xdp/port_error.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "xdp/bpf/redirect.skel.h"
#include "xdp/bpf/steer.skel.h"
#pragma GCC diagnostic pop

namespace viaduct {
namespace {

constexpr auto kTcxIngress = static_cast<bpf_attach_type>(46);  // libbpf does not know it yet
constexpr std::uint32_t kBefore = 1u << 3;                      // BPF_F_BEFORE: first of all

constexpr char kChildAlias[] = "viaduct steering";
std::string child_name(int lower) { return "vds" + std::to_string(lower); }

}  // namespace

TcxAttachment::TcxAttachment(const Interface& interface, const AttachmentOptions& options)
    : interface_(interface.name), name_(child_name(interface.index)) {
  silence_xdp_libraries();
  try {
    child_ = create_child(interface, name_, kChildAlias, random_address(interface));
    attach_to_child(options);
    attach_to_ingress(options);
  } catch (...) {
    undo();
    throw;
  }
}

TcxAttachment::~TcxAttachment() { undo(); }

void TcxAttachment::undo() {
  on_ingress_.close();
  on_child_.close();
  if (child_ != 0) delete_child(child_);
  steer_bpf__destroy(steer_);
}

int TcxAttachment::sockets() const { return bpf_map__fd(steer_->maps.sockets); }

void TcxAttachment::fail(const char* what, int error, bool frags) const {
  std::string text = interface_ + ": can't " + what + ": " + std::strerror(error);
  if (error == EPERM || error == EACCES) text += " (CAP_NET_ADMIN and CAP_BPF needed)";
  if (frags) throw PartsRefused(text + " (it knows frames of several chunks)");
  throw PortError(text);
}

void TcxAttachment::attach_to_child(const AttachmentOptions& options) {
  steer_ = steer_bpf__open();
  if (steer_ == nullptr) fail("open the steering program", errno);
  steer_->rodata->ether_type = options.ether_type;
  std::memcpy(const_cast<std::uint8_t*>(steer_->rodata->address), options.address.data(), options.address.size());
  bpf_program* const program = steer_->progs.viaduct_steer;
  if (options.frags) bpf_program__set_flags(program, BPF_F_XDP_HAS_FRAGS);
  if (const int error = -steer_bpf__load(steer_)) fail("load the steering program", error, options.frags);
  DECLARE_LIBBPF_OPTS(bpf_link_create_opts, of, .flags = XDP_FLAGS_SKB_MODE);
  on_child_ = Descriptor(bpf_link_create(bpf_program__fd(program), child_, BPF_XDP, &of));
  if (!on_child_) fail("attach the steering program to a child", errno, options.frags);
}

void TcxAttachment::attach_to_ingress(const AttachmentOptions& options) {
  const std::unique_ptr<redirect_bpf, void (*)(redirect_bpf*)> redirect(redirect_bpf__open(), redirect_bpf__destroy);
  if (redirect == nullptr) fail("open the program for TCX", errno);
  redirect->rodata->ether_type = options.ether_type;
  redirect->rodata->child = static_cast<std::uint32_t>(child_);
  std::memcpy(const_cast<std::uint8_t*>(redirect->rodata->address), options.address.data(), options.address.size());
  if (const int error = -redirect_bpf__load(redirect.get())) fail("load the program for TCX", error);
  DECLARE_LIBBPF_OPTS(bpf_link_create_opts, of, .flags = kBefore);
  const int program = bpf_program__fd(redirect->progs.viaduct_redirect);
  on_ingress_ = Descriptor(bpf_link_create(program, options.ifindex, kTcxIngress, &of));
  if (!on_ingress_) fail("attach a program by TCX", errno);
}

void remove_steering_child(int ifindex) { delete_children(ifindex, child_name(ifindex), kChildAlias); }

}  // namespace viaduct
