// The addresses of granted ports that an agent's port reaches through its relay, looked up without searching.
#ifndef VIADUCT_XDP_GRANT_CHILD_SET_H
#define VIADUCT_XDP_GRANT_CHILD_SET_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "xdp/grant/grant_entry.h"
#include "xdp/port.h"

namespace viaduct {

class ChildSet {
 public:
  // An address that a GrantFilter has given out.
  void add(const MacAddress& child) { children_[slot_of(child.data())] = number_of(child.data()); }
  void remove(const MacAddress& child) {
    if (has(child.data())) children_[slot_of(child.data())] = 0;
  }
  // `address`: the six bytes of an address.
  bool has(const void* address) const { return children_[slot_of(address)] == number_of(address); }

 private:
  static std::uint64_t number_of(const void* address) {
    std::uint64_t out = 0;
    std::memcpy(&out, address, std::tuple_size_v<MacAddress>);
    return out;
  }
  static std::size_t slot_of(const void* address) {
    const auto* const bytes = static_cast<const std::uint8_t*>(address);
    return (bytes[4] << 8u | bytes[5]) & (VIADUCT_GRANTS - 1);
  }

  std::array<std::uint64_t, VIADUCT_GRANTS> children_{};  // by the low bits of the address
};

}  // namespace viaduct

#endif
