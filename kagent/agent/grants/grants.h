// The granted ports of all NICs, from the judgement of a request to the last disconnect.
//
//   judge() -> make() ... made(port) -> the program has it -> end(port, granted segment)
//   inherit() ... adopt() ------------------^     |           last disconnects at once, +20 ms, +100 ms
//                                              leave()        taken down -> kept by the program?
//
// A port counts against the limits from make() or inherit() until it has been taken down and no process has its socket any
// more: a program that kept the socket would keep the memory too. To take it down takes 0.1 s, and a program that needs its
// place waits for that: one that begins right after another has ended would else be hosted.
#ifndef VIADUCT_KAGENT_AGENT_GRANTS_GRANTS_H
#define VIADUCT_KAGENT_AGENT_GRANTS_GRANTS_H

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "xdp/clock.h"
#include "kagent/agent/config/config.h"
#include "kagent/agent/process/event_loop.h"
#include "kagent/agent/nic/granter.h"
#include "kagent/agent/programs/granted_segment.h"
#include "kagent/agent/grants/port_maker.h"
#include "kagent/agent/nic/agent_nic.h"
#include "kagent/agent/control/service_counters.h"
#include "kagent/agent/process/worker.h"

namespace viaduct {

class Grants {
 public:
  // When last disconnects are sent, counted from the first time.
  static constexpr std::uint64_t kDisconnectTimesNs[] = {0, 20 * kNsPerMs, 100 * kNsPerMs};
  // How often the agent checks whether the programs of inherited ports live.
  static constexpr std::uint64_t kLeftLookNs = 250 * kNsPerMs;
  // How often it checks whether sockets are kept.
  static constexpr std::uint64_t kKeptLookNs = kNsPerSecond;

  // All arguments must outlive this. Throws std::system_error.
  Grants(const Config& config, EventLoop& loop, ServiceCounters& counters);
  // As finish().
  ~Grants();
  Grants(const Grants&) = delete;
  Grants& operator=(const Grants&) = delete;

  // Why a program can't have a port: what is counted, and in words.
  struct Refusal {
    std::uint64_t ServiceCounters::*cause;
    std::string reason;
  };
  // `user` is a Peer's account(), here and in the functions below.
  std::optional<Refusal> judge(const AgentNic& nic, uid_t user, const std::vector<gid_t>& groups) const;

  // A port and the user that it counts for.
  struct Held {
    AgentNic* nic;
    std::unique_ptr<AgentPort> port;
    uid_t user;
    bool is_going = false;  // it is about to be taken down
  };
  // As PortMaker::Made.
  using Made = std::function<void(std::optional<Held> port, const std::string& why)>;
  void make(AgentNic& nic, uid_t user, Made made);

  // Keeps ports that an earlier agent has left on the NIC for their programs, until these end or for as long as the
  // configuration says. Does nothing unless the NIC is open.
  void inherit(AgentNic& nic, std::uint64_t now);
  // Gives a port back to a program of the user who had it. `find`: opens the file of this number,
  // which the program must have. Throws Refusal or what `find` or GrantedSegment does.
  struct Adopted {
    Held held;
    std::unique_ptr<GrantedSegment> granted_segment;
  };
  enum class Which { kGrantedSegment, kUmem };
  using Find = std::function<Descriptor(Which which, const FileNumber& file)>;
  Adopted adopt(AgentNic& nic, uid_t user, const std::vector<gid_t>& groups, const MacAddress& port,
                const StackLimits& limits, const Find& find);
  // Leaves a port, or all that have been inherited, to the next agent.
  void leave_behind(Held port);
  void leave_inherited();

  // The program is gone, or (not `program_left`) only its session has been ended: it may still use the memory.
  // The other end() is for a port that no program has had.
  void end(Held port, std::unique_ptr<GrantedSegment> granted_segment, bool program_left, std::uint64_t now);
  void end(Held port);

  // As PortMaker::tick(); says last disconnects that are due, looks after sockets that are kept.
  void tick(std::uint64_t now);
  std::uint64_t next_deadline() const;  // ~0: never

  // Take down at once the ports of sessions that have ended (leave(): those on the NIC), and wait for that.
  void finish();
  void leave(const AgentNic& nic);

  std::uint32_t ports() const { return ports_; }  // being made and taken down included, and those that programs wait for
  std::size_t leaving() const { return leaving_.size(); }
  std::size_t kept() const { return kept_.size(); }
  std::size_t inherited() const { return left_.size(); }
  std::size_t ready(const AgentNic& nic) const { return maker_.ready(nic); }  // made ahead, for no program yet
  bool idle() const { return makes_.busy() == 0 && ends_.busy() == 0; }

 private:
  struct Use {
    std::uint32_t ports = 0, going = 0;
  };
  struct Leaving {
    Held held;
    bool program_left;
    std::vector<std::vector<std::byte>> farewells;
    std::size_t said = 0;  // how many were sent in this turn
    unsigned turn = 0;     // index in kDisconnectTimesNs
    std::uint64_t begin = 0;
  };

  struct Left {
    Held held;
    std::uint64_t until;
  };

  std::optional<Refusal> judge_user(const AgentNic& nic, uid_t user,
                                    const std::vector<gid_t>& groups) const;
  void look_after_left(std::uint64_t now);
  void say_some(Leaving& leaving);
  void withdraw(Held held, bool program_left);
  void destroy(Held held, bool program_left);
  void finish_work();
  void look_after_kept(std::uint64_t now);
  bool fits(uid_t user, std::uint32_t held_back) const;
  void count(uid_t user, int change);
  void let_go(Held& held);
  static bool is_same(uid_t one, uid_t other);

  const Config& config_;
  ServiceCounters& counters_;
  Worker makes_, ends_;  // apart, as a port that a program waits for is not to wait for the end of others
  PortMaker maker_;
  std::uint32_t ports_ = 0;
  std::uint32_t going_ = 0;  // of them, about to be taken down
  std::unordered_map<uid_t, Use> uses_;
  std::list<Leaving> leaving_;
  std::list<Held> kept_;
  std::uint64_t next_look_ = 0;  // when kept_ is looked at next
  std::list<Left> left_;         // ports that an earlier agent has left
  std::uint64_t next_left_look_ = 0;
};

}  // namespace viaduct

#endif
