#include "kagent/tools/viactl/doctor.h"

#include <linux/capability.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "kagent/contract/vip_codes.h"
#include "kagent/tools/viactl/words.h"

namespace viaduct::tool {
namespace {

constexpr std::uint32_t kLongestOneBuffer = 3822;  // MTU up to which a frame takes one buffer
constexpr std::uint32_t kLongestFrame = 9216;
constexpr std::uint64_t kFilesWanted = 4096;
constexpr std::uint64_t kTrialsInVain = 3;  // of trains; one or two may be lost to a busy machine
constexpr unsigned kCapBpf = 39;           // older headers do not have it
constexpr std::uint64_t kLongRoundNs = 100'000'000;

class Judge {
 public:
  explicit Judge(const Facts& facts) : facts_(facts) {}

  std::vector<Finding> take() {
    kernel();
    agent();
    for (const report::Nic& nic : facts_.nics) {
      if (nic.is_loopback == 0) interface(nic);
    }
    if (facts_.agent) service();
    return std::move(out_);
  }

 private:
  void say(Severity severity, std::string subject, std::string what, std::string mend = "") {
    out_.push_back({severity, std::move(subject), std::move(what), std::move(mend)});
  }
  void ok(std::string subject, std::string what) { say(Severity::kOk, std::move(subject), std::move(what)); }
  void note(std::string subject, std::string what, std::string mend) {
    say(Severity::kNote, std::move(subject), std::move(what), std::move(mend));
  }
  void problem(std::string subject, std::string what, std::string mend) {
    say(Severity::kProblem, std::move(subject), std::move(what), std::move(mend));
  }

  // A counter of a NIC, or (nic empty) of all together.
  std::uint64_t count(std::string_view name, std::string_view nic = {}) const {
    const std::string label = "nic=\"" + std::string(nic) + "\"";
    std::uint64_t sum = 0;
    for (const Counter& counter : facts_.counters) {
      if (counter.name == name && (nic.empty() || counter.labels == label)) sum += counter.value;
    }
    return sum;
  }

  bool older_than(unsigned major, unsigned minor) const {
    return facts_.kernel_major < major || (facts_.kernel_major == major && facts_.kernel_minor < minor);
  }

  void kernel() {
    if (!facts_.has_af_xdp) {
      problem("kernel", facts_.kernel + " has no AF_XDP sockets: frames go through libpcap, every program is hosted",
              "use a kernel with CONFIG_XDP_SOCKETS=y");
    } else if (older_than(5, 10)) {
      problem("kernel", facts_.kernel + " is older than 5.10, with which nothing has been tried", "use a newer one");
    } else if (older_than(6, 6)) {
      note("kernel", facts_.kernel + " has neither TCX nor frames of several buffers: MTUs beyond " +
                         std::to_string(kLongestOneBuffer) + " are not used", "Linux 6.6 or later has them");
    } else {
      ok("kernel", facts_.kernel + " has AF_XDP, TCX and frames of several buffers");
    }
    if (facts_.bpf_jit == 0u) {
      problem("kernel", "BPF programs are interpreted, which every frame pays for",
              "sysctl net.core.bpf_jit_enable=1");
    }
  }

