// Makes granted ports in a thread: for programs that wait for one, and some ahead.
//
// A port takes the kernel some 25 ms, one at a time. A server that forks for each connection wants many at once, so as
// many are ready as programs have asked for in the last minute, and one from the first time on. Those that have been
// taken are made anew a moment later: programs that begin want the processors for themselves.
#ifndef VIADUCT_KAGENT_AGENT_GRANTS_PORT_MAKER_H
#define VIADUCT_KAGENT_AGENT_GRANTS_PORT_MAKER_H

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "kagent/agent/config/config.h"
#include "kagent/agent/nic/agent_nic.h"
#include "kagent/agent/nic/granter.h"
#include "kagent/agent/process/worker.h"
#include "xdp/clock.h"

namespace viaduct {

class PortMaker {
 public:
  // How long a port may take to make. The program that waits for it gives the agent up after five seconds.
  static constexpr std::uint64_t kMakingNs = 3 * kNsPerSecond;
  // When ports are made ahead, counted from the first that was taken.
  static constexpr std::uint64_t kAheadNs = 250 * kNsPerMs;
  // For how long programs that have asked for a port count.
  static constexpr std::uint64_t kAskedNs = 60 * kNsPerSecond;

  // Whether a user may have another port now; it waits for `held_back`, this one included, that are not being made yet.
  using Fits = std::function<bool(uid_t user, std::uint32_t held_back)>;
  // `makes`, `ends`: threads that make ports and take them down. `ports`: how many there are, ready ones not counted, and
  // those that programs wait for. All arguments must outlive this.
  PortMaker(const GrantPolicy& policy, Worker& makes, Worker& ends, const std::uint32_t& ports, Fits fits)
      : policy_(policy), makes_(makes), ends_(ends), ports_(ports), fits_(std::move(fits)) {}

  // Called from the loop, at once if a port is ready, with the port, or with none and the reason: after kMakingNs the
  // program gets none.
  using Made = std::function<void(std::unique_ptr<AgentPort> port, const std::string& why)>;
  void make(AgentNic& nic, uid_t user, Made made);
  // There may be room for another port: those that programs wait for are made, as far as it goes.
  void go_on();
  // Ports that programs wait for and that are not being made, as there is no room.
  std::uint32_t held_back() const;

  // Makes ports ahead, gives up those that take too long, and those that have been ready for nobody.
  void tick(std::uint64_t now);
  std::uint64_t next_deadline() const;  // ~0: never

  // Gives up the ready ports (of the NIC) and those that programs wait for without room. Those that the thread makes
  // meanwhile are given up when they come, unless a program waits.
  void leave(const AgentNic& nic);
  void leave();

  std::size_t ready(const AgentNic& nic) const;

 private:
  // Oldest first.
  struct Waiting {
    AgentNic* nic;
    uid_t user;
    Made made;
    std::uint64_t until;
    std::shared_ptr<std::atomic<bool>> in_vain;  // nobody waits for the port any more; null: there is no room for it yet
  };
  struct Stock {
    AgentNic* nic = nullptr;
    std::vector<std::unique_ptr<AgentPort>> ready;
    std::vector<std::shared_ptr<std::atomic<bool>>> being_made;  // ahead
    std::uint32_t asked = 0;                                     // since the last look
    std::uint32_t wanted = 0;                                    // ready ones
  };

  std::uint32_t held_back(uid_t user) const;
  std::uint32_t room() const;
  void give(std::list<Waiting>::iterator at, std::unique_ptr<AgentPort> port);
  void refuse(std::list<Waiting>::iterator at, const std::string& why);
  void fill(Stock& stock);
  std::shared_ptr<std::atomic<bool>> begin(AgentNic& nic, bool ahead);
  void on_made(AgentNic& nic, bool ahead, std::unique_ptr<AgentPort> port, const std::string& why);
  void discard(std::unique_ptr<AgentPort> port);
  void shrink(Stock& stock, std::size_t most);

  const GrantPolicy& policy_;
  Worker& makes_;
  Worker& ends_;
  const std::uint32_t& ports_;
  const Fits fits_;
  std::list<Waiting> waiting_;
  std::unordered_map<const AgentNic*, Stock> stocks_;
  static constexpr std::uint64_t kNever = ~std::uint64_t{0};
  std::uint64_t next_look_ = kNever, next_fill_ = kNever;
};

}  // namespace viaduct

#endif
