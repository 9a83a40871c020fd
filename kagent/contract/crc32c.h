// CRC32C (Castagnoli), the checksum of frames: polynomial 0x1EDC6F41, reflected, all ones before and
// after, as iSCSI and SCTP have it. Of "123456789" it is 0xE3069283.
#ifndef VIADUCT_KAGENT_CONTRACT_CRC32C_H
#define VIADUCT_KAGENT_CONTRACT_CRC32C_H

#include <cstddef>
#include <cstdint>

namespace viaduct {

// Whether the processor has instructions for it. Without them it takes many times longer.
bool crc32c_is_fast();

// The checksum of `bytes` bytes.
std::uint32_t crc32c(const void* data, std::size_t bytes);

// The checksum without those instructions, for comparison.
std::uint32_t crc32c_by_table(const void* data, std::size_t bytes);

}  // namespace viaduct

#endif
