// Grants ports on a real interface: a macvlan child for each, with the egress filter on the
// interface itself and a child of the agent's own (the relay), by which both kinds of programs of
// this host reach each other. Filter and relay are made with the first port.
#ifndef VIADUCT_KAGENT_AGENT_GRANTS_MACVLAN_PORTS_H
#define VIADUCT_KAGENT_AGENT_GRANTS_MACVLAN_PORTS_H

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kagent/agent/config/config.h"
#include "kagent/agent/nic/granter.h"
#include "xdp/grant/grant_filter.h"
#include "xdp/grant/macvlan_relay.h"
#include "xdp/host_port.h"
#include "xdp/interface.h"
#include "xdp/train/open_train_socket.h"

namespace viaduct {

class MacvlanPorts final : public Granter {
 public:
  // Removes the remains of an earlier agent on the interface, except ports that are in use. `port`
  // gets a relay with the first port that is granted; it must be gone before this is. Throws PortError.
  MacvlanPorts(const NicConfig& config, HostPort& port);

  std::unique_ptr<AgentPort> make(std::uint32_t umem_bytes) override;
  std::vector<std::unique_ptr<AgentPort>> take_left() override { return std::move(left_); }
  void admit(AgentPort& port) override;
  void dismiss(AgentPort& port) override;
  MacAddress control_session() const override { return port_.relay(); }

 private:
  class Place;
  void go_on_with(GrantRemains& remains);
  void make_filter(const GrantRemains* remains);
  void make_relay();
  OpenedTrainSocket open_trains();

  const Interface lower_;
  const std::uint16_t ether_type_;
  const bool trains_;
  HostPort& port_;
  const std::uint32_t lendable_;  // by the uplink, and so by the relay
  std::unique_ptr<GrantFilter> filter_;
  std::mutex relay_mutex_;
  bool relay_opened_ = false;
  std::unique_ptr<MacvlanRelay> relay_;  // until then
  std::vector<std::unique_ptr<AgentPort>> left_;
  bool parts_ = true;  // frames of several chunks have not been refused
  bool frame_size_warned_ = false;
  bool no_trains_warned_ = false;
};

}  // namespace viaduct

#endif
