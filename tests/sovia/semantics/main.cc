// sovia-semantics: a server and a client that run the same cases and write down what they see.
//
//    client                        server
//      |  main control connection    |      which case comes next, and whether it went well
//      |-----------------------------|
//      |                             |      each has a worker process at a time:
//    worker ------------------- worker      a control connection of their own, and what is tested
//
// The client leads. A worker that hangs or dies is replaced, at both ends, before the next case.
#include <fnmatch.h>
#include <signal.h>

#include <cstdio>
#include <exception>
#include <memory>

#include "helper.h"
#include "options.h"
#include "raw.h"
#include "worker.h"

namespace semantics {
namespace {

constexpr int kPatienceMs = 20'000;

const Registered* find(const std::string& name) {
  for (const Registered& test : all_cases()) {
    if (test.name == name) return &test;
  }
  return nullptr;
}

bool selected(const Options& options, const Registered& test) {
  return fnmatch(options.only.c_str(), test.name.c_str(), 0) == 0;
}

int list(const Options& options) {
  for (const Registered& test : all_cases()) {
    if (selected(options, test)) std::puts(test.name.c_str());
  }
  return 0;
}

void note_addresses(Options& options, const Peer& main, bool client) {
  options.settings.client = client ? main.own_address() : main.peer_address();
  options.settings.server = client ? main.peer_address() : main.own_address();
}

int serve(Options& options) {
  const int listener = Peer::listener(options.port);
  std::puts("serving");
  std::fflush(stdout);
  Peer main = Peer::accept(listener);
  note_addresses(options, main, false);
  std::unique_ptr<Worker> worker;
  for (std::string command; (command = main.hear()) != "end";) {
    if (command == "new worker") {
      worker.reset();
      worker = std::make_unique<Worker>(Role::kServer, options, Peer::accept(listener));
      continue;
    }
    const Registered* const test = find(command);
    main.tell(test != nullptr && worker->run(*test) ? "good" : "bad");
  }
  return 0;
}

int connect(Options& options) {
  Peer main = Peer::connect(options.server, options.port, kPatienceMs);
  note_addresses(options, main, true);
  std::unique_ptr<Worker> worker;
  int run = 0, broken = 0;
  for (const Registered& test : all_cases()) {
    if (!selected(options, test)) continue;
    if (test.alone) worker.reset();
    if (worker == nullptr) {
      main.tell("new worker");
      worker = std::make_unique<Worker>(Role::kClient, options,
                                        Peer::connect(options.server, options.port, kPatienceMs));
    }
    main.tell(test.name);
    const bool here = worker->run(test), there = main.hear() == "good";
    ++run;
    if (!here || !there) {
      ++broken;
      std::printf("broken: %s\n", test.name.c_str());
      std::fflush(stdout);
    }
    if (!here || !there || test.alone) worker.reset();
  }
  main.tell("end");
  std::printf("%d cases, %d of them broken\n", run, broken);
  return 0;
}

}  // namespace
}  // namespace semantics

int main(int argc, char** argv) {
  using namespace semantics;
  if (argc > 1 && std::string(argv[1]) == "--helper") return help(argc - 2, argv + 2);
  try {
    Options options = parse(argc, argv);
    if (options.list) return list(options);
    signal(SIGPIPE, SIG_DFL);
    return options.serve ? serve(options) : connect(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "sovia-semantics: %s\n", e.what());
    return 1;
  }
}
