#include "kagent/agent/programs/program_environment.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <set>
#include <thread>

namespace viaduct {
namespace {

constexpr std::size_t kPage = 4096;

// A process with a few private pages: `memory` has the same address there as here, the contents are its own.
class OtherProcess {
 public:
  OtherProcess() {
    memory = static_cast<std::byte*>(mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE,
                                          MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      for (std::size_t i = 0; i < 4 * kPage; ++i) memory[i] = value(i);
      munmap(memory + 3 * kPage, kPage);
      // Becomes another program when it is told to.
      sigset_t set;
      sigemptyset(&set);
      sigaddset(&set, SIGUSR1);
      sigprocmask(SIG_BLOCK, &set, nullptr);
      if (write(ends[1], "", 1) != 1) _exit(1);
      int got;
      sigwait(&set, &got);
      execl("/bin/sleep", "sleep", "60", nullptr);
      _exit(1);
    }
    char done;
    EXPECT_EQ(read(ends[0], &done, 1), 1);
    close(ends[0]);
    close(ends[1]);
    process = Descriptor(static_cast<int>(syscall(SYS_pidfd_open, pid_, 0)));
  }
  ~OtherProcess() {
    end();
    munmap(memory, 4 * kPage);
  }
  static std::byte value(std::size_t i) { return static_cast<std::byte>(i * 7 + (i >> 8)); }
  ucred peer() const { return {pid_, getuid(), getgid()}; }
  void end() {
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    pid_ = -1;
  }
  void become_another_program() {
    kill(pid_, SIGUSR1);
    char name[64] = {};
    const std::string link = "/proc/" + std::to_string(pid_) + "/comm";
    while (std::strncmp(name, "sleep", 5) != 0) {
      std::this_thread::yield();
      FILE* file = fopen(link.c_str(), "r");
      if (file == nullptr || fgets(name, sizeof name, file) == nullptr) name[0] = '\0';
      if (file != nullptr) fclose(file);
    }
  }

  std::byte* memory;
  Descriptor process;

 private:
  pid_t pid_;
};

class ProgramMemoryTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    ASSERT_TRUE(memory.open(other.peer(), other.process.get(), why)) << why;
  }
  iovec there(std::size_t offset, std::size_t bytes) { return {other.memory + offset, bytes}; }
  iovec here(std::size_t offset, std::size_t bytes) { return {local.data() + offset, bytes}; }
  bool read(std::vector<iovec> from, std::vector<iovec> to) {
    return memory.read(from, to, copy, nullptr) == ProgramMemory::Copied::kDone;
  }
  bool write(std::vector<iovec> to, std::vector<iovec> from) {
    std::size_t begun;
    return memory.write(to, from, copy, nullptr, begun) == ProgramMemory::Copied::kDone;
  }

  OtherProcess other;
  ProgramMemory memory;
  std::vector<std::byte> local{4 * kPage};
  ProgramCopy copy{1000};  // less than a page, so that every way is taken
};

TEST_F(ProgramMemoryTest, CopiesPiecesOfAnySize) {
  // Adjacent, overlapping and scattered remote pieces; local pieces that end elsewhere.
  const std::vector<std::pair<std::size_t, std::size_t>> from = {
      {0, 1}, {1, 64}, {65, 2000}, {5000, 3000}, {8000, 500}, {100, 0}, {10, 300}};
  const std::vector<std::size_t> to = {700, 3, 1, 0, 2500, 900, 1761};
  std::vector<iovec> remote, pieces;
  std::vector<std::byte> expected;
  for (const auto& [offset, bytes] : from) {
    remote.push_back(there(offset, bytes));
    for (std::size_t i = 0; i < bytes; ++i) expected.push_back(OtherProcess::value(offset + i));
  }
  std::size_t at = 0;
  for (const std::size_t bytes : to) pieces.push_back(here(at, bytes)), at += bytes;
  ASSERT_EQ(at, expected.size());
  ASSERT_TRUE(read(remote, pieces));
  EXPECT_EQ(std::memcmp(local.data(), expected.data(), expected.size()), 0);

  // The other way: the bytes written are the ones read then.
  for (std::size_t i = 0; i < 5000; ++i) local[i] = static_cast<std::byte>(i * 13);
  std::vector<iovec> targets = {there(100, 40), there(140, 60), there(200, 3000), there(4000, 900),
                                there(4900, 1000)};
  std::vector<iovec> sources = {here(0, 2000), here(2000, 1), here(2001, 2999)};
  ASSERT_TRUE(write(targets, sources));
  std::vector<std::byte> back(5000);
  ASSERT_TRUE(read(targets, {{back.data(), back.size()}}));
  EXPECT_EQ(std::memcmp(back.data(), local.data(), back.size()), 0);
}

