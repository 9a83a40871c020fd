// viactl events and viactl trace: what happens, line by line.
#ifndef VIADUCT_KAGENT_TOOLS_VIACTL_EVENTS_H
#define VIADUCT_KAGENT_TOOLS_VIACTL_EVENTS_H

#include <cstdint>
#include <map>
#include <string>

#include "kagent/contract/report.h"
#include "kagent/tools/viactl/agent_client.h"
#include "kagent/tools/viactl/views.h"

namespace viaduct::tool {

struct EventOptions {
  bool kept = false;          // begin with what the agent still has
  bool once = false;          // show only these, then end
  double every = 0.1;         // seconds between two questions
  std::uint32_t process = 0;  // only what this process does; 0: all
  bool json = false;          // an object a line
};

// Writes events as lines, without line ends. Remembers the names of programs, as a process may be gone when its last
// event is shown.
class EventLines {
 public:
  explicit EventLines(const Nics& nics) : nics_(nics) {}
  std::string text(const report::Event& event);
  std::string json(const report::Event& event);

 private:
  const std::string& program(std::uint32_t process);

  const Nics& nics_;
  std::map<std::uint32_t, std::string> programs_;
};

// The details of an event besides its subject.
std::string event_detail(const report::Event& event);

// Runs until interrupted, unless `once`. Both functions throw as AgentClient does.
void run_events(const AgentClient& agent, const EventOptions& options);
// Shows the commands of the sessions of options.process.
void run_trace(const AgentClient& agent, const EventOptions& options);

}  // namespace viaduct::tool

#endif
