// The wire format, as viaduct-wire(7) writes it down. Everything that knows how a frame looks is in
// this header and wire.cc.
//
//   0                   1                   2                   3
//   0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//  +-------------------------------+-------------------------------+
//  | Ethernet: destination (6), source (6), EtherType 0x88B5 (2)   |
//  +---------------+---------------+-------------------------------+
//  |    version    |     type      |             flags             |  0
//  +---------------+---------------+-------------------------------+
//  |             destination VI (receiver's index)                 |  4
//  +---------------------------------------------------------------+
//  |                                                               |  8
//  |              key (drawn by the receiver)                      |
//  +---------------------------------------------------------------+
//  |                            PSN                                | 16
//  +---------------------------------------------------------------+
//  |            ACK (next PSN that the sender awaits)              | 20
//  +---------------------------------------------------------------+
//  |              message length (bytes, whole message)            | 24
//  +---------------------------------------------------------------+
//  |              offset of this payload in the message            | 28
//  +---------------------------------------------------------------+
//  |                     immediate data                            | 32
//  +-------------------------------+-------------------------------+
//  |       payload length          |   window, credit (frames)     | 36
//  +-------------------------------+-------------------------------+
//  | payload ...                                                     40
//  +---------------------------------------------------------------+
//  |  CRC32C of common header and payload                          | 40 + payload length
//  +---------------------------------------------------------------+
//
// All fields are in network byte order. Frames shorter than the Ethernet minimum are padded, so
// `payload length` and not the frame's length says where the payload ends.
//
// Every frame has the checksum but data of connections that have agreed to go without, for all of it or for what goes by
// train, whose UDP datagrams have a checksum of their own. The addresses are not in it: ports may change them on the way.
// The stack knows which they must be.
#ifndef VIADUCT_KAGENT_CONTRACT_WIRE_H
#define VIADUCT_KAGENT_CONTRACT_WIRE_H

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "kagent/contract/crc32c.h"
#include "kagent/contract/flow.h"
#include "xdp/ether_type.h"
#include "xdp/port.h"
#include "xdp/train/train_address.h"

