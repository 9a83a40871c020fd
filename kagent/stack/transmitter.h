// Builds frames of messages and sends them, and again those that are lost.
//
// A message's data is read from the program when its frames are built, also when they are built
// again: nothing is copied in between.
//
// Small messages that travel inline and wait behind each other share a frame. Each of them is in flight for itself,
// with the frame's PSN.
#ifndef VIADUCT_KAGENT_STACK_TRANSMITTER_H
#define VIADUCT_KAGENT_STACK_TRANSMITTER_H

#include <cstdint>
#include <span>

#include "kagent/stack/acknowledger.h"
#include "kagent/stack/frames_out.h"
#include "kagent/stack/loss_recovery.h"
#include "kagent/stack/message.h"
#include "kagent/stack/peer_table.h"
#include "kagent/stack/send_credit.h"
#include "kagent/stack/send_queue.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/timers.h"
#include "kagent/stack/pending_disconnect.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

// The outcome of sending frames.
enum class Sent { kAll, kSome, kUnreadable, kGivenUp };

template <class Platform>
class Transmitter : private ViTable, private Timers {
 public:
  Transmitter(const Tables& tables, typename Platform::Port& port,
              typename Platform::Environment& environment, PendingDisconnect& pending_disconnect,
              FramesOut<Platform>& frames_out, Trains<Platform>& trains, SendQueue<Platform>& send_queue,
              Acknowledger<Platform>& acknowledger, SendCredit<Platform>& send_credit,
              LossRecovery<Platform>& loss_recovery, PeerTable<Platform>& peer_table)
      : ViTable(tables), Timers(tables), address_(tables.address), ether_type_(tables.ether_type),
        port_(port), bulk_path_(port.bulk_path()), environment_(environment), pending_disconnect_(pending_disconnect),
        frames_out_(frames_out), trains_(trains), send_queue_(send_queue), acknowledger_(acknowledger),
        send_credit_(send_credit), loss_recovery_(loss_recovery), peer_table_(peer_table) {}

  bool await_read(ViIndex vi);
  inline bool transmit(ViIndex vi, unsigned& sent);

 private:
  [[gnu::noinline]] static bool follows_train(state::Vi& vi);
  [[gnu::noinline]] bool may_begin_train(const state::Vi& vi) const;
  [[gnu::noinline]] bool may_follow(const state::Vi& vi, const Message& message) const;
  inline bool goes_by_train(state::Vi& vi, std::uint32_t payload, std::uint32_t longest);
  inline void submit(state::Vi& vi, std::span<const Frame> frames, std::uint32_t end_psn, bool by_train);
  [[gnu::noinline]] void submit_by_train(state::Vi& vi, std::span<const Frame> frames, std::uint32_t end_psn);
  void submit_packed(ViIndex vi, Frame& frame, std::uint32_t psn, std::size_t bytes, bool ask,
                     bool by_train);
  [[gnu::noinline]] bool send_packed(ViIndex vi, const Message& first, std::uint32_t room,
                                     bool& more);
  [[gnu::noinline]] Sent resend_packed(ViIndex vi, std::uint32_t position, bool ask,
                                       std::uint32_t& failed, std::uint32_t& error);
  inline void note_sent(ViIndex vi, bool asked);
  // Takes the local path if one has come. False: it is taken when all frames under way have arrived.
  [[gnu::noinline]] bool choose_path(ViIndex vi);
  bool may_go_local(const state::Vi& vi) const;
  [[gnu::noinline]] bool asks_for_path(state::Vi& vi, std::uint32_t frames);
  // Room on the local path. kGivenUp: the peer takes nothing, the frame counts as sent and is lost.
  enum class Room { kYes, kNotYet, kGivenUp };
  Room local_room(const state::Vi& vi, std::uint32_t payload, Frame& frame);
  // True if a VI that got kNotYet should try again at once.
  bool await_room(state::Vi& vi);
  [[gnu::always_inline]] inline bool load_next(ViIndex vi, Message& message);
  [[gnu::always_inline]] inline void await_send_room(ViIndex vi);
  inline bool is_patient(ViIndex vi) const;
  [[gnu::always_inline]] inline bool asks(ViIndex vi, const Message& message, std::uint32_t room,
                                          unsigned wanted, bool ends, bool more);
  [[gnu::always_inline]] inline void advance(ViIndex vi, const Message& message, unsigned n, bool ask, Sent result);
  [[gnu::always_inline]] inline bool read_data(ViIndex vi, const Message& message, std::uint32_t first,
                                               std::uint32_t first_psn, std::span<const Frame> frames);
  [[gnu::always_inline]] inline void write_headers(state::Vi& vi, const Message& message, std::uint32_t first,
                                                   std::uint32_t first_psn, bool ask, bool by_train, std::span<Frame> frames);
  struct Head;
  bool may_send_in_place(const state::Vi& vi, const Message& message) const;
  unsigned send_in_place(ViIndex vi, const Message& message, std::uint32_t first, std::uint32_t first_psn, unsigned count,
                         bool ask);
  void note_train(state::Vi& vi, std::uint32_t end_psn, std::uint32_t count);
  Sent send_frames(ViIndex vi, const Message& message, std::uint32_t first_frame,
                   std::uint32_t first_psn, unsigned count, bool ask, bool by_train, unsigned& sent);
  // A frame to be sent again: the slot of its work request or the response, and how that was sent.
  struct Lost {
    std::uint32_t name, first_psn, length, payload;
    bool packed;  // it shares its frame with others
  };
  bool find_lost(ViIndex vi, std::uint32_t psn, std::uint32_t& position, Lost& lost);
  Sent resend_one(ViIndex vi, std::uint32_t psn, const Lost& lost, std::uint32_t& error);
  bool retransmit(ViIndex vi, unsigned& sent);

  MacAddress address_;
  std::uint16_t ether_type_;
  typename Platform::Port& port_;
  typename Platform::BulkPath& bulk_path_;
  typename Platform::Environment& environment_;
  PendingDisconnect& pending_disconnect_;
  FramesOut<Platform>& frames_out_;
  Trains<Platform>& trains_;
  SendQueue<Platform>& send_queue_;
  Acknowledger<Platform>& acknowledger_;
  SendCredit<Platform>& send_credit_;
  LossRecovery<Platform>& loss_recovery_;
  PeerTable<Platform>& peer_table_;
};

}  // namespace viaduct

#endif
