// The work that a stack does for a session in a round, in work units: a queue entry that is flushed or shown
// costs about one, 10 to 20 ns. A step that can't be divided may overdraw it, and the session pays in the
// rounds that follow.
#ifndef VIADUCT_KAGENT_STACK_BUDGET_H
#define VIADUCT_KAGENT_STACK_BUDGET_H

#include <algorithm>
#include <cstdint>

namespace viaduct {

class Budget {
 public:
  static constexpr std::int32_t kRound = 512;
  static constexpr std::uint32_t kCommand = 16;
  static constexpr std::uint32_t kSystemCall = kRound;  // a claim, memory copied

  // Begins a round for the session whose doorbells are answered; `rest`: the units that its last round has left.
  void begin(std::int32_t rest) { rest_ = std::min(rest + kRound, kRound); }
  void charge(std::uint32_t units) { rest_ -= static_cast<std::int32_t>(units); }
  bool left() const { return rest_ > 0; }
  std::int32_t rest() const { return rest_; }

 private:
  std::int32_t rest_ = 0;
};

}  // namespace viaduct

#endif
