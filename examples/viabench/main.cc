// viabench: VIA, kernel TCP and raw AF_XDP side by side, in one run, interleaved.
//
//   viabench                     in hosts that it makes itself        lab_run
//     |
//     +- viabench --server       on one host: the far end             server
//     +- viabench --peer HOST    on the other: the near end           near_end
//
// The near end goes through its plan (plan), again in every round. For each case it asks the server for a far end,
// which is a process of its own, and starts one for the near end (samples: raw, tcp, via_*). Both report their
// measurements in lines of text (lines). Then the figures of all rounds (results) become tables, JSON, plots, and a
// list of targets (bars).
#include <csignal>
#include <cstdio>
#include <fstream>

#include "examples/common/nic.h"
#include "examples/viabench/json.h"
#include "examples/viabench/lab_run.h"
#include "examples/viabench/near_end.h"
#include "examples/viabench/options.h"
#include "examples/viabench/papers.h"
#include "examples/viabench/paper_tables.h"
#include "examples/viabench/plots.h"
#include "examples/viabench/processors.h"
#include "examples/viabench/server.h"
#include "examples/viabench/tables.h"

namespace viabench {
namespace {

void stop(int) { via::stopped = true; }

void write_file(const std::string& path, const std::string& text) {
  std::ofstream out(path);
  out << text;
  out.close();
  if (!out) throw via::Failure(path + ": can't be written");
}

// Whether each case was measured at least once.
int report(const Options& options, const Results& results) {
  const auto in = [&](Style style) {
    return options.papers ? paper_tables(results, options.figures, style) : tables(results, style);
  };
  std::fputs(in(Style::kText).c_str(), stdout);
  std::fflush(stdout);
  if (!options.json.empty()) write_file(options.json, json(results, options.papers ? &options.figures : nullptr));
  if (!options.markdown.empty()) write_file(options.markdown, in(Style::kMarkdown));
  if (!options.plots.empty()) {
    try {
      options.papers ? write_paper_plots(results, options.figures, options.plots)
                     : write_plots(results, options.plots);
    } catch (const via::Failure& failure) {
      std::fprintf(stderr, "viabench: %s\n", failure.what());
    }
  }
  for (const Result& r : results.all) {
    if (!r.summary()) return 1;
  }
  return 0;
}

int run(int argc, char** argv) {
  Options options;
  if (const int code = parse(argc, argv, options); code >= 0) return code;
  if (!options.sovia_end.encoded.empty()) return run_sovia_end(options.sovia_end);

  struct sigaction action = {};
  action.sa_handler = stop;
  for (const int s : {SIGINT, SIGTERM, SIGHUP}) sigaction(s, &action, nullptr);
  std::signal(SIGPIPE, SIG_IGN);

  try {
    if (options.half >= 0) keep_to_half(options.half);
    if (options.server) {
      run_server(options);
    } else if (!options.peer.empty()) {
      return report(options, measure(options));
    } else {
      return run_in_lab(options, argc, argv);
    }
  } catch (const std::exception& error) {
    std::fprintf(stderr, "viabench: %s\n", error.what());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace viabench

int main(int argc, char** argv) { return viabench::run(argc, argv); }
