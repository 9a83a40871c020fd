#include "options.h"

#include <getopt.h>

#include <cstdio>
#include <cstdlib>

namespace model {
namespace {

[[noreturn]] void usage() {
  std::fputs(
      "usage: sovia-model --directory DIR --host-a COMMAND --host-b COMMAND [OPTION...]\n"
      "  --seeds A-B, --seed N  programs\n"
      "  --verbose              shows each program\n"
      "  --keep OPERATIONS      these operations of the program alone, such as 0-3,7\n"
      "  --most BYTES           of each send and receive\n"
      "  --no-shrink, --no-kills\n"
      "  --patience MS          for an answer that must come\n"
      "  --findings N           ends after so many, in each job\n"
      "  --jobs N               controllers at once\n"
      "  --seconds N            ends after that time\n"
      "  --lanes PERCENT        fails if fewer connections have lanes\n"
      "  --launcher COMMAND     for the processes on SOVIA\n"
      "  --address ADDRESS      of host b\n"
      "  --port N               the first port\n"
      "  --output FILE          a summary in JSON\n"
      "  --commit TEXT          for the summary\n",
      stderr);
  std::exit(2);
}

void seeds(Options& options, const char* text) {
  char* next;
  options.first = options.last = std::strtoull(text, &next, 10);
  if (*next == '-') options.last = std::strtoull(next + 1, &next, 10);
  if (*next != '\0' || options.last < options.first) usage();
}

}  // namespace

Options parse(int argc, char** argv) {
  static const option kLong[] = {
      {"seeds", 1, nullptr, 's'},     {"seed", 1, nullptr, 's'},      {"verbose", 0, nullptr, 'v'},
      {"keep", 1, nullptr, 'k'},      {"most", 1, nullptr, 'm'},      {"no-shrink", 0, nullptr, 'n'},
      {"no-kills", 0, nullptr, 'K'},  {"patience", 1, nullptr, 'p'},  {"findings", 1, nullptr, 'f'},
      {"jobs", 1, nullptr, 'j'},      {"seconds", 1, nullptr, 't'},   {"lanes", 1, nullptr, 'L'},
      {"launcher", 1, nullptr, 'l'},  {"address", 1, nullptr, 'A'},   {"port", 1, nullptr, 'P'},
      {"output", 1, nullptr, 'o'},    {"commit", 1, nullptr, 'c'},    {"directory", 1, nullptr, 'd'},
      {"host-a", 1, nullptr, 'a'},    {"host-b", 1, nullptr, 'b'},    {nullptr, 0, nullptr, 0}};
  Options options;
  for (int c; (c = ::getopt_long(argc, argv, "", kLong, nullptr)) != -1;) {
    switch (c) {
      case 's': seeds(options, optarg); break;
      case 'v': options.verbose = true; break;
      case 'k': options.kept = optarg; break;
      case 'm': options.most_bytes = static_cast<std::uint32_t>(std::atoi(optarg)); break;
      case 'n': options.shrinks = false; break;
      case 'K': options.kills = false; break;
      case 'p': options.patience_ms = std::atoi(optarg); break;
      case 'f': options.most_findings = std::atoi(optarg); break;
      case 'j': options.jobs = std::atoi(optarg); break;
      case 't': options.seconds = std::atoi(optarg); break;
      case 'L': options.least_lanes = std::atoi(optarg); break;
      case 'l': options.launcher = optarg; break;
      case 'A': options.address = optarg; break;
      case 'P': options.port = std::atoi(optarg); break;
      case 'o': options.output = optarg; break;
      case 'c': options.commit = optarg; break;
      case 'd': options.directory = optarg; break;
      case 'a': options.host[0] = optarg; break;
      case 'b': options.host[1] = optarg; break;
      default: usage();
    }
  }
  if (options.host[0].empty() || options.host[1].empty()) usage();
  return options;
}

}  // namespace model
