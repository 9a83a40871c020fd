// Which frames are wanted.
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_FILTER_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_FILTER_H

#include <cstdint>
#include <string_view>
#include <vector>

#include "kagent/tools/viadump/endpoints.h"
#include "kagent/tools/viadump/frame_reading.h"

namespace viaduct::dump {

// A frame must fit one entry of each kind; a kind without entries lets all frames pass.
struct Filter {
  std::vector<std::uint32_t> vis;    // at either end
  std::vector<MacAddress> hosts;     // at either end
  std::vector<wire::Type> types;
  std::uint32_t process = 0;         // at this host's end; 0: any
  bool only_refused = false;

  bool wants_all() const { return !only_refused && vis.empty() && hosts.empty() && types.empty() && process == 0; }
  bool fits(const Reading& reading, const Endpoints& endpoints) const;
};

// "DATA", "data" or "connect_request"; false: there is no such type.
bool parse_type(std::string_view word, wire::Type& out);
bool parse_address(std::string_view text, MacAddress& out);

}  // namespace viaduct::dump

#endif
