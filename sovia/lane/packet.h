// The packets of a lane. A packet is one VIA message; its type and the credits that it brings travel in the immediate
// data, as in the SOVIA paper:
//
//     31            16 15         8 7     4 3     0
//    +----------------+------------+-------+-------+
//    |    credits     |     0      | flags | type  |
//    +----------------+------------+-------+-------+
//
//   WAKEUP  the first packet of each end: Hello. Before it nothing else is sent.
//   TRUST   this end has verified the peer, and will read its packets.
//   DATA    bytes of the stream. Uses one credit; no other type does. The first one after bytes that went through the
//           kernel says how many these were (kFlagFirst). One without bytes says that the kernel goes on (kFlagDown).
//   ACK     nothing but credits, one for each DATA packet that has been consumed.
//   FIN     the direction ends on the lane. Later bytes go through the kernel.
//   FINACK  FIN has come.
//   LEAVE   asks the peer for its FIN; with Leave, as the kernel is faster than the lane.
//   SINK    memory that a message may be written to, none, or (flag) none any more: Sink.
//   PLACED  a message has been written there: Placed.
//   REVOKED no message will be written there any more: the answer to SINK with the flag: Placed.
//   GROW    the window is larger by so many credits.
//
// Every packet brings the credits that have come together when it is sent. The numbers in Hello and
// First are in network byte order.
#ifndef VIADUCT_SOVIA_LANE_PACKET_H
#define VIADUCT_SOVIA_LANE_PACKET_H

#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

enum class PacketType : std::uint8_t {
  kData = 1,
  kAck = 2,
  kWakeup = 3,
  kFin = 5,
  kFinAck = 6,
  kLeave = 7,
  kTrust = 8,
  kSink = 10,
  kPlaced = 11,
  kRevoked = 12,
  kGrow = 14,
};

// FIN, and LEAVE behind a FIN without it: the program has closed the socket, and reads no more.
inline constexpr std::uint32_t kFlagCloses = 0x10;
// DATA without bytes: the kernel brings the next bytes, behind a record (Resume).
inline constexpr std::uint32_t kFlagDown = 0x10;
// DATA: bytes went through the kernel before. First lies behind the data.
inline constexpr std::uint32_t kFlagFirst = 0x80;

// SINK: the memory is wanted back.
inline constexpr std::uint32_t kFlagRevokes = 0x40;

constexpr std::uint32_t immediate(PacketType type, std::uint32_t credits, std::uint32_t flags = 0) {
  return credits << 16 | flags | static_cast<std::uint32_t>(type);
}
constexpr PacketType type_of(std::uint32_t immediate) {
  return static_cast<PacketType>(immediate & 0xf);
}
constexpr std::uint32_t flags_of(std::uint32_t immediate) { return immediate & 0xf0; }
constexpr std::uint32_t credits_of(std::uint32_t immediate) { return immediate >> 16; }

inline constexpr std::uint32_t kChunkBytes = 32 * 1024;  // of one packet, at most
inline constexpr std::uint32_t kSmallBytes = 2 * 1024;   // sends up to this are combined
inline constexpr std::uint32_t kMostMessage = 1u << 30;  // bytes
inline constexpr std::uint32_t kMostWindow = 256;
inline constexpr std::uint32_t kProtocolVersion = 7;
inline constexpr std::size_t kTokenBytes = 16;

struct Hello {
  std::uint32_t version;
  std::uint32_t window;  // DATA packets that may be sent to this end without credits coming back
  std::uint8_t token[kTokenBytes];  // of the agent that vouches for this end
  std::uint8_t reserved;            // 0, as reserved_too
  std::uint8_t messages;            // 1: the sender's lane knows SINK, PLACED and REVOKED
  std::uint8_t acks;                // ACK packets that the sender may have on their way; 0: kMostAcks
  std::uint8_t reserved_too[37];
};
static_assert(sizeof(Hello) == 64);

struct First {
  std::uint64_t kernel_bytes;  // of this direction that went through the kernel, since the beginning
};
static_assert(sizeof(First) == 8);
inline constexpr std::uint64_t kMostKernelBytes = std::uint64_t{1} << 62;  // sums of such numbers and of sizes do not overflow

struct Leave {
  std::uint32_t again_ms;  // the sender asks for another lane in so many; network byte order
};
static_assert(sizeof(Leave) == 4);

// All numbers in network byte order.
struct Sink {
  std::uint64_t address;
  std::uint32_t memory;  // the memory's handle
  std::uint32_t bytes;   // 0: the message is to come in the stream
  std::uint32_t number;  // of the message
  std::uint32_t reserved;
};
static_assert(sizeof(Sink) == 24);

struct Placed {
  std::uint32_t number;
  std::uint32_t length;  // of the message, of which the memory may have taken less
};
static_assert(sizeof(Placed) == 8);

// A record in the kernel's stream, before the bytes with which a direction goes on there after the lane. A receiver that
// can't know whether there is one looks for the token, a secret of the two ends.
struct Resume {
  std::uint8_t token[kTokenBytes];  // the one in the sender's Hello, reversed, as that begins with a small number
  std::uint64_t offset;             // of the first byte that follows, on the lane behind First; network byte order
};
static_assert(sizeof(Resume) == 24);

}  // namespace viaduct::sovia

#endif
