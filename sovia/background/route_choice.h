// Whether the connections of one service are better off with lanes or with the kernel: both are tried, and measured.
//
// A service is what a process listens for at a port, or calls at a peer's. One connection with small messages waits for
// its peer most of the time, and a lane makes that shorter: it gets one at once. Where several connections share the
// processor, it depends on the link and the programs. The process then moves bytes
// through the kernel for a window of time, with lanes for another, and keeps to what has moved more. So it does a while
// later for one connection whose packets pass through the agent: where other work wants the processors, the agents'
// waiting for them can take longer than the kernel's way. Long bursts are the kernel's anyway (socket/burst.h).
//
//     unknown --a second connection--> kernel window --> opening --> lane window --> lanes
//        ^  '---- by the agent, a while later ---------^    |   ^------ twice as many ----'   '--> kernel
//        '------------- little to do -----------------------'
//     kernel --when the time is over--> kernel window        lanes --twice as many connections--> kernel window
//
// A service that another process of the same program has tried does not try again for some time: it goes from the kernel
// window to what was found for as many connections.
//
// Of many connections some get lanes first, as opening all takes time: those whose mark ends in zeros. Both ends make the
// same mark of a connection, so they choose the same ones.
//
// Not thread-safe. Times are CLOCK_MONOTONIC in ns.
#ifndef VIADUCT_SOVIA_BACKGROUND_ROUTE_CHOICE_H
#define VIADUCT_SOVIA_BACKGROUND_ROUTE_CHOICE_H

#include <cstddef>
#include <cstdint>

#include "sovia/background/route_memory.h"
#include "sovia/process/clock.h"

namespace viaduct::sovia {

class RouteChoice {
 public:
  enum class Stage : std::uint8_t { kUnknown, kKernelWindow, kOpening, kLaneWindow, kLanes, kKernel };
  // The answer to a connection that asks for a lane.
  enum class Answer : std::uint8_t { kOpen, kLater, kRefuse };
  // The caller's next step.
  enum class Step : std::uint8_t {
    kNone,
    kAskAgain,  // let connections without lanes ask again
    kLeave,     // end all lanes
  };

  // A connection that asks.
  struct Ask {
    bool doubtful = false;    // others of the service are busy too
    bool remembered = false;  // lanes of such a service have lost against the kernel, in another process
    std::uint32_t mark = 0;   // the same at both ends, and evenly spread
  };

  // The process and the service as they are.
  struct View {
    std::uint64_t bytes = 0;   // that the process has moved since its begin, both ways, by kernel and lanes
    std::size_t opening = 0;   // lanes that are not open yet
    std::size_t open = 0;
    bool by_agent = false;     // which passes packets on between the program and the network
    RouteMemory::Finding found{};  // at wants_finding(): by other processes, at this load
  };

  static constexpr std::uint64_t kWindowNs = 20'000'000;
  static constexpr std::size_t kFirstLanes = 32;  // at most, of those that are opened first
  static constexpr unsigned kKernelWindows = 3;  // of which the best one counts
  static constexpr unsigned kLaneWindows = 5;    // likewise; more, as the memory of lanes is new at first
  static constexpr unsigned kFarBehindWindows = 2;  // of lanes that move less than half as much
  static constexpr std::uint64_t kIdleNs = 100'000'000;      // a service that does little in that time needs no trial
  static constexpr std::uint64_t kBusyBytes = 4'096;         // in a window
  static constexpr std::uint64_t kLoneNs = 100'000'000;      // in which a lone lane must be busy to be compared
  static constexpr std::uint64_t kSettleNs = 10'000'000;     // without another lane, before the window
  static constexpr std::uint64_t kOpeningNs = 1'000'000'000; // for lanes to open
  static constexpr std::uint64_t kWatchNs = 500'000'000;     // for which lanes are watched before they are judged again
  static constexpr std::uint64_t kDoubtNs = 8'000'000'000;   // until the kernel is doubted, doubled each time
  static constexpr std::uint64_t kMostDoubtNs = 512'000'000'000;
  // A further process has to open a NIC for a trial, so a finding counts longer for others than for the process itself.
  static constexpr std::uint64_t kRememberWaits = 8;
  static constexpr std::uint64_t kRememberLanesNs = 512'000'000'000;

