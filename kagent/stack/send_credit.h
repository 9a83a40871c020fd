// The credit that peers on Unreliable Delivery grant us: credit_grants.h says how it works.
#ifndef VIADUCT_KAGENT_STACK_SEND_CREDIT_H
#define VIADUCT_KAGENT_STACK_SEND_CREDIT_H

#include <cstdint>

#include "kagent/stack/send_queue.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timers.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

template <class Platform>
class SendCredit : private ViTable, private Timers {
 public:
  SendCredit(const Tables& tables, SendQueue<Platform>& send_queue)
      : ViTable(tables), Timers(tables), send_queue_(send_queue) {}

  static inline bool asks_for_credit(state::Vi& vi, std::uint32_t room, std::uint32_t frames);
  inline void take_credit(ViIndex vi, std::uint32_t ack, std::uint16_t window);
  inline void renew_credit(state::Vi& vi);
  void await_credit(ViIndex vi);
  void credit_timeout(ViIndex vi);

 private:
  SendQueue<Platform>& send_queue_;
};

}  // namespace viaduct

#endif
