#include "options.h"

#include <arpa/inet.h>

#include <cstdio>
#include <cstdlib>

namespace semantics {
namespace {

constexpr char kUsage[] =
    R"(usage: sovia-semantics --serve [OPTION]...
       sovia-semantics --connect ADDRESS [OPTION]...
       sovia-semantics --list [--only PATTERN]

Runs each case between the two ends and writes what each end saw to DIRECTORY/NAME.client and
DIRECTORY/NAME.server.

  --connect ADDRESS   the client; the server runs at this IPv4 address
  --port N            TCP port of the control connection (default 7757)
  --only PATTERN      the cases with such names, for example "epoll.*.warm" (client)
  --out DIRECTORY     where the transcripts go (default: here)
  --ipv6 CLIENT,SERVER    the hosts' IPv6 addresses; without them, cases that need them say so
  --warm MS           how long a warm-up waits for an acceleration (default 0; client)
  --limit MS          how long a case may take (default 8000)
  --seed N            of the bytes that are sent (default 1)
)";

[[noreturn]] void misuse(const std::string& what) {
  std::fprintf(stderr, "sovia-semantics: %s\n`sovia-semantics --help' tells how it is used\n",
               what.c_str());
  std::exit(2);
}

void parse_ipv6(const std::string& both, Settings& settings) {
  const std::size_t comma = both.find(',');
  if (comma == std::string::npos ||
      inet_pton(AF_INET6, both.substr(0, comma).c_str(), &settings.client6) != 1 ||
      inet_pton(AF_INET6, both.substr(comma + 1).c_str(), &settings.server6) != 1) {
    misuse("--ipv6 needs two addresses");
  }
}

}  // namespace

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string name = argv[i];
    if (name == "--help") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    }
    if (name == "--serve") {
      options.serve = true;
      continue;
    }
    if (name == "--list") {
      options.list = true;
      continue;
    }
    if (i + 1 == argc) misuse(name + " is no option, or needs a value");
    const std::string value = argv[++i];
    if (name == "--connect") {
      if (inet_aton(value.c_str(), &options.server) == 0) misuse(value + " is no IPv4 address");
    } else if (name == "--port") {
      options.port = static_cast<std::uint16_t>(std::atoi(value.c_str()));
    } else if (name == "--only") {
      options.only = value;
    } else if (name == "--out") {
      options.directory = value;
    } else if (name == "--ipv6") {
      parse_ipv6(value, options.settings);
    } else if (name == "--warm") {
      options.settings.warm = std::chrono::milliseconds(std::atoi(value.c_str()));
    } else if (name == "--limit") {
      options.limit_ms = std::atoi(value.c_str());
    } else if (name == "--seed") {
      options.settings.seed = std::strtoull(value.c_str(), nullptr, 10);
    } else {
      misuse("what is " + name + "?");
    }
  }
  if (!options.serve && !options.list && options.server.s_addr == 0) {
    misuse("--serve, --connect ADDRESS or --list is needed");
  }
  return options;
}

}  // namespace semantics