TEST_F(ProgramMemoryTest, RefusesWhatIsNotMapped) {
  EXPECT_FALSE(read({there(3 * kPage, 1)}, {here(0, 1)}));
  EXPECT_FALSE(read({there(3 * kPage - 8, 16)}, {here(0, 16)}));
  EXPECT_FALSE(write({there(3 * kPage - 8, 16)}, {here(0, 16)}));
  EXPECT_FALSE(read({{nullptr, 8}}, {here(0, 8)}));
  EXPECT_FALSE(read({{reinterpret_cast<void*>(~0ull - 100), 64}}, {here(0, 64)}));
  EXPECT_TRUE(read({there(3 * kPage - 8, 8)}, {here(0, 8)}));
}

TEST_F(ProgramMemoryTest, RefusesMoreThanThereIsRoomFor) {
  EXPECT_FALSE(read({there(0, 100)}, {here(0, 99)}));
  EXPECT_FALSE(read({there(0, 100)}, {}));
  EXPECT_TRUE(read({}, {}));
}

TEST_F(ProgramMemoryTest, IsGoneWithTheProcess) {
  other.end();
  EXPECT_FALSE(read({there(0, 8)}, {here(0, 8)}));
  EXPECT_FALSE(write({there(0, 8)}, {here(0, 8)}));
}

TEST_F(ProgramMemoryTest, IsNotThatOfTheProgramThatTheProcessBecomes) {
  other.become_another_program();
  // The new program's own addresses, from its list of mappings.
  EXPECT_FALSE(read({there(0, 8)}, {here(0, 8)}));
  std::uint64_t address = 0;
  const std::string maps = "/proc/" + std::to_string(other.peer().pid) + "/maps";
  FILE* file = fopen(maps.c_str(), "r");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(fscanf(file, "%lx-", &address), 1);
  fclose(file);
  EXPECT_FALSE(read({{reinterpret_cast<void*>(address), 8}}, {here(0, 8)}));
}

TEST_F(ProgramMemoryTest, IsGoneWhenClosed) {
  memory.close();
  EXPECT_FALSE(read({there(0, 8)}, {here(0, 8)}));
}

TEST(ProgramMemory, IsNotOpenedForProcessesThatEndedOrHaveOtherRights) {
  OtherProcess other;
  ProgramMemory memory;
  std::string why;
  ucred peer = other.peer();
  peer.uid += 1;
  EXPECT_FALSE(memory.open(peer, other.process.get(), why));
  EXPECT_NE(why.find("rights"), std::string::npos) << why;
  peer = other.peer();
  other.end();
  EXPECT_FALSE(memory.open(peer, other.process.get(), why));
  EXPECT_NE(why.find("ended"), std::string::npos) << why;
}

class EnvironmentNames : public testing::Test {
 protected:
  std::map<std::string, MacAddress> hosts_{{"beta", {2, 0, 0, 0, 0, 2}},
                                           {"gamma.example.org", {2, 0, 0, 0, 0, 3}}};
  int asked_ = 0;
  ProgramEnvironment environment_{4, "Alpha.Example.org", hosts_, [this] {
                                    ++asked_;
                                    return std::vector<std::string>{"10.77.0.1", "fe80::1"};
                                  }};
  MacAddress own_{2, 0, 0, 0, 0, 1};

  void SetUp() override { environment_.names().set_address(own_); }
};

TEST_F(EnvironmentNames, KnowTheOwnNameShortAndLong) {
  for (const char* name : {"alpha", "ALPHA", "alpha.example.org", "Alpha.Example.ORG"}) {
    EXPECT_TRUE(environment_.is_own_name(name)) << name;
    EXPECT_EQ(environment_.look_up(name), own_) << name;
  }
  for (const char* name : {"", ".", "alph", "alphabet", "alpha.example.com", "example.org"}) {
    EXPECT_FALSE(environment_.is_own_name(name)) << name;
  }
  EXPECT_EQ(environment_.own_name(), "Alpha.Example.org");
}

