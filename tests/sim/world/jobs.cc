// Which jobs a workload has, and how large they are.
#include <algorithm>

#include "tests/sim/world/lane_job.h"
#include "tests/sim/world/library_job.h"
#include "tests/sim/world/pattern.h"
#include "tests/sim/world/rdma_job.h"
#include "tests/sim/world/stream_job.h"
#include "tests/sim/world/world.h"

namespace viaduct::sim {
namespace {

// Connections are many, and wait for each other's VIs.
constexpr std::uint64_t kLongestPauseInStorm = 100 * kMsec;

std::uint16_t any_level(Random& random) {
  const std::uint64_t draw = random.below(5);
  return draw == 0  ? std::uint16_t{vip::kUnreliable}
         : draw < 3 ? std::uint16_t{vip::kReliableDelivery}
                    : std::uint16_t{vip::kReliableReception};
}

StreamOptions draw_stream(Simulation& world, unsigned most) {
  Random& random = world.random;
  StreamOptions options;
  options.job = static_cast<std::uint32_t>(world.jobs.size());
  options.level = any_level(random);
  for (unsigned& quota : options.quota) {
    quota = 1 + static_cast<unsigned>(random.below(most)) / world.plan.less.messages;
  }
  options.numbered = options.level == vip::kUnreliable || random.chance(0.5);
  options.window = static_cast<unsigned>(random.magnitude(1, 32));
  // Without retransmission a burst of frames that no queue has room for would never get through.
  const bool large = options.level != vip::kUnreliable && random.chance(0.2);
  options.largest = static_cast<std::uint32_t>(large ? random.magnitude(4000, 60'000)
                                                     : random.magnitude(64, 6000));
  // More than a ring has room for.
  if (world.plan.one_host && options.level != vip::kUnreliable && random.chance(0.4)) {
    options.largest = 60'000;
    options.window = 32;
    // Where frames are lost and late, so much data would take longer than a world has.
    options.all_largest = world.plan.network.latency_ns < kMsec && mix(world.plan.seed, options.job) % 2 == 0;
  }
  if (random.chance(0.3)) options.churn = 0.02;
  if (world.plan.span != 0 && random.chance(0.8)) {
    const unsigned quota = std::max(options.quota[0], options.quota[1]);
    options.pause = world.plan.span * options.window / quota;
  }
  return options;
}

void set_answers(Random& random, StreamOptions& options) {
  options.answers = true;
  options.quota[1] = options.quota[0];
  // Else an answer could be lost, and never asked for again.
  options.level = random.chance(0.5) ? vip::kReliableDelivery : vip::kReliableReception;
}

Process& any_process(Simulation& world) {
  return *world.processes[world.random.below(world.processes.size())];
}

void add_stream(Simulation& world, Process& from, Process& to, const StreamOptions& options) {
  if (world.jobs.size() >= world.plan.less.jobs) return;
  world.jobs.push_back(std::make_unique<StreamJob>(world, from, to, options));
}

void add_rdma(Simulation& world, Process& from, Process& to) {
  Random& random = world.random;
  RdmaOptions options;
  options.job = static_cast<std::uint32_t>(world.jobs.size());
  options.level = any_level(random);
  options.blocks = 1 + static_cast<unsigned>(random.below(40)) / world.plan.less.messages;
  options.largest = static_cast<std::uint32_t>(
      random.magnitude(16, options.level == vip::kUnreliable ? 6000 : 50'000));
  options.pause = world.plan.span / options.blocks;
  if (world.jobs.size() >= world.plan.less.jobs) return;
  world.jobs.push_back(std::make_unique<RdmaJob>(world, from, to, options));
}

void add_lane(Simulation& world, Process& a, Process& b) {
  Random& random = world.random;
  LaneJobOptions options;
  options.job = static_cast<std::uint32_t>(world.jobs.size());
  options.level = random.chance(0.8) ? vip::kReliableDelivery : vip::kReliableReception;
  for (const unsigned s : {0u, 1u}) {
    options.lanes[s].window = static_cast<std::uint32_t>(random.magnitude(1, 16));
    options.lanes[s].ack_threshold =
        1 + static_cast<std::uint32_t>(random.below(options.lanes[s].window));
    options.lanes[s].combine = random.chance(0.7);
    options.bytes[s] = std::max<std::uint64_t>(1, random.magnitude(1, 2'000'000) / world.plan.less.messages);
  }
  options.rounds = 1 + static_cast<unsigned>(random.below(3));
  options.pause = world.plan.span / 100 / options.rounds;
  if (world.jobs.size() >= world.plan.less.jobs) return;
  world.jobs.push_back(std::make_unique<LaneJob>(world, a, b, options));
}

}  // namespace

void make_jobs(Simulation& world) {
  if (world.plan.workload == Workload::kLibrary) return make_library(world);
  Random& random = world.random;
  for (unsigned h = 0; h < world.plan.hosts; ++h) {
    const std::uint64_t programs =
        world.plan.workload == Workload::kStorm || world.plan.workload == Workload::kMixed
            ? 1 + random.below(2)
            : 1;
    for (std::uint64_t p = 0; p < programs; ++p) world.add_process(world.plan.one_host ? 0 : h);
  }
  const std::uint64_t count = 1 + random.below(3);
  switch (world.plan.workload) {
    case Workload::kStream:
      for (std::uint64_t n = 0; n < count; ++n) {
        StreamOptions options = draw_stream(world, 200);
        if (random.chance(0.2)) {  // as much as there is room for
          options.level = random.chance(0.5) ? vip::kReliableDelivery : vip::kReliableReception;
          options.window = 32;
          options.largest = 50'000;
          options.pause = options.pause / 8;
        } else if (random.chance(0.1)) {  // once around the rings and further
          options.quota[0] = options.quota[1] = 1 + 1500 / world.plan.less.messages;
          options.window = 32;
          options.largest = 100;
          options.churn = 0;
          options.pause = world.plan.span / 100;
        }
        add_stream(world, *world.processes[n % 2], *world.processes[1 - n % 2], options);
      }
      break;
    case Workload::kExchange:
      for (std::uint64_t n = 0; n < count; ++n) {
        StreamOptions options = draw_stream(world, 150);
        set_answers(random, options);
        add_stream(world, *world.processes[n % 2], *world.processes[1 - n % 2], options);
      }
      break;
    case Workload::kStorm:
      for (std::uint64_t n = 0; n < 4 + 4 * count; ++n) {
        StreamOptions options = draw_stream(world, 12);
        options.window = 1 + static_cast<unsigned>(random.below(2));
        options.largest = 200;
        options.churn = 0.3;
        options.pause = std::min(options.pause, kLongestPauseInStorm);
        add_stream(world, any_process(world), any_process(world), options);
      }
      break;
    case Workload::kManyToOne:
      for (unsigned p = 1; p < world.processes.size(); ++p) {
        StreamOptions options = draw_stream(world, 60);
        if (random.chance(0.7)) options.quota[0] = 0;
        options.churn = 0;
        add_stream(world, *world.processes[p], *world.processes[0], options);
      }
      break;
    case Workload::kRdma:
      for (std::uint64_t n = 0; n < count; ++n) {
        add_rdma(world, *world.processes[n % 2], *world.processes[1 - n % 2]);
      }
      break;
    case Workload::kLanes:
      for (std::uint64_t n = 0; n < count; ++n) {
        add_lane(world, *world.processes[n % 2], *world.processes[1 - n % 2]);
      }
      break;
    case Workload::kMixed:
    default:
      if (random.chance(0.5)) add_rdma(world, any_process(world), any_process(world));
      if (random.chance(0.5)) add_lane(world, *world.processes.front(), *world.processes.back());
      for (std::uint64_t n = 0; n < 1 + count; ++n) {
        StreamOptions options = draw_stream(world, 30);
        if (random.chance(0.5)) set_answers(random, options);
        add_stream(world, any_process(world), any_process(world), options);
      }
      break;
  }
}

}  // namespace viaduct::sim
