// The send queues of VIs: posted descriptors become messages, and these complete in order.
//
// A VI with work stands in its session's ready list, and a session with such VIs in the list of those.
// A VI leaves the list when it has nothing more to send or must wait for acknowledgements.
#ifndef VIADUCT_KAGENT_STACK_SEND_QUEUE_H
#define VIADUCT_KAGENT_STACK_SEND_QUEUE_H

#include <cstdint>

#include "kagent/stack/completions.h"
#include "kagent/stack/memory_table.h"
#include "kagent/stack/message.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/trains.h"
#include "kagent/stack/pending_disconnect.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

template <class Platform>
class SendQueue : private ViTable {
 public:
  SendQueue(const Tables& tables, typename Platform::BulkPath& bulk_path, PendingDisconnect& pending_disconnect,
            Trains<Platform>& trains, const MemoryTable<Platform>& memory_table, Completions<Platform>& completions)
      : ViTable(tables), mtu_(tables.mtu), sessions_(tables.sessions), bulk_path_(bulk_path),
        pending_disconnect_(pending_disconnect), trains_(trains), memory_table_(memory_table), completions_(completions) {}

  bool may_pack(const state::Vi& vi, const Message& message) const;
  bool shares_frame(ViIndex vi, std::uint32_t position, std::uint32_t psn);
  inline void make_ready(ViIndex vi);
  inline void list_ready(std::uint32_t session);
  inline std::uint32_t send_room(const state::Vi& vi) const;
  inline bool more_to_send(ViIndex vi) const;
  inline std::uint32_t payload_for(ViIndex vi, const Message& message);
  [[gnu::noinline]] std::uint32_t payload_of_long(ViIndex vi, const Message& message);
  static std::uint32_t even_payload(state::Vi& vi, std::uint32_t bytes, std::uint32_t most);
  [[gnu::noinline]] std::uint32_t current_payload(ViIndex vi);
  [[gnu::always_inline]] inline bool begin_message(ViIndex vi, Message& message);
  bool begin_response(ViIndex vi, Message& message);
  inline std::uint32_t load_current(const state::Vi& vi, std::uint32_t current, Message& out) const;
  inline std::uint32_t load_message(const state::Vi& vi, std::uint32_t slot, Message& out) const;
  std::uint32_t response_with(ViIndex vi, std::uint32_t psn);
  void finish_unreliable(ViIndex vi);
  inline void complete_acknowledged(ViIndex vi);
  void fail_current(ViIndex vi, std::uint32_t slot, std::uint32_t status);
  void note_refusal(ViIndex vi, std::uint32_t psn, std::uint32_t index, std::uint32_t reason);

 private:
  std::uint32_t mtu_;
  state::Session* sessions_;
  typename Platform::BulkPath& bulk_path_;
  PendingDisconnect& pending_disconnect_;
  Trains<Platform>& trains_;
  MemoryTable<Platform> memory_table_;
  Completions<Platform>& completions_;
};

}  // namespace viaduct

#endif
