#include "kagent/agent/config/config.h"

#include <fcntl.h>
#include <grp.h>
#include <pwd.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <set>

// The parser's assertions fail for files that it then refuses in good order without them, such as
// one that begins with "[[?"; bad input must not end the agent.
#define TOML_ASSERT(expression) static_cast<void>(0)
#include <toml++/toml.h>

#include "xdp/clock.h"
#include "kagent/agent/config/config_text.h"
#include "kagent/agent/control/peer.h"
#include "kagent/contract/crc32c.h"
#include "xdp/descriptor.h"

namespace viaduct {
namespace {

constexpr std::size_t kMaxFileBytes = 1 << 20;
constexpr std::uint32_t kMostHandles = (1u << 20) - 2;  // index + 1 has 20 bits in a handle

std::uint32_t line_of(const toml::node& node) { return node.source().begin.line; }

class Reader {
 public:
  Reader(const std::string& file, const Accounts& accounts) : file_(file), accounts_(accounts) {}

  Config read(const toml::table& root);

 private:
  void problem(std::uint32_t line, const std::string& key, const std::string& text) {
    problems_.emplace(line, file_ + ":" + std::to_string(line) + ": " +
                                printable(key) + ": " + text);
  }
  void problem(const toml::node& node, const std::string& key, const std::string& text) {
    problem(line_of(node), key, text);
  }
  void unknown(const toml::key& key, const std::string& where, const char* known) {
    problem(key.source().begin.line, where + std::string(key.str()),
            std::string("unknown key; known here are ") + known);
  }

  template <class T>
  void number(const toml::node& node, const std::string& key, std::uint64_t least,
              std::uint64_t most, T& out);
  bool text(const toml::node& node, const std::string& key, std::string& out);
  const toml::table* table(const toml::node& node, const std::string& key);

  void nics(const toml::node& node);
  void nic(const toml::table& from, const std::string& where);
  void ether_type(const toml::node& node, const std::string& full, std::uint16_t& out);
  void limits(const toml::table& from);
  void check_limits(const toml::table& from, const StackLimits& limits);
  void access(const toml::table& from);
  void granted(const toml::table& from);
  template <class Id, class Lookup>
  void ids(const toml::node& node, const std::string& key, const char* what, const Lookup& look_up,
           std::vector<Id>& out);
  void hosts(const toml::table& from);

