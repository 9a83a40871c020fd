// The agent's services to a stack: the memory of programs, futexes, random numbers and names.
//
// One for each NIC; sessions and programs go by the stack's numbers. One thread.
#ifndef VIADUCT_KAGENT_AGENT_PROGRAMS_PROGRAM_ENVIRONMENT_H
#define VIADUCT_KAGENT_AGENT_PROGRAMS_PROGRAM_ENVIRONMENT_H

#include <atomic>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "kagent/agent/programs/granted_segment.h"
#include "kagent/agent/programs/host_names.h"
#include "kagent/agent/programs/program_memories.h"
#include "kagent/agent/programs/session_users.h"
#include "kagent/agent/programs/socket_owners.h"
#include "kagent/contract/random_pool.h"
#include "kagent/stack/environment.h"

namespace viaduct {

class ProgramEnvironment final : public Environment {
 public:
  // See ProgramMemories and HostNames.
  ProgramEnvironment(std::uint32_t programs, const std::string& name,
                     const std::map<std::string, MacAddress>& hosts, HostNames::Addresses addresses);

  // Its parts, by number of the program or session.
  ProgramMemories& memories() { return memories_; }
  const ProgramMemories& memories() const { return memories_; }
  HostNames& names() { return names_; }
  SessionUsers& users() { return users_; }

  // The interface that TCP connections to the hosts of this network go over.
  void set_interface(const std::string& interface) { interface_ = interface; }

  // The agent's end of a program's poll wake; -1 while there is none.
  void set_poll_wake(std::uint32_t program, int fd) { poll_wakes_[program] = fd; }

  // The segment shared with the session's own stack; null: it has none.
  void set_granted_segment(std::uint32_t session, GrantedSegment* granted_segment) { granted_segments_[session] = granted_segment; }

  // The pairs of ports that are about to have a connection, as noted since this was last asked.
  using Introduction = std::pair<MacAddress, MacAddress>;
  bool has_introductions() const { return !introductions_.empty(); }
  std::vector<Introduction> take_introductions() { return std::exchange(introductions_, {}); }

  bool read_program(std::uint32_t program, const Reader& reader, std::span<const iovec> remote,
                    std::span<const iovec> local) override {
    return memories_.read(program, reader, remote, local);
  }
  bool write_program(std::uint32_t program, std::span<const iovec> remote,
                     std::span<const iovec> local) override {
    return memories_.write(program, remote, local);
  }
  bool is_late(std::uint32_t program) override { return memories_.is_late(program); }
  bool is_full(std::uint32_t program) override { return memories_.is_full(program); }
  void defer(const Late& what) override { memories_.defer(what); }
  bool await_read(const Late& what) override { return memories_.await_read(what); }
  bool take_due(Late& out, bool& failed) override { return memories_.take_due(out, failed); }
  void wake(std::atomic<std::uint32_t>& word) override;
  void poll_wake(std::uint32_t program) override;
  bool charge(std::uint32_t session, Quota what, std::int64_t change) override {
    return users_.charge(session, what, change);
  }
  std::uint64_t random() override;
  std::optional<MacAddress> look_up(std::string_view name) override { return names_.look_up(name); }
  bool is_own_name(std::string_view name) override { return names_.is_own(name); }
  std::string_view own_name() override { return names_.own(); }
  Owns owns(std::uint32_t session, const Flow& flow) override;
  std::optional<Connection> stopped(std::uint32_t session, std::uint32_t vi,
                                    std::uint64_t key) override;
  void introduce(const MacAddress& one, const MacAddress& other) override;
  // The agent has no agent to tell of listeners.
  std::uint32_t publish(const layout::Address&, bool) override { return layout::kNoListener; }
  void withdraw(std::uint32_t) override {}

 private:
  std::string interface_;
  ProgramMemories memories_;
  HostNames names_;
  SessionUsers users_;
  std::vector<int> poll_wakes_;
  std::vector<GrantedSegment*> granted_segments_;
  SocketOwners owners_;
  std::vector<Introduction> introductions_;
  RandomPool numbers_;
};

}  // namespace viaduct

#endif
