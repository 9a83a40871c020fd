// Numbers of the format pcapng (draft-ietf-opsawg-pcapng).
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_PCAPNG_FORMAT_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_PCAPNG_FORMAT_H

#include <cstdint>

namespace viaduct::dump::pcapng {

inline constexpr std::uint32_t kSectionHeader = 0x0a0d0d0a;
inline constexpr std::uint32_t kInterface = 1;
inline constexpr std::uint32_t kSimplePacket = 3;
inline constexpr std::uint32_t kStatistics = 5;
inline constexpr std::uint32_t kEnhancedPacket = 6;
inline constexpr std::uint32_t kByteOrder = 0x1a2b3c4d;
inline constexpr std::uint32_t kMaxBlockBytes = 16 << 20;

// Options; those from 2 on mean something else in each kind of block.
inline constexpr std::uint16_t kEnd = 0;
inline constexpr std::uint16_t kComment = 1;
inline constexpr std::uint16_t kSectionApplication = 4;
inline constexpr std::uint16_t kInterfaceName = 2;
inline constexpr std::uint16_t kInterfaceTimeUnit = 9;
inline constexpr std::uint16_t kInterfaceFilter = 11;
inline constexpr std::uint16_t kPacketFlags = 2;
inline constexpr std::uint16_t kStatisticsReceived = 4;
inline constexpr std::uint16_t kStatisticsDropped = 5;

inline constexpr std::uint32_t kFlagInbound = 1, kFlagOutbound = 2, kFlagDirection = 3;
inline constexpr std::uint16_t kLinkEthernet = 1;

}  // namespace viaduct::dump::pcapng

#endif
