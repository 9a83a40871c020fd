#include "kagent/stack/disconnects.h"

#include "kagent/stack/backoff.h"

namespace viaduct {

using state::Vi;
using state::kBucketMask;
using state::kNone;
using wire::Type;

namespace {

constexpr std::uint32_t kGoodbyeTries = 12;  // more than half a second
constexpr std::uint32_t kLocalTries = 3;

}  // namespace

template <class Platform>
void Disconnects<Platform>::say_goodbye(const Vi& vi, std::uint32_t psn, std::uint32_t reason,
                                        std::uint32_t index) {
  const std::uint32_t g = goodbyes_.take();
  if (g == kNone) {
    // If this frame is lost, the reset that answers the peer's next frame or probe tells it.
    return frames_out_.send_short(Type::kDisconnect, vi.link.peer_address, vi.link.peer_vi,
                                  vi.link.peer_key, psn, vi.rx.receive_next, reason, index,
                                  vi.tx.path == state::Path::kLocal);
  }
  state::Goodbye& goodbye = goodbyes_[g];
  std::uint32_t& bucket = goodbye_buckets_[vi.link.peer_key & kBucketMask];
  goodbye = {vi.link.peer_address, 1,      0,     vi.link.peer_vi, vi.tx.path == state::Path::kLocal, vi.link.peer_key, psn,
             vi.rx.receive_next, reason, index, bucket,     kNone};
  bucket = g;
  send_goodbye(g);
}

template <class Platform>
void Disconnects<Platform>::send_goodbye(std::uint32_t g) {
  state::Goodbye& goodbye = goodbyes_[g];
  // A local path that takes nothing for so long may never take anything again.
  const bool local = goodbye.local != 0 && goodbye.attempts < kLocalTries;
  frames_out_.send_short(Type::kDisconnect, goodbye.address, goodbye.vi, goodbye.key, goodbye.psn,
                         goodbye.ack, goodbye.reason, goodbye.index, local);
  wheel_.arm(goodbye_timer(g), now_ + backoff(goodbye.attempts));
}

template <class Platform>
void Disconnects<Platform>::goodbye_timeout(std::uint32_t g) {
  state::Goodbye& goodbye = goodbyes_[g];
  if (++goodbye.attempts < kGoodbyeTries) return send_goodbye(g);
  std::uint32_t* link = &goodbye_buckets_[goodbye.key & kBucketMask];
  while (*link != g) link = &goodbyes_[*link].bucket_next;
  *link = goodbye.bucket_next;
  goodbye.in_use = 0;
  goodbyes_.give(g);
}

template <class Platform>
void Disconnects<Platform>::on_disconnect_ack(const wire::Decoded& frame) {
  const wire::Header& header = frame.header;
  std::uint32_t* link = &goodbye_buckets_[header.key & kBucketMask];
  for (; *link != kNone; link = &goodbyes_[*link].bucket_next) {
    const std::uint32_t g = *link;
    state::Goodbye& goodbye = goodbyes_[g];
    if (goodbye.key != header.key || goodbye.vi != header.vi || goodbye.address != frame.source) {
      continue;
    }
    wheel_.disarm(goodbye_timer(g));
    *link = goodbye.bucket_next;
    goodbye.in_use = 0;
    goodbyes_.give(g);
    return;
  }
}

// Tells the sender of a frame that the connection it belongs to does not exist (any more).
template <class Platform>
void Disconnects<Platform>::send_reset(const wire::Decoded& offending) {
  if (!frames_out_.may_answer()) return;
  ++root_->counters.resets_sent;
  frames_out_.send_short(Type::kReset, offending.source, offending.header.vi, offending.header.key,
                         0, 0, 0);
}

}  // namespace viaduct
