// The four rings of an AF_XDP socket, mapped from its descriptor.
//
// Positions run freely and are masked at every use, so nothing that stands in the shared memory can
// lead out of a ring. No allocation, no exception: libvipl uses them too.
#ifndef VIADUCT_XDP_XSK_XSK_RINGS_H
#define VIADUCT_XDP_XSK_XSK_RINGS_H

#include <linux/if_xdp.h>

#include <cstddef>
#include <cstdint>

namespace viaduct {

// Where a ring lies, and how far our side of it has got.
template <class Entry>
struct XskRing {
  std::uint32_t* producer = nullptr;
  std::uint32_t* consumer = nullptr;
  const std::uint32_t* flags = nullptr;
  Entry* entries = nullptr;
  std::uint32_t mask = 0;
  std::uint32_t ours = 0;    // our position; the kernel knows it from publish() or release() on
  std::uint32_t theirs = 0;  // the kernel's, when we last looked
  void* memory = nullptr;
  std::size_t bytes = 0;

  Entry& operator[](std::uint32_t n) { return entries[(ours + n) & mask]; }

  bool needs_wakeup() const {
    return (__atomic_load_n(flags, __ATOMIC_RELAXED) & XDP_RING_NEED_WAKEUP) != 0;
  }
};

// A ring that we fill: fill and transmit.
template <class Entry>
struct XskProducer : XskRing<Entry> {
  // Whether n entries can be written. Looks at the kernel's side only if it has to.
  bool has_room(std::uint32_t n) {
    if (this->ours - this->theirs + n <= this->mask + 1) return true;
    this->theirs = consumed();
    return this->ours - this->theirs + n <= this->mask + 1;
  }

  void publish(std::uint32_t n) {
    this->ours += n;
    __atomic_store_n(this->producer, this->ours, __ATOMIC_RELEASE);
  }

  // The kernel's position.
  std::uint32_t consumed() const { return __atomic_load_n(this->consumer, __ATOMIC_ACQUIRE); }
};

// A ring that the kernel fills: receive and completion.
template <class Entry>
struct XskConsumer : XskRing<Entry> {
  // How many entries can be read, at most `wanted`.
  std::uint32_t available(std::uint32_t wanted) {
    if (this->theirs - this->ours < wanted) {
      this->theirs = __atomic_load_n(this->producer, __ATOMIC_ACQUIRE);
    }
    const std::uint32_t n = this->theirs - this->ours;
    return n < wanted ? n : wanted;
  }

  // How many entries there were when we last looked.
  std::uint32_t known() const { return this->theirs - this->ours; }

  // One look at memory.
  bool empty() const { return __atomic_load_n(this->producer, __ATOMIC_RELAXED) == this->ours; }

  void release(std::uint32_t n) {
    this->ours += n;
    __atomic_store_n(this->consumer, this->ours, __ATOMIC_RELEASE);
  }
};

struct XskRings {
  XskProducer<std::uint64_t> fill;
  XskProducer<xdp_desc> transmit;
  XskConsumer<std::uint64_t> completion;
  XskConsumer<xdp_desc> receive;

  // Maps the rings, each of `entries`, a power of two. They must be as the socket was made: empty
  // or not, but with no other user at work on them. Returns nullptr, or what failed; errno says why.
  const char* map(int socket, std::uint32_t entries);
  void unmap();
};

}  // namespace viaduct

#endif
