#include "kagent/tools/viactl/doctor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "kagent/contract/vip_codes.h"

namespace viaduct::tool {
namespace {

using testing::HasSubstr;

// A host that nothing is wrong with.
Facts healthy() {
  Facts out;
  out.kernel = "6.18.1";
  out.kernel_major = 6;
  out.kernel_minor = 18;
  out.has_af_xdp = true;
  out.bpf_jit = 1;
  out.version = "1.2";
  out.socket = "@viaduct";
  report::Status status{};
  std::strcpy(status.version, "1.2");
  status.process = 5;
  out.agent = status;
  out.agent_locked_memory = ~0ull;
  out.agent_files = 100000;
  out.agent_capabilities = ~0ull;
  report::Nic nic{};
  std::strcpy(nic.interface, "eth0");
  std::strcpy(nic.mode, "xdp-native");
  nic.up = nic.grants = 1;
  nic.mtu = 1500;
  nic.ether_type = 0x88b5;
  nic.sessions_limit = nic.vis_limit = 10;
  out.nics = {nic};
  InterfaceFacts interface;
  interface.exists = interface.up = interface.running = interface.hardware = true;
  interface.mtu = 1500;
  interface.address = "02:00:00:00:00:01";
  out.interfaces["eth0"] = interface;
  return out;
}

// That there is one finding besides those that say "ok", of this severity, with this in it.
void expect_one(const Facts& facts, Severity severity, const char* what) {
  std::vector<Finding> found;
  for (const Finding& each : diagnose(facts)) {
    if (each.severity != Severity::kOk) found.push_back(each);
  }
  ASSERT_EQ(found.size(), 1u) << what << "\n" << findings_text(found, 0);
  EXPECT_EQ(found[0].severity, severity) << what;
  EXPECT_THAT(found[0].what, HasSubstr(what));
}
void expect_problem(const Facts& facts, const char* what) { expect_one(facts, Severity::kProblem, what); }
void expect_note(const Facts& facts, const char* what) { expect_one(facts, Severity::kNote, what); }

TEST(DoctorTest, SeesWhatTheAgentMayNotDo) {
  const auto without = [](std::uint64_t bits) {
    Facts facts = healthy();
    facts.agent_capabilities = ~bits;
    return facts;
  };
  constexpr std::uint64_t kNetAdmin = 1 << 12, kNetRaw = 1 << 13, kPtrace = 1 << 19, kSysAdmin = 1 << 21, kBpf = 1ull << 39;
  expect_problem(without(kNetRaw), "no CAP_NET_RAW");
  expect_problem(without(kNetAdmin), "no CAP_NET_ADMIN");
  expect_problem(without(kPtrace), "no CAP_SYS_PTRACE");
  expect_problem(without(kBpf | kSysAdmin), "no CAP_BPF");
  for (const std::uint64_t one : {kBpf, kSysAdmin}) {
    for (const Finding& each : diagnose(without(one))) EXPECT_EQ(each.severity, Severity::kOk) << each.what;
  }
}

TEST(DoctorTest, SeesThatNoTrainsArrive) {
  Facts facts = healthy();
  facts.counters = {{"stack_trains_not_heard", "nic=\"eth0\"", 3}};
  expect_note(facts, "single frames");
  facts.counters.push_back({"stack_trains_used", "nic=\"eth0\"", 1});
  for (const Finding& each : diagnose(facts)) EXPECT_EQ(each.severity, Severity::kOk) << each.what;
}

TEST(DoctorTest, FindsNothingWhereNothingIsWrong) {
  const auto found = diagnose(healthy());
  EXPECT_EQ(found.size(), 3u);
  for (const Finding& each : found) EXPECT_EQ(each.severity, Severity::kOk) << each.what;
}

TEST(DoctorTest, AgentWithoutAProcessor) {
  Facts facts = healthy();
  facts.autogroups = 1;
  facts.agent->longest_round_ns = 90'000'000;
  for (const Finding& each : diagnose(facts)) EXPECT_EQ(each.severity, Severity::kOk) << each.what;
  facts.agent->longest_round_ns = 2'000'000'000;
  const auto mend = [&facts] {
    for (const Finding& each : diagnose(facts)) {
      if (each.severity == Severity::kNote) return each.mend;
    }
    return std::string();
  };
  EXPECT_THAT(mend(), HasSubstr("sched_autogroup_enabled=0"));
  facts.autogroups = 0;
  EXPECT_THAT(mend(), HasSubstr("Nice="));
}

TEST(DoctorTest, KernelAndAgent) {
  Facts facts = healthy();
  facts.has_af_xdp = false;
  expect_problem(facts, "no AF_XDP");
  facts = healthy();
  facts.bpf_jit = 0;
  expect_problem(facts, "interpreted");
  facts = healthy();
  facts.kernel_minor = 1;
  expect_note(facts, "neither TCX");
  facts = healthy();
  facts.agent.reset();
  facts.nics.clear();
  facts.agent_error = "no agent at @viaduct: Connection refused";
  expect_problem(facts, "no agent at");
  facts = healthy();
  facts.dead_agents = {4711};
  expect_problem(facts, "process 4711, an agent that was killed");
  facts = healthy();
  facts.version = "1.3";
  expect_problem(facts, "it is version 1.2, what is installed is 1.3");
  facts = healthy();
  facts.agent_files = 1024;
  expect_problem(facts, "1024 files");
  facts = healthy();
  facts.agent_locked_memory = 65536;
  expect_note(facts, "may lock");
}

TEST(DoctorTest, Interfaces) {
  Facts facts = healthy();
  facts.interfaces["eth0"].exists = false;
  expect_problem(facts, "no such interface");
  facts = healthy();
  facts.interfaces["eth0"].up = false;
  expect_problem(facts, "it is down");
  facts = healthy();
  facts.interfaces["eth0"].running = false;
  expect_problem(facts, "no carrier");
  facts = healthy();
  std::strcpy(facts.nics[0].mode, "pcap");
  expect_problem(facts, "libpcap");
  facts = healthy();
  std::strcpy(facts.nics[0].mode, "xdp-generic");
  expect_note(facts, "generic XDP");
  facts.interfaces["eth0"].hardware = false;
  EXPECT_EQ(diagnose(facts).size(), 3u);
  facts = healthy();
  facts.interfaces["eth0"].large_receive = true;
  expect_problem(facts, "large receive offload");
  facts = healthy();
  facts.interfaces["eth0"].same_address = {"eth7"};
  expect_problem(facts, "eth7 has the same address");
}

TEST(DoctorTest, FrameLengths) {
  Facts facts = healthy();
  facts.interfaces["eth0"].mtu = 9000;
  expect_problem(facts, "it was changed since");
  facts.nics[0].mtu = 3822;
  expect_problem(facts, "several buffers");
  facts = healthy();
  report::Session session{};
  session.id = 1;
  facts.sessions = {session};
  report::Vi vi{};
  vi.session = 1;
  vi.state = vip::kConnected;
  vi.payload = 1456;
  vi.peer_host[5] = 1;
  facts.vis = {vi, vi};
  EXPECT_EQ(diagnose(facts).size(), 3u);
  facts.vis[1].payload = 1000;
  facts.vis[1].peer_host[5] = 2;
  expect_problem(facts, "smaller MTU: 00:00:00:00:00:02");
}

TEST(DoctorTest, Traffic) {
  Facts facts = healthy();
  facts.counters = {{"port_tx_frames", "nic=\"eth0\"", 100}, {"port_rx_frames", "nic=\"eth0\"", 0},
                    {"port_rx_frames", "nic=\"eth1\"", 5}};
  expect_problem(facts, "none has ever come back");
  facts.counters = {{"port_rx_dropped_ring_full", "nic=\"eth0\"", 10}, {"port_rx_frames", "nic=\"eth0\"", 1000}};
  expect_problem(facts, "did not take them in time");
  facts.counters[1].value = 100000;
  EXPECT_EQ(diagnose(facts).size(), 3u);
  facts.counters = {{"service_not_granted_ports", "", 3}};
  expect_note(facts, "all ports were in use (3 times)");
  facts = healthy();
  facts.nics[0].vis = 10;
  expect_problem(facts, "all VIs are in use");
}

TEST(DoctorTest, EveryProblemSaysHowToMendIt) {
  Facts facts = healthy();
  facts.has_af_xdp = false;
  facts.bpf_jit = 0;
  facts.interfaces["eth0"].up = false;
  facts.interfaces["eth0"].same_address = {"eth7"};
  for (const Finding& each : diagnose(facts)) {
    EXPECT_TRUE(each.severity != Severity::kProblem || !each.mend.empty()) << each.what;
  }
}

}  // namespace
}  // namespace viaduct::tool
