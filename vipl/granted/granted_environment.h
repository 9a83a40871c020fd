// What a granted stack asks of the world around it: see Environment in stack.h for what the
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

#include "kagent/contract/charged.h"
#include "kagent/contract/random_pool.h"
#include "kagent/contract/session_layout.h"
#include "xdp/port.h"

namespace viaduct {

namespace vipl {
class Company;
class Pollers;
}

class GrantedEnvironment {
 public:
  // `desk`: the session that the program has with the agent's stack. `bell`: the agent's, an event
  // descriptor. `watch`: what wakes the thread of the program that sleeps on the port. `pollers`:
  // its threads that sleep in poll(). `company`: the processes that have attached.
  struct Watch {
    std::atomic<std::uint64_t> asleep_until{0};  // 0: nobody sleeps
    int poke = -1;                               // event descriptor
  };
  void attach(const layout::View& desk, int bell, Watch& watch, vipl::Pollers& pollers,
              const vipl::Company& company) {
    desk_ = desk, bell_ = bell, watch_ = &watch, pollers_ = &pollers, company_ = &company;
  }

  // Program 0 is this process.
  bool read_program(std::uint32_t program, std::span<const iovec> remote,
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
  void chime(std::uint32_t program);
  std::uint64_t random();
  // Its tables are the program's alone.
  bool charge(std::uint32_t, Charged, std::int64_t) { return true; }

  // Names and claims are the agent's business: a granted stack is never asked for one.
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

  // Notices: what the program waits for, for the agent to see. kNone when all are in use.
  std::uint32_t put_up(const layout::Address& local, bool peer);
  void take_down(std::uint32_t notice);

 private:
  layout::View desk_;
  int bell_ = -1;
  Watch* watch_ = nullptr;
  vipl::Pollers* pollers_ = nullptr;
  const vipl::Company* company_ = nullptr;
  RandomPool numbers_;
};

}  // namespace viaduct

#endif
