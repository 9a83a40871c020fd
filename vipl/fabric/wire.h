// Facts that the two ends of a connection tell each other, beside the program's own data.
//
//   requester                                        acceptor
//   ---------                                        --------
//   VipConnectRequest  ------------------------->    listener: VipConnectWait, VipConnectAccept
//   Greeting kRequest, the program's data  ----->    FI_CONNREQ
//   FI_CONNECTED, or FI_ECONNREFUSED  <----------    Greeting kAccept or kReject, with data
//
// Then each message, and each RDMA write with data, takes one receive of the other end's. How many
// there are, each end writes into the other's Shared::promised by RDMA, which takes no receive. Facts that
// a message of VIA can't carry go by RDMA as well: a Notice tells what a receive was taken for, a Landing
// where a receive lies that is longer than a message of VIA can be.
//
// The words travel in network byte order. The other end is not trusted: what stands in Shared is
// copied once and looked at then; it can mislead this connection only.
#ifndef VIADUCT_VIPL_FABRIC_WIRE_H
#define VIADUCT_VIPL_FABRIC_WIRE_H

#include <bit>
#include <concepts>
#include <cstdint>

namespace viaduct::fabric {

// A number in network byte order.
template <std::unsigned_integral T>
class Big {
 public:
  Big() = default;
  Big(T value) : bytes_(swapped(value)) {}  // NOLINT: meant to convert
  operator T() const { return swapped(bytes_); }

 private:
  static constexpr T swapped(T value) {
    if constexpr (std::endian::native == std::endian::big || sizeof(T) == 1) {
      return value;
    } else if constexpr (sizeof(T) == 2) {
      return __builtin_bswap16(value);
    } else if constexpr (sizeof(T) == 4) {
      return __builtin_bswap32(value);
    } else {
      return __builtin_bswap64(value);
    }
  }
  T bytes_;
};

using Big16 = Big<std::uint16_t>;
using Big32 = Big<std::uint32_t>;
using Big64 = Big<std::uint64_t>;

inline constexpr std::uint32_t kMagic = 0x56464931;  // "VFI1"
inline constexpr std::uint32_t kVersion = 1;
inline constexpr std::uint32_t kWindow = 256;      // receives that may be promised at once
inline constexpr std::uint32_t kSegments = 4;      // ranges of memory in one operation
inline constexpr std::uint32_t kCmDataBytes = 256; // of a connection request or its answer

// Where a listener waits, as a VIA discriminator.
struct Discriminator {
  Big32 magic = kMagic;
  Big16 port = 0;
  Big16 zero = 0;
};
static_assert(sizeof(Discriminator) == 8);

struct Greeting {
  enum Kind : std::uint32_t { kRequest = 1, kAccept = 2, kReject = 3 };
  Big32 magic;
  Big32 version;
  Big32 kind;
  Big32 promised;        // receives
  Big64 shared_address;  // of the sender's Shared
  Big32 shared_memory;
  std::uint32_t address;  // the sender's, as in a sockaddr_in
  std::uint16_t port;
  Big16 data_bytes;
  std::uint32_t reserved;
  unsigned char data[kCmDataBytes];
};
static_assert(sizeof(Greeting) == 40 + kCmDataBytes);

// The promise and its complement: a reader passes over a word whose halves do not fit, as it was written only in
// part.
struct Promise {
  Big32 total;
  Big32 check;
};

// A Notice is written to its place by an RDMA write with immediate data, which takes the receive that the Notice is
// about. A receive that such a write takes without a Notice is for an RDMA write with data of the program.
struct Notice {
  enum Kind : std::uint32_t { kLarge = 1, kWritten = 2, kTooLong = 3 };
  Big32 tag;  // 1 + the number of the receive
  Big32 kind;
  Big64 length;
  Big32 has_data;
  Big32 data;
  Big64 reserved;
};
static_assert(sizeof(Notice) == 32);

struct Landing {
  struct Range {
    Big64 address;
    Big64 length;
    Big32 memory;
    Big32 reserved;
  };
  Big32 tag;  // 1 + the number of the receive, counted from the beginning of the connection
  Big32 count;
  Range ranges[kSegments];
};
static_assert(sizeof(Landing) == 104);

// The memory of one end that the other writes to.
struct Shared {
  alignas(64) std::uint64_t promised;     // a Promise
  alignas(64) Notice notices[kWindow];    // by the number of the receive that it takes
  alignas(64) Landing landings[kWindow];  // by the number of the receive that it tells of
};

}  // namespace viaduct::fabric

#endif
