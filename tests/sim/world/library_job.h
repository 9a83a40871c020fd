// Two sides that use the real library, and what is known of both.
#ifndef VIADUCT_TESTS_SIM_WORLD_LIBRARY_JOB_H
#define VIADUCT_TESTS_SIM_WORLD_LIBRARY_JOB_H

#include "tests/sim/world/library_side.h"
#include "tests/sim/world/world.h"

namespace viaduct::sim {

class LibraryJob final : public Job {
 public:
  LibraryJob(Simulation& world, LibraryProgram& asking, LibraryProgram& answering,
             const LibraryOptions& options);

  bool step(Process&) override { return false; }
  bool finished() const override;
  std::string text() const override;

  Simulation& world;
  const LibraryOptions options;
  LibraryProgram* const programs[2];
  std::unique_ptr<LibrarySide> sides[2];
};

// The programs and jobs of the workload.
void make_library(Simulation& world);

}  // namespace viaduct::sim

#endif
