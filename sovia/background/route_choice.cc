#include "sovia/background/route_choice.h"

#include <algorithm>
#include <utility>

namespace viaduct::sovia {
namespace {

// Lanes stay if they move so much of what the kernel moves: two windows of the same work differ by that.
constexpr std::uint64_t kLanePercent = 97;
// While half of the connections go by the kernel, a turn of an event loop pays for both ways: the others get lanes too if
// these move so much.
constexpr std::uint64_t kMixedPercent = 85;
// Lanes are still warming up, and the window does not count, if they move so much of what they moved in the best one before.
constexpr std::uint64_t kRisePercent = 125;
// Lanes that move less than so much of it are compared with the kernel again.
constexpr std::uint64_t kWatchedPercent = 90;
// A trial that ends lanes costs their opening, and may take so much of the time.
constexpr std::uint64_t kTrialsCostAtMost = 100;
constexpr std::uint64_t kLeavingNs = 50'000'000;  // for both ends to leave their lanes

}  // namespace

void RouteChoice::found(RouteMemory::Route route, std::uint64_t until) {
  finding_ = {.route = route, .until = until, .wait_ns = wait_ns_};
}

RouteMemory::Finding RouteChoice::take_finding() { return std::exchange(finding_, {}); }

// Of the window that ends now.
double RouteChoice::rate(const View& view, std::uint64_t now) const {
  return static_cast<double>(view.bytes - bytes_) / static_cast<double>(now - since_);
}

void RouteChoice::begin_kernel_window(std::uint64_t now) {
  stage_ = Stage::kKernelWindow;
  measures_ = false;
  asked_ = 1;
  since_ = now;
  due_ = now + kSettleNs;
}

void RouteChoice::stay_with_kernel(std::uint64_t now) {
  stage_ = Stage::kKernel;
  kernel_until_ = due_ = now + wait_ns_;
  wait_ns_ = std::min(2 * wait_ns_, kMostDoubtNs);
}

RouteChoice::Answer RouteChoice::asked(const Ask& ask, std::uint64_t now) {
  switch (stage_) {
    case Stage::kUnknown:
      if (!ask.doubtful && !ask.remembered) {
        if (due_ == kNever) {
          measures_ = false;
          due_ = now + kSettleNs;
        }
        return Answer::kOpen;
      }
      remembered_ = ask.remembered;
      begin_kernel_window(now);
      return Answer::kLater;
    case Stage::kKernelWindow:
      ++asked_;
      return Answer::kLater;
    case Stage::kKernel:
      if (now < kernel_until_) return Answer::kRefuse;
      begin_kernel_window(now);
      return Answer::kLater;
    default:
      return includes(ask.mark) ? Answer::kOpen : Answer::kLater;
  }
}

void RouteChoice::peer_left(std::uint64_t ns, std::uint64_t now) {
  if (stage_ == Stage::kKernel && now < kernel_until_) return;
  const bool in_trial = stage_ == Stage::kOpening || stage_ == Stage::kLaneWindow || stage_ == Stage::kLanes;
  if (in_trial && ns >= kDoubtNs / 2) found(RouteMemory::Route::kKernel, now + kRememberWaits * kDoubtNs);
  stage_ = Stage::kKernel;
  kernel_until_ = due_ = now + std::min(ns, kMostDoubtNs);
}

RouteChoice::Step RouteChoice::look(const View& view, std::uint64_t now) {
  switch (stage_) {
    case Stage::kUnknown:
      return look_at_lone_lane(view, now);
    case Stage::kKernelWindow:
      return end_kernel_window(view, now);
    case Stage::kOpening:
      return wait_for_lanes(view, now);
    case Stage::kLaneWindow:
      return end_lane_window(view, now);
    case Stage::kLanes:
      return compare_again(view, now);
    case Stage::kKernel:
      if (now < due_) return Step::kNone;
      due_ = kNever;
      return Step::kAskAgain;
  }
  return Step::kNone;
}

RouteChoice::Step RouteChoice::end_kernel_window(const View& view, std::uint64_t now) {
  if (now < due_) return Step::kNone;
  if (!measures_) {
    measures_ = true;
    windows_ = 0;
    kernel_rate_ = 0;
    begin_window(view, now);
    return Step::kNone;
  }
  if (view.bytes - bytes_ < kBusyBytes) {
    if (now - since_ < kIdleNs) {
      due_ = now + kWindowNs;
      return Step::kNone;
    }
    stage_ = Stage::kUnknown;
    halvings_ = 0;
    due_ = kNever;
    return Step::kAskAgain;
  }
  kernel_rate_ = std::max(kernel_rate_, rate(view, now));
  if (++windows_ < kKernelWindows) {
    begin_window(view, now);
    return Step::kNone;
  }
  load_ = load_with(view.open);
  halvings_ = 0;
  trusts_lanes_ = false;
  if (!has_tried_ && follows(view.found, now)) return Step::kLeave;
  has_tried_ = true;
  while (!trusts_lanes_ && ((asked_ + view.open) >> halvings_) > kFirstLanes) ++halvings_;
  begin_opening(now);
  return Step::kAskAgain;
}

// True: it stays with the kernel.
bool RouteChoice::follows(const RouteMemory::Finding& found, std::uint64_t now) {
  trusts_lanes_ = found.route == RouteMemory::Route::kLanes && now < found.until;
  if (found.route != RouteMemory::Route::kKernel) return false;
  wait_ns_ = std::clamp(found.wait_ns, wait_ns_, kMostDoubtNs);
  if (now >= found.until) return false;
  stage_ = Stage::kKernel;
  kernel_until_ = due_ = std::min(found.until, now + kMostDoubtNs);
  return true;
}

void RouteChoice::begin_opening(std::uint64_t now) {
  stage_ = Stage::kOpening;
  since_ = now;
  coming_ = 0;
  due_ = now + kSettleNs;
}

RouteChoice::Step RouteChoice::wait_for_lanes(const View& view, std::uint64_t now) {
  if (now < due_) return Step::kNone;
  const std::size_t before = coming_;
  coming_ = view.opening + view.open;
  if ((view.opening != 0 || coming_ != before) && now - since_ < kOpeningNs) {
    due_ = now + kSettleNs;
    return Step::kNone;
  }
  if (view.open == 0) {  // none can be had
    stage_ = Stage::kUnknown;
    halvings_ = 0;
    due_ = kNever;
    return Step::kAskAgain;
  }
  opening_ns_ = now - since_;
  lanes_ = view.open;
  if (trusts_lanes_) {
    trusts_lanes_ = false;
    choose_lanes(view, now);
    return Step::kNone;
  }
  stage_ = Stage::kLaneWindow;
  windows_ = 0;
  begin_window(view, now);
  return Step::kNone;
}

void RouteChoice::begin_window(const View& view, std::uint64_t now) {
  bytes_ = view.bytes;
  since_ = now;
  due_ = now + kWindowNs;
}

RouteChoice::Step RouteChoice::end_lane_window(const View& view, std::uint64_t now) {
  if (now < due_) return Step::kNone;
  const double lane_rate = rate(view, now);
  const double before = windows_ != 0 ? lane_rate_ : 0;  // of the best window
  const bool rises = windows_ != 0 && lane_rate * 100 >= before * kRisePercent;
  lane_rate_ = std::max(lane_rate, before);
  const auto percent = static_cast<double>(halvings_ == 1 ? kMixedPercent : kLanePercent);
  if (lane_rate * 100 >= kernel_rate_ * percent) {
    if (halvings_ != 0) {
      --halvings_;
      begin_opening(now);
      return Step::kAskAgain;
    }
    found(RouteMemory::Route::kLanes, now + kRememberLanesNs);
    choose_lanes(view, now);
    return Step::kNone;
  }
  const bool far_behind = lane_rate * 2 < kernel_rate_;
  if (rises || ++windows_ < (far_behind ? kFarBehindWindows : kLaneWindows)) {
    begin_window(view, now);
    return Step::kNone;
  }
  const std::uint64_t wait = wait_ns_;
  stay_with_kernel(now);
  found(RouteMemory::Route::kKernel, now + kRememberWaits * wait);
  return Step::kLeave;
}

void RouteChoice::choose_lanes(const View& view, std::uint64_t now) {
  stage_ = Stage::kLanes;
  chosen_at_ = now;
  watch_lanes(view, now);
}

void RouteChoice::watch_lanes(const View& view, std::uint64_t now) {
  begin_window(view, now);
  due_ = now + watch_ns_;
}

// Compares again if there are many more connections, or lanes move less than the kernel did. That may be the programs'
// doing, so it is asked less and less often.
RouteChoice::Step RouteChoice::compare_again(const View& view, std::uint64_t now) {
  if (now < due_) return Step::kNone;
  const bool many = view.open >= 2 * lanes_ && now - chosen_at_ >= kTrialsCostAtMost * opening_ns_;
  if (!many) {
    const double lane_rate = rate(view, now);
    const bool less = lane_rate * 100 < kernel_rate_ * kWatchedPercent && view.bytes - bytes_ >= kBusyBytes;
    if (!less) {
      watch_lanes(view, now);
      return Step::kNone;
    }
    watch_ns_ = std::min(2 * watch_ns_, kMostDoubtNs);
  }
  return leave_to_compare(now);
}

RouteChoice::Step RouteChoice::look_at_lone_lane(const View& view, std::uint64_t now) {
  if (now < due_) return Step::kNone;
  if (view.open == 0) {
    due_ = view.opening != 0 ? now + kSettleNs : kNever;
    return Step::kNone;
  }
  const std::uint64_t window = now - since_;
  if (measures_ && view.by_agent && rate(view, now) * static_cast<double>(kLoneNs) >= static_cast<double>(kBusyBytes)) return leave_to_compare(now);
  const std::uint64_t next = measures_ ? std::min(2 * window, kDoubtNs) : kLoneNs;
  measures_ = true;
  begin_window(view, now);
  due_ = now + next;
  return Step::kNone;
}

RouteChoice::Step RouteChoice::leave_to_compare(std::uint64_t now) {
  stage_ = Stage::kKernel;
  kernel_until_ = due_ = now + kLeavingNs;
  return Step::kLeave;
}

}  // namespace viaduct::sovia
