// The agent's configuration: what viad.conf (TOML) and the command line say.
//
//   socket = "/run/viaduct/socket"
//                           Where programs find the agent: an absolute path, or "@NAME" (abstract,
//                           private to the network namespace). At most 107 bytes.
//   name = ""               The host name that this host answers to; "": gethostname(). With and
//                           without domain.
//   spin_us = 50            How long, in microseconds, agent and waiting programs look for work
//                           before they sleep; 0 to 1000000.
//   log_level = "info"      trace, debug, info, warn, error or off.
//   placement = "auto"      Where the stack of a program runs that has no wish of its own: hosted
//                           (in the agent), granted (in the program, over a port of its own, or
//                           the program is refused), auto (granted where it can be, else hosted).
//                           With hosted no port is granted.
//
//   checksum = "auto"       Whether to ask for a CRC32C on data frames, which both ends then give:
//                           on, off, auto (if the processor has instructions for it), always (also
//                           on what goes by train, which UDP's checksum protects).
//
//   [[nic]]                 One for each interface, in the order of the VIPL's NIC numbers; 1-16.
//   interface = "eth0"      Required.
//   port = "auto"           auto, tcx, xdp-native, xdp-generic or pcap.
//   ether_type = 0x88b5     Of Viaduct's frames; the same on all hosts of a link.
//   frames = 8192           Frame buffers, half of them for receiving; a power of two, 512 to
//                           262144.
//   trains = "auto"         Long messages may go by UDP, where they arrive so; "off": not.
//   ring = 2048             Entries of each AF_XDP ring; a power of two, 64 to frames / 2.
//
//   [limits]                Capacity of one NIC; requests beyond it are refused.
//   sessions = 64           NICs held open by programs at once; 1 to 1024.
//   sessions_per_user = 32  The same of one user (root has no such limit), all NICs together.
//   vis_per_user = 8192     VIs of one user on one NIC, hosted programs together; 1 to 16254.
//   regions_per_user = 65536         The same of regions; 1 to 1048574.
//   memory_mb_per_user = 1048576     The same of registered memory; 1 to 16777216.
//   tables_mb_per_user = 256         Memory of the segments that the agent shares with programs,
//                           all NICs together; 1 to 1048576. Root has none of these limits.
//   vis = 12288             VIs; 1 to 16254. vis + cqs <= 16255.
//   cqs = 1024              Completion queues; 1 to 16254.
//   regions = 131072        Registered memory regions; 1 to 1048574.
//   ptags = 4096            Protection tags; 1 to 1048574.
//   slots = 65536           Descriptors of one session posted at once; 1024 to 1048575.
//   max_transfer = 1048576  Bytes of a message at most; 32768 to 1073741824.
//   keepalive_ms = 500      Silence after which a peer is probed; 10 to 60000.
//   peer_timeout_ms = 3000  Silence after which a peer is given up; at least twice keepalive_ms, at
//                           most 600000.
//   stopped_peer_ms = 3600000  The same while its host says that it is stopped; 0 to 86400000.
//
//   [access]                Sessions are for these users, and for processes that are in any of
//   users = []              these groups. Names or numbers. Both empty: for everyone. Root always
//   groups = []             gets one.
//
//   [granted]               Ports of their own for programs.
//   users = []              Ports are for these, as in [access]. Both empty: for all that get a
//   groups = []             session. Root always gets one.
//   ports = 16              At once, all NICs together; 0 to 256.
//   ports_per_user = 8      The same of one user (root has no such limit); 1 to 256.
//   ready_ports = 8         Made ahead at most, for programs that begin; 0 to 256.
//   umem_kb = 4096          Memory for the frames of one port (a quarter more where they need
//                           4 KB each), which stays locked; a power of two, 256 to 262144.
//
//   [hosts]                 Host names that this host knows without asking others: name = "MAC".
//   alpha = "02:00:00:00:00:01"
//
// Nothing is ignored: an unknown key, a wrong type and a value out of range are each reported with
// file, line and key.
#ifndef VIADUCT_KAGENT_AGENT_CONFIG_CONFIG_H
#define VIADUCT_KAGENT_AGENT_CONFIG_CONFIG_H

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "kagent/contract/control.h"
#include "kagent/contract/stack_limits.h"
#include "xdp/open_port.h"