  Answer asked(const Ask& ask, std::uint64_t now);
  // Whether a connection with this mark is among those that may have lanes now.
  bool includes(std::uint32_t mark) const { return (mark & ((1u << halvings_) - 1)) == 0; }
  // The peer has left the lanes because they are slower, and asks again in `ns`.
  void peer_left(std::uint64_t ns, std::uint64_t now);
  // To be called at due().
  Step look(const View& view, std::uint64_t now);
  // When to look again; kNever: when something happens.
  std::uint64_t due() const { return due_; }
  // For how long the kernel is not doubted after Step::kLeave, from `now` on.
  std::uint64_t kernel_until() const { return kernel_until_; }
  Stage stage() const { return stage_; }
  // Whether a NIC may not be needed after all.
  bool may_need_no_nic() const { return stage_ == Stage::kKernelWindow && remembered_; }
  // Whether the next look() decides on a trial, and asks what is remembered of load_with().
  bool wants_finding() const {
    return stage_ == Stage::kKernelWindow && measures_ && windows_ + 1 == kKernelWindows && !has_tried_;
  }
  unsigned load_with(std::size_t open) const { return RouteMemory::load_of(asked_ + open); }
  unsigned load() const { return load_; }
  // Of the last trial, in bytes a ns.
  double kernel_rate() const { return kernel_rate_; }
  double lane_rate() const { return lane_rate_; }
  std::size_t lanes() const { return lanes_; }
  // The finding since the last call that is worth remembering for load(); kUnknown: there is none.
  RouteMemory::Finding take_finding();

 private:
  double rate(const View& view, std::uint64_t now) const;
  void begin_opening(std::uint64_t now);
  void begin_window(const View& view, std::uint64_t now);
  void begin_kernel_window(std::uint64_t now);
  void stay_with_kernel(std::uint64_t now);
  bool follows(const RouteMemory::Finding& found, std::uint64_t now);
  void choose_lanes(const View& view, std::uint64_t now);
  void found(RouteMemory::Route route, std::uint64_t until);
  Step end_kernel_window(const View& view, std::uint64_t now);
  Step wait_for_lanes(const View& view, std::uint64_t now);
  Step end_lane_window(const View& view, std::uint64_t now);
  void watch_lanes(const View& view, std::uint64_t now);
  Step look_at_lone_lane(const View& view, std::uint64_t now);
  Step compare_again(const View& view, std::uint64_t now);
  Step leave_to_compare(std::uint64_t now);

  Stage stage_ = Stage::kUnknown;
  bool measures_ = false;          // the window has begun
  std::uint64_t due_ = kNever;
  std::uint64_t since_ = 0;        // of the stage, or of its window
  std::uint64_t bytes_ = 0;        // at the window's begin
  double kernel_rate_ = 0, lane_rate_ = 0;  // of the best window, bytes a ns
  std::uint64_t opening_ns_ = 0;   // how long the lanes took to open
  std::size_t asked_ = 0;          // connections that have asked during the kernel's window
  std::size_t coming_ = 0;         // lanes that were there or on their way at the last look
  unsigned halvings_ = 0;          // of the share of connections that get lanes
  unsigned windows_ = 0;           // that have ended
  std::size_t lanes_ = 0;          // that there were when lanes were chosen
  std::uint64_t chosen_at_ = 0;
  std::uint64_t watch_ns_ = kWatchNs;
  std::uint64_t wait_ns_ = kDoubtNs, kernel_until_ = 0;
  unsigned load_ = 0;              // when the trial began
  bool has_tried_ = false;         // itself
  bool remembered_ = false;        // lanes have lost in another process
  bool trusts_lanes_ = false;      // as another process has found them faster
  RouteMemory::Finding finding_{};
};

}  // namespace viaduct::sovia

#endif
