// Local paths: granted programs of one host that connect to each other get a pair of rings in memory
// (xdp/local/local_ring.h). The agent makes the file, hands it to both, and remembers the pair. It has no part in
// what the programs do with it.
//
//   enter() ... connect() ... each is told, over its control socket ... leave(): so are those that it had rings with
//
// A capture (viadump) gets the files too, and reads along. While one runs, the files of pairs that have just ended are
// kept for a while, or it would miss short connections.
#ifndef VIADUCT_KAGENT_AGENT_SESSIONS_LOCAL_PATHS_H
#define VIADUCT_KAGENT_AGENT_SESSIONS_LOCAL_PATHS_H

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <vector>

#include "kagent/agent/nic/agent_nic.h"
#include "kagent/agent/control/service_counters.h"
#include "kagent/agent/sessions/session.h"
#include "xdp/clock.h"
#include "xdp/descriptor.h"
#include "xdp/port.h"

namespace viaduct {

class LocalPaths {
 public:
  static constexpr std::uint64_t kKeptNs = kNsPerSecond;  // since a capture last asked for pairs
  static constexpr std::size_t kMostKept = 64;

  struct Pair {
    std::uint64_t number;  // later ones have higher numbers, those of later agents too
    const AgentNic* nic;
    MacAddress ends[2];
    Descriptor rings;
  };
  using SharedPair = std::shared_ptr<const Pair>;
  // The rings, read-only. Throws std::system_error.
  static Descriptor open_read_only(const Pair& pair);

  explicit LocalPaths(ServiceCounters& counters) : counters_(counters), next_number_(monotonic_ns()) {}
  LocalPaths(const LocalPaths&) = delete;
  LocalPaths& operator=(const LocalPaths&) = delete;

  // A granted session, by a number of the caller's, and its control socket, until leave().
  void enter(std::uint64_t id, const Session& session, int socket);
  // `ended`: the program is gone; else it goes on with another agent. Any number may be given.
  void leave(std::uint64_t id, bool ended);

  // Gives rings to the programs of the NIC that are about to have a connection.
  void connect(AgentNic& nic);

  // The pairs with this number and later ones, in their order, so many at most.
  std::vector<SharedPair> pairs_from(std::uint64_t number, std::size_t most, std::uint64_t now);
  // To be called now and then: forgets ended pairs when no capture has asked lately.
  void tick(std::uint64_t now);

  // Brings ServiceCounters::local_bytes up to date.
  void count_bytes();

 private:
  struct Program {
    const AgentNic* nic;
    int socket;
    MacAddress port;
    std::uint64_t number;  // differs from that of a program that had the port's address before
    bool adopted;          // it may have rings that an earlier agent has made
    std::map<std::uint64_t, SharedPair> peers;
  };
  using Programs = std::map<std::uint64_t, Program>;

  Programs::iterator find(const AgentNic& nic, const MacAddress& port);
  void connect(Programs::value_type& one, Programs::value_type& other);
  static bool tell(const Program& whom, const Program& of, const Descriptor* rings, unsigned end);
  void end(SharedPair pair);

  ServiceCounters& counters_;
  Programs programs_;
  std::deque<SharedPair> kept_;
  std::uint64_t keep_until_ = 0;
  std::uint64_t next_number_;
  std::uint64_t ended_bytes_ = 0;
};

}  // namespace viaduct

#endif
