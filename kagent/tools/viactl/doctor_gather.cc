// Gathers the facts that viactl doctor judges.
#include <linux/capability.h>
#include <linux/ethtool.h>
#include <linux/sockios.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#ifdef HAVE_CONFIG_H
#include <config.h>
#endif

#include "kagent/tools/viactl/doctor.h"
#include "xdp/descriptor.h"

namespace viaduct::tool {
namespace {

std::string first_line(const std::string& path) {
  std::ifstream file(path);
  std::string out;
  std::getline(file, out);
  return out;
}

std::optional<unsigned> number_in(const std::string& path) {
  const std::string text = first_line(path);
  if (text.empty() || text[0] < '0' || text[0] > '9') return std::nullopt;
  return static_cast<unsigned>(std::strtoul(text.c_str(), nullptr, 10));
}

void look_at_kernel(Facts& facts) {
  utsname name{};
  uname(&name);
  facts.kernel = name.release;
  std::sscanf(name.release, "%u.%u", &facts.kernel_major, &facts.kernel_minor);
  const Descriptor fd(socket(AF_XDP, SOCK_RAW, 0));
  facts.has_af_xdp = fd || errno != EAFNOSUPPORT;
  facts.bpf_jit = number_in("/proc/sys/net/core/bpf_jit_enable");
  facts.autogroups = number_in("/proc/sys/kernel/sched_autogroup_enabled");
}

// The soft limit of a line of /proc/PID/limits.
std::optional<std::uint64_t> limit_of(std::uint32_t process, const std::string& name) {
  std::ifstream file("/proc/" + std::to_string(process) + "/limits");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream rest(line.substr(name.size()));
    std::string soft;
    rest >> soft;
    if (soft == "unlimited") return ~0ull;
    return std::strtoull(soft.c_str(), nullptr, 10);
  }
  return std::nullopt;
}

// No value: they can't be read.
std::optional<std::uint64_t> capabilities_of(std::uint32_t process) {
  constexpr std::string_view kName = "CapEff:";
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kName)) return std::strtoull(line.c_str() + kName.size(), nullptr, 16);
  }
  return std::nullopt;
}

// Whether the process is an agent of this network namespace whose first thread has ended while another is there.
// A thread that ends leaves its namespaces before it is gone; namespaces of other users' threads can't be read.
bool is_dead_agent(const std::filesystem::path& process) {
  if (first_line(process / "comm") != "viad") return false;
  const std::string status = first_line(process / "stat");
  const std::size_t name_end = status.rfind(") ");
  if (name_end == status.npos || status[name_end + 2] != 'Z') return false;
  std::error_code gone;
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/ns/net", gone);
  std::filesystem::directory_iterator thread(process / "task", gone);
  for (; !gone && thread != std::filesystem::directory_iterator(); thread.increment(gone)) {
    if (thread->path().filename() == process.filename()) continue;
    std::error_code hidden;
    const std::filesystem::path there = std::filesystem::read_symlink(thread->path() / "ns/net", hidden);
    if (there == here || hidden == std::errc::permission_denied) return true;
  }
  return false;
}

// Agents that were killed and do not end. One that does end takes part of a second, more on a busy machine.
std::vector<std::uint32_t> find_dead_agents() {
  constexpr auto kLookEvery = std::chrono::milliseconds(50);
  constexpr unsigned kLooks = 40;
  std::vector<std::filesystem::path> dead;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    if (is_dead_agent(entry.path())) dead.push_back(entry.path());
  }
  for (unsigned look = 1; look < kLooks && !dead.empty(); ++look) {
    std::this_thread::sleep_for(kLookEvery);
    std::erase_if(dead, [](const auto& process) { return !is_dead_agent(process); });
  }
  std::vector<std::uint32_t> out;
  for (const auto& process : dead) out.push_back(static_cast<std::uint32_t>(std::stoul(process.filename().string())));
  return out;
}

void ask_driver(const std::string& name, InterfaceFacts& out) {
  const Descriptor fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  name.copy(request.ifr_name, sizeof request.ifr_name - 1);
  if (ioctl(fd.get(), SIOCGIFFLAGS, &request) == 0) {
    out.up = (request.ifr_flags & IFF_UP) != 0;
    out.running = (request.ifr_flags & IFF_RUNNING) != 0;
  }
  ethtool_drvinfo driver{};
  driver.cmd = ETHTOOL_GDRVINFO;
  request.ifr_data = reinterpret_cast<char*>(&driver);
  if (ioctl(fd.get(), SIOCETHTOOL, &request) == 0) {
    out.driver.assign(driver.driver, strnlen(driver.driver, sizeof driver.driver));
  }
  ethtool_value flags{};
  flags.cmd = ETHTOOL_GFLAGS;
  request.ifr_data = reinterpret_cast<char*>(&flags);
  if (ioctl(fd.get(), SIOCETHTOOL, &request) == 0) out.large_receive = (flags.data & ETH_FLAG_LRO) != 0;
}

// Whether the interface is a VLAN, bridge or bond, which has the address of an interface that it is made of.
bool is_stacked(const std::filesystem::path& interface) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(interface, error)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("lower_") || name.starts_with("upper_")) return true;
  }
  return false;
}

InterfaceFacts look_at_interface(const std::string& name) {
  const std::filesystem::path all = "/sys/class/net";
  InterfaceFacts out;
  std::error_code error;
  const unsigned index = if_nametoindex(name.c_str());
  out.exists = index != 0;
  if (!out.exists) return out;
  ask_driver(name, out);
  // /sys may be that of another network namespace.
  if (number_in(all / name / "ifindex") != index) return out;
  out.hardware = std::filesystem::exists(all / name / "device", error);
  out.mtu = number_in(all / name / "mtu").value_or(0);
  out.address = first_line(all / name / "address");
  for (const auto& entry : std::filesystem::directory_iterator(all, error)) {
    const std::string other = entry.path().filename();
    if (other == name || is_stacked(entry.path())) continue;
    if (!out.address.empty() && first_line(entry.path() / "address") == out.address) {
      out.same_address.push_back(other);
    }
  }
  return out;
}

}  // namespace

Facts gather(const AgentClient& agent) {
  Facts facts;
  facts.version = PACKAGE_VERSION;
  facts.socket = agent.socket_name();
  look_at_kernel(facts);
  facts.dead_agents = find_dead_agents();
  try {
    facts.agent = agent.status();
    facts.nics = agent.nics();
    facts.sessions = agent.sessions();
    facts.vis = agent.vis(facts.sessions, facts.nics.size());
    facts.counters = parse_counters(agent.counters(), "");
  } catch (const std::exception& error) {
    facts.agent_error = error.what();
  }
  if (facts.agent) {
    facts.agent_capabilities = capabilities_of(facts.agent->process);
    // A process with CAP_IPC_LOCK has no limit.
    if (facts.agent_capabilities && (*facts.agent_capabilities >> CAP_IPC_LOCK & 1) == 0) {
      facts.agent_locked_memory = limit_of(facts.agent->process, "Max locked memory");
    }
    facts.agent_files = limit_of(facts.agent->process, "Max open files");
  }
  for (const report::Nic& nic : facts.nics) {
    if (nic.is_loopback == 0) facts.interfaces[nic.interface] = look_at_interface(nic.interface);
  }
  return facts;
}

}  // namespace viaduct::tool