  void agent() {
    for (const std::uint32_t process : facts_.dead_agents) {
      problem("agent", "process " + std::to_string(process) + ", an agent that was killed, does not end: it copies memory of "
                       "a program whose file system does not answer. Its AF_XDP socket may keep the next agent from native XDP",
              "end that file system (fusermount -u, umount -f, or kill its server), then restart viad");
    }
    if (!facts_.agent) {
      problem("agent", facts_.agent_error,
              facts_.agent_error.starts_with("no agent")
                  ? "start it: systemctl start viad, or viad --interface NAME; journalctl -u viad says why it "
                    "ended; another socket: viactl --socket"
                  : "");
      return;
    }
    const report::Status& status = *facts_.agent;
    ok("agent", "process " + std::to_string(status.process) + " answers at " + facts_.socket);
    if (facts_.version != status.version) {
      problem("agent", std::string("it is version ") + cell(status.version).text + ", what is installed is " + facts_.version,
              "restart it: systemctl restart viad (granted programs go on)");
    }
    if (status.user != 0) note("agent", "it runs as user " + user_text(status.user) + ", not as root", "");
    if (facts_.agent_locked_memory && *facts_.agent_locked_memory < (64u << 20)) {
      note("agent", "it may lock " + cell_bytes(*facts_.agent_locked_memory).text + " of memory: ports of programs need more",
           "LimitMEMLOCK=infinity in its unit");
    }
    if (facts_.agent_files && *facts_.agent_files < kFilesWanted) {
      problem("agent", "it may have " + std::to_string(*facts_.agent_files) + " files open, and each session takes several",
              "LimitNOFILE=524288 in its unit");
    }
    capabilities();
    if (status.longest_round_ns > kLongRoundNs) {
      // With these groups a program that yields while it spins, as those of MPI do, keeps others from a processor.
      const bool grouped = facts_.autogroups == 1u;
      note("agent", "a round of its loop took " + cell_duration(status.longest_round_ns).text +
                        ": it was without a processor for so long, or stopped",
           grouped ? "sysctl kernel.sched_autogroup_enabled=0, or give it a processor"
                   : "give it a processor, or a better nice value (Nice= in its unit)");
    }
  }

  void capabilities() {
    static constexpr struct {
      unsigned number, instead;
      bool for_af_xdp;
      const char *name, *what;
    } kRows[] = {
        {CAP_NET_RAW, CAP_NET_RAW, false, "CAP_NET_RAW", "it can't open the interface again"},
        {CAP_NET_ADMIN, CAP_NET_ADMIN, true, "CAP_NET_ADMIN", "it makes no ports for programs, all are hosted"},
        {kCapBpf, CAP_SYS_ADMIN, true, "CAP_BPF", "it can't load the programs that steer and filter frames"},
        {CAP_SYS_PTRACE, CAP_SYS_PTRACE, false, "CAP_SYS_PTRACE", "it can't reach the memory of other users' hosted programs"},
    };
    if (!facts_.agent_capabilities) return;
    // Agents that use only libpcap have given up capabilities that they do not need.
    const bool af_xdp = std::any_of(facts_.nics.begin(), facts_.nics.end(), [](const report::Nic& nic) {
      return nic.is_loopback == 0 && std::string_view(nic.mode) != "pcap";
    });
    const auto has = [this](unsigned number) { return (*facts_.agent_capabilities >> number & 1) != 0; };
    for (const auto& row : kRows) {
      if (has(row.number) || has(row.instead) || (row.for_af_xdp && !af_xdp)) continue;
      problem("agent", std::string("it has no ") + row.name + ": " + row.what,
              std::string("let it have that: CapabilityBoundingSet= in its unit, or start it as root"));
    }
  }

  void interface(const report::Nic& nic) {
    const std::string name = nic.interface;
    const auto it = facts_.interfaces.find(name);
    const InterfaceFacts here = it == facts_.interfaces.end() ? InterfaceFacts() : it->second;
    if (!here.exists) {
      problem(name, "there is no such interface in this network namespace",
              "bring it back, the agent looks for it every second; or name another one in viad.conf");
      return;
    }
    if (nic.up == 0) {
      problem(name, "the agent waits for it: " + cell(nic.why_not_granted).text,
              here.up ? "journalctl -u viad says more" : "ip link set " + name + " up");
      return;
    }
    const std::size_t before = out_.size();
    state_of(name, here);
    mode_of(name, nic, here);
    lengths_of(name, nic, here);
    addresses_of(name, here);
    traffic_of(name, nic);
    if (out_.size() == before) {
      ok(name, std::string(nic.mode) + ", MTU " + std::to_string(nic.mtu) + ", " + mac_text(nic.address));
    }
  }

  void state_of(const std::string& name, const InterfaceFacts& here) {
    if (!here.up) {
      problem(name, "it is down", "ip link set " + name + " up");
    } else if (!here.running) {
      problem(name, "it has no carrier", "look at the cable, the switch port, or the other end of the veth pair");
    }
  }

