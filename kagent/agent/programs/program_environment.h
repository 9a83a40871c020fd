// The agent's services to a stack: the memory of programs, futexes, random numbers and names.
//
// One for each NIC; sessions and programs go by the stack's numbers. One thread.
#ifndef VIADUCT_KAGENT_AGENT_PROGRAMS_PROGRAM_ENVIRONMENT_H
#define VIADUCT_KAGENT_AGENT_PROGRAMS_PROGRAM_ENVIRONMENT_H

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kagent/agent/config/config.h"
#include "kagent/agent/programs/granted_segment.h"
#include "kagent/agent/programs/program_memory.h"
#include "kagent/agent/programs/slow_memory.h"
#include "kagent/agent/programs/socket_owners.h"
#include "kagent/stack/hosted_stack.h"
#include "kagent/contract/random_pool.h"

namespace viaduct {

class ProgramEnvironment final : public Environment {
 public:
  // The texts of the NIC's own IP addresses. Asked for at most once a second.
  using Addresses = std::function<std::vector<std::string>()>;

  // `name` is this host's; `hosts` are names in lower case that it knows, and must outlive this.
  ProgramEnvironment(std::uint32_t programs, const std::string& name,
                     const std::map<std::string, MacAddress>& hosts, Addresses addresses);

  // Our own address, that of the port in use.
  void set_address(const MacAddress& address) { address_ = address; }
  // The interface that TCP connections to the hosts of this network go over.
  void set_interface(const std::string& interface) { interface_ = interface; }

  // A program's memory; closed while there is none of this number.
  void set_memory(std::uint32_t program, ProgramMemory memory);

  // Copies that hang don't hold the loop from now on, and are left to their users' threads. Null: all
  // are made here and now.
  void set_threads(Carriers* carriers, UserThreads* threads) {
    carriers_ = carriers, threads_ = threads;
  }
  // Ends the program's use of its memory.
  void close_memory(std::uint32_t program);
  // Programs whose memory could not be reached for too long; a program that can be reached again is served as before.
  std::vector<std::uint32_t> look_after_slow(std::uint64_t now);
  std::uint64_t next_slow_look() const;  // ~0: never

  // Whose program a session is.
  // `account`: what limits are counted for; 0 is root, without any, which has all users' connections (Peer).
  void set_user(std::uint32_t session, uid_t user, uid_t account) {
    users_[session] = user;
    accounts_[session] = account;
  }
  void set_user(std::uint32_t session, uid_t user) { set_user(session, user, user); }

  // For users that come from now on.
  void set_user_limits(const UserLimits& limits) { user_limits_ = limits; }

  // The agent's end of a program's poll wake; -1 while there is none.
  void set_poll_wake(std::uint32_t program, int fd) { poll_wakes_[program] = fd; }

  // The segment shared with the session's own stack; null: it has none.
  void set_granted_segment(std::uint32_t session, GrantedSegment* granted_segment) { granted_segments_[session] = granted_segment; }

  // The ports that are about to have a connection, since it was last asked.
  using Introduction = std::pair<MacAddress, MacAddress>;
  bool has_introductions() const { return !introductions_.empty(); }
  std::vector<Introduction> take_introductions() { return std::exchange(introductions_, {}); }

  bool read_program(std::uint32_t program, std::span<const iovec> remote,
                    std::span<const iovec> local) override;
  bool write_program(std::uint32_t program, std::span<const iovec> remote,
                     std::span<const iovec> local) override;
  bool is_late(std::uint32_t program) override;
  bool is_full(std::uint32_t program) override;
  void defer(const Late& what) override;
  bool await_read(const Late& what) override;
  bool take_due(Late& out, bool& failed) override;
  void wake(std::atomic<std::uint32_t>& word) override;
  void poll_wake(std::uint32_t program) override;
  bool charge(std::uint32_t session, Quota what, std::int64_t change) override;
  std::uint64_t random() override;
  std::optional<MacAddress> look_up(std::string_view name) override;
  bool is_own_name(std::string_view name) override;
  std::string_view own_name() override { return name_; }
  Owns owns(std::uint32_t session, const Flow& flow) override;
  std::optional<Connection> stopped(std::uint32_t session, std::uint32_t vi,
                                    std::uint64_t key) override;
  void introduce(const MacAddress& one, const MacAddress& other) override;

 private:
  // An IP address as bytes: 4, 16, or none.
  using IpAddress = std::vector<std::uint8_t>;
  static IpAddress parse_ip(std::string_view text);

  // Of a user whose programs' memory could not be reached.
  struct Penalty {
    std::uint64_t until = 0;  // no copy is made by the loop
    std::uint64_t last = 0;   // when it was raised
    std::uint32_t times = 0;
  };
  SlowMemory& slow(std::uint32_t program);
  void note_hang(std::uint32_t program);
  void count_late();

  bool is_own_address(const IpAddress& address);

  std::vector<ProgramMemory> memories_;
  std::vector<int> poll_wakes_;
  std::vector<GrantedSegment*> granted_segments_;
  std::vector<uid_t> users_, accounts_;
  UserLimits user_limits_;
  // By user: VIs, regions and bytes, in the order of Quota.
  std::unordered_map<uid_t, std::array<std::uint64_t, 3>> holdings_;
  SocketOwners owners_;
  std::string interface_;
  std::shared_ptr<ProgramCopy> copy_;
  Carriers* carriers_ = nullptr;
  UserThreads* threads_ = nullptr;
  std::vector<std::shared_ptr<SlowMemory>> slow_;  // by program; null: none
  std::uint32_t slow_count_ = 0;
  std::unordered_map<uid_t, Penalty> penalties_;
  std::vector<Introduction> introductions_;
  MacAddress address_{};
  std::string name_;
  std::string name_in_lower_case_;
  const std::map<std::string, MacAddress>& hosts_;
  Addresses addresses_;
  std::vector<IpAddress> own_addresses_;
  std::uint64_t asked_at_ = 0;  // CLOCK_MONOTONIC, ns
  RandomPool numbers_;
};

}  // namespace viaduct

#endif
