// Whether the process at the other end of a control socket is root.
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <functional>
#include <string>

#include "kagent/agent/control/listen_socket.h"
#include "kagent/agent/control/peer.h"
#include "kagent/agent/programs/program_memory.h"
#include "kagent/agent/reports/report_budget.h"
#include "kagent/agent/control/user_rate.h"
#include "kagent/agent/sessions/user_sessions.h"
#include "kagent/stack/program_proof.h"

namespace viaduct {
namespace {

bool give_up_capabilities() {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2]{};
  return syscall(SYS_capset, &header, none) == 0;
}

bool write_file(const char* path, const char* text) {
  std::FILE* const file = std::fopen(path, "w");
  if (file == nullptr) return false;
  const bool written = std::fputs(text, file) >= 0;
  return std::fclose(file) == 0 && written;
}

// A child process that connects, after `before`, and stays until this goes; `after` runs in it once it has
// connected.
class Connected {
 public:
  using Step = std::function<bool()>;

  explicit Connected(const Step& before, const Step& after = [] { return true; })
      : name_("@viaduct-peer-test-" + std::to_string(getpid()) + "-" + std::to_string(made_++)), listener_(name_) {
    int said[2], over[2];
    if (pipe(said) != 0 || pipe(over) != 0) std::abort();
    child_ = fork();
    if (child_ == 0) {
      close(over[1]);
      const int fd = socket(AF_UNIX, SOCK_SEQPACKET, 0);
      const SocketAddress address(name_);
      const bool good = before() && connect(fd, address.get(), address.bytes) == 0 && after();
      char byte = good ? 'y' : 'n';
      (void)!write(said[1], &byte, 1);
      (void)!read(over[0], &byte, 1);
      _exit(0);
    }
    close(said[1]);
    close(over[0]);
    over_ = over[1];
    char byte = 'n';
    good = read(said[0], &byte, 1) == 1 && byte == 'y';
    close(said[0]);
    if (good) socket_ = Descriptor(accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  }
  ~Connected() {
    close(over_);
    waitpid(child_, nullptr, 0);
  }

  Peer peer() const { return peer_of(socket_.get()).value(); }
  int socket_fd() const { return socket_.get(); }
  pid_t process() const { return child_; }

  bool good = false;

 private:
  static inline int made_ = 0;
  std::string name_;
  ListenSocket listener_;
  Descriptor socket_;
  pid_t child_ = -1;
  int over_ = -1;
};

bool nothing() { return true; }

class PeerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can be one";
  }
};

TEST_F(PeerTest, RootIsRoot) {
  const Connected child(nothing);
  ASSERT_TRUE(child.good);
  EXPECT_TRUE(child.peer().is_root);
  EXPECT_EQ(child.peer().account(), 0u);
}

TEST_F(PeerTest, AUserIsNot) {
  const Connected child([] { return setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0; });
  ASSERT_TRUE(child.good);
  EXPECT_FALSE(child.peer().is_root);
  EXPECT_EQ(child.peer().account(), 65534u);
}

// The root of a container.
TEST_F(PeerTest, User0WithoutCapabilitiesIsNot) {
  const Connected child(give_up_capabilities);
  ASSERT_TRUE(child.good);
  EXPECT_EQ(child.peer().uid, 0u);
  EXPECT_FALSE(child.peer().is_root);
  EXPECT_EQ(child.peer().account(), Peer::kPowerlessRoot);
  EXPECT_EQ(open_program(child.socket_fd(), child.peer()).account, Peer::kPowerlessRoot);
}

TEST_F(PeerTest, TheRootOfAnotherUserNamespaceIsNot) {
  const Connected child([] {
    return unshare(CLONE_NEWUSER) == 0 && write_file("/proc/self/setgroups", "deny") &&
           write_file("/proc/self/uid_map", "0 0 1") && write_file("/proc/self/gid_map", "0 0 1");
  });
  if (!child.good) GTEST_SKIP() << "no user namespaces here";
  EXPECT_EQ(child.peer().uid, 0u);
  EXPECT_FALSE(child.peer().is_root) << "its capabilities are its namespace's";
}

// As by exec() of a set-user-ID program, but for the exec().
TEST_F(PeerTest, AUserThatIsRootLaterIsNot) {
  const Connected child([] { return setresuid(65534, 65534, 0) == 0; }, [] { return setresuid(0, 0, 0) == 0; });
  ASSERT_TRUE(child.good);
  const auto rights = rights_of(child.process(), peer_process(child.socket_fd(), child.peer()).get());
  ASSERT_TRUE(rights);
  EXPECT_TRUE(rights->may_administer()) << "it is by now";
  EXPECT_FALSE(child.peer().is_root);
}

// ---------------------------------------------------------------------------- whose memory is opened

control::Proof own_proof() { return prove_program(reinterpret_cast<const void*>(getauxval(AT_RANDOM))); }

bool become(uid_t user) { return setresgid(user, user, user) == 0 && setresuid(user, user, user) == 0; }

// A child is the same program, so it has this one's secret.
TEST_F(PeerTest, AServerThatDroppedItsRightsIsServedIfItProvesThatItAsks) {
  const Connected child([] { return become(65534) && prctl(PR_GET_DUMPABLE) == 0; });
  ASSERT_TRUE(child.good);
  const ProgramAccess access = open_program(child.socket_fd(), child.peer(), own_proof());
  EXPECT_EQ(access.why, "");
  EXPECT_TRUE(access.memory.is_open());
  EXPECT_EQ(access.user, 65534u);
  EXPECT_EQ(access.account, 65534u);
  EXPECT_NE(open_program(child.socket_fd(), child.peer()).why.find("no proof"), std::string::npos);
  control::Proof wrong = own_proof();
  wrong.words[1] ^= 1;
  EXPECT_NE(open_program(child.socket_fd(), child.peer(), wrong).why.find("not the one that asked"),
            std::string::npos);
}