namespace viaduct {

inline constexpr char kDefaultConfigFile[] = "/etc/viaduct/viad.conf";
inline constexpr std::size_t kMaxNics = 16;

struct NicConfig {
  std::string interface;
  PortKind port = PortKind::kAuto;
  std::uint16_t ether_type = VIADUCT_ETHER_TYPE;
  std::uint32_t frames = 8192;
  std::uint32_t ring = 2048;
  bool trains = true;  // long messages may go by UDP
};

struct Access {
  std::vector<uid_t> users;
  std::vector<gid_t> groups;

  // `user`: Peer::account(). `groups_of_process` are all the groups of the process, the effective one included.
  bool allows(uid_t user, const std::vector<gid_t>& groups_of_process) const;
};

// The programs that may have ports of their own, and how much of the NIC they may have.
struct GrantPolicy {
  Access access;
  std::uint32_t ports = 16;
  std::uint32_t ports_per_user = 8;
  std::uint32_t ready_ports = 8;  // made ahead, at most
  std::uint32_t umem_kb = 4096;
  std::uint32_t reattach_ms = 10'000;  // how long ports outlive their agent; 0: not at all
};

// The most that the hosted programs of one user may hold of one NIC, root excepted.
struct UserLimits {
  std::uint32_t vis = 8192;
  std::uint32_t regions = 65536;
  std::uint32_t memory_mb = 1u << 20;
  std::uint32_t tables_mb = 256;  // of all NICs
};

struct Config {
  std::string socket;  // "": nothing was said
  const char* socket_to_listen_at() const { return socket.empty() ? control::kDefaultSocket : socket.c_str(); }
  std::string name;
  std::uint32_t spin_us = 50;
  std::string log_level = "info";
  control::Placement placement = control::Placement::kAny;  // of programs that ask for kAny
  std::vector<NicConfig> nics;
  StackLimits limits;
  std::uint32_t sessions_per_user = 32;
  UserLimits user_limits;
  Access access;
  GrantPolicy granted;
  std::map<std::string, MacAddress> hosts;  // names in lower case
};

// what() has one line for each thing that is wrong: "FILE:LINE: KEY: what is wrong".
struct ConfigError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// How names of users and groups become numbers.
struct Accounts {
  std::function<std::optional<uid_t>(const std::string&)> user;
  std::function<std::optional<gid_t>(const std::string&)> group;
};
Accounts system_accounts();

// Throws ConfigError and nothing else. `file` is for the messages. An empty text is a valid
// configuration without NICs.
Config parse_config(std::string_view text, const std::string& file,
                    const Accounts& accounts = system_accounts());

// Reads and parses a file of at most 1 MiB. Throws ConfigError, also when it can't be read.
Config read_config(const std::string& file);

// The checks that the file and the command line share: nothing if `value` is good, else what is
// wrong with it.
std::optional<std::string> check_socket_name(std::string_view value);
std::optional<std::string> check_interface_name(std::string_view value);
std::optional<std::string> check_host_name(std::string_view value);
std::optional<PortKind> port_kind(std::string_view text);
std::optional<control::Placement> placement_of(std::string_view text);
std::optional<bool> asks_for_checksum(std::string_view text);
bool is_log_level(std::string_view text);

// "02:00:00:00:00:01"; not a group address and not all zero.
std::optional<MacAddress> parse_mac(std::string_view text);
std::string to_text(const MacAddress& address);

// ASCII only: host names have nothing else.
std::string lower_case(std::string_view text);

}  // namespace viaduct

#endif
