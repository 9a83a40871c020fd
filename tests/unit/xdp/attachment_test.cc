// The steering program beside other programs and after crashes; the lock and the guard. Root only;
// skipped otherwise.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <fcntl.h>
#include <linux/if_link.h>
#include <net/if.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xdp/libxdp.h>

#include <cstddef>
#include <cstring>
#include <optional>

#include "tests/unit/xdp/fixture.h"
#include "xdp/port_error.h"
#include "xdp/interface_lock.h"
#include "xdp/bpf/steering.h"
#include "xdp/bpf/xdp_attachment.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "xdp/bpf/steer.skel.h"
#pragma GCC diagnostic pop

namespace viaduct {
namespace {

class AttachmentTest : public VethTest {
 protected:
  void SetUp() override {
    VethTest::SetUp();
    silence_xdp_libraries();
    index_ = static_cast<int>(if_nametoindex("v0"));
  }

  // As an agent leaves it that is killed before it has made a link of it.
  void leave_steering() {
    steer_bpf* program = steer_bpf__open_and_load();
    ASSERT_NE(program, nullptr);
    ASSERT_EQ(bpf_xdp_attach(index_, bpf_program__fd(program->progs.viaduct_steer),
                             XDP_FLAGS_SKB_MODE, nullptr), 0);
    steer_bpf__destroy(program);
    ASSERT_TRUE(has_program("v0"));
  }

  // Attaches a program as a tool without libxdp does. Returns its id.
  std::uint32_t attach_foreign() {
    const bpf_insn code[] = {{BPF_ALU64 | BPF_MOV | BPF_K, BPF_REG_0, 0, 0, XDP_PASS},
                             {BPF_JMP | BPF_EXIT, 0, 0, 0, 0}};
    const int fd = bpf_prog_load(BPF_PROG_TYPE_XDP, "foreign", "GPL", code, 2, nullptr);
    EXPECT_GE(fd, 0);
    EXPECT_EQ(bpf_xdp_attach(index_, fd, XDP_FLAGS_DRV_MODE, nullptr), 0);
    close(fd);
    return attached();
  }

  std::uint32_t attached() const {
    std::uint32_t id = 0;
    bpf_xdp_query_id(index_, 0, &id);
    return id;
  }

