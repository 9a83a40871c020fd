#include "kagent/stack/remains.h"

#include <algorithm>

#include "kagent/stack/tables.h"

namespace viaduct {

using state::kNone;
using state::Vi;

namespace {

// A program that is older than its agent has its state as it was then.
static_assert(layout::kLayoutVersion == 11 && sizeof(state::Root) == 800 && sizeof(state::Peer) == 112 &&
                  sizeof(Vi) == 512 && sizeof(state::Goodbye) == 48,
              "other sizes need another layout version");

// Reads shared memory just once: another process may be writing to it.
template <class T>
T once(const T& shared) {
  return __atomic_load_n(&shared, __ATOMIC_RELAXED);
}

MacAddress once(const MacAddress& shared) {
  MacAddress out;
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = once(shared.data()[i]);
  return out;
}

// Whether the VI's peer has a connection with it: it may have one before this end knows.
bool has_peer(const Vi& vi) {
  const std::uint32_t state = once(vi.state);
  const bool half = once(vi.link.accepting) != 0 || once(vi.link.peer_linked) != 0;
  return once(vi.session) != kNone && (state == vip::kConnected || (state == vip::kConnectPending && half));
}

// Whether something is posted that is in no frame, or only partly in frames, or was about to be posted.
bool has_more_to_send(const Vi& vi, std::uint32_t i, const layout::View& rings) {
  if (once(vi.tx.current_slot) != kNone) return true;
  if (!rings.mapped()) return false;
  if (rings.vi(i).send.more.load(std::memory_order_acquire) == once(vi.generation)) return true;
  const std::uint32_t position = once(vi.tx.send.taken);
  const std::uint64_t word = rings.send_ring(i)[position % layout::kRingEntries].word.load(std::memory_order_acquire);
  return layout::ring_word_is(word, position, once(vi.generation));
}

}  // namespace

std::size_t most_remains(const void* segment, const StackLimits& limits) {
  const auto* base = static_cast<const std::byte*>(segment);
  const auto* root = reinterpret_cast<const state::Root*>(base + Tables::parts(limits).root);
  return std::size_t{std::min(once(root->vis.fresh), limits.vis)} + std::min(once(root->goodbyes.fresh), limits.goodbyes);
}

std::size_t remains(const void* segment, const StackLimits& limits, std::span<Remains> out,
                    const layout::View& rings) {
  const Tables::Parts at = Tables::parts(limits);
  const auto* base = static_cast<const std::byte*>(segment);
  const auto* root = reinterpret_cast<const state::Root*>(base + at.root);
  std::size_t count = 0;
  const auto add = [&](const Remains& one) {
    const bool group = (one.peer[0] & 1) != 0;
    if (!group && one.peer != MacAddress{} && count < out.size()) out[count++] = one;
  };
  const auto* vi = reinterpret_cast<const Vi*>(base + at.vis);
  const std::uint32_t vis = std::min(once(root->vis.fresh), limits.vis);
  for (std::uint32_t i = 0; i < vis; ++i, ++vi) {
    if (!has_peer(*vi)) continue;
    add({once(vi->link.peer_address), once(vi->link.peer_vi), once(vi->link.peer_key),
         once(vi->tx.send_next) + (has_more_to_send(*vi, i, rings) ? 1 : 0), once(vi->rx.receive_next)});
  }
  const auto* goodbye = reinterpret_cast<const state::Goodbye*>(base + at.goodbyes);
  const std::uint32_t goodbyes = std::min(once(root->goodbyes.fresh), limits.goodbyes);
  for (std::uint32_t g = 0; g < goodbyes; ++g, ++goodbye) {
    if (once(goodbye->in_use) == 0) continue;
    add({once(goodbye->address), once(goodbye->vi), once(goodbye->key), once(goodbye->psn),
         once(goodbye->ack)});
  }
  return count;
}

std::optional<Remains> connection_of(const void* segment, const StackLimits& limits,
                                     std::uint32_t i, std::uint64_t key) {
  if (i >= limits.vis) return std::nullopt;
  const auto* base = static_cast<const std::byte*>(segment);
  const Vi& vi = reinterpret_cast<const Vi*>(base + Tables::parts(limits).vis)[i];
  if (!has_peer(vi) || once(vi.link.local_key) != key) return std::nullopt;
  return Remains{once(vi.link.peer_address), once(vi.link.peer_vi), once(vi.link.peer_key),
                 once(vi.tx.send_next), once(vi.rx.receive_next)};
}

std::uint64_t beats_of(const void* segment, const StackLimits& limits) {
  const auto* base = static_cast<const std::byte*>(segment);
  return once(reinterpret_cast<const state::Root*>(base + Tables::parts(limits).root)->beats);
}

}  // namespace viaduct
