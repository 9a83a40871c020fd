#include "kagent/agent/config/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>

#include "kagent/contract/crc32c.h"

namespace viaduct {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Accounts test_accounts() {
  return {[](const std::string& name) -> std::optional<uid_t> {
            if (name == "alice") return 1001;
            return std::nullopt;
          },
          [](const std::string& name) -> std::optional<gid_t> {
            if (name == "via") return 77;
            return std::nullopt;
          }};
}

Config parse(const std::string& text) { return parse_config(text, "viad.conf", test_accounts()); }

// The parser's complaint; empty if there is none.
std::string complaint(const std::string& text) {
  try {
    parse(text);
    return "";
  } catch (const ConfigError& error) {
    return error.what();
  }
}

TEST(Config, HasDefaultsForEverythingButTheInterface) {
  const Config config = parse("[[nic]]\ninterface = 'eth0'\n");
  EXPECT_STREQ(config.socket_to_listen_at(), "/run/viaduct/socket");
  EXPECT_EQ(config.name, "");
  EXPECT_EQ(config.spin_us, 50u);
  EXPECT_EQ(config.log_level, "info");
  EXPECT_EQ(config.placement, control::Placement::kAny);
  EXPECT_EQ(config.granted.ports, 16u);
  EXPECT_EQ(config.granted.ports_per_user, 8u);
  EXPECT_EQ(config.granted.ready_ports, 8u);
  EXPECT_EQ(config.granted.umem_kb, 4096u);
  EXPECT_EQ(config.granted.reattach_ms, 10'000u);
  EXPECT_TRUE(config.granted.access.allows(12345, {}));
  ASSERT_EQ(config.nics.size(), 1u);
  EXPECT_EQ(config.nics[0].port, PortKind::kAuto);
  EXPECT_EQ(config.nics[0].ether_type, 0x88b5);
  EXPECT_EQ(config.limits.vis, StackLimits().vis);
  EXPECT_TRUE(config.access.allows(12345, {}));
}

TEST(Config, TakesEveryKey) {
  const Config config = parse(R"(
socket = "/run/viaduct/socket"
name = "Alpha.example.org"
spin_us = 0
log_level = "debug"
placement = "hosted"
[[nic]]
interface = "eth0"
port = "pcap"
ether_type = 0x88b6
frames = 1024
ring = 256
[[nic]]
interface = "eth1"
port = "xdp-generic"
trains = "off"
[limits]
sessions = 10
sessions_per_user = 3
vis = 100
vis_per_user = 50
regions_per_user = 60
memory_mb_per_user = 70
tables_mb_per_user = 80
cqs = 20
regions = 500
ptags = 30
slots = 2048
max_transfer = 65536
keepalive_ms = 100
peer_timeout_ms = 900
stopped_peer_ms = 5000
[access]
users = ["alice", 5, "6"]
groups = ["via", 8]
[granted]
users = ["alice", 9]
groups = [10, "via"]
ports = 4
ports_per_user = 2
ready_ports = 3
umem_kb = 1024
reattach_ms = 500
[hosts]
Beta = "02:00:00:00:00:0B"
"gamma.example.org" = "02:00:00:00:00:0c"
)");
  EXPECT_EQ(config.socket, "/run/viaduct/socket");
  EXPECT_EQ(config.name, "Alpha.example.org");
  EXPECT_EQ(config.spin_us, 0u);
  EXPECT_EQ(config.log_level, "debug");
  ASSERT_EQ(config.nics.size(), 2u);
  EXPECT_EQ(config.nics[0].port, PortKind::kPcap);
  EXPECT_EQ(config.nics[0].ether_type, 0x88b6);
  EXPECT_EQ(config.nics[0].frames, 1024u);
  EXPECT_EQ(config.nics[0].ring, 256u);
  EXPECT_EQ(config.nics[1].interface, "eth1");
  EXPECT_EQ(config.nics[1].port, PortKind::kXdpGeneric);
  EXPECT_TRUE(config.nics[0].trains);
  EXPECT_FALSE(config.nics[1].trains);
  EXPECT_EQ(config.limits.sessions, 10u);
  EXPECT_EQ(config.sessions_per_user, 3u);
  EXPECT_EQ(config.limits.vis, 100u);
  EXPECT_EQ(config.user_limits.vis, 50u);
  EXPECT_EQ(config.user_limits.regions, 60u);
  EXPECT_EQ(config.user_limits.memory_mb, 70u);
  EXPECT_EQ(config.user_limits.tables_mb, 80u);
  EXPECT_EQ(config.limits.cqs, 20u);
  EXPECT_EQ(config.limits.regions, 500u);
  EXPECT_EQ(config.limits.ptags, 30u);
  EXPECT_EQ(config.limits.slots, 2048u);
  EXPECT_EQ(config.limits.max_transfer, 65536u);
  EXPECT_EQ(config.limits.keepalive_ns, 100'000'000u);
  EXPECT_EQ(config.limits.peer_timeout_ns, 900'000'000u);
  EXPECT_EQ(config.limits.stopped_peer_ns, 5'000'000'000u);
  EXPECT_THAT(config.access.users, ElementsAre(1001, 5, 6));
  EXPECT_THAT(config.access.groups, ElementsAre(77, 8));
  EXPECT_EQ(config.placement, control::Placement::kHosted);
  EXPECT_THAT(config.granted.access.users, ElementsAre(1001, 9));
  EXPECT_THAT(config.granted.access.groups, ElementsAre(10, 77));
  EXPECT_EQ(config.granted.ports, 4u);
  EXPECT_EQ(config.granted.ports_per_user, 2u);
  EXPECT_EQ(config.granted.ready_ports, 3u);
  EXPECT_EQ(config.granted.umem_kb, 1024u);
  EXPECT_EQ(config.granted.reattach_ms, 500u);
  ASSERT_EQ(config.hosts.size(), 2u);
  EXPECT_EQ(to_text(config.hosts.at("beta")), "02:00:00:00:00:0b");
}

struct Bad {
  const char* name;
  const char* text;
  const char* start;  // of the message
  const char* part;
};
void PrintTo(const Bad& bad, std::ostream* out) { *out << bad.name; }

class ConfigRefuses : public testing::TestWithParam<Bad> {};

TEST_P(ConfigRefuses, WithFileLineAndKey) {
  const std::string said = complaint(GetParam().text);
  EXPECT_EQ(said.rfind(GetParam().start, 0), 0u) << said;
  EXPECT_THAT(said, HasSubstr(GetParam().part));
  EXPECT_EQ(said.find('\n'), std::string::npos) << "more than one complaint: " << said;
}

constexpr Bad kBad[] = {
    {"Syntax", "\nsocket = \n", "viad.conf:2: ", ""},
    {"UnfinishedText", "socket = \"@x\n", "viad.conf:1: ", ""},
    {"KeyTwice", "spin_us = 1\nspin_us = 2\n", "viad.conf:2: ", "spin_us"},
    {"NotAscii", "# \xc3\xa9\nname = \"\xc3\xa9\"\n", "viad.conf:2: ", "only comments"},
    {"NotAsciiAfterTexts", "name = 'a' # \xff '\nsocket = \"@\\\"#\xff\"\n", "viad.conf:2: ",
     "only comments"},
    {"NotAsciiInLongText", "name = '''\n# \xff'''\n", "viad.conf:2: ", "only comments"},
    {"NotAsciiBetween", "spin_us = 1\xc2\xa0\n", "viad.conf:1: ", "only comments"},
    {"ParserAssertion", "\n[[?nic]]\n", "viad.conf:2: ", ""},
    {"UnknownKey", "spin_us = 1\nno_such = 1\n", "viad.conf:2: no_such: ", "unknown key"},
    {"UnknownTable", "\n[colours]\nred = 1\n", "viad.conf:2: colours: ", "unknown key"},
    {"SocketType", "socket = 5\n", "viad.conf:1: socket: ", "text in quotes"},
    {"SocketRelative", "socket = 'x/y'\n", "viad.conf:1: socket: ", "absolute"},
    {"SocketEmpty", "socket = ''\n", "viad.conf:1: socket: ", "absolute"},
    {"SocketOnlyAt", "socket = '@'\n", "viad.conf:1: socket: ", "absolute"},
    {"SocketNul", "socket = \"/a\\u0000b\"\n", "viad.conf:1: socket: ", "control"},
    {"NameType", "name = true\n", "viad.conf:1: name: ", "text in quotes"},
    {"NameBlank", "name = 'a b'\n", "viad.conf:1: name: ", "no host name"},
    {"SpinNegative", "spin_us = -1\n", "viad.conf:1: spin_us: ", "out of range"},
    {"SpinLarge", "\n\nspin_us = 1000001\n", "viad.conf:3: spin_us: ", "0 to 1000000"},
    {"SpinType", "spin_us = '50'\n", "viad.conf:1: spin_us: ", "whole number"},
    {"SpinFloat", "spin_us = 50.0\n", "viad.conf:1: spin_us: ", "whole number"},
    {"LogLevel", "log_level = 'loud'\n", "viad.conf:1: log_level: ", "\"loud\""},
    {"NicTable", "[nic]\ninterface = 'eth0'\n", "viad.conf:1: nic: ", "[[nic]]"},
    {"NicNumber", "nic = 3\n", "viad.conf:1: nic: ", "[[nic]]"},
    {"NicNoInterface", "\n[[nic]]\nport = 'auto'\n", "viad.conf:2: nic[0].interface: ", "missing"},
    {"NicInterfaceType", "[[nic]]\ninterface = 7\n", "viad.conf:2: nic[0].interface: ", "text"},
    {"NicInterfaceLong", "[[nic]]\ninterface = 'abcdefghijklmnop'\n",
     "viad.conf:2: nic[0].interface: ", "no name of an interface"},
    {"NicInterfaceSlash", "[[nic]]\ninterface = '../etc'\n", "viad.conf:2: nic[0].interface: ",
     "no name of an interface"},
    {"NicInterfaceTwice", "[[nic]]\ninterface = 'a'\n[[nic]]\ninterface = 'a'\n",
     "viad.conf:4: nic[1].interface: ", "already"},
    {"NicPort", "[[nic]]\ninterface = 'a'\nport = 'warp'\n", "viad.conf:3: nic[0].port: ",
     "\"warp\""},
    {"NicPortType", "[[nic]]\ninterface = 'a'\nport = 1\n", "viad.conf:3: nic[0].port: ", "text"},
    {"NicEtherTypeSmall", "[[nic]]\ninterface = 'a'\nether_type = 0x5ff\n",
     "viad.conf:3: nic[0].ether_type: ", "out of range"},
    {"NicEtherTypeLarge", "[[nic]]\ninterface = 'a'\nether_type = 0x10000\n",
     "viad.conf:3: nic[0].ether_type: ", "out of range"},
    {"NicEtherTypeIp", "[[nic]]\ninterface = 'a'\nether_type = 0x0800\n",
     "viad.conf:3: nic[0].ether_type: ", "another protocol"},
    {"NicFramesPower", "[[nic]]\ninterface = 'a'\nframes = 8000\n", "viad.conf:3: nic[0].frames: ",
     "power of two"},
    {"NicFramesSmall", "[[nic]]\ninterface = 'a'\nframes = 256\nring = 64\n",
     "viad.conf:3: nic[0].frames: ", "out of range"},
    {"NicTrains", "[[nic]]\ninterface = 'a'\ntrains = 'on'\n", "viad.conf:3: nic[0].trains: ",
     "neither auto nor off"},
    {"NicRingPower", "[[nic]]\ninterface = 'a'\nring = 100\n", "viad.conf:3: nic[0].ring: ",
     "power of two"},
    {"NicRingLarge", "[[nic]]\ninterface = 'a'\nring = 1024\nframes = 1024\n", "viad.conf:",
     "more than half"},
    {"NicUnknown", "[[nic]]\ninterface = 'a'\ncolour = 1\n", "viad.conf:3: nic[0].colour: ",
     "unknown key"},
    {"LimitsType", "limits = 3\n", "viad.conf:1: limits: ", "table"},
    {"LimitsUnknown", "[limits]\nshoes = 2\n", "viad.conf:2: limits.shoes: ", "unknown key"},
    {"Sessions", "[limits]\nsessions = 0\n", "viad.conf:2: limits.sessions: ", "out of range"},
    {"SessionsPerUser", "[limits]\nsessions_per_user = 0\n",
     "viad.conf:2: limits.sessions_per_user: ", "out of range"},
    {"Vis", "[limits]\nvis = 0\n", "viad.conf:2: limits.vis: ", "out of range"},
    {"VisType", "[limits]\nvis = 'many'\n", "viad.conf:2: limits.vis: ", "whole number"},
    {"Cqs", "[limits]\ncqs = 0\n", "viad.conf:2: limits.cqs: ", "out of range"},
    {"VisAndCqs", "[limits]\nvis = 16000\ncqs = 257\n", "viad.conf:1: limits: ", "16255"},
    {"Regions", "[limits]\nregions = 1048575\n", "viad.conf:2: limits.regions: ", "out of range"},
    {"Ptags", "[limits]\nptags = 1048575\n", "viad.conf:2: limits.ptags: ", "out of range"},
    {"Slots", "[limits]\nslots = 1048576\n", "viad.conf:2: limits.slots: ", "out of range"},
    {"SlotsFew", "[limits]\nslots = 1\n", "viad.conf:2: limits.slots: ", "out of range"},
    {"MaxTransfer", "[limits]\nmax_transfer = 1024\n", "viad.conf:2: limits.max_transfer: ",
     "out of range"},
    {"MaxTransferHuge", "[limits]\nmax_transfer = 9223372036854775807\n",
     "viad.conf:2: limits.max_transfer: ", "out of range"},
    {"NumberTooLarge", "[limits]\nmax_transfer = 9223372036854775808\n", "viad.conf:2: ", ""},
    {"Keepalive", "[limits]\nkeepalive_ms = 9\n", "viad.conf:2: limits.keepalive_ms: ",
     "out of range"},
    {"PeerTimeout", "[limits]\npeer_timeout_ms = 600001\n", "viad.conf:2: limits.peer_timeout_ms: ",
     "out of range"},
    {"StoppedPeer", "[limits]\nstopped_peer_ms = 86400001\n",
     "viad.conf:2: limits.stopped_peer_ms: ",
     "out of range"},
    {"PeerTimeoutShort", "[limits]\nkeepalive_ms = 500\npeer_timeout_ms = 999\n",
     "viad.conf:1: limits: ", "twice keepalive_ms"},
    {"AccessUnknown", "[access]\nall = true\n", "viad.conf:2: access.all: ", "unknown key"},
    {"AccessUsersType", "[access]\nusers = 'alice'\n", "viad.conf:2: access.users: ", "list"},
    {"AccessUserUnknown", "[access]\nusers = ['bob']\n", "viad.conf:2: access.users: ", "\"bob\""},
    {"AccessUserNegative", "[access]\nusers = [-1]\n", "viad.conf:2: access.users: ", "-1"},
    {"AccessUserNobody", "[access]\nusers = [4294967295]\n", "viad.conf:2: access.users: ",
     "4294967295"},
    {"AccessUserType", "[access]\nusers = [1.5]\n", "viad.conf:2: access.users: ", "number"},
    {"AccessGroupUnknown", "[access]\ngroups = [\n1,\n'x']\n", "viad.conf:4: access.groups: ",
     "\"x\""},
    {"Placement", "placement = 'kernel'\n", "viad.conf:1: placement: ", "\"kernel\""},
    {"Checksum", "checksum = 'yes'\n", "viad.conf:1: checksum: ", "\"yes\""},
    {"ChecksumType", "checksum = true\n", "viad.conf:1: checksum: ", "text in quotes"},
    {"PlacementType", "placement = 1\n", "viad.conf:1: placement: ", "text in quotes"},
    {"GrantedType", "granted = 'all'\n", "viad.conf:1: granted: ", "table"},
    {"GrantedUnknown", "[granted]\nframes = 1\n", "viad.conf:2: granted.frames: ", "unknown key"},
    {"GrantedUsersType", "[granted]\nusers = 'alice'\n", "viad.conf:2: granted.users: ", "list"},
    {"GrantedUserUnknown", "[granted]\nusers = ['bob']\n", "viad.conf:2: granted.users: ",
     "\"bob\""},
    {"GrantedGroupUnknown", "[granted]\ngroups = ['x']\n", "viad.conf:2: granted.groups: ",
     "\"x\""},
    {"GrantedPorts", "[granted]\nports = 257\n", "viad.conf:2: granted.ports: ", "out of range"},
    {"GrantedPortsPerUser", "[granted]\nports_per_user = 0\n",
     "viad.conf:2: granted.ports_per_user: ", "out of range"},
    {"GrantedUmemSmall", "[granted]\numem_kb = 128\n", "viad.conf:2: granted.umem_kb: ",
     "out of range"},
    {"GrantedAdrift", "[granted]\nreattach_ms = 600001\n", "viad.conf:2: granted.reattach_ms: ",
     "out of range"},
    {"GrantedUmemPower", "[granted]\numem_kb = 1000\n", "viad.conf:2: granted.umem_kb: ",
     "power of two"},
    {"HostMac", "[hosts]\nb = '02:00:00'\n", "viad.conf:2: hosts.\"b\": ", "MAC address"},
    {"HostMacSigns", "[hosts]\nb = '02:00:00:00:00:-1'\n", "viad.conf:2: hosts.\"b\": ",
     "MAC address"},
    {"HostMacGroup", "[hosts]\nb = '01:00:00:00:00:01'\n", "viad.conf:2: hosts.\"b\": ",
     "MAC address"},
    {"HostMacZero", "[hosts]\nb = '00:00:00:00:00:00'\n", "viad.conf:2: hosts.\"b\": ",
     "MAC address"},
    {"HostType", "[hosts]\nb = 5\n", "viad.conf:2: hosts.\"b\": ", "text in quotes"},
    {"HostDots", "[hosts]\na.b = '02:00:00:00:00:01'\n", "viad.conf:2: hosts.\"a\": ",
     "in quotes"},
    {"HostName", "[hosts]\n'a b' = '02:00:00:00:00:01'\n", "viad.conf:2: hosts.\"a b\": ",
     "no host name"},
    {"HostTwice", "[hosts]\nB = '02:00:00:00:00:01'\nb = '02:00:00:00:00:02'\n", "viad.conf:",
     "twice"},
};
INSTANTIATE_TEST_SUITE_P(Each, ConfigRefuses, testing::ValuesIn(kBad),
                         [](const auto& each) { return std::string(each.param.name); });

TEST(Config, AsksForChecksumsAsItIsTold) {
  EXPECT_EQ(parse_config("", "viad.conf").limits.checksum, crc32c_is_fast());
  EXPECT_EQ(parse_config("checksum = 'auto'", "viad.conf").limits.checksum, crc32c_is_fast());
  EXPECT_TRUE(parse_config("checksum = 'on'\n[limits]\nvis = 7\n", "viad.conf").limits.checksum);
  EXPECT_FALSE(parse_config("checksum = 'off'\n[limits]\nvis = 7\n", "viad.conf").limits.checksum);
  EXPECT_FALSE(parse_config("checksum = 'on'", "viad.conf").limits.train_checksum);
  EXPECT_TRUE(parse_config("checksum = 'always'", "viad.conf").limits.train_checksum);
  EXPECT_TRUE(parse_config("checksum = 'always'", "viad.conf").limits.checksum);
}

TEST(Config, ReportsAllThatIsWrongInTheOrderOfLines) {
  EXPECT_EQ(complaint("spin_us = -1\nx = 1\n[limits]\nvis = 0\n"),
            "viad.conf:1: spin_us: -1 is out of range, which is 0 to 1000000\n"
            "viad.conf:2: x: unknown key; known here are socket, name, spin_us, log_level, "
            "placement, checksum, [[nic]], [limits], [access], [granted], [hosts]\n"
            "viad.conf:4: limits.vis: 0 is out of range, which is 1 to 16254");
}

TEST(Config, RefusesMoreNicsThanItCanServe) {
  std::string text;
  for (int i = 0; i < 17; ++i) text += "[[nic]]\ninterface = 'e" + std::to_string(i) + "'\n";
  EXPECT_THAT(complaint(text), HasSubstr("17 NICs"));
}

TEST(Config, DoesNotPassOnControlCharacters) {
  EXPECT_THAT(complaint("log_level = \"\\u001b[31m\"\n"), testing::Not(HasSubstr("\x1b")));
}

TEST(Config, AllowsAnythingInComments) {
  const Config config = parse("\xef\xbb\xbf# \xc3\xa9 \xff \"\nspin_us = 5 # '\xe2\x82\xac\n"
                              "name = \"\"\"a\"\"\" # \xc3\xa9\nlog_level = 'warn' # \xc3\n");
  EXPECT_EQ(config.spin_us, 5u);
  EXPECT_EQ(config.name, "a");
}

TEST(Config, SurvivesDeepNesting) {
  EXPECT_NE(complaint("a = " + std::string(100'000, '[')), "");
  std::string keys = "a";
  for (int i = 0; i < 20'000; ++i) keys += ".a";
  EXPECT_NE(complaint(keys + " = 1\n"), "");
}

TEST(Config, KeepsTheLimitOfAUserBelowThatOfAllUnlessItIsGiven) {
  EXPECT_EQ(parse("[limits]\nsessions = 4\n").sessions_per_user, 4u);
}

TEST(Config, AllowsNoGrantedPorts) {
  EXPECT_EQ(parse("[granted]\nports = 0\n").granted.ports, 0u);
}

TEST(Config, ReadsAFileAndSaysWhyItCannot) {
  const auto said = [](const std::string& file) -> std::string {
    try {
      read_config(file);
      return "";
    } catch (const ConfigError& error) {
      return error.what();
    }
  };
  EXPECT_THAT(said("/nonexistent/viad.conf"), HasSubstr("/nonexistent/viad.conf: No such file"));
  EXPECT_THAT(said("/"), HasSubstr("is a directory"));
  EXPECT_THAT(said("/dev/zero"), HasSubstr("longer than 1 MiB"));
  EXPECT_EQ(said("/dev/null"), "");
  char path[] = "/tmp/viaduct-config-XXXXXX";
  close(mkstemp(path));
  std::ofstream(path) << "spin_us = 7\n";
  EXPECT_EQ(read_config(path).spin_us, 7u);
  unlink(path);
}

TEST(Access, LetsInTheListedUsersAndMembersAndRoot) {
  Access access;
  EXPECT_TRUE(access.allows(1, {}));
  access.users = {1001};
  EXPECT_TRUE(access.allows(0, {}));
  EXPECT_TRUE(access.allows(1001, {}));
  EXPECT_FALSE(access.allows(1002, {1001}));
  access.groups = {77};
  EXPECT_TRUE(access.allows(1002, {5, 77}));
  EXPECT_FALSE(access.allows(1002, {5}));
  access.users.clear();
  EXPECT_FALSE(access.allows(1001, {}));
}

TEST(MacText, GoesThereAndBack) {
  const auto mac = parse_mac("02:0a:ff:00:1B:c3");
  ASSERT_TRUE(mac);
  EXPECT_EQ(to_text(*mac), "02:0a:ff:00:1b:c3");
  EXPECT_FALSE(parse_mac("02-0a-ff-00-1b-c3"));
  EXPECT_FALSE(parse_mac("02:0a:ff:00:1b:c3 "));
  EXPECT_FALSE(parse_mac("2:0a:ff:00:1b:c33"));
  EXPECT_FALSE(parse_mac(""));
}

}  // namespace
}  // namespace viaduct