  int index_ = 0;
};

TEST_F(AttachmentTest, WhatAKilledAgentHasLeftIsTakenOff) {
  for (const PortKind kind : {PortKind::kXdpNative, PortKind::kXdpGeneric, PortKind::kPcap}) {
    leave_steering();
    auto port = open("v0", kind);
    EXPECT_EQ(has_program("v0"), kind != PortKind::kPcap);
    port.reset();
    EXPECT_FALSE(has_program("v0"));
  }
}

TEST_F(AttachmentTest, AForeignProgramStaysAndTheErrorSaysSo) {
  const std::uint32_t id = attach_foreign();
  ASSERT_NE(id, 0u);
  for (const PortKind kind : {PortKind::kXdpNative, PortKind::kXdpGeneric}) {
    try {
      open("v0", kind);
      ADD_FAILURE() << "attached in spite of it";
    } catch (const PortError& error) {
      EXPECT_NE(std::string(error.what()).find("another XDP program"), std::string::npos)
          << error.what();
    }
    EXPECT_EQ(attached(), id);
  }
}

TEST_F(AttachmentTest, BesideAForeignProgramTheAutomaticPortIsTcxAndWorks) {
  const std::uint32_t id = attach_foreign();
  const auto a = open("v0", PortKind::kAuto);
  EXPECT_EQ(a->mode(), "tcx");
  const auto b = open("v1", PortKind::kAuto);
  ASSERT_TRUE(send(*b, a->address(), 100, 1));
  Frame frame;
  ASSERT_TRUE(receive(*a, frame));
  EXPECT_TRUE(is_right(frame, 100, 1));
  a->release({&frame, 1});
  EXPECT_EQ(attached(), id);
}

TEST_F(AttachmentTest, ANeighbourInTheDispatcherSurvives) {
  {
    const auto port = open("v0", PortKind::kXdpNative);
    xdp_multiprog* all = xdp_multiprog__get_from_ifindex(index_);
    ASSERT_EQ(libxdp_get_error(all), 0);
    const bool legacy = xdp_multiprog__is_legacy(all);
    xdp_multiprog__close(all);
    if (legacy) GTEST_SKIP() << "libxdp's dispatcher does not work on this kernel";
  }
  const auto programs = [this] {
    std::vector<std::string> names;
    xdp_multiprog* all = xdp_multiprog__get_from_ifindex(index_);
    if (libxdp_get_error(all) != 0) return names;
    for (xdp_program* p = xdp_multiprog__next_prog(nullptr, all); p != nullptr;
         p = xdp_multiprog__next_prog(p, all)) {
      names.emplace_back(xdp_program__name(p));
    }
    xdp_multiprog__close(all);
    std::sort(names.begin(), names.end());
    return names;
  };
  using Names = std::vector<std::string>;
  for (const bool before : {true, false}) {
    auto port = before ? nullptr : open("v0", PortKind::kXdpNative);
    // A program that passes everything comes with libxdp itself.
    DECLARE_LIBXDP_OPTS(xdp_program_opts, options, .prog_name = "xdp_pass",
                        .find_filename = "xdp-dispatcher.o");
    xdp_program* neighbour = xdp_program__create(&options);
    ASSERT_EQ(libxdp_get_error(neighbour), 0);
    ASSERT_EQ(xdp_program__attach(neighbour, index_, XDP_MODE_NATIVE, 0), 0);
    if (before) port = open("v0", PortKind::kXdpNative);
    EXPECT_EQ(programs(), (Names{kSteerName, "xdp_pass"}));
    const auto peer = open("v1", PortKind::kXdpNative);
    ASSERT_TRUE(send(*peer, port->address(), 100, 1));
    Frame frame;
    ASSERT_TRUE(receive(*port, frame));
    port.reset();
    EXPECT_EQ(programs(), Names{"xdp_pass"});
    EXPECT_EQ(xdp_program__detach(neighbour, index_, XDP_MODE_NATIVE, 0), 0);
    xdp_program__close(neighbour);
    EXPECT_FALSE(has_program("v0"));
  }
}

// ---------------------------------------------------------------------------- lock

TEST_F(AttachmentTest, TheLockNamesItsHolderHoweverOftenItIsAsked) {
  const InterfaceLock lock(index_, "v0");
  for (int i = 0; i < 300; ++i) {
    try {
      InterfaceLock second(index_, "v0", 0);
      FAIL() << "locked twice";
    } catch (const PortError& error) {
      ASSERT_NE(std::string(error.what()).find("process " + std::to_string(getpid())),
                std::string::npos)
          << error.what();
    }
  }
  const InterfaceLock other(index_ + 1, "v1", 0);
}

// The holder says so when it has the lock, and again before it goes; the kernel gives its lock back later than that.
TEST_F(AttachmentTest, TheLockWaitsForAHolderThatIsAboutToGo) {
  int said[2], go[2];
  ASSERT_EQ(pipe2(said, O_CLOEXEC | O_NONBLOCK), 0);
  ASSERT_EQ(pipe2(go, O_CLOEXEC), 0);
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    InterfaceLock lock(index_, "v0");
    if (write(said[1], "h", 1) != 1 || read(go[0], &byte, 1) != 1) _exit(1);
    usleep(300'000);
    (void)!write(said[1], "g", 1);
    _exit(0);
  }
  char byte = 0;
  pollfd holds{said[0], POLLIN, 0};
  ASSERT_EQ(poll(&holds, 1, 30'000), 1);
  ASSERT_EQ(read(said[0], &byte, 1), 1);
  EXPECT_THROW(InterfaceLock(index_, "v0", 0), PortError);
  ASSERT_EQ(write(go[1], "", 1), 1);
  std::optional<InterfaceLock> lock;
  EXPECT_NO_THROW(lock.emplace(index_, "v0", 30'000u));
  EXPECT_EQ(read(said[0], &byte, 1), 1) << "did not wait";
  EXPECT_EQ(byte, 'g');
  int status = 1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (const int fd : {said[0], said[1], go[0], go[1]}) close(fd);
}

// The exit status of another user's process that runs the function.
template <class Function>
int as_another_user(const Function& function) {
  const pid_t child = fork();
  if (child == 0) {
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) _exit(100);
    _exit(function());
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 101;
}

TEST_F(AttachmentTest, NoOtherUserCanTakeTheLock) {
  const std::string path = InterfaceLock::path_of(index_);
  const std::string others = InterfaceLock::path_of(index_ + 1);
  const InterfaceLock lock(index_, "v0");
  struct stat status{};
  ASSERT_EQ(stat(path.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600u);
  EXPECT_EQ(as_another_user([&] {
    if (::open(path.c_str(), O_RDONLY | O_CLOEXEC) >= 0) return 1;
    if (::open(others.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600) >= 0) return 2;
    return unlink(path.c_str()) == 0 ? 3 : 0;
  }), 0);
}

// Any program may take a socket's name in the abstract name space, and fill a socket's queue.
TEST_F(AttachmentTest, TheLockIsNoSocketsName) {
  int ready[2], over[2];
  ASSERT_EQ(pipe(ready), 0);
  ASSERT_EQ(pipe(over), 0);
  const pid_t child = fork();
  if (child == 0) {
    close(over[1]);
    if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) _exit(1);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    sockaddr_un name{};
    name.sun_family = AF_UNIX;
    const int n = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "viaduct/interface/%d", index_);
    const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<unsigned>(n));
    if (bind(fd, reinterpret_cast<sockaddr*>(&name), bytes) != 0 || listen(fd, 1) != 0) _exit(2);
    (void)!write(ready[1], "", 1);
    char byte;
    (void)!read(over[0], &byte, 1);
    _exit(0);
  }
  close(over[0]);
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  EXPECT_NO_THROW(InterfaceLock(index_, "v0", 0));
  close(over[1]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
  close(ready[0]);
  close(ready[1]);
}

TEST_F(AttachmentTest, AFileThatIsLeftOverIsNoLock) {
  const std::string path = InterfaceLock::path_of(index_);
  { const InterfaceLock makes_the_folder(index_ + 1, "v1", 0); }
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_GE(file, 0);
  close(file);
  { const InterfaceLock lock(index_, "v0", 0); }
  EXPECT_NE(access(path.c_str(), F_OK), 0) << "the file stays";
}

// Holders remove their file when they go, and those that wait have it open by then.
TEST_F(AttachmentTest, ALockOnAFileThatHasBeenRemovedIsNone) {
  const std::string path = InterfaceLock::path_of(index_);
  const InterfaceLock lock(index_, "v0", 0);
  ASSERT_EQ(unlink(path.c_str()), 0);
  const InterfaceLock second(index_, "v0", 0);
  EXPECT_THROW(InterfaceLock(index_, "v0", 0), PortError);
}

// ---------------------------------------------------------------------------- guard

class GuardTest : public AttachmentTest {
 protected:
  // Starts a guard as XdpAttachment does. The caller's copies of what it holds are closed.
  void start_guard() {
    int ends[2];
    ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
    auto lock = std::make_unique<InterfaceLock>(index_, "v0");
    const std::string path = std::string(XDP_GUARD);
    const std::string index = std::to_string(index_);
    guard_ = fork();
    if (guard_ == 0) {
      const int pipe_copy = fcntl(ends[0], F_DUPFD_CLOEXEC, 10);
      const int lock_copy = fcntl(lock->descriptor(), F_DUPFD_CLOEXEC, 10);
      dup2(pipe_copy, 3);
      dup2(lock_copy, 4);
      execl(path.c_str(), "xdp-guard", index.c_str(), nullptr);
      _exit(127);
    }
    close(ends[0]);
    pipe_ = ends[1];
  }

  void TearDown() override {
    if (guard_ > 0) {
      kill(guard_, SIGKILL);
      waitpid(guard_, nullptr, 0);
    }
    AttachmentTest::TearDown();
  }

  pid_t guard_ = -1;
  int pipe_ = -1;
};

TEST_F(GuardTest, TakesTheProgramOffWhenTheAgentEndsAndHoldsTheLockUntilThen) {
  leave_steering();
  start_guard();
  EXPECT_THROW(InterfaceLock(index_, "v0", 100), PortError);
  for (const int s : {SIGTERM, SIGINT, SIGHUP}) kill(guard_, s);
  usleep(100'000);
  EXPECT_TRUE(has_program("v0")) << "the agent lives still";
  close(pipe_);
  EXPECT_NO_THROW(InterfaceLock(index_, "v0", 10'000));
  EXPECT_FALSE(has_program("v0"));
  int status = 0;
  EXPECT_EQ(waitpid(guard_, &status, 0), guard_);
  EXPECT_EQ(status, 0);
  guard_ = -1;
}

TEST_F(GuardTest, LeavesForeignProgramsAlone) {
  const std::uint32_t id = attach_foreign();
  start_guard();
  close(pipe_);
  EXPECT_EQ(waitpid(guard_, nullptr, 0), guard_);
  guard_ = -1;
  EXPECT_EQ(attached(), id);
}

TEST_F(GuardTest, WithoutAGuardTheProgramHangsOnALink) {
  setenv("VIADUCT_LIBEXEC", "/nonexistent", 1);
  auto port = open("v0", PortKind::kXdpNative);
  unsetenv("VIADUCT_LIBEXEC");
  EXPECT_NE(notes_.find("VIADUCT_LIBEXEC"), std::string::npos) << notes_;
  EXPECT_NE(bpf_xdp_detach(index_, XDP_FLAGS_DRV_MODE, nullptr), 0) << "not a link";
  const auto peer = open("v1", PortKind::kXdpNative);
  ASSERT_TRUE(send(*peer, port->address(), 100, 1));
  Frame frame;
  ASSERT_TRUE(receive(*port, frame));
  port.reset();
  EXPECT_FALSE(has_program("v0"));
}

}  // namespace
}  // namespace viaduct