  std::string file_;
  const Accounts& accounts_;
  Config config_;
  std::multimap<std::uint32_t, std::string> problems_;  // by line
};

template <class T>
void Reader::number(const toml::node& node, const std::string& key, std::uint64_t least,
                    std::uint64_t most, T& out) {
  const auto* integer = node.as_integer();
  if (integer == nullptr) return problem(node, key, "must be a whole number");
  const std::int64_t value = integer->get();
  if (value < 0 || static_cast<std::uint64_t>(value) < least ||
      static_cast<std::uint64_t>(value) > most) {
    return problem(node, key, std::to_string(value) + " is out of range, which is " +
                                  std::to_string(least) + " to " + std::to_string(most));
  }
  out = static_cast<T>(value);
}

bool Reader::text(const toml::node& node, const std::string& key, std::string& out) {
  const auto* string = node.as_string();
  if (string == nullptr) {
    problem(node, key, "must be a text in quotes");
    return false;
  }
  out = string->get();
  return true;
}

const toml::table* Reader::table(const toml::node& node, const std::string& key) {
  const toml::table* out = node.as_table();
  if (out == nullptr) problem(node, key, "must be a table: [" + key + "]");
  return out;
}

Config Reader::read(const toml::table& root) {
  config_.limits.checksum = crc32c_is_fast();
  for (auto&& [key, node] : root) {
    const std::string name(key.str());
    std::string value;
    if (name == "socket") {
      if (!text(node, name, value)) continue;
      if (const auto wrong = check_socket_name(value)) problem(node, name, *wrong);
      config_.socket = value;
    } else if (name == "name") {
      if (!text(node, name, value) || value.empty()) continue;
      if (const auto wrong = check_host_name(value)) problem(node, name, *wrong);
      config_.name = value;
    } else if (name == "spin_us") {
      number(node, name, 0, 1'000'000, config_.spin_us);
    } else if (name == "log_level") {
      if (!text(node, name, value)) continue;
      if (!is_log_level(value)) {
        problem(node, name, shown(value) + " is none of trace, debug, info, warn, error, off");
      }
      config_.log_level = value;
    } else if (name == "placement") {
      if (!text(node, name, value)) continue;
      if (const auto placement = placement_of(value)) {
        config_.placement = *placement;
      } else {
        problem(node, name, shown(value) + " is none of auto, hosted, granted");
      }
    } else if (name == "checksum") {
      if (!text(node, name, value)) continue;
      if (const auto asks = asks_for_checksum(value)) {
        config_.limits.checksum = *asks;
        config_.limits.train_checksum = value == "always";
      } else {
        problem(node, name, shown(value) + " is none of auto, on, always, off");
      }
    } else if (name == "nic") {
      nics(node);
    } else if (name == "limits") {
      if (const auto* t = table(node, name)) limits(*t);
    } else if (name == "access") {
      if (const auto* t = table(node, name)) access(*t);
    } else if (name == "granted") {
      if (const auto* t = table(node, name)) granted(*t);
    } else if (name == "hosts") {
      if (const auto* t = table(node, name)) hosts(*t);
    } else {
      unknown(key, "", "socket, name, spin_us, log_level, placement, checksum, [[nic]], [limits], "
              "[access], [granted], [hosts]");
    }
  }
  if (problems_.empty()) return std::move(config_);
  std::string all;
  for (const auto& [line, message] : problems_) all += (all.empty() ? "" : "\n") + message;
  throw ConfigError(all);
}

void Reader::nics(const toml::node& node) {
  const toml::array* array = node.as_array();
  const bool tables = array != nullptr && !array->empty() &&
                      std::all_of(array->begin(), array->end(),
                                  [](const toml::node& n) { return n.is_table(); });
  if (!tables) return problem(node, "nic", "write one [[nic]] table for each interface");
  if (array->size() > kMaxNics) {
    return problem(node, "nic", std::to_string(array->size()) + " NICs, at most " +
                                    std::to_string(kMaxNics) + " can be served");
  }
  std::size_t number = 0;
  for (const toml::node& each : *array) {
    nic(*each.as_table(), "nic[" + std::to_string(number++) + "].");
  }
}

void Reader::ether_type(const toml::node& node, const std::string& full, std::uint16_t& out) {
  number(node, full, 0x600, 0xffff, out);
  for (const int taken : {0x0800, 0x0806, 0x86dd, 0x8100, 0x88a8, 0x88cc}) {
    if (out != taken) continue;
    problem(node, full,
            hex(static_cast<unsigned>(taken)) +
                " belongs to another protocol (IP, ARP, VLAN, "
                "LLDP), which would stop working");
  }
}

void Reader::nic(const toml::table& from, const std::string& where) {
  NicConfig nic;
  std::uint32_t sizes_line = line_of(from);
  for (auto&& [key, node] : from) {
    const std::string name(key.str());
    std::string value;
    if (name == "interface") {
      if (!text(node, where + name, nic.interface)) {
        nic.interface = "?";
      } else if (const auto wrong = check_interface_name(nic.interface)) {
        problem(node, where + name, *wrong);
      } else if (std::any_of(config_.nics.begin(), config_.nics.end(),
                             [&](const NicConfig& n) { return n.interface == nic.interface; })) {
        problem(node, where + name, shown(nic.interface) + " has a [[nic]] table already");
      }
    } else if (name == "port") {
      if (!text(node, where + name, value)) continue;
      if (const auto kind = port_kind(value)) {
        nic.port = *kind;
      } else {
        problem(node, where + name,
                shown(value) + " is none of auto, tcx, xdp-native, xdp-generic, pcap");
      }
    } else if (name == "trains") {
      if (!text(node, where + name, value)) continue;
      nic.trains = value != "off";
      if (value != "auto" && value != "off") {
        problem(node, where + name, shown(value) + " is neither auto nor off");
      }
    } else if (name == "ether_type") {
      ether_type(node, where + name, nic.ether_type);
    } else if (name == "frames" || name == "ring") {
      std::uint32_t& size = name == "ring" ? nic.ring : nic.frames;
      const std::size_t before = problems_.size();
      name == "ring" ? number(node, where + name, 64, 131072, size)
                     : number(node, where + name, 512, 262144, size);
      if (problems_.size() == before && !std::has_single_bit(size)) {
        problem(node, where + name, std::to_string(size) + " is not a power of two");
      }
      sizes_line = line_of(node);
    } else {
      unknown(key, where, "interface, port, ether_type, frames, ring, trains");
    }
  }
  if (nic.interface.empty() && !from.contains("interface")) {
    problem(from, where + "interface", "missing");
  }
  if (std::has_single_bit(nic.ring) && std::has_single_bit(nic.frames) &&
      nic.ring > nic.frames / 2) {
    problem(sizes_line, where + "ring",
            std::to_string(nic.ring) + " entries are more than half of the " +
                std::to_string(nic.frames) + " frames");
  }
  config_.nics.push_back(nic);
}

void Reader::limits(const toml::table& from) {
  StackLimits& out = config_.limits;
  std::uint64_t keepalive_ms = out.keepalive_ns / kNsPerMs;
  std::uint64_t peer_timeout_ms = out.peer_timeout_ns / kNsPerMs;
  std::uint64_t stopped_peer_ms = out.stopped_peer_ns / kNsPerMs;
  bool per_user_given = false;
  const std::size_t before = problems_.size();
  for (auto&& [key, node] : from) {
    const std::string name(key.str());
    const std::string full = "limits." + name;
    if (name == "sessions") {
      number(node, full, 1, 1024, out.sessions);
    } else if (name == "sessions_per_user") {
      number(node, full, 1, 1024, config_.sessions_per_user);
      per_user_given = true;
    } else if (name == "vis_per_user") {
      number(node, full, 1, layout::kMostBits - 1, config_.user_limits.vis);
    } else if (name == "regions_per_user") {
      number(node, full, 1, kMostHandles, config_.user_limits.regions);
    } else if (name == "memory_mb_per_user") {
      number(node, full, 1, 1u << 24, config_.user_limits.memory_mb);
    } else if (name == "tables_mb_per_user") {
      number(node, full, 1, 1u << 20, config_.user_limits.tables_mb);
    } else if (name == "vis") {
      number(node, full, 1, layout::kMostBits - 1, out.vis);
    } else if (name == "cqs") {
      number(node, full, 1, layout::kMostBits - 1, out.cqs);
    } else if (name == "regions") {
      number(node, full, 1, kMostHandles, out.regions);
    } else if (name == "ptags") {
      number(node, full, 1, kMostHandles, out.ptags);
    } else if (name == "slots") {
      number(node, full, 1024, layout::kMaxSlots - 1, out.slots);
    } else if (name == "max_transfer") {
      number(node, full, 32768, 1u << 30, out.max_transfer);
    } else if (name == "keepalive_ms") {
      number(node, full, 10, 60'000, keepalive_ms);
    } else if (name == "peer_timeout_ms") {
      number(node, full, 20, 600'000, peer_timeout_ms);
    } else if (name == "stopped_peer_ms") {
      number(node, full, 0, 86'400'000, stopped_peer_ms);
    } else {
      unknown(key, "limits.",
              "sessions, sessions_per_user, vis, vis_per_user, cqs, regions, regions_per_user, "
               "memory_mb_per_user, tables_mb_per_user, ptags, slots, max_transfer, keepalive_ms, "
               "peer_timeout_ms, stopped_peer_ms");
    }
  }
  if (problems_.size() != before) return;
  if (!per_user_given) {
    config_.sessions_per_user = std::min(config_.sessions_per_user, out.sessions);
  }
  out.keepalive_ns = keepalive_ms * kNsPerMs;
  out.peer_timeout_ns = peer_timeout_ms * kNsPerMs;
  out.stopped_peer_ns = stopped_peer_ms * kNsPerMs;
  check_limits(from, out);
}

// Checks limits that depend on each other.
void Reader::check_limits(const toml::table& from, const StackLimits& limits) {
  if (limits.vis + limits.cqs > layout::kMostBits) {
    problem(from, "limits", "vis (" + std::to_string(limits.vis) + ") and cqs (" +
                                std::to_string(limits.cqs) + ") together are more than " +
                                std::to_string(layout::kMostBits));
  }
  if (limits.peer_timeout_ns < 2 * limits.keepalive_ns) {
    problem(from, "limits", "peer_timeout_ms (" + std::to_string(limits.peer_timeout_ns / kNsPerMs) +
                                ") is less than twice keepalive_ms (" +
                                std::to_string(limits.keepalive_ns / kNsPerMs) + ")");
  }
}

void Reader::access(const toml::table& from) {
  for (auto&& [key, node] : from) {
    const std::string name(key.str());
    if (name == "users") {
      ids(node, "access.users", "user", accounts_.user, config_.access.users);
    } else if (name == "groups") {
      ids(node, "access.groups", "group", accounts_.group, config_.access.groups);
    } else {
      unknown(key, "access.", "users, groups");
    }
  }
}

void Reader::granted(const toml::table& from) {
  GrantPolicy& out = config_.granted;
  bool per_user_given = false;
  for (auto&& [key, node] : from) {
    const std::string name(key.str());
    const std::string full = "granted." + name;
    if (name == "users") {
      ids(node, full, "user", accounts_.user, out.access.users);
    } else if (name == "groups") {
      ids(node, full, "group", accounts_.group, out.access.groups);
    } else if (name == "ports") {
      number(node, full, 0, 256, out.ports);
    } else if (name == "ports_per_user") {
      number(node, full, 1, 256, out.ports_per_user);
      per_user_given = true;
    } else if (name == "ready_ports") {
      number(node, full, 0, 256, out.ready_ports);
    } else if (name == "reattach_ms") {
      number(node, full, 0, 600'000, out.reattach_ms);
    } else if (name == "umem_kb") {
      const std::size_t before = problems_.size();
      number(node, full, 256, 262144, out.umem_kb);
      if (problems_.size() == before && !std::has_single_bit(out.umem_kb)) {
        problem(node, full, std::to_string(out.umem_kb) + " is not a power of two");
      }
    } else {
      unknown(key, "granted.", "users, groups, ports, ports_per_user, ready_ports, umem_kb, reattach_ms");
    }
  }
  if (!per_user_given) out.ports_per_user = std::min(out.ports_per_user, out.ports);
}

template <class Id, class Lookup>
void Reader::ids(const toml::node& node, const std::string& key, const char* what,
                 const Lookup& look_up, std::vector<Id>& out) {
  const toml::array* array = node.as_array();
  if (array == nullptr) return problem(node, key, "must be a list: [\"NAME\", NUMBER, ...]");
  for (const toml::node& each : *array) {
    if (const auto* integer = each.as_integer()) {
      // The greatest number, (uid_t)-1, stands for no user or group.
      if (integer->get() < 0 || integer->get() >= 0xffffffff) {
        problem(each, key, std::to_string(integer->get()) + " is no number of a " + what);
      } else {
        out.push_back(static_cast<Id>(integer->get()));
      }
    } else if (const auto* string = each.as_string()) {
      const std::string& name = string->get();
      const char* const end = name.data() + name.size();
      std::uint32_t number = 0;
      const auto [stop, error] = std::from_chars(name.data(), end, number);
      if (error == std::errc() && stop == end && number != 0xffffffff) {
        out.push_back(number);
      } else if (const auto id = look_up(name)) {
        out.push_back(*id);
      } else {
        problem(each, key, std::string("there is no ") + what + " " + shown(name));
      }
    } else {
      problem(each, key, std::string("a ") + what + " is a name in quotes or a number");
    }
  }
}

void Reader::hosts(const toml::table& from) {
  for (auto&& [key, node] : from) {
    const std::string name(key.str());
    const std::string full = "hosts." + shown(name);
    std::string value;
    if (const auto wrong = check_host_name(name)) {
      problem(key.source().begin.line, full, *wrong);
    } else if (node.is_table()) {
      problem(node, full, "a name with dots must be in quotes: \"" + name + "...\" = \"MAC\"");
    } else if (text(node, full, value)) {
      const auto mac = parse_mac(value);
      if (!mac) {
        problem(node, full, shown(value) + " is not the MAC address of a host "
                            "(six bytes in hexadecimal with colons between, no group address)");
      } else if (!config_.hosts.emplace(lower_case(name), *mac).second) {
        problem(node, full, "is there twice (upper and lower case are the same)");
      }
    }
  }
}

// The parser (toml++ 3.3) has undefined behaviour for most characters beyond ASCII that stand where white space
// could. Only comments need such characters, so the parser does not get to see any.
std::string ascii_only(std::string_view text, const std::string& file) {
  enum class In { kPlain, kComment, kString, kLongString };
  constexpr std::string_view kByteOrderMark = "\xef\xbb\xbf";
  if (text.starts_with(kByteOrderMark)) text.remove_prefix(kByteOrderMark.size());
  std::string out(text);
  In in = In::kPlain;
  char quote = 0;
  std::uint32_t line = 1;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const char c = out[i];
    const bool is_quote = c == '"' || c == '\'';
    const bool three = is_quote && i + 2 < out.size() && out[i + 1] == c && out[i + 2] == c;
    const bool in_text = in == In::kString || in == In::kLongString;
    if (c == '\n') {
      ++line;
      if (in != In::kLongString) in = In::kPlain;
    } else if (static_cast<unsigned char>(c) > 0x7f) {
      if (in != In::kComment) {
        throw ConfigError(file + ":" + std::to_string(line) +
                          ": only comments may have characters beyond ASCII");
      }
      out[i] = '?';
    } else if (in == In::kPlain && c == '#') {
      in = In::kComment;
    } else if (in == In::kPlain && is_quote) {
      quote = c;
      in = three ? In::kLongString : In::kString;
      if (three) i += 2;
    } else if (in_text && quote == '"' && c == '\\') {
      const bool escaped = i + 1 < out.size() && (out[i + 1] == '"' || out[i + 1] == '\\');
      if (escaped) ++i;
    } else if (in_text && c == quote && (three || in == In::kString)) {
      if (in == In::kLongString) i += 2;
      in = In::kPlain;
    }
  }
  return out;
}

template <class Entry, class Get>
std::optional<Entry> account(const std::string& name, const Get& get) {
  if (name.empty() || name.find('\0') != std::string::npos) return std::nullopt;
  std::vector<char> room(4096);
  for (;;) {
    Entry id = 0;
    const int result = get(name.c_str(), room, id);
    if (result == 0) return id;
    if (result != ERANGE || room.size() > (1u << 20)) return std::nullopt;
    room.resize(room.size() * 2);
  }
}

}  // namespace

bool Access::allows(uid_t user, const std::vector<gid_t>& groups_of_process) const {
  if (user == 0 || (users.empty() && groups.empty())) return true;
  const uid_t number = user == Peer::kPowerlessRoot ? 0 : user;
  if (std::find(users.begin(), users.end(), number) != users.end()) return true;
  return std::find_first_of(groups.begin(), groups.end(), groups_of_process.begin(),
                            groups_of_process.end()) != groups.end();
}

Accounts system_accounts() {
  return {
      [](const std::string& name) {
        return account<uid_t>(name, [](const char* n, std::vector<char>& room, uid_t& id) {
          passwd entry, *found = nullptr;
          const int error = getpwnam_r(n, &entry, room.data(), room.size(), &found);
          if (found == nullptr) return error == 0 ? ENOENT : error;
          id = found->pw_uid;
          return 0;
        });
      },
      [](const std::string& name) {
        return account<gid_t>(name, [](const char* n, std::vector<char>& room, gid_t& id) {
          group entry, *found = nullptr;
          const int error = getgrnam_r(n, &entry, room.data(), room.size(), &found);
          if (found == nullptr) return error == 0 ? ENOENT : error;
          id = found->gr_gid;
          return 0;
        });
      }};
}

Config parse_config(std::string_view text, const std::string& file, const Accounts& accounts) {
  try {
    return Reader(file, accounts).read(toml::parse(ascii_only(text, file), file));
  } catch (const toml::parse_error& error) {
    throw ConfigError(file + ":" + std::to_string(error.source().begin.line) + ": " +
                      printable(std::string(error.description())));
  } catch (const ConfigError&) {
    throw;
  } catch (const std::exception& error) {
    throw ConfigError(file + ": " + printable(error.what()));
  }
}

Config read_config(const std::string& file) {
  const auto fail = [&file](const std::string& why) { throw ConfigError(file + ": " + why); };
  const Descriptor fd(open(file.c_str(), O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
  if (!fd) fail(std::strerror(errno));
  struct stat status;
  if (fstat(fd.get(), &status) != 0) fail(std::strerror(errno));
  if (S_ISDIR(status.st_mode)) fail("is a directory");
  std::string text;
  char room[4096];
  for (;;) {
    const ssize_t bytes = read(fd.get(), room, sizeof room);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) fail(std::strerror(errno));
    if (bytes == 0) break;
    text.append(room, static_cast<std::size_t>(bytes));
    if (text.size() > kMaxFileBytes) fail("is longer than 1 MiB");
  }
  return parse_config(text, file);
}

}  // namespace viaduct
