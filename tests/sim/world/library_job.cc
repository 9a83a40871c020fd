#include "tests/sim/world/library_job.h"

#include <cstdio>

namespace viaduct::sim {

LibraryJob::LibraryJob(Simulation& its_world, LibraryProgram& asking, LibraryProgram& answering,
                       const LibraryOptions& its_options)
    : world(its_world), options(its_options), programs{&asking, &answering} {
  for (const unsigned s : {0u, 1u}) {
    sides[s] = std::make_unique<LibrarySide>(*this, *programs[s], s);
    programs[s]->sides.push_back(sides[s].get());
  }
}

bool LibraryJob::finished() const {
  return sides[0]->batches() >= options.batches && sides[1]->batches() >= options.batches;
}

std::string LibraryJob::text() const {
  char line[256];
  std::snprintf(line, sizeof line,
                "library %u level %u%s%s: %u and %u of %u batches, window %u, up to %u bytes: ",
                options.job, options.level, options.peers ? " peers" : "",
                options.rdma ? " RDMA" : "", sides[0]->batches(), sides[1]->batches(),
                options.batches, options.window, options.largest);
  return line + sides[0]->text() + " and " + sides[1]->text();
}

void make_library(Simulation& world) {
  Random& random = world.random;
  world.library = std::make_unique<Library>(world);
  for (unsigned h = 0; h < world.plan.hosts; ++h) {
    for (std::uint64_t p = 1 + random.below(2); p > 0; --p) {
      world.library->add(h, random.chance(world.plan.granted));
    }
  }
  const auto any = [&]() -> LibraryProgram& {
    return *world.library->programs[random.below(world.library->programs.size())];
  };
  for (std::uint64_t n = 1 + random.below(4); n > 0; --n) {
    LibraryOptions options;
    options.job = static_cast<std::uint32_t>(world.jobs.size());
    const std::uint64_t level = random.below(5);
    options.level = level == 0  ? std::uint16_t{vip::kUnreliable}
                    : level < 3 ? std::uint16_t{vip::kReliableDelivery}
                                : std::uint16_t{vip::kReliableReception};
    options.peers = random.chance(0.3);
    for (LibraryManner& manner : options.manners) {
      manner = static_cast<LibraryManner>(random.below(static_cast<int>(LibraryManner::kCount)));
    }
    options.batches = 1 + static_cast<unsigned>(random.below(16)) / world.plan.less.messages;
    options.window = static_cast<unsigned>(random.magnitude(1, 16));
    const bool large = options.level != vip::kUnreliable && random.chance(0.1);
    options.largest = static_cast<std::uint32_t>(large ? random.magnitude(4000, 60'000)
                                                       : random.magnitude(64, 6000));
    options.rdma = random.chance(0.4);
    if (random.chance(0.5)) options.churn = 0.1;
    if (random.chance(0.8)) options.pause = world.plan.span / options.batches;
    if (world.jobs.size() == world.plan.less.jobs) continue;
    world.jobs.push_back(std::make_unique<LibraryJob>(world, any(), any(), options));
  }
}

}  // namespace viaduct::sim
