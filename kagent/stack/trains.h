// The way to a peer by train (xdp/train/train_socket.h): told, tried, used, left.
//
//   a long message waits --> PATH tell ------------------------> learns where we are
//                    learns where it is <----------- PATH told
//            PATH try, by train, as long as can be -------------> (a firewall, or not)
//                    used from now on <------------ PATH tried
//
// All but the try go by express. A step that is not answered is begun anew with a later long message, after a pause
// that grows. A peer of an older version answers nothing.
//
// The second timeout of frames that went by train, if none has come in between, ends the use of trains; on Unreliable
// Delivery, where no frame is sent again, a silence that is longer than a busy peer's. If an acknowledgement shows later
// that the frames have come, the peer's processor was busy, and the way is good; else it has to be tried again.
#ifndef VIADUCT_KAGENT_STACK_TRAINS_H
#define VIADUCT_KAGENT_STACK_TRAINS_H

#include <cstdint>

#include "kagent/stack/frames_out.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

template <class Platform>
class Trains : private ViTable {
 public:
  static constexpr unsigned kSilence = 16;  // waits for credit in vain, in a row: 0.1 s

  Trains(const Tables& tables, typename Platform::Port& port,
         typename Platform::Environment& environment, FramesOut<Platform>& frames_out)
      : ViTable(tables), peers_(tables.peers), host_(tables.addresses.host),
        address_(tables.address), ether_type_(tables.ether_type), port_(port),
        bulk_path_(port.bulk_path()), environment_(environment), frames_out_(frames_out) {}

  bool is_used(const state::Vi& vi) const {
    return peers_[vi.link.peer].train == state::Train::kUsed;
  }
  // As is_used(), for messages sent behind frames that went by train. On Unreliable Delivery a message sent by
  // express would overtake these frames, and they would be lost: there only a long silence ends the use of trains.
  bool is_kept(const state::Vi& vi) const {
    return is_used(vi) || (vi.reliability == vip::kUnreliable && vi.tx.timeouts < kSilence);
  }
  // As is_used(), for a long message that is to be sent; begins to ask for a way by train if that may be worth it.
  bool is_wanted(ViIndex vi) {
    return is_used(vis_[vi]) || (now_ >= peers_[vis_[vi].link.peer].train_due && begin(vi));
  }
  void on_path(ViIndex vi, const wire::Decoded& frame, const Frame& raw);
  // Frames that went by train were not acknowledged in time ...
  void set_aside(ViIndex vi);
  // ... but have arrived, and were sent only once.
  void take_up(ViIndex vi);

 private:
  [[gnu::noinline]] bool begin(ViIndex vi);
  void put_off(state::Peer& peer);
  void tell(const state::Vi& vi, wire::PathStep step, std::uint32_t token);
  void try_out(const state::Vi& vi, std::uint32_t token);

  Pool<state::Peer> peers_;
  MacAddress host_;
  MacAddress address_;
  std::uint16_t ether_type_;
  typename Platform::Port& port_;
  typename Platform::BulkPath& bulk_path_;
  typename Platform::Environment& environment_;
  FramesOut<Platform>& frames_out_;
};

}  // namespace viaduct

#endif
