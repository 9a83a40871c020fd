#include "xdp/grant.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "kagent/wire.h"
#include "xdp/chunk.h"
#include "xdp/macvlan.h"
#include "xdp/open_port.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "xdp/granted.skel.h"
#pragma GCC diagnostic pop
#include "xdp/xsk_socket.h"

namespace viaduct {

Grant::Grant(const Options& options) : filter_(options.filter), entry_(filter_.add()) {
  const Interface& lower = filter_.lower();
  layout_.address = entry_.address;
  layout_.ether_type = options.ether_type;
  layout_.mtu = mtu_in_chunk(lower.mtu);
  layout_.chunk = chunk_for(lower.mtu);
  const auto chunks = static_cast<std::uint32_t>(options.umem_bytes / layout_.chunk);
  layout_.send = chunks / 4;
  layout_.receive = chunks - layout_.send;
  layout_.ring = options.ring;
  name_ = child_name(lower, entry_.number);
  if (layout_.mtu < lower.mtu) {
    options.note(lower.name + ": granted ports use frames of at most " +
                 std::to_string(layout_.mtu) + " bytes, not " + std::to_string(lower.mtu));
  }
  try {
    if (layout_.send == 0) fail("use so small an UMEM", EINVAL);
    ifindex_ = create_child(lower, name_, kChildAlias, entry_.address);
    open_socket(options);
    attach_program(options);
    filter_.enter(entry_, ifindex_, options.agents_own);
  } catch (...) {
    undo();
    throw;
  }
}

Grant::~Grant() { undo(); }

void Grant::undo() {
  if (ended_) {
    granted_bpf__destroy(program_);
    return;
  }
  // From here on nothing passes of what somebody with a copy of the socket sends.
  filter_.remove(entry_);
  filter_.later([ifindex = ifindex_, program = program_,
                 descriptors = std::array{link_, socket_, umem_, packets_}] {
    if (ifindex != 0) delete_child(ifindex);
    for (const int fd : descriptors) {
      if (fd >= 0) close(fd);
    }
    granted_bpf__destroy(program);
  });
}

void Grant::end() {
  if (ended_) return;
  ended_ = true;
  filter_.remove(entry_);
  if (ifindex_ != 0) delete_child(ifindex_);
  for (int* const fd : {&link_, &socket_, &umem_, &packets_}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
}

// The map of the XDP program has the socket until nobody has: so the program knows.
bool Grant::is_kept() const {
  std::array<std::uint8_t, 64> frame{};
  std::copy(layout_.address.begin(), layout_.address.end(), frame.begin());
  wire::store16(reinterpret_cast<std::byte*>(frame.data() + 12), layout_.ether_type);
  DECLARE_LIBBPF_OPTS(bpf_test_run_opts, run, .data_in = frame.data(),
                      .data_size_in = static_cast<std::uint32_t>(frame.size()), .repeat = 1);
  const int program = bpf_program__fd(program_->progs.viaduct_granted);
  return bpf_prog_test_run_opts(program, &run) == 0 && run.retval == XDP_REDIRECT;
}

void Grant::fail(const char* what, int error) const {
  std::string text = filter_.lower().name + ": granted port " + name_ + ": can't " + what + ": " +
                     std::strerror(error);
  if (error == EPERM || error == EACCES) {
    text += " (CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF needed)";
  }
  if (error == ENOBUFS) text += " (raise the limit of locked memory, ulimit -l)";
  throw PortError(text);
}

void Grant::open_socket(const Options& options) {
  const std::size_t bytes = std::size_t{layout_.receive + layout_.send} * layout_.chunk;
  umem_ = memfd_create("viaduct granted port", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (umem_ < 0 || ftruncate(umem_, static_cast<off_t>(bytes)) != 0 ||
      fcntl(umem_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    fail("make its buffers", errno);
  }
  void* const area =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, umem_, 0);
  if (area == MAP_FAILED) fail("map its buffers", errno);
  const char* what = "";
  socket_ = open_xsk_socket(
      {ifindex_, 0, static_cast<std::byte*>(area), bytes, layout_.chunk, options.ring, true}, what);
  const int error = errno;
  munmap(area, bytes);  // the socket keeps the pages
  if (socket_ < 0) fail((std::string("open its socket: ") + what).c_str(), error);
  // From the first frame on: until the filter knows the mark it lets nothing through.
  if (setsockopt(socket_, SOL_SOCKET, SO_MARK, &entry_.mark, sizeof entry_.mark) != 0) {
    fail("mark its socket", errno);
  }
}

void Grant::attach_program(const Options& options) {
  program_ = granted_bpf__open();
  if (program_ == nullptr) fail("open its XDP program", errno);
  program_->rodata->ether_type = options.ether_type;
  std::memcpy(const_cast<std::uint16_t*>(program_->rodata->address), entry_.address.data(),
              entry_.address.size());
  if (const int error = -granted_bpf__load(program_)) fail("load its XDP program", error);
  const std::uint32_t only = 0;
  if (bpf_map_update_elem(bpf_map__fd(program_->maps.sockets), &only, &socket_, 0) != 0) {
    fail("give its XDP program the socket", errno);
  }
  DECLARE_LIBBPF_OPTS(bpf_link_create_opts, of, .flags = XDP_FLAGS_SKB_MODE);
  link_ = bpf_link_create(bpf_program__fd(program_->progs.viaduct_granted), ifindex_, BPF_XDP, &of);
  if (link_ < 0) fail("attach its XDP program", errno);
}

bool Grant::say(std::span<const std::byte> frame) {
  if (packets_ < 0) {
    packets_ = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    // With the mark, the filter delivers to other children of the interface.
    if (packets_ < 0 ||
        setsockopt(packets_, SOL_SOCKET, SO_MARK, &entry_.mark, sizeof entry_.mark) != 0) {
      return false;
    }
  }
  sockaddr_ll to{};
  to.sll_family = AF_PACKET;
  to.sll_ifindex = ifindex_;
  return sendto(packets_, frame.data(), frame.size(), 0, reinterpret_cast<const sockaddr*>(&to),
                sizeof to) == static_cast<ssize_t>(frame.size());
}

}  // namespace viaduct
