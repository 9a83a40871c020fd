#include "sovia/socket/route.h"

namespace viaduct::sovia {
namespace {

using enum Phase;
constexpr std::optional<Phase> kNever;

// The next phase: a row for each phase, with the events in their order.
constexpr std::optional<Phase> kReceivingRoute[kPhases][kRouteEvents] = {
    //                  lane changed  start   start behind   drained  lane ended
    /* kernel */       {kKernel,      kLane,  kDrain,        kNever,  kKernelAgain},
    /* drain */        {kKernel,      kNever, kNever,        kLane,   kKernelAgain},
    /* lane */         {kKernel,      kNever, kNever,        kNever,  kKernelAgain},
    /* kernel again */ {kKernel,      kNever, kNever,        kNever,  kKernelAgain},
};
constexpr std::optional<Phase> kSendingRoute[kPhases][kRouteEvents] = {
    /* kernel */       {kKernel,      kLane,  kNever,        kNever,  kKernelAgain},
    /* drain */        {kNever,       kNever, kNever,        kNever,  kNever},
    /* lane */         {kKernel,      kNever, kNever,        kNever,  kKernelAgain},
    /* kernel again */ {kKernel,      kNever, kNever,        kNever,  kKernelAgain},
};

}  // namespace

std::optional<Phase> next_phase(Direction direction, Phase phase, RouteEvent event) {
  const auto& route = direction == Direction::kReceiving ? kReceivingRoute : kSendingRoute;
  return route[static_cast<std::size_t>(phase)][static_cast<std::size_t>(event)];
}

}  // namespace viaduct::sovia
