// Services that a granted stack needs from the world around it: see Environment in stack.h for what the
// functions mean. The program's memory is the driver's own here.
//
// Declared where the stack can see it; libvipl, which alone has granted stacks, defines it.
#ifndef VIADUCT_VIPL_GRANTED_GRANTED_ENVIRONMENT_H
#define VIADUCT_VIPL_GRANTED_GRANTED_ENVIRONMENT_H

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "kagent/contract/quota.h"
#include "kagent/contract/random_pool.h"
#include "kagent/contract/session_layout.h"
#include "xdp/port.h"

namespace viaduct {

namespace vipl {
class AttachedProcesses;
class Pollers;
}

class GrantedEnvironment {
 public:
  struct Watch {
    std::atomic<std::uint64_t> asleep_until{0};  // 0: no thread sleeps
    int driver_wake = -1;                               // event descriptor
  };
  // `control_session`: the session that the program has with the agent's stack. `agent_wake`: the agent's event
  // descriptor. `watch`: wakes the thread of the program that sleeps on the port. `pollers`: the program's threads
  // that sleep in poll(). `attached_processes`: the processes that have attached.
  void attach(const layout::View& control_session, int agent_wake, Watch& watch, vipl::Pollers& pollers,
              const vipl::AttachedProcesses& attached_processes) {
    control_session_ = control_session, agent_wake_ = agent_wake, watch_ = &watch, pollers_ = &pollers, attached_ = &attached_processes;
  }

  // No data is read late, so readers need not be told apart.
  struct Reader {
    enum class What : std::uint8_t { kFrames, kTakenVi };
    constexpr Reader(What, std::uint32_t, std::uint32_t, std::uint32_t) {}
  };
  // Program 0 is this process.
  bool read_program(std::uint32_t program, const Reader&, std::span<const iovec> remote,
                    std::span<const iovec> local);
  bool write_program(std::uint32_t program, std::span<const iovec> remote,
                     std::span<const iovec> local);
  // Nothing is ever late.
  struct Late {
    std::uint32_t vi, generation;
    std::uint32_t program;
    enum class What : std::uint8_t { kReceive, kRead, kSend } what;
    std::uint32_t slot = 0, status = 0, length = 0, immediate = 0, inline_length = 0;
  };
  static constexpr std::uint32_t late = 0;
  static constexpr bool postponed = false;
  bool is_late(std::uint32_t) { return false; }
  bool is_full(std::uint32_t) { return false; }
  void defer(const Late&) {}
  bool await_read(const Late&) { return false; }
  bool take_due(Late&, bool&) { return false; }

  void wake(std::atomic<std::uint32_t>& word);
  void poll_wake(std::uint32_t program);
  std::uint64_t random();
  // The tables belong to the program alone, so nothing is charged.
  bool charge(std::uint32_t, Quota, std::int64_t) { return true; }

  // Names and claims are the agent's business: a granted stack never asks for one.
  std::optional<MacAddress> look_up(std::string_view) { return std::nullopt; }
  bool is_own_name(std::string_view) { return false; }
  std::string_view own_name() { return {}; }
  Owns owns(std::uint32_t, const Flow&) { return Owns::kUnknown; }

  struct Connection {
    std::uint32_t peer_vi;
    std::uint64_t peer_key;
  };
  std::optional<Connection> stopped(std::uint32_t, std::uint32_t, std::uint64_t) {
    return std::nullopt;
  }

  void introduce(const MacAddress&, const MacAddress&) {}

  // Listeners: what the program waits for, for the agent to see. kNone when all are in use.
  std::uint32_t publish(const layout::Address& local, bool peer);
  void withdraw(std::uint32_t listener);

 private:
  layout::View control_session_;
  int agent_wake_ = -1;
  Watch* watch_ = nullptr;
  vipl::Pollers* pollers_ = nullptr;
  const vipl::AttachedProcesses* attached_ = nullptr;
  RandomPool numbers_;
};

}  // namespace viaduct

#endif