  void mode_of(const std::string& name, const report::Nic& nic, const InterfaceFacts& here) {
    const std::string mode = nic.mode;
    const std::string driver = here.driver.empty() ? "its driver" : "the driver " + here.driver;
    if (mode == "pcap") {
      problem(name, "libpcap carries the frames: several times slower, and all programs are hosted",
              "port = \"auto\" in viad.conf; the agent's log says why AF_XDP failed");
    } else if (mode.find("generic") != std::string::npos && here.hardware) {
      note(name, "generic XDP: " + driver + " has none of its own, or has no room for it",
           here.large_receive ? "ethtool -K " + name + " lro off, then restart viad"
                              : "ethtool -L " + name + " combined 1 gives the driver room for XDP queues; then restart viad");
    } else if (here.large_receive) {
      problem(name, "large receive offload merges frames before XDP sees them", "ethtool -K " + name + " lro off");
    }
    if (nic.grants == 0 && mode != "pcap") {
      note(name, "programs are hosted: " + cell(nic.why_not_granted).text,
           "see \"Programs with ports of their own\" in viad(8)");
    }
  }

  void lengths_of(const std::string& name, const report::Nic& nic, const InterfaceFacts& here) {
    if (here.mtu != 0 && here.mtu != nic.mtu && std::min(here.mtu, kLongestFrame) != nic.mtu) {
      const bool limited = nic.mtu == kLongestOneBuffer && here.mtu > nic.mtu;
      problem(name, "its MTU is " + std::to_string(here.mtu) + ", the agent uses " + std::to_string(nic.mtu) +
                        (limited ? ": kernel or driver has no frames of several buffers" : ": it was changed since"),
              limited ? "Linux 6.6 or later, or an MTU of at most " + std::to_string(kLongestOneBuffer)
                      : "systemctl restart viad");
    }
    // A connection's frames are as long as the smaller MTU of the two ends allows.
    std::set<std::string> short_ones;
    std::uint32_t longest = 0;
    for_connections_of(name, [&](const report::Vi& vi) { longest = std::max(longest, vi.payload); });
    for_connections_of(name, [&](const report::Vi& vi) {
      if (vi.payload < longest) short_ones.insert(mac_text(vi.peer_host));
    });
    if (!short_ones.empty()) {
      std::string hosts;
      for (const std::string& host : short_ones) hosts += (hosts.empty() ? "" : ", ") + host;
      problem(name, "neighbours with a smaller MTU: " + hosts, "set the same MTU on all hosts and on the switch");
    }
  }

  template <class Visit>
  void for_connections_of(const std::string& name, Visit visit) const {
    for (const report::Vi& vi : facts_.vis) {
      const report::Session* const session = session_of(vi, facts_.sessions);
      if (session == nullptr || session->nic >= facts_.nics.size()) continue;
      // Connections between programs of this host do not pass the interface.
      if (vi.state != vip::kConnected || name != facts_.nics[session->nic].interface) continue;
      if (std::equal(vi.peer_host, vi.peer_host + 6, facts_.nics[session->nic].address)) continue;
      visit(vi);
    }
  }

  void addresses_of(const std::string& name, const InterfaceFacts& here) {
    for (const std::string& other : here.same_address) {
      problem(name, "interface " + other + " has the same address, " + here.address,
              "give one of them another: ip link set " + other + " address ...");
    }
    if (count("stack_name_conflicts", name) > 0) {
      problem(name, "two hosts of the link answer to one name", "the agent's log says which; rename one (name in viad.conf)");
    }
  }

