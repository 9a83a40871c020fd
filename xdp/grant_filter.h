// The egress filter of an interface that has granted ports.
//
// A frame that carries the mark of a granted socket leaves only with the address of that port's
// child as source and with our EtherType, not too long, and not if it does what is the agent's:
// answers to names, sends a requester elsewhere, talks to everybody. A connection request names
// this host. A frame for another child of this interface is delivered to it. What the filter drops
// is counted. Frames without such a mark pass untouched.
//
// The program stays when this process dies, because the granted programs and their sockets do: it
// is exchanged at the next start (remove_remains).
#ifndef VIADUCT_XDP_GRANT_FILTER_H
#define VIADUCT_XDP_GRANT_FILTER_H

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "xdp/interface.h"

struct grant_filter_bpf;

namespace viaduct {

// Where in a frame a connection request or its acceptance says which host it comes from, see
// viaduct-wire(7). (Ports do not know the wire format; the unit test compares.)
inline constexpr std::uint32_t kConnectHostAt = 54;

class GrantFilter {
 public:
  // Frames of one grant, or of all.
  struct Counts {
    std::uint64_t passed = 0;
    std::uint64_t forged_source = 0;
    std::uint64_t wrong_type = 0;
    std::uint64_t too_long = 0;
    std::uint64_t forbidden = 0;
  };

  // One for each interface, after remove_remains(). Throws PortError.
  GrantFilter(const Interface& lower, std::uint16_t ether_type);
  ~GrantFilter();
  GrantFilter(const GrantFilter&) = delete;
  GrantFilter& operator=(const GrantFilter&) = delete;

  const Interface& lower() const { return lower_; }

  // A number for a new grant, not used lately, and a random address that goes with it. Throws
  // PortError when there are too many. Nothing of it leaves the host until enter().
  struct Entry {
    std::uint32_t number;
    std::uint32_t mark;
    MacAddress address;
  };
  Entry add();
  void enter(const Entry& entry, int ifindex, bool agents_own);
  void remove(const Entry& entry);

  // Does it on a thread of the filter's own: the kernel takes its time with interfaces (some tens
  // of ms to delete one), and the agent has others to serve. The destructor waits for all of it.
  void later(std::function<void()> work);

  Counts counts(const Entry& entry) const;
  // Of all grants that there have been.
  Counts counts() const;

 private:
  void attach();
  void detach();
  void work();

  Interface lower_;
  grant_filter_bpf* program_ = nullptr;
  bool classic_ = false;  // attached by clsact: the kernel has no TCX
  std::vector<bool> used_;
  std::uint32_t next_ = 0;
  Counts gone_;

  std::thread worker_;  // started at the first use
  std::mutex mutex_;    // of what follows
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool ending_ = false;
};

// Deletes what an earlier agent has left of its granted ports on the interface: children, then the
// filter. Returns how many children there were. To be called by whoever holds the interface's lock.
unsigned remove_remains(const Interface& lower);

// How the children are called: "vdg<index of the lower interface>.<number>".
std::string child_name(const Interface& lower, std::uint32_t number);
inline constexpr char kChildAlias[] = "viaduct granted port";

}  // namespace viaduct

#endif
