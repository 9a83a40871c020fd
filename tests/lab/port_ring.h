// A network interface whose frames, all of them, come through a ring in shared memory (AF_PACKET,
// TPACKET_V2), and which sends what it is given as it is.
#ifndef VIADUCT_TESTS_LAB_PORT_RING_H
#define VIADUCT_TESTS_LAB_PORT_RING_H

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace viaduct::lab {

// Ends the process with a message if the interface can't be had.
class PortRing {
 public:
  explicit PortRing(const std::string& interface);
  PortRing(const PortRing&) = delete;
  PortRing& operator=(const PortRing&) = delete;

  int fd() const { return fd_; }

  // The next frame that has come in, or an empty one. It stays where it is until `release`.
  std::span<std::byte> next();
  // Gives the oldest `n` frames back.
  void release(std::uint32_t n);

  // How many could not be sent although the other end was given time to take what was there.
  std::uint32_t send(std::span<iovec> frames);

  // Frames that found no place in the ring, or were longer than the interface's MTU allows.
  std::uint64_t missed();

 private:
  std::byte* slot(std::uint64_t number) const;

  int fd_;
  std::byte* ring_ = nullptr;
  std::uint32_t slot_bytes_ = 0;
  std::uint32_t slots_ = 0;
  std::uint64_t head_ = 0;  // the next slot to look at
  std::uint64_t tail_ = 0;  // the oldest that is not given back
  std::uint64_t missed_ = 0;
};

// Has the kernel finish the checksums of what an interface sends, and cut it into frames that the
// MTU allows, as a forwarder of frames needs it.
void disable_offloads(const std::string& interface);

}  // namespace viaduct::lab

#endif