  void traffic_of(const std::string& name, const report::Nic& nic) {
    if (count("port_tx_frames", name) > 50 && count("port_rx_frames", name) == 0) {
      char type[8];
      std::snprintf(type, sizeof type, "0x%04x", nic.ether_type & 0xffff);
      problem(name, "frames were sent and none has ever come back",
              std::string("let EtherType ") + type + " pass on switches, hypervisors and firewalls (ebtables, nft bridge and netdev "
              "tables); is the other host's agent running?");
    }
    if (count("stack_trains_not_heard", name) >= kTrialsInVain && count("stack_trains_used", name) == 0) {
      note(name, "long messages go in single frames: no peer has heard the datagrams that could carry many at once",
           "let UDP datagrams between the hosts of the link pass: firewalls (nft list ruleset), IPAddressDeny= of the unit");
    }
    const std::uint64_t lost = count("port_rx_dropped_ring_full", name) + count("port_rx_dropped_no_fill", name);
    const std::uint64_t came = count("port_rx_frames", name);
    if (lost > 0 && lost * 1000 > came) {
      problem(name, std::to_string(lost) + " frames were dropped because the agent did not take them in time (" +
                        std::to_string(came) + " received)",
              "make frames and ring of [[nic]] larger, or give the agent a processor");
    }
    if (count("stack_drop_checksum", name) > 0) {
      problem(name, std::to_string(count("stack_drop_checksum", name)) + " frames were changed on their way",
              "look for a bad cable, memory or offload; checksums caught these");
    }
    if (count("stack_drop_version", name) > 0) {
      problem(name, "a host of the link speaks another version of the wire format", "install the same version everywhere");
    }
    if (nic.sessions >= nic.sessions_limit) problem(name, "all sessions are in use", "raise sessions in [limits]");
    if (nic.vis >= nic.vis_limit) problem(name, "all VIs are in use", "raise vis in [limits]");
  }

  void service() {
    static constexpr struct {
      const char *counter, *what, *mend;
    } kRows[] = {
        {"service_refused_access", "users were refused", "let them in by [access], or leave it so"},
        {"service_refused_user_limit", "users had all sessions that one may have", "raise sessions_per_user in [limits]"},
        {"service_refused_session_limit", "all sessions of a NIC were in use", "raise sessions in [limits]"},
        {"service_refused_version", "programs came with a library of another version",
         "restart those programs; libvipl and viad must be of one version"},
        {"service_refused_resources", "the system gave no memory or descriptors", "look at the agent's limits and its memory"},
        {"service_sessions_overdrawn", "sessions were ended: their user had too much memory for tables",
         "raise tables_mb_per_user in [limits]"},
        {"service_not_granted_ports", "programs were hosted because all ports were in use", "raise ports in [granted]"},
        {"service_not_granted_user_limit", "programs were hosted because their user had all ports that one may have",
         "raise ports_per_user in [granted]"},
        {"service_not_granted_failed", "ports could not be made", "the agent's log says why"},
    };
    for (const auto& row : kRows) {
      const std::uint64_t times = count(row.counter);
      if (times > 0) note("service", std::string(row.what) + " (" + std::to_string(times) + " times)", row.mend);
    }
  }

  const Facts& facts_;
  std::vector<Finding> out_;
};

constexpr const char* kWords[] = {"ok", "note", "problem"};
const char* word(Severity severity) { return kWords[static_cast<unsigned>(severity)]; }

// `text` in lines of at most `width`, those after the first one indented.
std::string wrapped(const std::string& text, std::size_t width, std::size_t indent) {
  if (width < indent + 20) return text + "\n";
  std::string out, line = text;
  while (line.size() > width) {
    std::size_t at = line.rfind(' ', width);
    if (at == std::string::npos || at <= indent) break;
    out += line.substr(0, at) + "\n";
    line = std::string(indent, ' ') + line.substr(at + 1);
  }
  return out + line + "\n";
}

}  // namespace

std::vector<Finding> diagnose(const Facts& facts) { return Judge(facts).take(); }

std::string findings_text(const std::vector<Finding>& findings, std::size_t width) {
  std::string out;
  for (const Finding& finding : findings) {
    std::string head = word(finding.severity);
    head.resize(9, ' ');
    out += wrapped(head + finding.subject + ": " + finding.what, width, 9);
    if (!finding.mend.empty()) out += wrapped("         mend: " + finding.mend, width, 15);
  }
  return out;
}

std::string findings_json(const std::vector<Finding>& findings) {
  Table table({{"", "severity"}, {"", "subject"}, {"", "what"}, {"", "mend"}});
  for (const Finding& finding : findings) {
    table.add({cell(word(finding.severity)), cell(finding.subject), cell(finding.what),
               finding.mend.empty() ? cell_none() : cell(finding.mend)});
  }
  return table.json();
}

}  // namespace viaduct::tool
