// The simulation: whole worlds of hosts, agents' stacks, programs and sockets' lanes, one for each
// seed, with everything that can go wrong, and an oracle that looks after every step.
//
//   simulation                              kept regressions, then the seeds that ./check has time for
//   simulation --seeds A-B [--workload W]
//   simulation --seed N --workload W [--less WHAT] --verbose
//
// Says "ok: ..." for each workload, or what is wrong and how to see it again.
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/sim/sim_capture.h"
#include "tests/sim/world/failure.h"
#include "tests/sim/world/less.h"
#include "tests/sim/world/world.h"

namespace viaduct::sim {
namespace {

constexpr unsigned kMostSeconds = 20;  // of processor time for one seed

// Seeds that once failed.
struct Kept {
  Workload workload;
  std::uint64_t seed;
};
constexpr Kept kKept[] = {
#include "tests/sim/regressions.inc"
};

struct Totals {
  std::uint64_t seeds = 0, virtual_ns = 0, connections = 0;
  SimCounters frames{};
  Tally tally{};
  double seconds = 0;
};

// Of this process, and of those for single seeds.
double seconds_of_processor() {
  double seconds = 0;
  for (const int who : {RUSAGE_SELF, RUSAGE_CHILDREN}) {
    rusage used{};
    getrusage(who, &used);
    for (const timeval& part : {used.ru_utime, used.ru_stime}) {
      seconds += static_cast<double>(part.tv_sec) + static_cast<double>(part.tv_usec) / 1e6;
    }
  }
  return seconds;
}

// A world's part of the totals.
struct Outcome {
  std::uint64_t trace = 0, virtual_ns = 0, connections = 0;
  SimCounters frames{};
  Tally tally{};
};

Outcome run_here(Workload workload, std::uint64_t seed) {
  begin_seed(seed, name_of(workload), kMostSeconds);
  Simulation world(Plan(seed, workload, current.less));
  world.run();
  const Outcome out{world.network.trace_hash(), world.busy_ns(), world.connections(), world.network.counters(),
                    world.tally()};
  if (verbose) {
    std::printf("seed %llu: %.3f s, trace %016llx\n", static_cast<unsigned long long>(seed),
                static_cast<double>(out.virtual_ns) / 1e9, static_cast<unsigned long long>(out.trace));
  }
  return out;
}

bool runs_apart(Workload workload) {
  return workload == Workload::kLibrary && std::getenv(SimCapture::kVariable) == nullptr;
}

// In a process of its own: libvipl remembers things from one world to the next, and a seed is to be the same run
// whatever ran before. Ends this process as well if the seed fails.
Outcome run_apart(Workload workload, std::uint64_t seed) {
  int ends[2];
  if (pipe(ends) != 0) fail("no pipe");
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const Outcome out = run_here(workload, seed);
    std::fflush(stdout);
    _exit(write(ends[1], &out, sizeof out) == sizeof out ? 0 : 1);
  }
  close(ends[1]);
  Outcome out;
  const bool whole = child > 0 && read(ends[0], &out, sizeof out) == sizeof out;
  close(ends[0]);
  int status = 0;
  if (child < 0 || waitpid(child, &status, 0) != child || status != 0 || !whole) _exit(1);
  return out;
}

// Returns the trace's hash.
std::uint64_t run(Workload workload, std::uint64_t seed, Totals& totals) {
  const Outcome world = runs_apart(workload) ? run_apart(workload, seed) : run_here(workload, seed);
  ++totals.seeds;
  totals.virtual_ns += world.virtual_ns;
  totals.connections += world.connections;
  const SimCounters& frames = world.frames;
  totals.frames.sent += frames.sent;
  totals.frames.lost_fault += frames.sent + frames.duplicated + frames.injected - frames.delivered;
  totals.frames.duplicated += frames.duplicated;
  totals.frames.reordered += frames.reordered;
  totals.frames.corrupted += frames.corrupted;
  totals.frames.injected += frames.injected;
  totals.frames.by_train += frames.by_train;
  totals.tally += world.tally;
  return world.trace;
}

bool workload_of(const char* name, Workload& out) {
  for (int w = 0; w < static_cast<int>(Workload::kCount); ++w) {
    out = static_cast<Workload>(w);
    if (std::strcmp(name, name_of(out)) == 0) return true;
  }
  return false;
}

int usage(const char* program) {
  std::fprintf(
      stderr, "usage: %s [--seed N | --seeds A-B] [--workload W] [--less WHAT] [--verbose]\nworkloads:", program);
  for (int w = 0; w < static_cast<int>(Workload::kCount); ++w) {
    std::fprintf(stderr, " %s", name_of(static_cast<Workload>(w)));
  }
  std::fprintf(stderr, "\nless: %s\n", kLessUsage);
  return 2;
}

// Seeds are dealt out to the workloads by turns; with one workload all are for it.
void run_all(std::uint64_t first, std::uint64_t last, const Workload* only) {
  constexpr auto kWorkloads = static_cast<std::uint64_t>(Workload::kCount);
  Totals totals[kWorkloads + 1];
  Totals& all = totals[kWorkloads];
  // Those that run apart come first: a process that has little memory forks quickly.
  for (const bool apart : {true, false}) {
    for (std::uint64_t seed = first; seed <= last; ++seed) {
      const auto workload = only != nullptr ? *only : static_cast<Workload>(seed % kWorkloads);
      if (runs_apart(workload) != apart) continue;
      Totals& its = totals[static_cast<std::size_t>(workload)];
      const double from = seconds_of_processor();
      run(workload, seed, its);
      its.seconds += seconds_of_processor() - from;
    }
  }
  for (std::uint64_t w = 0; w < kWorkloads; ++w) {
    const Totals& its = totals[w];
    all.seeds += its.seeds;
    all.virtual_ns += its.virtual_ns;
    all.connections += its.connections;
    all.seconds += its.seconds;
    all.frames.sent += its.frames.sent;
    all.frames.lost_fault += its.frames.lost_fault;
    all.frames.duplicated += its.frames.duplicated;
    all.frames.reordered += its.frames.reordered;
    all.frames.corrupted += its.frames.corrupted;
    all.frames.injected += its.frames.injected;
    all.frames.by_train += its.frames.by_train;
    all.tally += its.tally;
  }
  const auto simulated = [](const Totals& t) { return static_cast<double>(t.virtual_ns) / 1e9; };
  for (std::uint64_t w = 0; w < kWorkloads; ++w) {
    if (totals[w].seeds == 0) continue;
    std::printf("ok: %s: %llu seeds, %.0f simulated seconds, %.2f s of processor time\n",
                name_of(static_cast<Workload>(w)), static_cast<unsigned long long>(totals[w].seeds),
                simulated(totals[w]), totals[w].seconds);
  }
  const auto number = [](std::uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "%llu connections asked for; %llu frames sent: %llu lost, %llu duplicated, %llu "
      "reordered, %llu corrupted; %llu forged or replayed\n",
      number(all.connections), number(all.frames.sent), number(all.frames.lost_fault),
      number(all.frames.duplicated), number(all.frames.reordered), number(all.frames.corrupted),
      number(all.frames.injected));
  const Tally& tally = all.tally;
  std::printf("%llu frames by train, %llu by rings; %llu agents died, %llu programs were adopted, %llu programs died; "
              "%llu outages and %llu stops of a second and more\n",
              number(all.frames.by_train), number(tally.by_ring), number(tally.agents_died), number(tally.adoptions),
              number(tally.programs_died), number(tally.outages), number(tally.stops));
  std::printf("%llu seeds, %.0f simulated seconds in %.1f s: %.0f an hour\n",
              static_cast<unsigned long long>(all.seeds), simulated(all), all.seconds,
              simulated(all) / all.seconds * 3600);
}

// Memory that a world gives back is the next world's: fresh pages are expensive.
void keep_memory() {
  constexpr int kMost = 1 << 30;
  mallopt(M_MMAP_THRESHOLD, kMost);
  mallopt(M_TRIM_THRESHOLD, kMost);
}

int main_of(int argc, char** argv) {
  keep_memory();
  current.program = argv[0];
  // So that the library looks for no other: the agent that it connects to is the world's.
  setenv(control::kSocketVariable, control::kAbstractSocket, 1);
  std::uint64_t first = 1, last = 2000;
  Workload workload{};
  bool one_workload = false, given = false;
  for (int i = 1; i < argc; ++i) {
    const std::string option = argv[i];
    char* rest = nullptr;
    if (option == "--verbose") {
      verbose = true;
    } else if (i + 1 < argc && (option == "--seed" || option == "--seeds")) {
      first = last = std::strtoull(argv[++i], &rest, 10);
      if (*rest == '-') last = std::strtoull(rest + 1, nullptr, 10);
      given = true;
    } else if (i + 1 < argc && option == "--less") {
      if (!read_less(argv[++i], current.less)) return usage(argv[0]);
    } else if (i + 1 < argc && option == "--workload") {
      if (!workload_of(argv[++i], workload)) return usage(argv[0]);
      one_workload = true;
    } else {
      return usage(argv[0]);
    }
  }
  catch_crashes();
  if (!given) {
    Totals kept;
    for (const Kept& one : kKept) run(one.workload, one.seed, kept);
    std::printf("ok: %llu kept regressions\n", static_cast<unsigned long long>(kept.seeds));
    for (int w = 0; w < static_cast<int>(Workload::kCount); ++w) {
      const auto any = static_cast<Workload>(w);
      if (run(any, 1, kept) != run(any, 1, kept)) fail("the same seed was another run");
    }
    std::printf("ok: the same seed is the same run\n");
  }
  run_all(first, last, one_workload ? &workload : nullptr);
  return 0;
}

}  // namespace
}  // namespace viaduct::sim

int main(int argc, char** argv) { return viaduct::sim::main_of(argc, argv); }
