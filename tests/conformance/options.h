// The command line.
#ifndef CONFORMANCE_OPTIONS_H
#define CONFORMANCE_OPTIONS_H

#include <string>

namespace conformance {

struct Options {
  bool serve = false;
  std::string port = "7743";
  std::string peer;  // where the control connection goes; "self": no other process
  std::string device = "nic0";
  std::string peer_device;  // --device, unless given
  std::string name;         // this host's name for the name service; empty: not known
  std::string peer_name;    // the peer's
  std::string cut, mend, kill_provider, start_provider;  // shell commands; empty: not possible
  int patience_s = 60;
  bool demand = true;  // that all that is expected was produced

  bool self() const { return peer == "self"; }
};

// Exits with status 2 and a message on misuse, with 0 for --help.
Options parse(int argc, char** argv);

// Those of this run. Set once, by main.
extern Options options;

}  // namespace conformance

#endif