TEST_F(EnvironmentNames, KnowTheOwnAddressesInAnySpelling) {
  for (const char* name : {"10.77.0.1", "fe80::1", "FE80:0:0:0:0:0:0:1"}) {
    EXPECT_TRUE(environment_.is_own_name(name)) << name;
    EXPECT_EQ(environment_.look_up(name), own_) << name;
  }
  EXPECT_FALSE(environment_.is_own_name("10.77.0.2"));
  EXPECT_EQ(environment_.look_up("10.77.0.2"), std::nullopt);
  EXPECT_EQ(asked_, 1) << "the addresses were asked for again within a second";
}

TEST_F(EnvironmentNames, KnowTheTable) {
  EXPECT_EQ(environment_.look_up("Beta"), hosts_["beta"]);
  EXPECT_EQ(environment_.look_up("beta.example.org"), hosts_["beta"]);
  EXPECT_EQ(environment_.look_up("gamma"), hosts_["gamma.example.org"]);
  EXPECT_EQ(environment_.look_up("gamma.example.org"), hosts_["gamma.example.org"]);
  EXPECT_EQ(environment_.look_up("gamma.example.com"), std::nullopt);
  EXPECT_EQ(environment_.look_up("delta"), std::nullopt);
  EXPECT_FALSE(environment_.is_own_name("beta"));
}

TEST_F(EnvironmentNames, KnowLocalhostForProgramsOnly) {
  EXPECT_EQ(environment_.look_up("localhost"), own_);
  EXPECT_FALSE(environment_.is_own_name("localhost"));
}

TEST_F(EnvironmentNames, AreNotAskedOfTheSystemForHostNames) {
  environment_.look_up("delta");
  environment_.is_own_name("delta");
  EXPECT_EQ(asked_, 0);
}

TEST_F(EnvironmentNames, RandomNumbersDiffer) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(seen.insert(environment_.random()).second);
}

