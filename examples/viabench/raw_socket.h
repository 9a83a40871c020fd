// Raw AF_XDP: the link's own limits, with nothing on top. Generic mode, copy mode; both ends spin.
#ifndef VIADUCT_EXAMPLES_VIABENCH_RAW_SOCKET_H
#define VIADUCT_EXAMPLES_VIABENCH_RAW_SOCKET_H

#include <xdp/xsk.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "examples/viabench/lines.h"

namespace viabench {

using Mac = std::array<std::uint8_t, 6>;

class RawSocket {
 public:
  static constexpr std::uint32_t kHeader = 14;        // bytes of an Ethernet header
  static constexpr std::uint32_t kLeast = 64;         // bytes of a frame
  static constexpr std::uint32_t kPageMtu = 3498;     // fits in a page beside the headroom
  static constexpr std::uint32_t kLargestMtu = 9000;  // in several pages (multi-buffer)

  // All frames of the interface's first queue come here, for as long as this object lives.
  explicit RawSocket(const std::string& interface);
  ~RawSocket();
  RawSocket(const RawSocket&) = delete;
  RawSocket& operator=(const RawSocket&) = delete;

  const Mac& address() const { return address_; }

  // Puts a frame with `payload` bytes, of which the first is `kind`, on the ring; when that is
  // full, has frames sent until it is not.
  void queue(const Mac& to, std::uint32_t payload, std::uint8_t kind);

  // Has the frames on the ring sent, and takes back what has been.
  void kick();

  // Until all frames have been sent.
  void flush();

  struct Received {
    std::uint32_t frames = 0;  // of ours
    std::uint8_t kind = 0;     // of the last one
    Mac from{};                // of the last one
  };
  // The received frames, at most `most`. Does not wait.
  Received receive(std::uint32_t most);

 private:
  static constexpr std::uint32_t kRing = 2048;
  static constexpr std::uint32_t kPage = 4096;
  static constexpr std::uint32_t kPages = 2 * kRing;  // first half to receive, second to send

  void open(const std::string& interface, bool large);
  void attach(unsigned index, bool large);
  void close();

  Mac address_{};
  unsigned char* area_ = nullptr;
  xsk_umem* umem_ = nullptr;
  xsk_socket* socket_ = nullptr;
  xsk_ring_prod fill_{}, tx_{};
  xsk_ring_cons completion_{}, rx_{};
  Fd map_, program_, link_;
  std::uint32_t next_ = kRing;     // page to send from next
  std::uint32_t outstanding_ = 0;  // pages that have not been sent
  bool more_ = false;              // the next page that comes belongs to the last one
  bool ours_ = false;              // and that one began a frame of ours ...
  std::uint8_t kind_ = 0;          // ... of this kind ...
  Mac from_{};                     // ... from there
};

}  // namespace viabench

#endif
