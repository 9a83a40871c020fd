// Ports of trains are their sockets' alone: a user that could bind one could send in this host's name. Root only;
// skipped otherwise.
#include <arpa/inet.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "tests/unit/xdp/fixture.h"
#include "xdp/train/open_train_socket.h"

namespace viaduct {
namespace {

#ifndef SO_BINDTOIFINDEX
#define SO_BINDTOIFINDEX 62
#endif

class TrainPortTest : public VethTest {
 protected:
  void SetUp() override {
    VethTest::SetUp();
    if (IsSkipped()) return;
    ASSERT_EQ(system("ip link set lo up && ip addr add 10.9.0.1/24 dev v0 && ip addr add 10.9.0.2/24 dev v1"), 0);
    opened_ = open_train_socket("v0");
  }

  // As another user: 0 if it has the port then, else errno of bind().
  int bind_elsewhere(const char* device, int family, const char* address, int reuse) {
    const pid_t child = fork();
    if (child == 0) {
      if (setresgid(65534, 65534, 65534) != 0 || setresuid(65534, 65534, 65534) != 0) _exit(200);
      const int fd = socket(family, SOCK_DGRAM, 0), on = 1;
      if (*device != '\0' &&
          setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, device, static_cast<socklen_t>(std::strlen(device) + 1)) != 0) {
        _exit(201);
      }
      if (reuse != 0 && setsockopt(fd, SOL_SOCKET, reuse, &on, sizeof on) != 0) _exit(202);
      sockaddr_storage at{};
      at.ss_family = static_cast<sa_family_t>(family);
      socklen_t bytes;
      if (family == AF_INET) {
        auto& v4 = reinterpret_cast<sockaddr_in&>(at);
        v4.sin_port = htons(opened_.address.port);
        inet_pton(AF_INET, address, &v4.sin_addr);
        bytes = sizeof v4;
      } else {
        auto& v6 = reinterpret_cast<sockaddr_in6&>(at);
        v6.sin6_port = htons(opened_.address.port);
        inet_pton(AF_INET6, address, &v6.sin6_addr);
        bytes = sizeof v6;
      }
      _exit(bind(fd, reinterpret_cast<sockaddr*>(&at), bytes) == 0 ? 0 : errno);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 203;
  }

  OpenedTrainSocket opened_;
};

TEST_F(TrainPortTest, NoUserHasItOnAnotherInterface) {
  for (const char* device : {"lo", "v1", ""}) {
    for (const int reuse : {0, SO_REUSEADDR, SO_REUSEPORT}) {
      EXPECT_EQ(bind_elsewhere(device, AF_INET, "0.0.0.0", reuse), EADDRINUSE) << device << " " << reuse;
      EXPECT_EQ(bind_elsewhere(device, AF_INET, "10.9.0.1", reuse), EADDRINUSE) << device << " " << reuse;
      EXPECT_EQ(bind_elsewhere(device, AF_INET6, "::", reuse), EADDRINUSE) << device << " " << reuse;
    }
  }
}

// Without the guard it could: this is the rule's purpose.
TEST_F(TrainPortTest, ItIsTheGuardThatKeepsThemAway) {
  opened_.guard.close();
  EXPECT_EQ(bind_elsewhere("lo", AF_INET, "0.0.0.0", 0), 0);
}

TEST_F(TrainPortTest, WhatComesByTheInterfaceIsTheSockets) {
  const std::string other = "viaduct-train-test-" + std::to_string(getpid());
  const int sender = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(opened_.address.port);
  inet_pton(AF_INET, "10.9.0.1", &to.sin_addr);
  // By the wire: both ends are this host's, whose way between its own addresses is lo.
  ASSERT_EQ(system(("ip netns add " + other + " && ip link set v1 netns " + other + " && ip -n " + other +
                    " addr add 10.9.0.2/24 dev v1 && ip -n " + other + " link set v1 up").c_str()), 0);
  const std::string say = "ip netns exec " + other + " bash -c 'printf abc > /dev/udp/10.9.0.1/" +
                          std::to_string(opened_.address.port) + "'";
  EXPECT_EQ(system(say.c_str()), 0);
  pollfd polled{opened_.socket.get(), POLLIN, 0};
  EXPECT_EQ(poll(&polled, 1, 10'000), 1);
  char room[8];
  EXPECT_EQ(recv(opened_.socket.get(), room, sizeof room, MSG_DONTWAIT), 3);
  // By another interface it has no receiver.
  EXPECT_EQ(sendto(sender, "abc", 3, 0, reinterpret_cast<sockaddr*>(&to), sizeof to), 3);
  EXPECT_EQ(recv(opened_.guard.get(), room, sizeof room, MSG_DONTWAIT), -1);
  close(sender);
  EXPECT_EQ(system(("ip netns del " + other).c_str()), 0);
}

}  // namespace
}  // namespace viaduct
