// The counters of lanevid since it began. A peer's counters outlive its connections and the
// agent's.
#ifndef VIADUCT_VIPL_LANEVI_COUNTERS_H
#define VIADUCT_VIPL_LANEVI_COUNTERS_H

#include <atomic>
#include <cstdint>
#include <map>
#include <string>

namespace viaduct::lanevi {

struct PeerCounters {
  bool connected = false;
  std::uint64_t connections = 0;
  std::uint64_t packets_sent = 0;
  std::uint64_t bytes_sent = 0;
  std::uint64_t packets_received = 0;
  std::uint64_t bytes_received = 0;
  std::uint64_t drop_away = 0;       // to send: there is no connection
  std::uint64_t drop_busy = 0;       // to send: the peer has let nothing through for a while
  std::uint64_t drop_send = 0;       // to send: the VI has refused it or given it up
  std::uint64_t drop_source = 0;     // received: from an address that is not the peer's
  std::uint64_t drop_malformed = 0;  // received: no packet of IP
  std::uint64_t drop_interface = 0;  // received: the kernel did not take it
};

struct Counters {
  std::uint64_t sleeps = 0;  // for want of packets in both directions
  std::map<std::string, PeerCounters> peers;  // by the name of the host
  std::uint64_t drop_unknown = 0;             // to send: no host has said that it has the address
  std::uint64_t drop_malformed = 0;           // to send: no packet of IP
  std::uint64_t drop_no_agent = 0;            // to send: there is no agent at the moment
  std::atomic<std::uint64_t> drop_no_receive = 0;  // received, when no receive was posted

  // One line for each, in the manner of `viad --counters`.
  std::string text() const;
};

}  // namespace viaduct::lanevi

#endif
