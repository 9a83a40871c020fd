// The kEvents newest events of sessions and their connections: for `viactl events`. With more, the account that has
// most of them loses its oldest, so a user that causes many loses none but its own.
//
// Decisions of the agent are noted when they happen. Connections and losses are noted by the stacks
// (kagent/stack/history.h) and collected from there: those of hosted programs about every millisecond, those of a
// granted program when events are asked for and when its session ends.
#ifndef VIADUCT_KAGENT_AGENT_REPORTS_EVENT_LOG_H
#define VIADUCT_KAGENT_AGENT_REPORTS_EVENT_LOG_H

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "kagent/agent/nic/agent_nic.h"
#include "kagent/agent/control/peer.h"
#include "kagent/agent/sessions/session.h"
#include "kagent/agent/control/user_rate.h"
#include "kagent/contract/report.h"
#include "xdp/clock.h"

namespace viaduct {

class EventLog {
 public:
  static constexpr std::size_t kEvents = 2048;
  using Nics = std::span<const std::unique_ptr<AgentNic>>;

  explicit EventLog(Nics nics);

  // An event about a program that has no session (yet), or about none. Any user can cause such events as fast as it
  // likes: of each user so many are noted, and then how many were not.
  void note(report::Happened what, const Peer& peer, std::string_view text, std::uint32_t code = 0);
  // An event about a NIC. A NIC that comes up has another stack than before.
  void note(report::Happened what, const AgentNic& nic);

  // A session begins, with the placement that it has; processes attach to it and leave.
  void opened(std::uint64_t id, const Session& session);
  void attached(std::uint64_t id, std::uint32_t program, pid_t process);
  void left(std::uint64_t id, std::uint32_t program);
  // To be called before the session's stack goes, and afterwards. A session that was not opened here is ignored.
  void ends(std::uint64_t id);
  void ended(std::uint64_t id, std::string_view why);

  // Collects the events of hosted programs.
  void collect();

  // Events from number `from` on, kEventsOfPage at most, that the account may see, or of all (`all`); `next`: where to
  // go on.
  std::vector<report::Event> page(std::uint64_t from, bool all, uid_t account, std::uint64_t& next);
  // The commands of a session, from number `from` of its stack's on. 0 in `next`: there is no such session.
  std::vector<report::Event> trace(std::uint64_t id, std::uint64_t from, std::uint64_t& next) const;

 private:
  struct Watched {
    std::uint32_t process, account, nic;
    std::uint32_t number;                           // in the NIC's stack
    std::uint64_t since;
    const GrantedSegment* granted;                  // null: hosted
    std::uint64_t seen;                             // of the granted stack's events
    std::map<std::uint32_t, std::uint32_t> others;  // processes that have attached, by the stack's number
  };

  // An event with its number, and whose it is.
  struct Kept {
    report::Event event;
    uid_t account;
  };
  struct Account {
    std::deque<std::uint64_t> numbers;  // of its events
    std::uint64_t lost = 0;             // the last that was forgotten
  };

  report::Event& add(report::Happened what, std::uint64_t now, uid_t account);
  report::Event& add(report::Happened what, std::uint64_t now, const Watched& watched);
  void forget_one();
  static void describe(const state::Event& from, std::uint64_t id, const Watched& watched, report::Event& out);
  void take(const state::Event& event, std::uint64_t id, const Watched& watched);
  void collect_granted(std::uint64_t id, Watched& watched);
  std::uint32_t number_of(const AgentNic& nic) const;

  Nics nics_;
  UserRate refusals_{10 * kNsPerSecond, 32};
  std::vector<std::uint64_t> seen_;  // of the NICs' stacks
  std::map<std::uint64_t, Watched> sessions_;
  std::map<std::uint64_t, Kept> kept_;  // by number; times are of the monotonic clock
  std::map<uid_t, Account> accounts_;   // those that have events
  std::uint64_t next_ = 1;
};

}  // namespace viaduct

#endif
