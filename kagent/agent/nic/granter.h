// Interface through which the agent's service gives programs ports of their own. The real one is
// MacvlanPorts, over a macvlan child for each port; tests have another.
//
//   Worker's thread        loop's thread
//   make() ----------------> admit() ... program has the port ... dismiss() --+
//   end() <-------------------------------------------------------------------+
//     +--------------------> is_kept() ... ~AgentPort
//
// An agent that is about to go may leave() ports; one that is killed has left all that it had. The
// next one finds them: take_left() ... is_kept() ... admit() and so on, or end().
//
// Making and taking away talks to the kernel for milliseconds, so neither happens where the stacks
// are driven.
#ifndef VIADUCT_KAGENT_AGENT_NIC_GRANTER_H
#define VIADUCT_KAGENT_AGENT_NIC_GRANTER_H

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "kagent/agent/programs/program_files.h"
#include "xdp/grant/granted_layout.h"
#include "xdp/port.h"
#include "xdp/train/train_address.h"

namespace viaduct {

// The kernel's counters of granted ports.
struct GrantedCounters {
  // Frames that programs sent: let through by the filter, and dropped by it.
  std::uint64_t passed = 0;
  std::uint64_t forged_source = 0;
  std::uint64_t wrong_type = 0;
  std::uint64_t too_long = 0;
  std::uint64_t forbidden = 0;
  // Frames that the sockets of the ports dropped.
  std::uint64_t rx_dropped_ring_full = 0;
  std::uint64_t rx_dropped_no_fill = 0;
  std::uint64_t rx_dropped_invalid = 0;
  std::uint64_t tx_dropped_invalid = 0;
};

inline void add_to(GrantedCounters& sum, const GrantedCounters& more) {
  sum.passed += more.passed;
  sum.forged_source += more.forged_source;
  sum.wrong_type += more.wrong_type;
  sum.too_long += more.too_long;
  sum.forbidden += more.forbidden;
  sum.rx_dropped_ring_full += more.rx_dropped_ring_full;
  sum.rx_dropped_no_fill += more.rx_dropped_no_fill;
  sum.rx_dropped_invalid += more.rx_dropped_invalid;
  sum.tx_dropped_invalid += more.tx_dropped_invalid;
}
static_assert(sizeof(GrantedCounters) == 9 * sizeof(std::uint64_t), "add_to() adds them all");

// A port as the agent holds it.
class AgentPort {
 public:
  virtual ~AgentPort() = default;
  virtual const GrantedLayout& layout() const = 0;
  // The descriptors that the program gets. -1: an earlier agent has given them.
  virtual int socket() const = 0;
  virtual int umem() const = 0;
  // The descriptors of the port's trains (xdp/train/); -1 and no address: it has none.
  virtual int train_socket() const = 0;
  virtual int train_guard() const = 0;
  virtual TrainAddress train_address() const = 0;
  // The user whose port this is, and the files that came with it. This is noted where the next agent finds it.
  struct Holder {
    uid_t user = 0;
    FileNumber granted_segment, umem;
  };
  virtual void set_holder(const Holder& holder) = 0;  // throws PortError
  // For a port of an earlier agent: the holder as noted, and the buffers, once they have been found.
  virtual Holder holder() const = 0;
  virtual void take_umem(int umem) = 0;
  // Sends a whole frame from the port's address in the program's stead. False if it can't.
  virtual bool send(std::span<const std::byte> frame) = 0;
  virtual GrantedCounters counters() = 0;
  // Takes the port away, also from programs that have its descriptors. Must have been called before it is destroyed.
  virtual void end() = 0;
  // Whether a process still has the socket after end(), or of a port that was left, and with it the memory, which
  // stays locked.
  virtual bool is_kept() = 0;
  // Leaves the port to the next agent.
  virtual void leave() = 0;
};

// The ports of one NIC.
class Granter {
 public:
  virtual ~Granter() = default;
  // Throws PortError.
  virtual std::unique_ptr<AgentPort> make(std::uint32_t umem_bytes) = 0;
  // The ports that an earlier agent has left, once.
  virtual std::vector<std::unique_ptr<AgentPort>> take_left() = 0;
  // From now on the agent's own port reaches the granted one, until it is dismissed. Throws
  // PortError.
  virtual void admit(AgentPort& port) = 0;
  virtual void dismiss(AgentPort& port) = 0;
  // The address by which granted ports reach the agent's own stack; known once one has been made.
  virtual MacAddress control_session() const = 0;
};

}  // namespace viaduct

#endif