// It asks as its user, and is another program by the time that its memory is opened: one that its user may not
// look into.
TEST_F(PeerTest, AProgramThatAProcessHasBecomeSinceIsNot) {
  const Connected child([] { return become(65534); }, [] {
    const pid_t self = getpid();
    return fork() == 0 ? true : (execl("/bin/sleep", "sleep", "60", nullptr), self == 0);
  });
  ASSERT_TRUE(child.good);
  const pid_t process = child.peer().pid;
  const std::string name = "/proc/" + std::to_string(process) + "/comm";
  for (std::string now; now != "sleep";) std::ifstream(name) >> now;
  // It may be looked into, as it has no more rights than its user: this is of the proof alone.
  ProgramMemory memory;
  std::string why;
  const Descriptor pidfd = peer_process(child.socket_fd(), child.peer());
  EXPECT_TRUE(memory.open(child.peer(), pidfd.get(), why, own_proof()));
  EXPECT_FALSE(memory.is_proven());
  kill(process, SIGKILL);
}

// An ftp server at a login.
TEST_F(PeerTest, AServerInAUsersPlaceHasRootsConnectionsIfItProvesThatItAsks) {
  const auto take_place = [] { return setegid(65534) == 0 && seteuid(65534) == 0; };
  const Connected child(take_place);
  ASSERT_TRUE(child.good);
  const ProgramAccess access = open_program(child.socket_fd(), child.peer(), own_proof());
  EXPECT_EQ(access.why, "");
  EXPECT_EQ(access.account, 0u);
  EXPECT_FALSE(child.peer().is_root) << "as for all else it is the user";
  EXPECT_FALSE(open_program(child.socket_fd(), child.peer()).memory.is_open());
  // One whose memory may be looked into, as that of a program that root has started for the user.
  const Connected other([&] { return take_place() && prctl(PR_SET_DUMPABLE, 1) == 0; });
  EXPECT_EQ(open_program(other.socket_fd(), other.peer()).account, 65534u) << "without a proof it is the user's";
}

// By a set-user-ID program, say.
TEST_F(PeerTest, AProcessThatHasAnotherUserThanItConnectedAsIsNotServed) {
  const Connected child([] { return setresgid(65534, 65534, 0) == 0 && setresuid(65534, 65534, 0) == 0; },
                        [] { return setresuid(0, 0, 0) == 0; });
  ASSERT_TRUE(child.good);
  EXPECT_NE(open_program(child.socket_fd(), child.peer(), own_proof()).why.find("rights"), std::string::npos);
}

TEST(Limits, OfUser0AreLiftedForRootAlone) {
  ucred credentials{};
  const Peer root(credentials, true), powerless(credentials, false);
  UserSessions sessions;
  for (int i = 0; i < 3; ++i) sessions.add(root);
  EXPECT_NO_THROW(sessions.check(root, 2));
  EXPECT_NO_THROW(sessions.check(powerless, 2)) << "root's are none of its";
  sessions.add(powerless), sessions.add(powerless);
  EXPECT_THROW(sessions.check(powerless, 2), Refused);
  sessions.remove(powerless);
  EXPECT_NO_THROW(sessions.check(powerless, 2));

  ReportBudget budget;
  for (const Peer& peer : {root, powerless}) budget.spend(peer.account(), 2 * ReportBudget::kBurstNs, kNsPerSecond);
  EXPECT_TRUE(budget.may_ask(root.account(), kNsPerSecond));
  EXPECT_FALSE(budget.may_ask(powerless.account(), kNsPerSecond));

  Access access;
  access.users = {1000};
  EXPECT_TRUE(access.allows(root.account(), {}));
  EXPECT_FALSE(access.allows(powerless.account(), {}));
  access.users = {0};
  EXPECT_TRUE(access.allows(powerless.account(), {})) << "it is listed";
}

TEST(Limits, AUserThatCausesManyNotesHidesNobodyElses) {
  constexpr std::uint64_t kStart = 1000 * kNsPerSecond;
  UserRate rate(kNsPerSecond, 3);
  unsigned noted = 0;
  for (int i = 0; i < 100; ++i) noted += rate.may_note(1000, kStart).has_value();
  EXPECT_EQ(noted, 3u);
  EXPECT_EQ(rate.may_note(1001, kStart), 0u);
  EXPECT_EQ(rate.may_note(1000, kStart + kNsPerSecond), 97u) << "how many were left out";
  EXPECT_EQ(rate.may_note(1000, kStart + 10 * kNsPerSecond), 0u);
  // Many users: those that owe nothing are forgotten, a flooder is not.
  for (int i = 0; i < 100; ++i) rate.may_note(1000, kStart + 10 * kNsPerSecond);
  for (uid_t user = 2000; user < 2200; ++user) EXPECT_TRUE(rate.may_note(user, kStart + 10 * kNsPerSecond));
  EXPECT_FALSE(rate.may_note(1000, kStart + 10 * kNsPerSecond));
}

}  // namespace
}  // namespace viaduct
