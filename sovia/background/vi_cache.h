// Cached VIs: VIs that are connected to a peer process while no TCP connection uses them. When the lane of a connection
// has ended in good order, both ends keep its VI, with its memory and its receives (PARK, packet.h). The next
// connection between the two processes need not make one: the end that connects takes a VI from the VI cache, and
// WAKEUP tells the other end which connection it is for. From there on all is as with a new VI: each agent vouches for
// its end of the new connection, and each end has the other's agent confirm it. So a cached VI grants no rights.
//
// For the background thread alone.
#ifndef VIADUCT_SOVIA_BACKGROUND_VI_CACHE_H
#define VIADUCT_SOVIA_BACKGROUND_VI_CACHE_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sovia/background/requests.h"
#include "sovia/lane/engine.h"
#include "sovia/lane/packet.h"
#include "sovia/socket/lane_endpoint.h"

namespace viaduct::sovia::background {

class CachedVi final : public LaneOwner {
 public:
  // Takes the VI of a lane that has parked.
  explicit CachedVi(LaneEndpoint& end) VIADUCT_REQUIRES(engine::g_turn);

  void arrived(const ProcessNic::Arrival& arrival) override VIADUCT_REQUIRES(engine::g_turn);
  void transport_failed() override {}  // the result of post_receive() tells

  // Whether nothing of the last connection is on its way any more, in either direction.
  bool is_ready();
  bool is_lost() const { return lost_.load(); }
  // The peer has taken the VI for a connection.
  bool is_offered() const { return offered_.load(); }
  bool is_offered_for(const Flow& flow) const;
  // Whether the VI may lead to the peer process of the task's connection.
  bool leads_to_peer_of(const Task& task) const;
  // Whether the VI leads to the host of this way, as the peer's address may be another host's by now.
  bool leads_to(const Way& way) const;
  // Passes the packets that came for the connection on to its lane, which has the VI by now.
  void pass_on(LaneOwner& to) VIADUCT_REQUIRES(engine::g_turn);
  void trim();

  LaneVi& vi;
  const Role role;
  const std::uint64_t since;

 private:
  const FlowEnd peer_;
  std::uint8_t host_[6];
  std::size_t outstanding_;
  std::atomic<bool> peer_parked_, lost_{false}, offered_{false};
  bool trimmed_ = false;
  HelloFlow flow_{};
  std::vector<ProcessNic::Arrival> arrivals_ VIADUCT_GUARDED_BY(engine::g_turn);
};

class ViCache {
 public:
  static constexpr std::size_t kMost = 64;
  static constexpr std::uint64_t kKeptNs = 10'000'000'000;  // without being used

  bool empty() const { return vis_.empty(); }
  bool has_room() const { return vis_.size() < kMost; }
  // Parks a lane and keeps its VI. False: the lane does not park, and the VI is the caller's.
  bool put(LaneEndpoint& end) VIADUCT_REQUIRES(engine::g_turn);
  // Takes a VI for a connection that this process has made; nullptr: there is none.
  CachedVi* take(const Task& task, const Way& way);
  // Takes the VI that the peer has taken for a connection that this process has accepted.
  CachedVi* take_offered(const Task& task, const Way& way);
  bool is_offered(const Task& task) const;
  // Whether the peer may take one for the task's connection.
  bool may_be_offered(const Task& task) const;
  bool has_offers() const;
  // Frees VIs that are of no use any more. Returns when to do so again.
  std::uint64_t tidy(std::uint64_t now);
  // Frees the oldest VI; false: there is none.
  bool free_oldest();
  void clear();
  // Forgets the VIs: they are the parent's.
  void after_fork_in_child() { vis_.clear(); }

 private:
  static bool is_offered(const CachedVi& vi, const Task& task);
  CachedVi* remove(std::size_t index);
  void free_at(std::size_t index);
  std::vector<CachedVi*> vis_;
};

HelloFlow hello_flow(const Flow& flow);

}  // namespace viaduct::sovia::background

#endif
