#include "xdp/grant/grant.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "xdp/grant/child_programs.h"
#include "xdp/grant/granted_child.h"
#include "xdp/xsk/chunk.h"
#include "xdp/grant/macvlan.h"
#include "xdp/port_error.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "xdp/bpf/granted.skel.h"
#pragma GCC diagnostic pop
#include "xdp/xsk/xsk_socket.h"

namespace viaduct {

Grant::Grant(const Options& options)
    : filter_(options.filter), entry_(options.agents_own ? filter_.add_relay_child() : filter_.add()) {
  const Interface& lower = filter_.lower();
  layout_.address = entry_.address;
  layout_.ether_type = options.ether_type;
  layout_.chunk = chunk_for(lower.mtu);
  const auto chunks = static_cast<std::uint32_t>(options.umem_bytes / layout_.chunk);
  layout_.send = chunks / 4;
  layout_.receive = chunks - layout_.send;
  layout_.ring = options.ring;
  name_ = child_name(lower, entry_.number);
  try {
    if (layout_.send < parts_for(kLongestMtu, layout_.chunk)) fail("use so small an UMEM", EINVAL);
    ifindex_ = create_child(lower, name_, kChildAlias, entry_.address);
    make_port(options);
    filter_.enter(entry_, ifindex_, options.agents_own);
  } catch (...) {
    undo();
    if (program_ >= 0) close(program_);
    throw;
  }
}

Grant::Grant(GrantFilter& filter, GrantRemains::Port&& left)
    : filter_(filter),
      entry_(left.entry),
      name_(child_name(filter.lower(), left.entry.number)),
      ifindex_(left.ifindex),
      program_(left.program.release()) {
  layout_.address = entry_.address;
  layout_.ether_type = left.ether_type;
}

Grant::~Grant() {
  undo();
  if (program_ >= 0) close(program_);
}

void Grant::enter_holder(const GrantFilter::Holder& holder) {
  filter_.enter(entry_, ifindex_, false, &holder);
}

void Grant::leave() {
  filter_.keep();
  ended_ = entry_settled_ = true;
  close_all();
}

void Grant::release() {
  if (!ended_ || entry_settled_) return;
  entry_settled_ = true;
  filter_.remove(entry_);
}

void Grant::close_all() {
  for (int* const fd : {&socket_, &umem_, &packets_}) {
    if (*fd >= 0) close(*fd);
    *fd = -1;
  }
}

void Grant::undo() {
  if (ended_) return release();
  // From here on no frame passes that a process with a copy of the socket sends.
  filter_.remove(entry_);
  filter_.later([ifindex = ifindex_, descriptors = std::array{socket_, umem_, packets_}] {
    if (ifindex != 0) delete_child(ifindex);
    for (const int fd : descriptors) {
      if (fd >= 0) close(fd);
    }
  });
}

void Grant::end() {
  if (ended_) return;
  ended_ = true;
  filter_.clear(entry_);
  if (ifindex_ != 0) delete_child(ifindex_);
  close_all();
}

bool Grant::is_kept() const { return has_socket(program_, layout_.address, layout_.ether_type); }

void Grant::fail(const char* what, int error) const { throw PortError(explain(what, error)); }

std::string Grant::explain(const char* what, int error) const {
  std::string text = filter_.lower().name + ": granted port " + name_ + ": can't " + what + ": " +
                     std::strerror(error);
  if (error == EPERM || error == EACCES) {
    text += " (CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF needed)";
  }
  if (error == ENOBUFS) text += " (raise the limit of locked memory, ulimit -l)";
  return text;
}

// Makes the port with frames of several chunks where the link has them, without where they are refused.
void Grant::make_port(const Options& options) {
  const std::uint32_t link = filter_.lower().mtu, single = mtu_in_chunk(link);
  layout_.mtu = options.parts ? std::min(link, kLongestMtu) : single;
  try {
    open_port(options, layout_.mtu > single);
  } catch (const PartsRefused& error) {
    options.note(error.what());
    layout_.mtu = single;
    open_port(options, false);
  }
  if (layout_.mtu < link) {
    options.note(filter_.lower().name + ": granted ports use frames of at most " +
                 std::to_string(layout_.mtu) + " bytes, not " + std::to_string(link));
  }
}

// Throws PartsRefused if it may work without `parts`; then nothing is left of what it has made.
void Grant::open_port(const Options& options, bool parts) {
  const std::unique_ptr<granted_bpf, void (*)(granted_bpf*)> program(granted_bpf__open(),
                                                                     granted_bpf__destroy);
  if (program == nullptr) fail("open its XDP program", errno);
  program->rodata->ether_type = options.ether_type;
  std::memcpy(const_cast<std::uint16_t*>(program->rodata->address), entry_.address.data(),
              entry_.address.size());
  if (parts) bpf_program__set_flags(program->progs.viaduct_granted, BPF_F_XDP_HAS_FRAGS);
  if (const int error = -granted_bpf__load(program.get())) {
    const std::string text = explain("load its XDP program", error);
    if (parts && refuses_parts(error)) throw PartsRefused(text);
    throw PortError(text);
  }
  open_socket(options, parts);
  const std::uint32_t only = 0;
  if (bpf_map_update_elem(bpf_map__fd(program->maps.sockets), &only, &socket_, 0) != 0) {
    fail("give its XDP program the socket", errno);
  }
  const int loaded = bpf_program__fd(program->progs.viaduct_granted);
  program_ = fcntl(loaded, F_DUPFD_CLOEXEC, 0);
  if (program_ < 0) fail("keep its XDP program", errno);
  if (const int error = attach_child_program(ifindex_, loaded)) {
    fail("attach its XDP program", error);
  }
}

void Grant::open_socket(const Options& options, bool parts) {
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
  socket_ = open_xsk_socket({ifindex_, 0, static_cast<std::byte*>(area), bytes, layout_.chunk,
                             options.ring, true, parts},
                            what);
  const int error = errno;
  munmap(area, bytes);  // the socket keeps the pages
  if (socket_ < 0) {
    const std::string text = explain((std::string("open its socket: ") + what).c_str(), error);
    if (!parts || !refuses_parts(error)) throw PortError(text);
    close(std::exchange(umem_, -1));
    throw PartsRefused(text);
  }
  // The socket has its mark before it sends its first frame. The filter drops frames with a mark that it does not
  // know yet.
  if (setsockopt(socket_, SOL_SOCKET, SO_MARK, &entry_.mark, sizeof entry_.mark) != 0) {
    fail("mark its socket", errno);
  }
}

bool Grant::say(std::span<const std::byte> frame) {
  if (packets_ < 0) {
    packets_ = ::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    // The mark makes the filter deliver the frame also to other children of the interface.
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
