// sovia-model: random programs of socket calls, over kernel TCP and on SOVIA at once, held against a model of TCP.
//
//   sovia-model                    a job for each processor
//     job: Checker                 two Executions of the same program, in lock-step with a model each
//       Hosts over TCP, on SOVIA   processes at both ends; --worker is one of them
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>

#include "check.h"
#include "options.h"
#include "worker.h"

namespace model {
namespace {

using Clock = std::chrono::steady_clock;

struct Totals {
  std::uint64_t programs = 0, operations = 0, connections = 0, warm_wanted = 0, warm = 0, past_kernel = 0;
  std::uint64_t on_lanes = 0;  // programs
  std::uint64_t findings = 0, model_errors = 0, higher_numbers = 0;
  double seconds = 0;

  void add(const Totals& other) {
    programs += other.programs;
    operations += other.operations;
    connections += other.connections;
    warm_wanted += other.warm_wanted;
    warm += other.warm;
    past_kernel += other.past_kernel;
    on_lanes += other.on_lanes;
    findings += other.findings;
    higher_numbers += other.higher_numbers;
    model_errors += other.model_errors;
  }
};

void show(const Program& program, const Limits& limits) {
  static const char* const kWarmth[] = {"cold", "rising", "warm"};
  for (int c = 0; c < program.connections; ++c) {
    std::printf("  connection %d: %s%s\n", c, kWarmth[static_cast<int>(program.warmth[c])],
                program.no_delay[c] ? ", TCP_NODELAY" : "");
  }
  for (std::size_t i = 0; i < program.operations.size(); ++i) {
    if (!limits.kept.empty() && !limits.kept[i]) continue;
    std::printf("  %3zu %s\n", i, text_of(program.operations[i]).c_str());
  }
}

Place place(const Options& options, int job, bool sovia) {
  Place place;
  place.directory = options.directory + (sovia ? "/sovia" : "/tcp") + std::to_string(job);
  ::mkdir(place.directory.c_str(), 0700);
  for (int end = 0; end < 2; ++end) place.command[end] = options.host[end] + (sovia ? " " + options.launcher : "");
  place.address = options.address;
  place.port = options.port + 2 * job + (sovia ? 1 : 0);
  place.lanes = sovia;
  return place;
}

void report(Checker& checker, const Options& options, const Program& program, Limits limits, const Verdict& verdict) {
  std::printf("seed %llu: %s\n", static_cast<unsigned long long>(program.seed), verdict.wrong.c_str());
  std::fflush(stdout);
  if (options.shrinks) {
    limits = checker.shrink(program, limits, verdict);
    for (int i = 0; i < 4; ++i) {
      const Verdict again = checker.run(program, limits);
      if (again.wrong.empty()) continue;
      std::printf("  the least program: %s\n", again.wrong.c_str());
      break;
    }
  }
  show(program, limits);
  if (options.verbose) {
    std::printf("  the answers on SOVIA:");
    for (const Row& row : verdict.sovia.rows) std::printf(" %d:%s", row.operation, row.text.c_str());
    std::printf("\n");
  }
  const std::string kept = limits.kept.empty() ? "" : " --keep " + text_of_kept(limits.kept);
  std::printf("  again: model --seed %llu%s --most %u --verbose\n", static_cast<unsigned long long>(program.seed),
              kept.c_str(), limits.most_bytes);
  std::fflush(stdout);
}

void count(Totals& totals, const Program& program, const Verdict& verdict) {
  ++totals.programs;
  totals.operations += verdict.sovia.operations;
  totals.connections += static_cast<std::uint64_t>(program.connections);
  for (int c = 0; c < program.connections; ++c) totals.warm_wanted += program.warmth[c] == Warmth::kWarm;
  totals.warm += verdict.sovia.warm;
  totals.past_kernel += verdict.sovia.past_kernel;
  totals.higher_numbers += verdict.sovia.higher_numbers;
  totals.on_lanes += verdict.sovia.warm > 0 || verdict.sovia.past_kernel > 0;
  if (verdict.wrong.empty()) return;
  ++(verdict.wrong.compare(0, 3, "tcp") == 0 ? totals.model_errors : totals.findings);
}

Totals work(const Options& options, int job) {
  Totals totals;
  Checker checker(place(options, job, false), place(options, job, true));
  const auto begin = Clock::now();
  for (std::uint64_t seed = options.first + static_cast<unsigned>(job); seed <= options.last;
       seed += static_cast<unsigned>(options.jobs)) {
    if (options.seconds > 0 && Clock::now() - begin > std::chrono::seconds(options.seconds)) break;
    const Program program = generate(seed, {.kills = options.kills});
    Limits limits{.patience_ms = options.patience_ms, .most_bytes = options.most_bytes, .kept = {}};
    if (!options.kept.empty()) limits.kept = kept_of(options.kept, program.operations.size());
    if (options.verbose) {
      std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
      show(program, limits);
      std::fflush(stdout);
    }
    const Verdict verdict = checker.run(program, limits);
    count(totals, program, verdict);
    if (verdict.wrong.empty()) continue;
    report(checker, options, program, limits, verdict);
    if (totals.findings + totals.model_errors >= static_cast<unsigned>(options.most_findings)) break;
  }
  return totals;
}

// Jobs are processes, as each forks.
Totals work_in_jobs(const Options& options) {
  int ends[2];
  if (::pipe(ends) != 0) std::exit(1);
  std::fflush(stdout);
  for (int job = 0; job < options.jobs; ++job) {
    if (::fork() != 0) continue;
    Totals totals;
    try {
      totals = work(options, job);
    } catch (const std::exception& e) {
      std::printf("job %d: %s\n", job, e.what());
      ++totals.model_errors;
    }
    std::fflush(stdout);
    (void)!::write(ends[1], &totals, sizeof totals);
    _exit(0);
  }
  ::close(ends[1]);
  Totals totals;
  int jobs = 0;
  for (Totals one; ::read(ends[0], &one, sizeof one) == sizeof one; ++jobs) totals.add(one);
  totals.model_errors += static_cast<unsigned>(options.jobs - jobs);
  while (::wait(nullptr) > 0) {
  }
  return totals;
}

bool summarize(const Options& options, const Totals& t) {
  const int lanes = t.warm_wanted == 0 ? 100 : static_cast<int>(100 * t.warm / t.warm_wanted);
  const auto n = [](std::uint64_t value) { return static_cast<unsigned long long>(value); };
  std::printf("%llu programs, %llu operations, %.0f s, %.1f a second\n", n(t.programs), n(t.operations), t.seconds,
              static_cast<double>(t.programs) / t.seconds);
  std::printf("%llu programs on lanes; %d %% of the connections that were to have one from the beginning\n",
              n(t.on_lanes), lanes);
  std::printf("%llu findings, %llu errors of the model\n", n(t.findings), n(t.model_errors));
  if (!options.output.empty()) {
    std::FILE* const file = std::fopen(options.output.c_str(), "w");
    if (file == nullptr) return false;
    char date[32];
    const std::time_t now = std::time(nullptr);
    std::strftime(date, sizeof date, "%Y-%m-%d", std::localtime(&now));
    std::fprintf(file,
                 "{\n  \"date\": \"%s\",\n  \"commit\": \"%s\",\n  \"seeds\": [%llu, %llu],\n  \"programs\": %llu,\n"
                 "  \"operations\": %llu,\n  \"connections\": %llu,\n  \"programs_on_lanes\": %llu,\n"
                 "  \"directions_past_the_kernel\": %llu,\n  \"warm_percent\": %d,\n  \"seconds\": %.0f,\n"
                 "  \"descriptors_with_higher_numbers\": %llu,\n  \"findings\": %llu,\n  \"model_errors\": %llu\n}\n",
                 date, options.commit.c_str(), n(options.first), n(options.last), n(t.programs), n(t.operations),
                 n(t.connections), n(t.on_lanes), n(t.past_kernel), lanes, t.seconds,
                 n(t.higher_numbers), n(t.findings), n(t.model_errors));
    std::fclose(file);
  }
  if (lanes < options.least_lanes) std::printf("too few connections have lanes\n");
  return t.findings == 0 && t.model_errors == 0 && lanes >= options.least_lanes;
}

}  // namespace
}  // namespace model

int main(int argc, char** argv) {
  if (argc == 4 && std::strcmp(argv[1], "--worker") == 0) model::Worker(argv[2], std::atoi(argv[3])).serve();
  model::Options options = model::parse(argc, argv);
  const auto begin = model::Clock::now();
  model::Totals totals = model::work_in_jobs(options);
  totals.seconds = std::chrono::duration<double>(model::Clock::now() - begin).count();
  return model::summarize(options, totals) ? 0 : 1;
}
