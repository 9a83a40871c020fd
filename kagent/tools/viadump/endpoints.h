// Which VIs talk to each other, and whose they are: frames name only the VI that they are for.
//
// Learnt from captured frames (CONNECT_ACCEPT names both VIs) and from the agent, if there is one.
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_ENDPOINTS_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_ENDPOINTS_H

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "kagent/contract/wire.h"
#include "kagent/tools/viadump/packet.h"

namespace viaduct::dump {

struct Endpoint {
  MacAddress address;
  std::uint32_t vi;
  auto operator<=>(const Endpoint&) const = default;
};

// The VIs that a frame is between, so far as they are known.
struct Ends {
  std::optional<std::uint32_t> from, to;
};

struct Program {
  std::uint32_t process;
  std::string name;
};

class Endpoints {
 public:
  void learn(const wire::Decoded& decoded);
  void connect(const Endpoint& one, const Endpoint& other);
  void set_program(const Endpoint& endpoint, Program program);
  void add_local(const MacAddress& address) { local_.insert(address); }

  Ends ends_of(const wire::Decoded& decoded) const;
  // Whether an address of this host sends or receives the frame; kUnknown: neither, as far as is known.
  Direction direction_of(const wire::Decoded& decoded) const;
  // The program of the end on this host; the sender's, if both are here. nullptr: not known.
  const Program* program_of(const wire::Decoded& decoded) const;
  // Whether one of the frame's ends belongs to this process.
  bool is_of(const wire::Decoded& decoded, std::uint32_t process) const;
  // "VI 3 of viaping (1234) to VI 5"; "" if nothing is known that the frame itself does not tell.
  std::string comment_on(const wire::Decoded& decoded) const;

 private:
  std::optional<Endpoint> sender_of(const wire::Decoded& decoded) const;
  const Program* find(const Endpoint& endpoint) const;
  std::string name_of(const Endpoint& endpoint) const;

  std::map<Endpoint, Endpoint> peers_;
  std::map<Endpoint, Program> programs_;
  std::set<MacAddress> local_;
};

}  // namespace viaduct::dump

#endif
