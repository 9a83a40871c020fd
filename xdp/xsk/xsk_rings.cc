#include "xdp/xsk/xsk_rings.h"

#include "xdp/xsk/system_calls.h"

namespace viaduct {
namespace {

template <class Entry>
bool map_ring(XskRing<Entry>& ring, int socket, const xdp_ring_offset& at, std::uint64_t page,
              std::uint32_t entries) {
  ring = {};
  const std::size_t bytes = at.desc + entries * sizeof(Entry);
  void* const memory = system_calls::map(bytes, socket, static_cast<long>(page));
  if (memory == nullptr) return false;
  ring.memory = memory;
  ring.bytes = bytes;
  auto* const base = static_cast<std::byte*>(memory);
  ring.producer = reinterpret_cast<std::uint32_t*>(base + at.producer);
  ring.consumer = reinterpret_cast<std::uint32_t*>(base + at.consumer);
  ring.flags = reinterpret_cast<const std::uint32_t*>(base + at.flags);
  ring.entries = reinterpret_cast<Entry*>(base + at.desc);
  ring.mask = entries - 1;
  return true;
}

template <class Entry>
void unmap_ring(XskRing<Entry>& ring) {
  if (ring.memory != nullptr) system_calls::unmap(ring.memory, ring.bytes);
  ring = {};
}

}  // namespace

const char* XskRings::map(int socket, std::uint32_t entries) {
  xdp_mmap_offsets at;
  socklen_t length = sizeof at;
  if (system_calls::getsockopt(socket, SOL_XDP, XDP_MMAP_OFFSETS, &at, &length) != 0) {
    return "can't ask for the rings of the socket";
  }
  if (length != sizeof at) {  // a kernel before 5.4: no flags in the rings
    errno = EOPNOTSUPP;
    return "the rings of the socket";
  }
  if (!map_ring(fill, socket, at.fr, XDP_UMEM_PGOFF_FILL_RING, entries) ||
      !map_ring(completion, socket, at.cr, XDP_UMEM_PGOFF_COMPLETION_RING, entries) ||
      !map_ring(receive, socket, at.rx, XDP_PGOFF_RX_RING, entries) ||
      !map_ring(transmit, socket, at.tx, XDP_PGOFF_TX_RING, entries)) {
    const int error = errno;
    unmap();
    errno = error;
    return "can't map the rings of the socket";
  }
  fill.ours = *fill.producer;
  fill.theirs = fill.consumed();
  transmit.ours = *transmit.producer;
  transmit.theirs = transmit.consumed();
  completion.ours = completion.theirs = *completion.consumer;
  receive.ours = receive.theirs = *receive.consumer;
  return nullptr;
}

void XskRings::unmap() {
  unmap_ring(fill);
  unmap_ring(transmit);
  unmap_ring(completion);
  unmap_ring(receive);
}

}  // namespace viaduct
