#include "vipl/lanevi/counters.h"

namespace viaduct::lanevi {
namespace {

struct PeerRow {
  const char* name;
  std::uint64_t PeerCounters::*value;
};

constexpr PeerRow kPeerRows[] = {
    {"connections", &PeerCounters::connections},
    {"packets_sent", &PeerCounters::packets_sent},
    {"bytes_sent", &PeerCounters::bytes_sent},
    {"packets_received", &PeerCounters::packets_received},
    {"bytes_received", &PeerCounters::bytes_received},
    {"drop_away", &PeerCounters::drop_away},
    {"drop_busy", &PeerCounters::drop_busy},
    {"drop_send", &PeerCounters::drop_send},
    {"drop_source", &PeerCounters::drop_source},
    {"drop_malformed", &PeerCounters::drop_malformed},
    {"drop_interface", &PeerCounters::drop_interface},
};

}  // namespace

std::string Counters::text() const {
  std::string out;
  const auto row = [&](const std::string& name, std::uint64_t value) {
    out += "lanevi_" + name + " " + std::to_string(value) + "\n";
  };
  row("sleeps", sleeps);
  row("drop_unknown", drop_unknown);
  row("drop_malformed", drop_malformed);
  row("drop_no_agent", drop_no_agent);
  row("drop_no_receive", drop_no_receive);
  for (const auto& [host, peer] : peers) {
    const std::string label = "{peer=\"" + host + "\"}";
    row("connected" + label, peer.connected ? 1 : 0);
    for (const auto& [name, value] : kPeerRows) row(name + label, peer.*value);
  }
  return out;
}

}  // namespace viaduct::lanevi
