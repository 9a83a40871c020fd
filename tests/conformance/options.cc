#include "options.h"

#include <getopt.h>

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace conformance {
namespace {

constexpr char kUsage[] =
    R"(usage: vipl-conformance --peer HOST [OPTION]...    runs the tests
       vipl-conformance --serve [--port N]        is the other host for them

  --peer HOST            where vipl-conformance --serve runs, by the name or address that it has in
                         the ordinary network; "self": the test process plays both parts
  --port N               TCP port of the control connection (default 7743)
  --device NAME          what VipOpenNic is given (default nic0)
  --peer-device NAME     the same at the peer (default: --device)
  --name NAME            this host's name in VIPL's name service
  --peer-name NAME       the peer's
  --cut COMMAND          breaks the link between the hosts; --mend COMMAND restores it
  --kill-provider COMMAND    ends what the provider needs on this host to work; when
  --start-provider COMMAND   returns, it works again
  --patience SECONDS     how long a call may take before it counts as hung (default 60)
  --no-demand            the table at the end is for information only
GoogleTest's options work too; with --gtest_filter the table is for information only.
)";

[[noreturn]] void misuse(const std::string& what) {
  std::fprintf(stderr, "vipl-conformance: %s\n`vipl-conformance --help' tells how it is used\n",
               what.c_str());
  std::exit(2);
}

}  // namespace

Options options;

Options parse(int argc, char** argv) {
  Options o;
  static constexpr const char* kNames[] = {
      "serve", "port", "peer",          "device",         "peer-device", "name",      "peer-name",
      "cut",   "mend", "kill-provider", "start-provider", "patience",    "no-demand", "help"};
  option table[sizeof kNames / sizeof *kNames + 1] = {};
  for (std::size_t i = 0; i < sizeof kNames / sizeof *kNames; ++i) {
    const bool flag = std::strcmp(kNames[i], "serve") == 0 ||
                      std::strcmp(kNames[i], "no-demand") == 0 ||
                      std::strcmp(kNames[i], "help") == 0;
    table[i] = {kNames[i], flag ? no_argument : required_argument, nullptr, 0};
  }
  int which = 0;
  opterr = 0;
  for (int c = 0; (c = getopt_long(argc, argv, "", table, &which)) != -1;) {
    if (c != 0) misuse(std::string("what is ") + argv[optind - 1] + "?");
    const std::string name = kNames[which], value = optarg != nullptr ? optarg : "";
    if (name == "help") {
      std::fputs(kUsage, stdout);
      std::exit(0);
    }
    if (name == "serve") o.serve = true;
    if (name == "no-demand") o.demand = false;
    if (name == "port") o.port = value;
    if (name == "peer") o.peer = value;
    if (name == "device") o.device = value;
    if (name == "peer-device") o.peer_device = value;
    if (name == "name") o.name = value;
    if (name == "peer-name") o.peer_name = value;
    if (name == "cut") o.cut = value;
    if (name == "mend") o.mend = value;
    if (name == "kill-provider") o.kill_provider = value;
    if (name == "start-provider") o.start_provider = value;
    if (name == "patience") {
      const char* const end = value.data() + value.size();
      const auto [stop, error] = std::from_chars(value.data(), end, o.patience_s);
      if (error != std::errc() || stop != end || o.patience_s < 1) {
        misuse("--patience needs a number of seconds");
      }
    }
  }
  if (optind < argc) misuse(std::string("what is ") + argv[optind] + "?");
  if (!o.serve && o.peer.empty()) misuse("--peer HOST or --serve is needed");
  if (o.cut.empty() != o.mend.empty()) misuse("--cut and --mend go together");
  if (o.kill_provider.empty() != o.start_provider.empty()) {
    misuse("--kill-provider and --start-provider go together");
  }
  if (o.peer_device.empty()) o.peer_device = o.device;
  return o;
}

}  // namespace conformance
