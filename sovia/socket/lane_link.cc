#include "sovia/socket/lane_link.h"

namespace viaduct::sovia {
namespace {

using enum LaneStage;
constexpr std::optional<LaneStage> kNever;

// The next stage: a row for each stage, with the events in their order.
constexpr std::optional<LaneStage> kLife[kLaneStages][kLaneEvents] = {
    //           asked    refused  opened  over    forked
    /* none */  {kAsked,  kNone,   kNever, kNever, kNone},
    /* asked */ {kNever,  kNone,   kOpen,  kNever, kNone},
    /* open */  {kNever,  kNever,  kNever, kNone,  kNone},
};

}  // namespace

std::optional<LaneStage> next_stage(LaneStage stage, LaneEvent event) {
  return kLife[static_cast<std::size_t>(stage)][static_cast<std::size_t>(event)];
}

bool LaneLink::on(LaneEvent event) {
  const std::optional<LaneStage> next = next_stage(stage.load(), event);
  if (next) stage.store(*next);
  return next.has_value();
}

}  // namespace viaduct::sovia
