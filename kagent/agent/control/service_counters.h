// The service's own counters; what the stacks and ports count is apart. The table is the only place
// where a counter is named.
#ifndef VIADUCT_KAGENT_AGENT_CONTROL_SERVICE_COUNTERS_H
#define VIADUCT_KAGENT_AGENT_CONTROL_SERVICE_COUNTERS_H

#include <cstdint>

namespace viaduct {

// X(name, what it counts)
#define VIADUCT_SERVICE_COUNTERS(X)                                                       \
  X(connections, "connections that programs made to the socket")                          \
  X(sessions_opened, "sessions given to programs")                                        \
  X(sessions_closed, "sessions ended by their programs")                                  \
  X(sessions_broken, "sessions ended because the program spoke after its hello")          \
  X(processes_attached, "processes that attached to a session of their family")            \
  X(sessions_overdrawn, "sessions ended because their user had too much memory for tables")   \
  X(sessions_hanging, "sessions ended because the program's memory could not be reached")      \
  X(sessions_lost, "sessions ended because their interface went away")                    \
  X(programs_ended, "programs that ended while others held their session")                \
  X(counter_requests, "requests for this table")                                          \
  X(report_requests, "other requests of operators' tools")                                \
  X(reports_postponed, "of both, those of users who asked too often")                     \
  X(refused_message, "requests refused: malformed")                                       \
  X(refused_version, "requests refused: other version of the protocol or the layout")     \
  X(refused_access, "requests refused: user not in the access lists")                     \
  X(refused_device, "requests refused: no such device")                                   \
  X(refused_user_limit, "requests refused: too many sessions of the user")                \
  X(refused_session_limit, "requests refused: too many sessions of the NIC")              \
  X(refused_down, "requests refused: the interface is away")                              \
  X(refused_program, "requests refused: the program's memory may not be used")            \
  X(refused_placement, "requests refused: a port of its own was wanted and could not be given") \
  X(refused_adoption, "requests refused: the port is not that program's to go on with")   \
  X(refused_attachment, "requests refused: not of the family of any session")             \
  X(refused_draining, "requests refused: the agent is being drained")                       \
  X(refused_resources, "requests refused: the system gave no memory or descriptors")      \
  X(ports_made, "ports made for programs")                                                \
  X(ports_found, "ports found that an earlier agent had left in use")                     \
  X(ports_adopted, "of these, ports whose programs have a session again")                 \
  X(ports_given_up, "of these, ports removed because nobody came for them")               \
  X(ports_kept, "ports whose sockets programs kept when their sessions had ended")        \
  X(not_granted_policy, "wishes for a port not fulfilled: programs are hosted here")      \
  X(not_granted_nic, "wishes for a port not fulfilled: the interface can have none")      \
  X(not_granted_access, "wishes for a port not fulfilled: user not in the lists of [granted]") \
  X(not_granted_ports, "wishes for a port not fulfilled: all are in use")                 \
  X(not_granted_user_limit, "wishes for a port not fulfilled: too many of the user")      \
  X(not_granted_failed, "wishes for a port not fulfilled: it could not be made")          \
  X(local_paths_made, "pairs of programs of this host that were given rings")             \
  X(local_paths_refused, "pairs of programs that were not: too many, or they do not listen") \
  X(local_bytes, "bytes of their rings that have been used, as the programs tell")        \
  X(farewells, "disconnects sent for programs that are gone")                             \
  X(dropped_silent, "connections closed: no request within the time limit")               \
  X(dropped_crowded, "connections closed: too many without a request")                    \
  X(accept_failures, "connections that could not be accepted")                            \
  X(log_lines_saved, "messages not logged because there were too many")                   \
  X(rounds, "rounds of the service loop")                                                 \
  X(busy_rounds, "rounds that found work")                                                \
  X(sleeps, "times the service slept")                                                    \
  X(port_losses, "times an interface went away")                                          \
  X(port_returns, "times an interface came back")

struct ServiceCounters {
#define VIADUCT_COUNTER_FIELD(name, text) std::uint64_t name = 0;
  VIADUCT_SERVICE_COUNTERS(VIADUCT_COUNTER_FIELD)
#undef VIADUCT_COUNTER_FIELD
  std::uint64_t longest_round_ns = 0;  // without the time that a round has slept
};

// Calls row(name, text, value) for each counter of the table, in its order.
template <class Row>
void for_each(const ServiceCounters& c, Row&& row) {
#define VIADUCT_COUNTER_ROW(name, text) row(#name, text, c.name);
  VIADUCT_SERVICE_COUNTERS(VIADUCT_COUNTER_ROW)
#undef VIADUCT_COUNTER_ROW
}

}  // namespace viaduct

#endif