namespace viaduct::wire {

inline constexpr std::uint16_t kDefaultEtherType = VIADUCT_ETHER_TYPE;
inline constexpr std::uint8_t kVersion = 3;
inline constexpr std::size_t kEthernetBytes = 14;
inline constexpr std::size_t kHeaderBytes = 40;
inline constexpr std::size_t kChecksumBytes = 4;
inline constexpr std::size_t kRdmaBytes = 16;
inline constexpr std::size_t kMinFrameBytes = 60;
inline constexpr std::size_t kMaxDiscriminatorBytes = 64;
inline constexpr std::size_t kMaxNameBytes = 63;
inline constexpr unsigned kSackBits = 256;

enum class Type : std::uint8_t {
  kData = 1,         // a piece of a message
  kAck = 2,          // acknowledgement; payload: selective bitmap
  kConnectMoved = 3,  // ask there; payload: an Ethernet address
  kConnectRequest = 4,
  kConnectAccept = 5,
  kConnectConfirm = 6,
  kConnectReject = 7,
  kConnectHeld = 8,  // the request has arrived, no program waits for it yet
  kDisconnect = 9,
  kDisconnectAck = 10,
  kProbe = 11,       // are you there, and is this connection alive?
  kProbeAck = 12,
  kReset = 13,       // no such connection; VI and key as the offending frame carried them
  kNameQuery = 14,
  kNameReply = 15,
  kClaimQuery = 16,
  kClaimReply = 17,
  kStoppedQuery = 18,  // to a host: is the program with this connection stopped? payload: its address
  kStoppedReply = 19,  // it is, but it lives; payload: that address
  kWake = 20,        // between programs of one host: look at your local path
  kPath = 21,        // of the way by train; payload: PathBody
};
inline constexpr std::uint8_t kLastType = 21;
inline constexpr std::uint32_t kKnownTypes = 0x3ffffe;  // a bit for each
// Types of frames that may come by train (xdp/train/train_socket.h). No connection begins or ends with such a frame.
inline constexpr std::uint32_t kTrainTypes =
    1u << static_cast<unsigned>(Type::kData) | 1u << static_cast<unsigned>(Type::kPath);

// Flags of kData; frames of other types have none.
inline constexpr std::uint16_t kFlagFirst = 0x0001;      // first frame of its message
inline constexpr std::uint16_t kFlagLast = 0x0002;       // last frame of its message
inline constexpr std::uint16_t kFlagImmediate = 0x0004;  // immediate data is valid
inline constexpr std::uint16_t kFlagAckNow = 0x0008;     // the sender waits for the acknowledgement
inline constexpr std::uint16_t kOpMask = 0x0030;
inline constexpr std::uint16_t kOpSend = 0x0000;
inline constexpr std::uint16_t kOpRdmaWrite = 0x0010;    // an RdmaHeader precedes the payload
inline constexpr std::uint16_t kOpRdmaReadRequest = 0x0020;
inline constexpr std::uint16_t kOpRdmaReadResponse = 0x0030;  // the requester knows where it goes
inline constexpr std::uint16_t kFlagPacked = 0x0040;     // several whole messages, see PackedHeader
inline constexpr std::uint16_t kFlagChecked = 0x0080;    // has a checksum
inline constexpr std::uint16_t kKnownFlags = 0x00ff;

// Bytes of payload in a full frame of `mtu` bytes behind the Ethernet header.
constexpr std::uint32_t payload_in(std::uint32_t mtu) {
  constexpr std::uint32_t kAround = kHeaderBytes + kChecksumBytes;
  return ((mtu < kAround + 64 ? kAround + 64 : mtu) - kAround) & ~7u;
}

// How many bytes less a frame carries if it goes by train.
inline constexpr std::uint32_t kLessByTrain = 64;

// The common header in host byte order.
struct Header {
  Type type;
  std::uint16_t flags = 0;
  std::uint32_t vi = 0;
  std::uint64_t key = 0;
  std::uint32_t psn = 0;
  std::uint32_t ack = 0;
  std::uint32_t message_length = 0;
  std::uint32_t offset = 0;
  std::uint32_t immediate = 0;
  std::uint16_t payload_length = 0;
  std::uint16_t window = 0;
};

// A decoded frame: the header, the sender, and where the payload lies in the frame.
struct Decoded {
  Header header;
  MacAddress source;
  MacAddress destination;
  std::span<const std::byte> payload;
};

// Why decode() refused a frame.
enum class Malformed : std::uint8_t { kNone, kShort, kVersion, kType, kLength };

// Checks version, type, flags and lengths; `out` is whole only when kNone is returned. Never reads
// behind `frame`. In this order:
//   kShort    less than Ethernet and common header
//   kVersion  not kVersion
//   kType     type not in kKnownTypes, unknown flags of kData, any flags of another type
//   kLength   payload_length, and the checksum where there is one, go behind the end of the frame;
//             kData: see below
// The EtherType is the port's to check, the destination address the stack's.
//
// payload_length of kData counts the RdmaHeader where there is one (rdma_bytes). The rest is
// message data; kLength is returned unless
//   payload_length >= rdma_bytes(flags)
//   offset + (payload_length - rdma_bytes(flags)) <= message_length
//   kOpRdmaReadRequest: kFlagFirst and kFlagLast are set and there is no message data
//     (message_length is the number of bytes to read)
//   kFlagPacked: kFlagFirst and kFlagLast are set, it is a send, kFlagImmediate is not set, offset is
//     0 and message_length is payload_length
// so a message of length 0 is one frame without data. Whether a frame fits those before it, and
// whether the message is too long, is the stack's to check, and so are the payloads of other types
// and the checksum.
Malformed decode(std::span<const std::byte> frame, Decoded& out);

// Frames of kData and kAck may share an Ethernet frame with others from the same source to the same destination (a
// bundle): behind the end of the first one, without padding, come the others from their common headers on. Whether there
// is another one shows in its first byte, as padding is zero. Returns where the next common header is in `frame`, behind the
// frame that `decoded` was decoded from; 0: there is none.
std::size_t next_in_bundle(std::span<const std::byte> frame, const Decoded& decoded);
// As decode(), of the frame whose common header is at `at`: next_in_bundle() of another one. kType also for types that can't be
// in a bundle.
Malformed decode_bundled(std::span<const std::byte> frame, std::size_t at, Decoded& out);
// Moves a frame of the bundle at `frame` to its begin, over those before it, and returns its length then, without padding. The
// payload that `decoded` names has moved.
std::uint32_t move_to_front(std::byte* frame, const Decoded& decoded);

// How much of a data frame's payload is the RdmaHeader: 16 bytes in the first frame of an RDMA
// write and in an RDMA read request, else none.
constexpr std::size_t rdma_bytes(std::uint16_t flags) {
  const unsigned op = flags & kOpMask;
  const bool has = (flags & kFlagFirst) != 0 && (op == kOpRdmaWrite || op == kOpRdmaReadRequest);
  return has ? kRdmaBytes : 0;
}

constexpr bool has_checksum(Type type, std::uint16_t flags) {
  return type != Type::kData || (flags & kFlagChecked) != 0;
}

// Whether the frame that `decoded` was decoded from has the checksum that it should have, or none.
bool intact(const Decoded& decoded);

// Where the content of a frame that encode() has made ends, without padding.
std::size_t end_of(std::span<const std::byte> frame);

// Gives a data frame without a checksum one; there must be room behind its content.
void add_checksum(Frame& frame);

// Writes a frame's checksum anew after the frame was changed; its header says where the checksum goes.
void seal(std::span<std::byte> frame);

// Writes Ethernet and common header, and the checksum where there is one; the payload
// (header.payload_length bytes) is the caller's to put at frame + kEthernetBytes + kHeaderBytes
// before. Returns the frame's length, padding included; the padding is zeroed so that nothing of an
// earlier frame leaks.
std::size_t encode(const Header& header, const MacAddress& destination, const MacAddress& source,
                   std::uint16_t ether_type, std::byte* frame);

// The body of kConnectRequest and kConnectAccept.
struct ConnectBody {
  MacAddress host;             // the sender's host, whose address the frame need not come from
  std::uint32_t request;       // the requester's number of this attempt, echoed in every answer
  std::uint32_t vi;            // the sender's VI
  std::uint64_t key;           // the key that frames to the sender must carry
  std::uint32_t first_psn;     // of the data that the sender will send
  std::uint32_t max_transfer;  // VI attributes of the sender ...
  std::uint16_t reliability;
  std::uint16_t mtu;           // what the sender's port takes; data frames fit the smaller of the two
  std::uint16_t credit = 0;    // on Unreliable Delivery, in frames: what the sender has room for at any
                               // time; in the header's window field, see credit_grants.h
  std::uint8_t rdma_flags;     // bit 0: write enabled, bit 1: read enabled, bit 2: peer to peer,
                               // bit 3: asks for checksums, bit 4: takes bundles,
                               // bit 5: takes trains of data without checksums
  std::uint8_t local_length = 0;   // bytes of the sender's discriminator
  std::uint8_t remote_length = 0;  // bytes of the receiver's discriminator
  std::array<std::byte, kMaxDiscriminatorBytes> local{};
  std::array<std::byte, kMaxDiscriminatorBytes> remote{};
};
inline constexpr std::uint8_t kRdmaWriteEnabled = 1;
inline constexpr std::uint8_t kRdmaReadEnabled = 2;
inline constexpr std::uint8_t kPeerToPeer = 4;
inline constexpr std::uint8_t kAsksForChecksum = 8;  // of data; given if either side asks
inline constexpr std::uint8_t kTakesBundles = 16;
inline constexpr std::uint8_t kTakesPlainTrains = 32;  // data by train has no checksums if both sides take it so
inline constexpr std::size_t kConnectBodyMaxBytes = 37 + 2 * kMaxDiscriminatorBytes;
// Where in the frame ConnectBody::host lies: the egress filter of granted ports checks it there.
inline constexpr std::size_t kConnectHostOffset = kEthernetBytes + kHeaderBytes;

// Returns the bytes written, at most kConnectBodyMaxBytes. The lengths must be in range.
std::size_t encode(const ConnectBody& body, std::byte* payload);

// False, and `out` unspecified, unless the payload is exactly one body: discriminators of at most
// kMaxDiscriminatorBytes, no unknown rdma_flags, nothing behind it.
bool decode(std::span<const std::byte> payload, ConnectBody& out);

// The body of kConnectMoved, kStoppedQuery and kStoppedReply. False unless the payload is just an address.
inline bool decode(std::span<const std::byte> payload, MacAddress& out) {
  if (payload.size() != out.size()) return false;
  std::memcpy(out.data(), payload.data(), out.size());
  return true;
}

// In `immediate` of kDisconnect: 0, or why the sender of the frame ends the connection, because of the message that
// has a frame with header.psn. In a packed frame it is the message with number header.offset, counted from 0.
enum class Refusal : std::uint32_t {
  kNone = 0,
  kNoDescriptor = 1,   // no receive was posted
  kDescriptor = 2,     // the receive descriptor was bad: format, protection, length
  kProtection = 3,     // the RDMA target does not allow it
  kTransport = 4,
};

// The header in front of each message of a packed frame; the data follows, and then the next header. At least two.
struct PackedHeader {
  std::uint16_t length;     // of the message
  std::uint16_t flags;      // kPackedImmediate
  std::uint32_t immediate;
};
inline constexpr std::size_t kPackedBytes = 8;
inline constexpr std::uint16_t kPackedImmediate = 1;

// The header in front of the data where rdma_bytes() says so. `reserved` is sent as 0 and not looked at.
struct RdmaHeader {
  std::uint64_t address;
  std::uint32_t handle;
  std::uint32_t reserved = 0;
};
void encode(const RdmaHeader& rdma, std::byte* payload);
bool decode(std::span<const std::byte> payload, RdmaHeader& out);  // false if shorter than 16

void encode(const PackedHeader& packed, std::byte* payload);
// False unless the payload begins with a header of known flags and all of its message's data.
bool decode(std::span<const std::byte> payload, PackedHeader& out);

// kNameQuery and kNameReply. A query has the name asked for (a host name or the text of an IP
// address); a reply repeats the query's `request` and name, and its source address is the answer.
struct NameBody {
  std::uint32_t request;
  std::uint8_t name_length;
  std::array<char, kMaxNameBytes> name;
};
std::size_t encode(const NameBody& body, std::byte* payload);
bool decode(std::span<const std::byte> payload, NameBody& out);
inline constexpr std::size_t kNameBodyMaxBytes = 5 + kMaxNameBytes;

// kPath: where trains reach its sender, or whether they do. Each step is answered by the next one, with
// its token.
enum class PathStep : std::uint8_t {
  kTell = 1,
  kTold = 2,
  kTry = 3,    // comes by train
  kTried = 4,
};
struct PathBody {
  PathStep step;
  std::uint32_t token;
  TrainAddress address;  // of the sender; port 0: it has no trains
};
inline constexpr std::size_t kPathBodyBytes = 28;
void encode(const PathBody& body, std::byte* payload);
// False unless the payload is exactly one body with a known step.
bool decode(std::span<const std::byte> payload, PathBody& out);

// kClaimQuery and kClaimReply: whether the receiver of the query has vouched for a TCP connection, or a
// UDP socket and one that it talks with, of its host with this token. A reply repeats the query but for the answer.
enum class ClaimAnswer : std::uint8_t {
  kNone = 0,  // it is a query
  kGood = 1,
  kBad = 2,
};
struct ClaimBody {
  std::uint32_t request;  // the asker's number
  ClaimAnswer answer;
  Flow flow;              // as the host that is asked sees it
  ClaimToken token;
};
std::size_t encode(const ClaimBody& body, std::byte* payload);
// False unless the payload is exactly one body with nothing unknown in it.
bool decode(std::span<const std::byte> payload, ClaimBody& out);
inline constexpr std::size_t kClaimBodyBytes = 58;

// ---------------------------------------------------------------------------- inline parts

namespace detail {

inline std::uint16_t swap(std::uint16_t v) { return __builtin_bswap16(v); }
inline std::uint32_t swap(std::uint32_t v) { return __builtin_bswap32(v); }
inline std::uint64_t swap(std::uint64_t v) { return __builtin_bswap64(v); }

template <class T>
T load(const std::byte* p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return std::endian::native == std::endian::big ? v : swap(v);
}

template <class T>
void store(std::byte* p, T v) {
  if (std::endian::native != std::endian::big) v = swap(v);
  std::memcpy(p, &v, sizeof v);
}

}  // namespace detail

// Big-endian loads and stores at any alignment.
inline std::uint16_t load16(const std::byte* p) { return detail::load<std::uint16_t>(p); }
inline std::uint32_t load32(const std::byte* p) { return detail::load<std::uint32_t>(p); }
inline std::uint64_t load64(const std::byte* p) { return detail::load<std::uint64_t>(p); }
inline void store16(std::byte* p, std::uint16_t v) { detail::store(p, v); }
inline void store32(std::byte* p, std::uint32_t v) { detail::store(p, v); }
inline void store64(std::byte* p, std::uint64_t v) { detail::store(p, v); }

namespace detail {

// The common header is at `at`.
inline Malformed decode_at(std::span<const std::byte> frame, std::size_t at, Decoded& out) {
  if (frame.size() < at + kHeaderBytes) [[unlikely]] return Malformed::kShort;
  const std::byte* const p = frame.data() + at;
  if (p[0] != std::byte{kVersion}) [[unlikely]] return Malformed::kVersion;

  const auto type = std::to_integer<std::uint8_t>(p[1]);
  Header& h = out.header;
  h.flags = load16(p + 2);
  const bool data = type == static_cast<std::uint8_t>(Type::kData);
  const unsigned unknown = data ? static_cast<std::uint16_t>(~kKnownFlags) : 0xffffu;
  const bool known = type <= kLastType && (kKnownTypes >> type & 1) != 0;
  if (!known || (h.flags & unknown) != 0) [[unlikely]] return Malformed::kType;

  h.type = static_cast<Type>(type);
  h.vi = load32(p + 4);
  h.key = load64(p + 8);
  h.psn = load32(p + 16);
  h.ack = load32(p + 20);
  h.message_length = load32(p + 24);
  h.offset = load32(p + 28);
  h.immediate = load32(p + 32);
  h.payload_length = load16(p + 36);
  h.window = load16(p + 38);
  const std::size_t checksum = has_checksum(h.type, h.flags) ? kChecksumBytes : 0;
  if (h.payload_length + checksum > frame.size() - (at + kHeaderBytes)) [[unlikely]] return Malformed::kLength;
  if (data) {
    const std::size_t rdma = rdma_bytes(h.flags);
    const std::uint64_t end = std::uint64_t{h.offset} + h.payload_length - rdma;
    if (h.payload_length < rdma || end > h.message_length) [[unlikely]] return Malformed::kLength;
    if ((h.flags & kOpMask) == kOpRdmaReadRequest) [[unlikely]] {
      const bool whole = (h.flags & kFlagFirst) != 0 && (h.flags & kFlagLast) != 0;
      if (!whole || h.payload_length != kRdmaBytes) return Malformed::kLength;
    }
    if ((h.flags & kFlagPacked) != 0) [[unlikely]] {
      const bool send = (h.flags & ~(kFlagAckNow | kFlagChecked)) ==
                        (kFlagPacked | kFlagFirst | kFlagLast | kOpSend);
      if (!send || h.message_length != h.payload_length || h.offset != 0) return Malformed::kLength;
    }
  }
  std::memcpy(out.destination.data(), frame.data(), 6);
  std::memcpy(out.source.data(), frame.data() + 6, 6);
  out.payload = {p + kHeaderBytes, h.payload_length};
  return Malformed::kNone;
}

}  // namespace detail

inline Malformed decode(std::span<const std::byte> frame, Decoded& out) {
  return detail::decode_at(frame, kEthernetBytes, out);
}

inline std::size_t next_in_bundle(std::span<const std::byte> frame, const Decoded& decoded) {
  const Header& h = decoded.header;
  if (h.type != Type::kData && h.type != Type::kAck) return 0;
  const std::size_t end = static_cast<std::size_t>(decoded.payload.data() - frame.data()) + h.payload_length +
                          (has_checksum(h.type, h.flags) ? kChecksumBytes : 0);
  return frame.size() >= end + kHeaderBytes && frame[end] == std::byte{kVersion} ? end : 0;
}

inline Malformed decode_bundled(std::span<const std::byte> frame, std::size_t at, Decoded& out) {
  const Malformed malformed = detail::decode_at(frame, at, out);
  const bool may_be = out.header.type == Type::kData || out.header.type == Type::kAck;
  return malformed == Malformed::kNone && !may_be ? Malformed::kType : malformed;
}

inline std::size_t end_of(std::span<const std::byte> frame) {
  const std::byte* const p = frame.data() + kEthernetBytes;
  const bool checked = has_checksum(static_cast<Type>(p[1]), load16(p + 2));
  return kEthernetBytes + kHeaderBytes + load16(p + 36) + (checked ? kChecksumBytes : 0);
}

inline void add_checksum(Frame& frame) {
  std::byte* const p = frame.data + kEthernetBytes;
  const std::uint16_t flags = load16(p + 2);
  if (has_checksum(static_cast<Type>(p[1]), flags)) return;
  store16(p + 2, flags | kFlagChecked);
  const std::size_t bytes = kHeaderBytes + load16(p + 36);
  store32(p + bytes, crc32c(p, bytes));
  frame.length = std::max(frame.length, static_cast<std::uint32_t>(kEthernetBytes + bytes + kChecksumBytes));
}

inline std::uint32_t move_to_front(std::byte* frame, const Decoded& decoded) {
  const std::byte* const from = decoded.payload.data() - kHeaderBytes;
  const bool checked = has_checksum(decoded.header.type, decoded.header.flags);
  const std::size_t bytes = kHeaderBytes + decoded.header.payload_length + (checked ? kChecksumBytes : 0);
  if (from != frame + kEthernetBytes) [[unlikely]] std::memmove(frame + kEthernetBytes, from, bytes);
  return static_cast<std::uint32_t>(kEthernetBytes + bytes);
}

inline bool intact(const Decoded& decoded) {
  const Header& h = decoded.header;
  if (!has_checksum(h.type, h.flags)) return true;
  const std::byte* const header = decoded.payload.data() - kHeaderBytes;
  const std::size_t bytes = kHeaderBytes + h.payload_length;
  return load32(header + bytes) == crc32c(header, bytes);
}

inline std::size_t encode(const Header& h, const MacAddress& destination, const MacAddress& source,
                          std::uint16_t ether_type, std::byte* frame) {
  std::memcpy(frame, destination.data(), 6);
  std::memcpy(frame + 6, source.data(), 6);
  store16(frame + 12, ether_type);
  std::byte* const p = frame + kEthernetBytes;
  p[0] = std::byte{kVersion};
  p[1] = static_cast<std::byte>(h.type);
  store16(p + 2, h.flags);
  store32(p + 4, h.vi);
  store64(p + 8, h.key);
  store32(p + 16, h.psn);
  store32(p + 20, h.ack);
  store32(p + 24, h.message_length);
  store32(p + 28, h.offset);
  store32(p + 32, h.immediate);
  store16(p + 36, h.payload_length);
  store16(p + 38, h.window);
  std::size_t length = kEthernetBytes + kHeaderBytes + h.payload_length;
  if (has_checksum(h.type, h.flags)) {
    store32(frame + length, crc32c(p, length - kEthernetBytes));
    length += kChecksumBytes;
  }
  if (length >= kMinFrameBytes) [[likely]] return length;
  std::memset(frame + length, 0, kMinFrameBytes - length);
  return kMinFrameBytes;
}

inline void encode(const RdmaHeader& rdma, std::byte* payload) {
  store64(payload, rdma.address);
  store32(payload + 8, rdma.handle);
  store32(payload + 12, 0);
}

inline void encode(const PackedHeader& packed, std::byte* payload) {
  store16(payload, packed.length);
  store16(payload + 2, packed.flags);
  store32(payload + 4, packed.immediate);
}

inline bool decode(std::span<const std::byte> payload, PackedHeader& out) {
  if (payload.size() < kPackedBytes) return false;
  out = {load16(payload.data()), load16(payload.data() + 2), load32(payload.data() + 4)};
  return (out.flags & ~kPackedImmediate) == 0 && out.length <= payload.size() - kPackedBytes;
}

inline bool decode(std::span<const std::byte> payload, RdmaHeader& out) {
  if (payload.size() < kRdmaBytes) return false;
  out = {load64(payload.data()), load32(payload.data() + 8), 0};
  return true;
}

}  // namespace viaduct::wire

#endif
