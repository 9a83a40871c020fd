#ifdef HAVE_CONFIG_H
#include "config.h"
#endif

#include <net/if.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "vipl/lanevi/options.h"

namespace viaduct::lanevi {
namespace {

// The kernel takes no more for such an interface: 65,535 less room that it keeps.
constexpr unsigned kMostMtu = 65521;
constexpr unsigned kLeastMtu = 1280;  // IPv6's
constexpr std::size_t kNetworkBytes = 24;

void take_address(const std::string& text, Options& options) {
  const auto prefix = parse_prefix(text);
  if (!prefix) throw CLI::ValidationError("--address", text + " is no address of IP with /BITS");
  for (const IpPrefix& other : options.addresses) {
    if (other.address.is_ipv4() == prefix->address.is_ipv4()) {
      throw CLI::ValidationError("--address", "one of IPv4 and one of IPv6 at most");
    }
  }
  options.addresses.push_back(*prefix);
}

void take_peer(const std::string& text, Options& options) {
  const std::size_t equals = text.find('=');
  const auto address = parse_address(text.substr(0, equals));
  if (equals == std::string::npos || equals + 1 == text.size() || !address) {
    throw CLI::ValidationError("--peer", text + " is not of the form ADDRESS=HOST");
  }
  const std::string host = text.substr(equals + 1);
  for (const ToldPeer& other : options.peers) {
    if (std::count(other.addresses.begin(), other.addresses.end(), *address) > 0) {
      throw CLI::ValidationError("--peer", text_of(*address) + " is given to two hosts");
    }
  }
  const auto known = std::find_if(options.peers.begin(), options.peers.end(),
                                  [&](const ToldPeer& peer) { return peer.host == host; });
  ToldPeer& peer = known != options.peers.end() ? *known : options.peers.emplace_back();
  peer.host = host;
  peer.addresses.push_back(*address);
}

void check_names(const Options& options) {
  if (options.interface.empty() || options.interface.size() >= IFNAMSIZ) {
    throw CLI::ValidationError("--interface", "a name has 1 to 15 characters");
  }
  if (options.network.empty() || options.network.size() > kNetworkBytes) {
    throw CLI::ValidationError("--network", "a name has 1 to 24 characters");
  }
}

}  // namespace

int parse_options(int argc, char** argv, Options& options) {
  CLI::App app{
      "Makes a network interface whose IP packets go over VIs to the other hosts of the link.",
      "lanevid"};
  std::vector<std::string> addresses;
  std::vector<std::string> peers;
  bool no_offload = false;
  app.set_config("--config", "", "read options from a file: long names without --, as KEY=VALUE");
  app.add_option("--interface", options.interface, "name of the interface")->capture_default_str();
  app.add_option("--address", addresses,
                 "address of the interface, ADDRESS/BITS; one of IPv4 and one of IPv6");
  app.add_option("--mtu", options.mtu, "longest IP packet")
      ->check(CLI::Range(kLeastMtu, kMostMtu))
      ->capture_default_str();
  app.add_option(
      "--peer", peers,
      "ADDRESS=HOST: where an address is; HOST is a name, an IP address of the link or a "
      "MAC address. Without any, hosts of the link find each other");
  app.add_option("--network", options.network, "only hosts with the same name connect")
      ->capture_default_str();
  app.add_option("--device", options.device, "NIC to open")->capture_default_str();
  app.add_option("--user", options.user, "user to run as once the interface is there");
  app.add_flag("--no-offload", no_offload,
               "have the kernel cut TCP's data and compute checksums before it hands packets out");
  app.footer("Examples:\n  sudo lanevid --address 10.99.0.1/24 --user nobody\n"
             "  sudo lanevid --address 10.99.0.1/24 --peer 10.99.0.2=hostb");
#ifdef PACKAGE_VERSION
  app.set_version_flag("--version", "lanevid " PACKAGE_VERSION);
#endif
  try {
    app.parse(argc, argv);
    for (const std::string& text : addresses) take_address(text, options);
    for (const std::string& text : peers) take_peer(text, options);
    check_names(options);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  options.offload = !no_offload;
  return -1;
}

}  // namespace viaduct::lanevi