TEST_F(EnvironmentNames, WakesAThreadThatSleepsOnASharedWord) {
  void* const page =
      mmap(nullptr, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& word = *new (page) std::atomic<std::uint32_t>(1);
  const pid_t child = fork();
  if (child == 0) {
    // 0 is FUTEX_WAIT.
    while (word.load() != 0) syscall(SYS_futex, &word, 0, 1, nullptr, nullptr, 0);
    _exit(0);
  }
  word.store(0);
  int status = -1;
  while (waitpid(child, &status, WNOHANG) == 0) environment_.wake(word);
  EXPECT_EQ(status, 0);
  munmap(page, kPage);
}

// ---------------------------------------------------------------------------- connections

// Both ends of a TCP connection of this host.
class EnvironmentOwners : public EnvironmentNames {
 protected:
  void connect(int family, const char* server_address) {
    Descriptor listener(socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in6 any{};
    any.sin6_family = static_cast<sa_family_t>(family);
    auto* const address = reinterpret_cast<sockaddr*>(&any);
    const socklen_t bytes = family == AF_INET ? sizeof(sockaddr_in) : sizeof any;
    ASSERT_EQ(bind(listener.get(), address, bytes), 0);
    ASSERT_EQ(listen(listener.get(), 1), 0);
    socklen_t room = sizeof any;
    ASSERT_EQ(getsockname(listener.get(), address, &room), 0);
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = any.sin6_port;
    ASSERT_EQ(inet_pton(AF_INET, server_address, &to.sin_addr), 1);
    client = Descriptor(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::connect(client.get(), reinterpret_cast<sockaddr*>(&to), sizeof to), 0);
    server = Descriptor(accept(listener.get(), nullptr, nullptr));
    listening = std::move(listener);
    sockaddr_in from{};
    room = sizeof from;
    ASSERT_EQ(getsockname(client.get(), reinterpret_cast<sockaddr*>(&from), &room), 0);
    flow = {Flow::kIpv4, ntohs(from.sin_port), ntohs(to.sin_port), 0, {}, {}};
    std::memcpy(flow.local, &from.sin_addr, 4);
    std::memcpy(flow.remote, &to.sin_addr, 4);
  }
  void SetUp() override {
    // A kernel without the module, or a machine that allows none.
    const Flow nobody{Flow::kIpv4, 1, 1, 0, {}, {}};
    if (environment_.owns(0, nobody) == Owns::kUnknown) GTEST_SKIP() << "no sock_diag";
    environment_.users().set(0, geteuid());
    environment_.users().set(1, geteuid() + 1);
  }

  Descriptor client, server, listening;
  Flow flow{};
};

TEST_F(EnvironmentOwners, AreThoseOfTheSocketsAtBothEnds) {
  connect(AF_INET, "127.0.0.1");
  EXPECT_EQ(environment_.owns(0, flow), Owns::kYes);
  EXPECT_EQ(environment_.owns(0, flow.reversed()), Owns::kYes);
  EXPECT_EQ(environment_.owns(1, flow), Owns::kNo);
  EXPECT_EQ(environment_.owns(1, flow.reversed()), Owns::kNo);
  if (geteuid() != 0) return;
  ASSERT_EQ(fchown(client.get(), 12345, 0), 0);
  EXPECT_EQ(environment_.owns(0, flow), Owns::kYes) << "root's programs may";
  environment_.users().set(1, 12345);
  EXPECT_EQ(environment_.owns(1, flow), Owns::kYes);
  EXPECT_EQ(environment_.owns(1, flow.reversed()), Owns::kNo);
}

TEST_F(EnvironmentOwners, AreFoundForSocketsOfIpv6ThatCarryIpv4) {
  connect(AF_INET6, "127.0.0.1");
  EXPECT_EQ(environment_.owns(0, flow), Owns::kYes);
  EXPECT_EQ(environment_.owns(0, flow.reversed()), Owns::kYes);
}

TEST_F(EnvironmentOwners, AreThoseOfTheExactConnectionWhileItIsEstablished) {
  connect(AF_INET, "127.0.0.1");
  Flow other = flow.reversed();
  ++other.remote_port;
  EXPECT_EQ(environment_.owns(0, other), Owns::kNo) << "the one who listens owns no connection";
  other = flow;
  other.remote[3] ^= 2;
  EXPECT_EQ(environment_.owns(0, other), Owns::kNo);
  other = flow;
  other.family = Flow::kIpv6;
  EXPECT_EQ(environment_.owns(0, other), Owns::kNo);
  client.close();
  server.close();
  EXPECT_EQ(environment_.owns(0, flow), Owns::kNo);
  EXPECT_EQ(environment_.owns(0, flow.reversed()), Owns::kNo);
}

TEST_F(EnvironmentOwners, AreThoseOfTheUdpSocketThatWouldGetADatagram) {
  const auto bound = [](const char* address, std::uint16_t& port) {
    Descriptor made(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    EXPECT_EQ(inet_pton(AF_INET, address, &name.sin_addr), 1);
    EXPECT_EQ(bind(made.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
    socklen_t room = sizeof name;
    EXPECT_EQ(getsockname(made.get(), reinterpret_cast<sockaddr*>(&name), &room), 0);
    port = ntohs(name.sin_port);
    return made;
  };
  std::uint16_t port = 0;
  Descriptor any = bound("0.0.0.0", port);
  Flow to{Flow::kIpv4, port, 777, Flow::kUdp, {127, 0, 0, 1}, {127, 0, 0, 9}};
  EXPECT_EQ(environment_.owns(0, to), Owns::kYes) << "a socket that is not connected";
  EXPECT_EQ(environment_.owns(1, to), Owns::kNo);
  EXPECT_EQ(environment_.owns(0, to.reversed()), Owns::kNo) << "the remote port is nobody's";
  Flow of_tcp = to;
  of_tcp.protocol = Flow::kTcp;
  EXPECT_EQ(environment_.owns(0, of_tcp), Owns::kNo) << "nor is that of TCP";
  if (geteuid() == 0) {
    // Another user's socket for a narrower address, or connected to the remote end, gets it instead.
    ASSERT_EQ(fchown(any.get(), 12345, 0), 0);
    environment_.users().set(0, 12345);
    EXPECT_EQ(environment_.owns(0, to), Owns::kYes);
    EXPECT_EQ(environment_.owns(1, to), Owns::kNo);
    const int on = 1;
    ASSERT_EQ(setsockopt(any.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    Descriptor narrow(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(setsockopt(narrow.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(port);
    ASSERT_EQ(inet_pton(AF_INET, "127.0.0.1", &name.sin_addr), 1);
    ASSERT_EQ(bind(narrow.get(), reinterpret_cast<sockaddr*>(&name), sizeof name), 0);
    EXPECT_EQ(environment_.owns(0, to), Owns::kNo);
    ++to.local[3];
    EXPECT_EQ(environment_.owns(0, to), Owns::kYes);
    --to.local[3];
    narrow.close();
    EXPECT_EQ(environment_.owns(0, to), Owns::kYes);
  }
  any.close();
  EXPECT_EQ(environment_.owns(0, to), Owns::kNo);
}

TEST_F(EnvironmentOwners, AreFoundForSocketsBoundToTheInterface) {
  if (geteuid() != 0) GTEST_SKIP() << "only root may bind a socket to an interface";
  connect(AF_INET, "127.0.0.1");
  ASSERT_EQ(setsockopt(client.get(), SOL_SOCKET, SO_BINDTODEVICE, "lo", 2), 0);
  environment_.set_interface("lo");
  EXPECT_EQ(environment_.owns(0, flow), Owns::kYes);
  EXPECT_EQ(environment_.owns(0, flow.reversed()), Owns::kYes);
}

TEST(UserCharges, CountForAllSessionsOfAUserAndNotForRoot) {
  const std::map<std::string, MacAddress> hosts;
  ProgramEnvironment environment(4, "here", hosts, [] { return std::vector<std::string>(); });
  environment.users().set_limits({2, 3, 1});
  constexpr std::uint32_t kFirst = 0, kSecond = 1, kOther = 2, kRoot = 3;
  environment.users().set(kFirst, 1000);
  environment.users().set(kSecond, 1000);
  environment.users().set(kOther, 1001);
  environment.users().set(kRoot, 0);
  EXPECT_TRUE(environment.charge(kFirst, Quota::kVis, 1));
  EXPECT_TRUE(environment.charge(kSecond, Quota::kVis, 1));
  EXPECT_FALSE(environment.charge(kFirst, Quota::kVis, 1));
  EXPECT_TRUE(environment.charge(kOther, Quota::kVis, 1));
  EXPECT_TRUE(environment.charge(kFirst, Quota::kBytes, 1 << 20));
  EXPECT_FALSE(environment.charge(kSecond, Quota::kBytes, 1));
  EXPECT_FALSE(environment.charge(kOther, Quota::kBytes, INT64_MAX));
  EXPECT_TRUE(environment.charge(kSecond, Quota::kVis, -1));
  EXPECT_TRUE(environment.charge(kFirst, Quota::kVis, 1));
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(environment.charge(kRoot, Quota::kVis, 1));
  // Refused charges are not counted.
  EXPECT_TRUE(environment.charge(kFirst, Quota::kBytes, -(1 << 20)));
  EXPECT_TRUE(environment.charge(kSecond, Quota::kBytes, 1 << 20));
}

TEST(UserCharges, LeaveSomeToOthersAndRoot) {
  const std::map<std::string, MacAddress> hosts;
  ProgramEnvironment environment(4, "here", hosts, [] { return std::vector<std::string>(); });
  constexpr std::uint32_t kFirst = 0, kSecond = 1, kThird = 2, kRoot = 3;
  environment.users().set_limits({100, 100, 1}, 64, 0);
  for (const std::uint32_t session : {kFirst, kSecond, kThird}) environment.users().set(session, 1000 + session);
  environment.users().set(kRoot, 0);
  const auto takes = [&](std::uint32_t session) {
    int out = 0;
    while (out < 100 && environment.charge(session, Quota::kVis, 1)) ++out;
    return out;
  };
  EXPECT_EQ(takes(kFirst), 48);
  EXPECT_EQ(takes(kSecond), 4);
  EXPECT_EQ(takes(kThird), 4);
  EXPECT_TRUE(environment.charge(kRoot, Quota::kVis, 1));
  EXPECT_TRUE(environment.charge(kFirst, Quota::kVis, -10));
  EXPECT_TRUE(environment.charge(kSecond, Quota::kVis, 1)) << "what one gives back, others can have";
}

}  // namespace
}  // namespace viaduct
