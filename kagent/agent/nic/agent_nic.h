// One NIC of the agent: a port, the stack that works on it, and the stack's segment.
//
// The port may go away (the interface was removed) and come back; in between the NIC is closed and
// has no stack. Sessions are the session server's; they must have ended before the NIC is closed.
#ifndef VIADUCT_KAGENT_AGENT_NIC_AGENT_NIC_H
#define VIADUCT_KAGENT_AGENT_NIC_AGENT_NIC_H

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kagent/agent/config/config.h"
#include "kagent/contract/control.h"
#include "kagent/agent/nic/nic_report.h"
#include "kagent/agent/nic/granter.h"
#include "kagent/agent/programs/program_environment.h"
#include "kagent/stack/hosted_stack.h"
#include "xdp/host_port.h"

namespace viaduct {

class AgentNic {
 public:
  // Throws PortError.
  using OpenPort = std::function<std::unique_ptr<Port>()>;
  // Makes the granter of ports on the interface of a port that has been opened. Throws PortError that says why
  // there can be none.
  using MakeGranter = std::function<std::unique_ptr<Granter>(HostPort& port)>;

  // `config` and `all` must outlive the NIC. No `make_granter`: every program is hosted.
  AgentNic(const NicConfig& config, const Config& all, OpenPort open_port,
           HostNames::Addresses addresses, MakeGranter make_granter = nullptr);
  ~AgentNic();
  AgentNic(const AgentNic&) = delete;
  AgentNic& operator=(const AgentNic&) = delete;

  // Throws PortError, also when there is no memory for the stack.
  void open(std::uint64_t now);
  void close();
  bool is_open() const { return stack_ != nullptr; }
  // For people, while it is not open.
  void set_why_closed(const std::string& why) { why_closed_ = why; }
  std::string why_closed() const { return why_closed_.empty() ? interface() + " is missing" : why_closed_; }

  // To be called only while the NIC is open.
  Stack& stack() { return *stack_; }
  Port& port() { return *port_; }
  ProgramEnvironment& environment() { return environment_; }
  control::NicAttributes attributes() const;

  // Null if no ports can be granted here; why_not_granted() says why.
  Granter* granter() const { return granter_.get(); }
  const std::string& why_not_granted() const { return why_not_granted_; }
  // admit(): a granted port is there (throws PortError if it can't be reached). dismiss(): it is about to go.
  void admit(AgentPort& port);
  void dismiss(AgentPort& port);

  const std::string& interface() const { return config_.interface; }
  const NicConfig& config() const { return config_; }
  const StackLimits& limits() const { return limits_; }
  const void* segment() const { return segment_; }  // the stack's
  NicReport report() const;

 private:
  void open_trains(HostPort& port) const;

  const NicConfig& config_;
  const StackLimits& limits_;
  OpenPort open_port_;
  ProgramEnvironment environment_;
  MakeGranter make_granter_;
  std::unique_ptr<Granter> granter_;
  std::unique_ptr<HostPort> port_;
  std::string why_not_granted_, why_closed_;
  std::vector<AgentPort*> granted_;
  std::uint64_t ports_made_ = 0;
  GrantedCounters counters_of_dismissed_;
  void* segment_ = nullptr;
  std::unique_ptr<Stack> stack_;
};

}  // namespace viaduct

#endif
