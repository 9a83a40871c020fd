// viactl doctor: what is wrong with this host's agent, interfaces and kernel, and how to mend it.
//
// gather() looks at the system, diagnose() judges what was found.
#ifndef VIADUCT_KAGENT_TOOLS_VIACTL_DOCTOR_H
#define VIADUCT_KAGENT_TOOLS_VIACTL_DOCTOR_H

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "kagent/contract/report.h"
#include "kagent/tools/viactl/agent_client.h"
#include "kagent/tools/viactl/views.h"

namespace viaduct::tool {

// An interface of this host, by what the kernel says.
struct InterfaceFacts {
  bool exists = false, up = false, running = false, hardware = false;
  std::uint32_t mtu = 0;
  std::string address, driver;
  bool large_receive = false;              // LRO is on
  std::vector<std::string> same_address;   // other interfaces with that address, not above it
};

struct Facts {
  std::string kernel;                      // release
  unsigned kernel_major = 0, kernel_minor = 0;
  bool has_af_xdp = false;
  std::optional<unsigned> bpf_jit;         // nothing: not to be read
  std::optional<unsigned> autogroups;      // of the scheduler, the same
  std::string version;                     // viactl's
  std::string socket;
  std::optional<report::Status> agent;
  std::string agent_error;                 // while there is no agent
  std::vector<std::uint32_t> dead_agents;  // processes that were killed and have threads that do not end
  std::optional<std::uint64_t> agent_locked_memory, agent_files;  // limits; ~0: none; nothing: not known
  std::optional<std::uint64_t> agent_capabilities;  // a bit for each effective one; nothing: not known
  Nics nics;
  Sessions sessions;
  Vis vis;
  std::vector<Counter> counters;
  std::map<std::string, InterfaceFacts> interfaces;  // of the NICs
};

enum class Severity { kOk, kNote, kProblem };

struct Finding {
  Severity severity;
  std::string subject;  // "kernel", "agent", an interface
  std::string what;
  std::string mend;     // "" if there is nothing to do
};

Facts gather(const AgentClient& agent);
std::vector<Finding> diagnose(const Facts& facts);

std::string findings_text(const std::vector<Finding>& findings, std::size_t width);
std::string findings_json(const std::vector<Finding>& findings);

}  // namespace viaduct::tool

#endif
