// Resources of a session that count for its user (Environment::charge).
#ifndef VIADUCT_KAGENT_CONTRACT_QUOTA_H
#define VIADUCT_KAGENT_CONTRACT_QUOTA_H

#include <cstdint>

namespace viaduct {

enum class Quota : std::uint8_t { kVis, kRegions, kBytes };

}  // namespace viaduct

#endif
