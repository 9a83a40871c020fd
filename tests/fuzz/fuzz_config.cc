// Fuzz target of the configuration file: any bytes as viad.conf. The parser must refuse bad files with messages that
// name the file and that a terminal can show.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "kagent/agent/config/config.h"

using namespace viaduct;  // NOLINT: one translation unit

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

void require(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "fuzz_config: %s\n", what);
  std::abort();
}

void judge_message(const std::string& text) {
  require(text.rfind("fuzz.conf:", 0) == 0, "a message does not name the file");
  for (const char c : text) require(c == '\n' || c >= ' ' || c < 0, "a control character is shown");
}

void judge_config(const Config& config) {
  const StackLimits& limits = config.limits;
  require(limits.vis + limits.cqs <= layout::kMostBits, "doorbells");
  require(limits.slots < layout::kMaxSlots, "slots");
  require(limits.sessions >= 1 && limits.vis >= 1 && limits.cqs >= 1, "a limit of 0");
  require(config.nics.size() <= kMaxNics, "too many NICs");
  for (const NicConfig& nic : config.nics) {
    require(!check_interface_name(nic.interface), "interface name");
    require(nic.ring <= nic.frames / 2 && nic.ring != 0, "ring");
  }
  require(config.granted.ports <= 256 && config.granted.umem_kb >= 256, "granted");
  for (const auto& [name, address] : config.hosts) {
    require(name == lower_case(name) && parse_mac(to_text(address)) == address, "a host");
  }
  for (const uid_t user : config.access.users) {
    require(config.access.allows(user, {}), "a user who is listed may not");
  }
  for (const gid_t group : config.access.groups) {
    require(config.access.allows(1, {group}), "a group that is listed may not");
  }
  require(!check_socket_name(config.socket_to_listen_at()), "socket name");
}

// The same as a file, with the accounts of this system.
void read_as_file(std::string_view text) {
  const int file = memfd_create("fuzz.conf", MFD_CLOEXEC);
  require(write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()), "write");
  try {
    read_config("/proc/self/fd/" + std::to_string(file));
  } catch (const ConfigError&) {
  }
  close(file);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Accounts accounts{
      [](const std::string& name) -> std::optional<uid_t> {
        if (name == "alice") return 1001;
        return std::nullopt;
      },
      [](const std::string& name) -> std::optional<gid_t> {
        if (name == "via") return 77;
        return std::nullopt;
      }};
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    judge_config(parse_config(text, "fuzz.conf", accounts));
  } catch (const ConfigError& error) {
    judge_message(error.what());
  }
  read_as_file(text);
  return 0;
}
