// The options of lanevid: on the command line, or by the same names in a configuration file.
#ifndef VIADUCT_VIPL_LANEVI_OPTIONS_H
#define VIADUCT_VIPL_LANEVI_OPTIONS_H

#include <string>
#include <vector>

#include "vipl/lanevi/ip_address.h"

namespace viaduct::lanevi {

// A host that was named, with the addresses of IP that are behind it.
struct ToldPeer {
  std::string host;
  std::vector<IpAddress> addresses;
};

struct Options {
  std::string interface = "lanevi0";
  std::vector<IpPrefix> addresses;
  // A packet fits into one train of frames of 1500 bytes, and one acknowledgement of TCP answers two packets, whatever
  // their length.
  unsigned mtu = 61000;
  bool offload = true;
  std::vector<ToldPeer> peers;  // none: all hosts of the link that say they belong to the network
  std::string network = "default";
  std::string device = "nic0";
  std::string user;  // empty: the user that it was started as
};

// The exit code to end with, or -1 to go on.
int parse_options(int argc, char** argv, Options& options);

}  // namespace viaduct::lanevi

#endif
