#include "kagent/stack/send_credit.h"

#include <algorithm>

#include "kagent/stack/message.h"

namespace viaduct {

using state::Vi;

namespace {

constexpr std::uint64_t kCreditWait = 1'000'000;   // ns

constexpr std::uint32_t kWaitDoublings = 3;        // up to 8 ms between two frames

constexpr std::uint64_t kCreditIdle = 50'000'000;  // ns
// After trains the silence must last longer: frames sent by express must not overtake frames that a busy peer has yet
// to take from the train.
constexpr std::uint64_t kTrainIdle = 1'000'000'000;

}  // namespace

// Whether the last of `frames` that are about to be sent asks for credit; `room`: frames that may be sent.
template <class Platform>
bool SendCredit<Platform>::asks_for_credit(Vi& vi, std::uint32_t room, std::uint32_t frames) {
  const std::uint32_t left = room - frames;
  const std::uint32_t next = vi.tx.send_next + frames;
  if (vi.link.credit == 0 || 2 * left > vi.tx.peer_window) return false;
  if (left != 0 && 4 * (next - vi.tx.asked) < vi.tx.peer_window) return false;
  vi.tx.asked = next;
  return true;
}

// The peer has seen all frames before `ack`, or knows them to be lost, and has room for `window` more.
template <class Platform>
void SendCredit<Platform>::take_credit(ViIndex i, std::uint32_t ack, std::uint16_t window) {
  Vi& vi = vis_[i];
  // The acknowledgement is old, or nonsense.
  if (ack - vi.tx.send_una > vi.tx.send_next - vi.tx.send_una) return;
  // Frames of a peer that sends much must not put off the timeout of a question that was lost.
  if (ack == vi.tx.send_una && window == vi.tx.peer_window) return;
  vi.tx.send_una = ack;
  vi.tx.peer_window = window;
  vi.tx.timeouts = 0;
  if (!vi.tx.stalled) return;
  wheel_.disarm(vi_timer(i));
  send_queue_.make_ready(i);
}

// After a silence no frame is under way any more, so the VI returns to its standing credit.
template <class Platform>
void SendCredit<Platform>::renew_credit(Vi& vi) {
  if (vi.tx.path == state::Path::kSameHost) return;  // a change of path needs to know what is under way
  const std::uint64_t idle = has_gone_by_train(vi) ? kTrainIdle : kCreditIdle;
  if (vi.link.credit == 0 || now_ - vi.tx.sent_time <= idle) return;
  vi.tx.send_una = vi.tx.asked = vi.tx.send_next;
  vi.tx.peer_window = std::min(vi.tx.peer_window, vi.link.credit);
}

template <class Platform>
void SendCredit<Platform>::await_credit(ViIndex i) {
  ++root_->counters.credit_stalls;
  const std::uint64_t wait = kCreditWait << std::min<std::uint32_t>(vis_[i].tx.timeouts, kWaitDoublings);
  if (!wheel_.armed(vi_timer(i))) wheel_.arm(vi_timer(i), now_ + wait);
}

template <class Platform>
void SendCredit<Platform>::credit_timeout(ViIndex i) {
  Vi& vi = vis_[i];
  const bool changes_path = vi.tx.path == state::Path::kSameHost;
  if (!vi.tx.stalled || (send_queue_.send_room(vi) != 0 && !changes_path)) return;
  ++root_->counters.credit_timeouts;
  if (vi.tx.timeouts != 0xff) ++vi.tx.timeouts;
  if (send_queue_.send_room(vi) != 0) return send_queue_.make_ready(i);
  // Counts the oldest frame as arrived, or lost.
  if (vi.tx.send_una != vi.tx.send_next) ++vi.tx.send_una;
  vi.tx.peer_window = std::max<std::uint16_t>(vi.tx.peer_window, 1);
  send_queue_.make_ready(i);
}

}  // namespace viaduct
