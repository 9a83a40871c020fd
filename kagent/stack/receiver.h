// Receiving: from data frames to completed receives.
//
// On the reliable levels frames are processed in PSN order; one that comes after a gap stays in its
// port buffer until the gap is filled. On Unreliable Delivery a gap spoils the message it lies in.
//
// Data goes straight from the port's buffer to the program. A message that fits goes into the
// receive's slot, with no system call; other data is collected over a burst and written by one.
//
// Redirected: while a program waits for a message, its data goes where the program wants it, and
// not first to where the receive says. Only for a driver in the program, which calls redirect() and
// unredirect() (stack.h) between two rounds of progress(): the program's memory is at hand, and the
// redirect is in force, or over, when they return.
//
//   kNone --redirect()--> kPending --message complete--> kUsed --unredirect()--> kNone
//                          |  ^ what has come of the message already is moved there
//                          +--unredirect(), message too long, receive used up--> kNone
#ifndef VIADUCT_KAGENT_STACK_RECEIVER_H
#define VIADUCT_KAGENT_STACK_RECEIVER_H

#include <cstdint>
#include <span>

#include "kagent/stack/acknowledger.h"
#include "kagent/stack/completions.h"
#include "kagent/stack/credit_grants.h"
#include "kagent/stack/frames_in.h"
#include "kagent/stack/loss_recovery.h"
#include "kagent/stack/memory_table.h"
#include "kagent/stack/placer.h"
#include "kagent/stack/send_credit.h"
#include "kagent/stack/send_queue.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/target.h"
#include "kagent/stack/pending_disconnect.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

template <class Platform>
class Receiver : private ViTable {
 public:
  Receiver(const Tables& tables, typename Platform::Environment& environment, PendingDisconnect& pending_disconnect,
           FramesIn<Platform>& frames_in, const MemoryTable<Platform>& memory_table,
           Completions<Platform>& completions, SendQueue<Platform>& send_queue,
           CreditGrants<Platform>& credit_grants, Acknowledger<Platform>& acknowledger,
           SendCredit<Platform>& send_credit, LossRecovery<Platform>& loss_recovery,
           Placer<Platform>& placer)
      : ViTable(tables), held_limit_(tables.held_limit), environment_(environment),
        pending_disconnect_(pending_disconnect), held_frames_(tables.held_frames), frames_in_(frames_in),
        memory_table_(memory_table), completions_(completions), send_queue_(send_queue),
        credit_grants_(credit_grants), acknowledger_(acknowledger), send_credit_(send_credit),
        loss_recovery_(loss_recovery), placer_(placer) {}

  static bool receives_in_part(const state::Vi& vi);
  vip::Return redirect(std::uint32_t vi, std::uint32_t generation, const layout::Segment& to);
  vip::Return unredirect(std::uint32_t vi, std::uint32_t generation);
  inline void on_reliable_data(ViIndex vi, const wire::Decoded& frame, const Frame& raw,
                               bool& keep);
  // Takes frames behind `before`, the last one that was taken, as long as each differs from the one before it in nothing but its
  // PSN and offset, as frames in the middle of a message do: all that the full way looks at has been looked at then.
  // Returns how many. `next` came the same way as `before`.
  bool may_run(const Frame& before) const {
    return run_.vi != state::kNone && run_.payload == before.data + kHead && before.length == kHead + run_.bytes;
  }
  unsigned take_run(const Frame& before, std::span<const Frame> next);
  void end_run() { run_.vi = state::kNone; }
  void drop_held(ViIndex vi);
  void finish_read(ViIndex vi, state::InFlight& read);
  void on_unreliable_data(ViIndex vi, const wire::Decoded& frame);
  inline bool load_target(const state::Vi& vi, std::uint32_t slot, std::uint32_t skip,
                          Target& out) const;
  inline bool allowed(const state::Vi& vi, const Target& target, std::uint32_t length) const;
  // Gives a frame's buffer back later: its data may still be on its way to a program.
  void give_back(const Frame& frame) {
    if (frames_in_.full()) [[unlikely]] {
      placer_.flush_placement();
      frames_in_.release_all();
    }
    frames_in_.release_later(frame);
  }

 private:
  [[gnu::noinline, gnu::cold]] static void redirected(const state::Vi& vi, Target& out);
  [[gnu::noinline, gnu::cold]] void begin_redirected(state::Vi& vi, std::uint32_t length,
                                                   Target& target);
  bool move_received(const state::Vi& vi, const Target& from, const Target& to);
  void hold(ViIndex vi, const wire::Decoded& frame, const Frame& raw, bool& keep);
  void drain_held(ViIndex vi);
  inline bool take_in_order(ViIndex vi, const wire::Header& header,
                            std::span<const std::byte> payload);
  inline bool fits(const state::Vi& vi, const wire::Header& header,
                   std::span<const std::byte> payload) const;
  inline bool take_send(ViIndex vi, const wire::Header& header, std::span<const std::byte> payload);
  [[gnu::noinline]] bool take_packed(ViIndex vi, const wire::Header& header,
                                     std::span<const std::byte> payload);
  bool take_rdma_write(ViIndex vi, const wire::Header& header, std::span<const std::byte> payload);
  bool take_read_request(ViIndex vi, const wire::Header& header,
                         std::span<const std::byte> payload);
  bool take_read_response(ViIndex vi, const wire::Header& header,
                          std::span<const std::byte> payload);
  inline void begin_message_in(state::Vi& vi, const wire::Header& header);
  bool refuse(ViIndex vi, std::uint32_t psn, std::uint32_t error, wire::Refusal reason);
  bool refuse_write(ViIndex vi, const wire::Header& header, std::uint32_t error);
  inline bool take_receive(ViIndex vi);
  inline bool descriptor_allowed(const state::Vi& vi, const Target& target) const;
  inline bool begin_receive(ViIndex vi, const wire::Header& header, Target& target);
  inline bool place_inline(ViIndex vi, const wire::Header& header,
                           std::span<const std::byte> payload);
  inline bool end_receive(ViIndex vi, const wire::Header& header, std::uint32_t inline_length);
  bool spoil_receive(ViIndex vi, std::uint32_t psn, std::uint32_t status, wire::Refusal reason);
  Frame& held_frame(ViIndex vi, std::uint32_t psn) {
    return held_frames_[std::size_t{vi} * state::kWindow + psn % state::kWindow];
  }

  std::uint32_t held_limit_;
  typename Platform::Environment& environment_;
  PendingDisconnect& pending_disconnect_;
  Frame* held_frames_;  // by VI and PSN
  FramesIn<Platform>& frames_in_;
  MemoryTable<Platform> memory_table_;
  Completions<Platform>& completions_;
  SendQueue<Platform>& send_queue_;
  CreditGrants<Platform>& credit_grants_;
  Acknowledger<Platform>& acknowledger_;
  SendCredit<Platform>& send_credit_;
  LossRecovery<Platform>& loss_recovery_;
  Placer<Platform>& placer_;
  static constexpr std::size_t kHead = wire::kEthernetBytes + wire::kHeaderBytes;
  // The frame that was taken last, if its message goes on behind it.
  struct Run {
    ViIndex vi = state::kNone;
    const std::byte* payload = nullptr;
    std::uint32_t bytes = 0;
  };
  Run run_;
  std::uint32_t packed_index_ = 0;  // of the message that is being taken, in its frame
};

}  // namespace viaduct

#endif
