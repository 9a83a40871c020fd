// Wakes programs' threads: collected in a round, done at its end.
#ifndef VIADUCT_KAGENT_STACK_WAKEUPS_H
#define VIADUCT_KAGENT_STACK_WAKEUPS_H

#include <atomic>
#include <cstdint>

#include "kagent/stack/tables.h"

namespace viaduct {

template <class Platform>
class Wakeups {
 public:
  Wakeups(const Tables& tables, typename Platform::Environment& environment)
      : programs_(tables.programs), views_(tables.views), environment_(environment) {}

  inline void wake_later(std::uint32_t program, std::atomic<std::uint32_t>& sleepers);
  inline void flush_wakes();
  void alert(std::uint32_t program);

 private:
  static constexpr std::uint32_t kMaxWakes = 512;
  struct Wake {
    std::atomic<std::uint32_t>* word;
    std::uint32_t program;
  };

  state::Program* programs_;
  layout::View* views_;
  typename Platform::Environment& environment_;
  std::uint32_t wake_count_ = 0;
  Wake wakes_[kMaxWakes];
};

}  // namespace viaduct

#endif
