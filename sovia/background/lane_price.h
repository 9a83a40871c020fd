// Whether lanes are dearer than the kernel, as a process and those that it forks use them now.
//
// A packet that a thread finds when it looks costs less by a lane. One that ends a thread's sleep costs more: the kernel
// wakes the very thread that reads, while the thread that hears the lanes may have to wake another one. That counts where
// threads wait for a processor; elsewhere a lane's answer comes sooner all the same. A crowd of lanes that all carry packets
// costs more there, too: each has memory of its own, more than caches hold.
//
// A server that forks for each connection has a process for each sleep, which lives too shortly to learn much. So the
// processes of a family, from one exec to the next, learn together. And one of them tries lanes first, as each needs a NIC of
// its own, and has threads and a short slice as long as it has that.
//
// An object is one thread's. Times are CLOCK_MONOTONIC in ns.
#ifndef VIADUCT_SOVIA_BACKGROUND_LANE_PRICE_H
#define VIADUCT_SOVIA_BACKGROUND_LANE_PRICE_H

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <optional>

#include "sovia/process/units.h"

namespace viaduct::sovia {

class LanePrice {
 public:
  static constexpr std::uint64_t kWindowNs = 40 * kMs;
  static constexpr std::uint64_t kBusyNs = 1 * kMs;       // lanes with fewer packets than one in that time cost little
  static constexpr std::uint64_t kSleepPercent = 60;      // of packets that end sleeps, from which on they are dear
  static constexpr std::uint64_t kShortPercent = 50;      // of the time, from which on processors are short
  static constexpr std::uint64_t kCrowd = 100;            // lanes of a process, from which on they may be dear
  static constexpr std::uint64_t kCrowdPercent = 75;      // as kShortPercent, for a crowd
  static constexpr std::uint64_t kSleepsByAgent = 12;     // for one of the program's: packets end sleeps of agents, too
  static constexpr std::uint64_t kFirstNs = 8'000 * kMs;  // for which the kernel is used first, doubled each time
  static constexpr std::uint64_t kMostNs = 512'000 * kMs;
  static constexpr std::uint64_t kPricedNs = 300 * kMs;   // after which the price of a first lane is known
  static constexpr std::uint64_t kTryNs = 1'300 * kMs;    // for a NIC, and a peer that does not answer; doubled each time
  static constexpr unsigned kMostTryDoublings = 2;

  // Of one process, since it began.
  struct Counts {
    std::uint64_t packets = 0;  // that have come by lanes
    std::uint64_t sleeps = 0;   // of threads that waited for lanes
    std::uint64_t lanes = 0;    // that there are now
    bool by_agent = false;      // packets pass the agent
    bool asks = false;          // for one more: the lanes may be too new to have carried packets
  };

  // The processes' common knowledge. All zeros: nothing. Each value may be wrong, as any of them can write it.
  struct Family {
    std::atomic<std::uint64_t> packets{0}, sleeps{0};
    // The window began then, with so many. The process that ends it changes `since` first, then alone the others.
    std::atomic<std::uint64_t> since{0}, packets_before{0}, sleeps_before{0};
    std::atomic<std::uint64_t> waited_before{0};  // for processors; 0: not known
    std::atomic<std::uint64_t> until{0}, kernel_ns{0};
    std::atomic<std::uint64_t> opened{0};  // when the first lane was open; 0: there was none, or lanes have been dear since
    std::atomic<std::uint64_t> next_try{0};
    std::atomic<unsigned> tries{0};

    bool is_dear(std::uint64_t now) const {
      const std::uint64_t dear_until = until;
      return now < dear_until && dear_until - now <= kMostNs;
    }
    // Whether a process that has no NIC yet may open one. Where each connection has a process, one of them finds out for all
    // whether peers have lanes, and then what these cost.
    bool may_begin(std::uint64_t now) {
      if (is_dear(now)) return false;
      if (const std::uint64_t at = opened; at != 0) return now - at >= kPricedNs;
      std::uint64_t at = next_try;
      const std::uint64_t ns = kTryNs << std::min(tries.load(), kMostTryDoublings);
      if ((now < at && at - now <= kFirstNs) || !next_try.compare_exchange_strong(at, now + ns)) return false;
      ++tries;
      return true;
    }
    void lane_opened(std::uint64_t now) {
      std::uint64_t never = 0;
      if (opened.compare_exchange_strong(never, now)) tries = 0;
    }
    // A peer has found lanes dear, as others of the service may.
    void peer_left(std::uint64_t now, std::uint64_t ns) {
      next_try = now + std::min(ns, kFirstNs);
      opened = 0;
    }
  };

  explicit LanePrice(Family& family) : family_(family) {}

  // To be called now and then while there are lanes. `waited()`: for how long threads of this host have waited for a
  // processor, in ns, or nothing if that is not known; asked only where it matters.
  template <class Waited>
  void look(const Counts& counts, std::uint64_t now, Waited&& waited) {
    const std::uint64_t packets = family_.packets += counts.packets - told_.packets;
    const std::uint64_t sleeps = family_.sleeps += (counts.sleeps - told_.sleeps) * (counts.by_agent ? kSleepsByAgent : 1);
    told_ = counts;
    std::uint64_t since = family_.since;
    const std::uint64_t passed = now - since;
    if (passed < kWindowNs || !family_.since.compare_exchange_strong(since, now)) return;
    const std::uint64_t more_packets = packets - family_.packets_before.exchange(packets);
    const std::uint64_t more_sleeps = sleeps - family_.sleeps_before.exchange(sleeps);
    const bool wakes = more_packets * kBusyNs >= passed && more_sleeps * 100 >= more_packets * kSleepPercent;
    const bool crowd = counts.lanes >= kCrowd && (counts.asks || more_packets >= counts.lanes);
    const bool first = counts.asks && counts.lanes == 0;  // a crowd may follow
    const std::uint64_t waited_now = wakes || crowd || first ? waited().value_or(0) : 0;
    const std::uint64_t waited_before = family_.waited_before.exchange(waited_now);
    const bool is_known = waited_now != 0 && waited_before != 0 && !first;
    if (!is_known || is_dear(now)) return;
    if ((waited_now - waited_before) * 100 >= passed * (wakes ? kShortPercent : kCrowdPercent)) use_kernel(now);
  }

  // Lanes are dear, and the kernel is to be used.
  bool is_dear(std::uint64_t now) const { return family_.is_dear(now); }
  std::uint64_t until() const { return family_.until; }

 private:
  void use_kernel(std::uint64_t now) {
    const std::uint64_t before = family_.until, ns = std::clamp(family_.kernel_ns.load(), kFirstNs, kMostNs);
    const bool again = before != 0 && now - before < ns;  // soon after the last time
    family_.kernel_ns = again ? std::min(2 * ns, kMostNs) : kFirstNs;
    family_.until = now + family_.kernel_ns;
    family_.opened = 0;
  }

  Family& family_;
  Counts told_;
};

}  // namespace viaduct::sovia

#endif
