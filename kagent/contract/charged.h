// What a session holds that counts for its user (Environment::charge).
#ifndef VIADUCT_KAGENT_CONTRACT_CHARGED_H
#define VIADUCT_KAGENT_CONTRACT_CHARGED_H

#include <cstdint>

namespace viaduct {

enum class Charged : std::uint8_t { kVis, kRegions, kBytes };

}  // namespace viaduct

#endif
