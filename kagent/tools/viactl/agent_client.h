// Queries of viactl to the running agent (kagent/contract/report.h).
#ifndef VIADUCT_KAGENT_TOOLS_VIACTL_AGENT_CLIENT_H
#define VIADUCT_KAGENT_TOOLS_VIACTL_AGENT_CLIENT_H

#include <cstdint>
#include <string>
#include <vector>

#include "kagent/contract/report.h"
#include "xdp/descriptor.h"

namespace viaduct::tool {

struct LocalPair {
  report::LocalPair pair;
  Descriptor rings;
};

// The agent's socket: the one that the option names, else that of $VIADUCT_SOCKET as for programs, else that of the
// configuration if it can be read, else the one of a program that was told of none.
std::string find_socket(const std::string& option);

class AgentClient {
 public:
  explicit AgentClient(std::string socket_name) : socket_name_(std::move(socket_name)) {}

  // All functions throw std::runtime_error: no agent there, why it refuses, or an answer that makes no sense.
  report::Status status() const;
  std::vector<report::Nic> nics() const;
  std::vector<report::Session> sessions() const;
  // The VIs of all sessions that `sessions` and `nics` have.
  std::vector<report::Vi> vis(const std::vector<report::Session>& sessions, std::size_t nics) const;
  void set_log_level(report::LogLevel level) const;
  // A page of events from number `from` on; `from` becomes where to go on. With `traced`: the commands of that
  // session; 0 in `from` afterwards: there is no such session.
  std::vector<report::Event> events(std::uint64_t& from, std::uint64_t traced = 0) const;
  void set_draining(bool draining) const;
  // A page of pairs from number `from` on; `from` becomes where to go on. None if there are no more.
  std::vector<LocalPair> local_pairs(std::uint64_t& from) const;
  std::string counters() const;  // the text of the table

  const std::string& socket_name() const { return socket_name_; }

 private:
  template <class Record>
  std::uint64_t ask_page(const report::Query& query, std::vector<Record>& out,
                         std::vector<Descriptor>* files = nullptr) const;
  template <class Record>
  std::vector<Record> ask(report::Query query) const;

  std::string socket_name_;
};

}  // namespace viaduct::tool

#endif
