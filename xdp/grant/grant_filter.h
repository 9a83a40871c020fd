// The egress filter of an interface that has granted ports.
//
// A frame that carries the mark of a granted socket leaves only with the address of that port's
// child as source and with our EtherType, and if it is not too long. It must not do what only the agent may do:
// answer for names, send a requester elsewhere, go to a group address. A connection request must name
// this host. A frame for another child of this interface is delivered to it. Dropped frames are
// counted. Frames without such a mark pass untouched.
//
// Ports are made and taken down in one thread and given back in another: all functions but keep() may be called by any
// thread, and none waits for what takes long.
//
// The filter program stays when this process dies, because the granted programs and their sockets stay: the next
// agent puts its own filter program in its place and goes on with the same tables (grant_remains.h).
#ifndef VIADUCT_XDP_GRANT_GRANT_FILTER_H
#define VIADUCT_XDP_GRANT_GRANT_FILTER_H

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "xdp/grant/filter_entry.h"
#include "xdp/grant/grant_remains.h"
#include "xdp/interface.h"

struct grant_filter_bpf;

namespace viaduct {

// Where in a frame a connection request or its acceptance says which host it comes from, see
// viaduct-wire(7). (Ports do not know the wire format; the unit test compares.)
inline constexpr std::uint32_t kConnectHostAt = 54;

class GrantFilter {
 public:
  // Counts of the frames of one grant, or of all grants.
  struct Counts {
    std::uint64_t passed = 0;
    std::uint64_t forged_source = 0;
    std::uint64_t wrong_type = 0;
    std::uint64_t too_long = 0;
    std::uint64_t forbidden = 0;
  };

  // There is one filter for each interface. It is made after remove_remains(), or takes the place of the filter in
  // `remains`. Throws PortError.
  GrantFilter(const Interface& lower, std::uint16_t ether_type,
              const GrantRemains* remains = nullptr);
  // Takes the program off the interface, unless the next agent has to go on with it (keep()).
  ~GrantFilter();
  GrantFilter(const GrantFilter&) = delete;
  GrantFilter& operator=(const GrantFilter&) = delete;

  const Interface& lower() const { return lower_; }
  // Why the filter is not attached by TCX though the kernel has it; empty: it is, or the kernel has none.
  const std::string& why_classic() const { return why_classic_; }

  // A number for a new grant, not used lately, and a random address that goes with it. Throws PortError when there
  // are too many. No frame of it leaves the host until enter().
  using Entry = FilterEntry;
  Entry add();
  // An entry for the agent's own port. It is the entry of the filter that this one replaced, if that had one and its
  // number is free.
  Entry add_relay_child();
  using Holder = FilterHolder;
  void enter(const Entry& entry, int ifindex, bool agents_own, const Holder* holder = nullptr);
  // No frame of the entry leaves the host from here on. After remove() its number may be used
  // again, so the last socket with its mark must be closed by then: it could send from the next port's address.
  void clear(const Entry& entry);
  void remove(const Entry& entry);

  // The program and its tables stay when this object goes.
  void keep() { kept_ = true; }

  // Does `work` on a thread of the filter's own: the kernel takes its time with interfaces (some tens of ms to delete
  // one), and the agent has others to serve. The destructor waits for all work.
  void later(std::function<void()> work);

  Counts counts(const Entry& entry) const;
  // Counts of all grants that there have been.
  Counts counts() const;

 private:
  Entry add_locked();
  Counts counts_locked(const Entry& entry) const;
  void attach(const GrantRemains* remains);
  int attach_tcx(int program, const GrantRemains* remains);
  void detach();
  void work();

  Interface lower_;
  std::uint16_t ether_type_;
  grant_filter_bpf* program_ = nullptr;
  bool kept_ = false;
  std::optional<Entry> relay_child_;  // of the filter that this one replaced
  bool classic_ = false;  // attached by clsact: there is no TCX
  std::string why_classic_;
  mutable std::mutex entries_mutex_;  // of entries and their counts, and of relay_child_
  std::vector<bool> used_;
  std::uint32_t next_ = 0;
  Counts gone_;

  std::mutex mutex_;    // of what follows
  std::thread worker_;  // there while there is work
  std::deque<std::function<void()>> work_;
  bool working_ = false;
};

}  // namespace viaduct

#endif
