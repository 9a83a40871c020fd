// What a stack in a program asks of libvipl: Environment, called directly. The memory is the
// program's own and names are the agent's business, so most of it is short. Defined in libvipl.
#ifndef VIADUCT_KAGENT_GRANTED_ENVIRONMENT_H
#define VIADUCT_KAGENT_GRANTED_ENVIRONMENT_H

#include <sys/uio.h>

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kagent/session_layout.h"
#include "xdp/port.h"

namespace viaduct {

class GrantedEnvironment {
 public:
  bool read_program(std::uint32_t session, std::span<const iovec> remote,
                    std::span<const iovec> local);
  bool write_program(std::uint32_t session, std::span<const iovec> remote,
                     std::span<const iovec> local);
  void wake(std::atomic<std::uint32_t>& word);
  std::uint64_t random();
  std::optional<MacAddress> look_up(std::string_view name);
  bool is_own_name(std::string_view name);
  std::string_view own_name();

  // Into the notices of the desk segment.
  std::uint32_t put_up(const layout::Address& local, bool peer);
  void take_down(std::uint32_t notice);
};

}  // namespace viaduct

#endif
