// The agent's answers to an operator's tool (report.h), and the table of counters.
#ifndef VIADUCT_KAGENT_AGENT_REPORTS_REPORTS_H
#define VIADUCT_KAGENT_AGENT_REPORTS_REPORTS_H

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "kagent/agent/config/config.h"
#include "kagent/agent/reports/event_log.h"
#include "kagent/agent/sessions/local_paths.h"
#include "kagent/agent/nic/agent_nic.h"
#include "kagent/agent/control/peer.h"
#include "kagent/agent/reports/report_budget.h"
#include "kagent/agent/control/service_counters.h"
#include "kagent/agent/sessions/session.h"
#include "kagent/contract/report.h"

namespace viaduct {

// Throws Refused. Nothing but the bytes of `message` is looked at.
report::Query judge_query(std::span<const std::byte> message);

// Root, and the user that the agent runs as.
bool sees_all(const Peer& peer);

// A session that the asker may see.
struct ShownSession {
  std::uint64_t id;
  const Session* session;
  std::uint32_t attached;
  std::uint64_t opened;  // when
};

// A process that has attached to a session.
struct ShownProcess {
  std::uint64_t session;
  std::uint32_t program;
  pid_t process;
};

class Reports {
 public:
  using Nics = std::span<const std::unique_ptr<AgentNic>>;

  // All arguments must outlive this. `counters_text` makes the table of counters.
  Reports(const Config& config, Nics nics, ServiceCounters& counters, std::function<std::string()> counters_text);

  // Answer and records, one packet. `all`: how many sessions there are. `sessions` in the order of their ids.
  // Throws Refused.
  std::vector<std::byte> answer(const Peer& peer, const report::Query& query, std::size_t all,
                                std::span<const ShownSession> sessions, std::span<const ShownProcess> processes);

  // The answer to kLocalPairs; the pairs' files go with it. Throws Refused.
  std::vector<std::byte> local_pairs(const Peer& peer, const report::Query& query,
                                     std::span<const LocalPaths::SharedPair> pairs);

  // Sends the table of counters in a file. Throws Refused; also when the user has spent its budget.
  void send_counters(int socket, const Peer& peer);

  EventLog& events() { return events_; }

  // An operator wants that the agent takes no new programs and ends with the last.
  bool draining() const { return draining_; }

 private:
  report::Status status(const Peer& peer, std::size_t all) const;
  std::vector<std::byte> sessions_page(const report::Query& query, std::span<const ShownSession> sessions,
                                       std::uint64_t now) const;
  std::vector<std::byte> vis_page(const report::Query& query, std::span<const ShownSession> sessions,
                                  std::span<const ShownProcess> processes) const;
  report::Nic describe(const AgentNic& nic) const;
  report::Session describe(const ShownSession& shown, std::uint64_t now) const;
  void set_draining(const Peer& peer, bool draining);
  std::uint32_t number_of(const AgentNic* nic) const;
  std::uint32_t read_hosted(AgentNic& nic, std::uint32_t from, std::span<const ShownSession> sessions,
                            std::span<const ShownProcess> processes, std::vector<report::Vi>& out) const;
  std::uint32_t read_granted(const ShownSession& shown, std::uint32_t from, std::vector<report::Vi>& out) const;

  const Config& config_;
  Nics nics_;
  ServiceCounters& counters_;
  std::function<std::string()> counters_text_;
  ReportBudget budget_;
  std::uint64_t started_;
  EventLog events_;
  bool draining_ = false;
};

}  // namespace viaduct

#endif
