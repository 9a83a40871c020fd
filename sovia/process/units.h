// Shared units of memory and time.
#ifndef VIADUCT_SOVIA_PROCESS_UNITS_H
#define VIADUCT_SOVIA_PROCESS_UNITS_H

#include <cstddef>
#include <cstdint>

namespace viaduct::sovia {

inline constexpr std::size_t kPage = 4096;       // bytes
inline constexpr std::uint64_t kMs = 1'000'000;  // in ns

}  // namespace viaduct::sovia

#endif
