// A veth pair in a network namespace of the test's own: v0 <-> v1, both here.
#ifndef VIADUCT_TESTS_UNIT_XDP_FIXTURE_H
#define VIADUCT_TESTS_UNIT_XDP_FIXTURE_H

#include <gtest/gtest.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kagent/contract/wire.h"
#include "xdp/open_port.h"

namespace viaduct {

class VethTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can make network namespaces";
    // A mount name space too: a BPF file system that libxdp mounts goes with the process.
    if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) GTEST_SKIP() << "no namespaces here";
    mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
    make_pair("");
  }

  void TearDown() override {
    if (geteuid() == 0) run("ip link del v0 2>/dev/null || true");
  }

  static void run(const std::string& command) {
    ASSERT_EQ(std::system(command.c_str()), 0) << command;
  }

  void make_pair(const std::string& arguments) {
    run("ip link del v0 2>/dev/null || true");
    run("ip link add v0 address 02:00:00:00:00:01 " + arguments +
        " type veth peer name v1 address 02:00:00:00:00:02 " + arguments);
    run("ip link set v0 up && ip link set v1 up");
    // Frames that are sent before that are dropped.
    EXPECT_TRUE(eventually([] { return is_running("v0") && is_running("v1"); }));
  }

  static bool is_running(const char* interface) {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request{};
    std::strncpy(request.ifr_name, interface, sizeof request.ifr_name - 1);
    const bool known = ioctl(fd, SIOCGIFFLAGS, &request) == 0;
    close(fd);
    return known && (request.ifr_flags & IFF_RUNNING) != 0;
  }

  std::unique_ptr<Port> open(const std::string& interface, PortKind kind,
                             std::uint32_t frames = 8192, std::uint32_t ring = 2048) {
    PortOptions options;
    options.interface = interface;
    options.kind = kind;
    options.frames = frames;
    options.ring = ring;
    options.note = [this](std::string_view text) { notes_ += std::string(text) + "\n"; };
    return open_port(options);
  }

  // Waits for what another thread of the kernel will bring about.
  static bool eventually(const std::function<bool()>& done) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    while (!done()) {
      if (std::chrono::steady_clock::now() > limit) return false;
      usleep(200);
    }
    return true;
  }

  static void write_frame(Frame& frame, const MacAddress& to, const MacAddress& from,
                          std::uint32_t bytes, std::uint64_t number, std::uint16_t type = 0x88b5) {
    std::memcpy(frame.data, to.data(), 6);
    std::memcpy(frame.data + 6, from.data(), 6);
    wire::store16(frame.data + 12, type);
    wire::store64(frame.data + 14, number);
    for (std::uint32_t i = 22; i < bytes; ++i) frame.data[i] = std::byte(number * 7 + i);
    frame.length = bytes;
  }

  static bool is_right(const Frame& frame, std::uint32_t bytes, std::uint64_t number) {
    if (frame.length != bytes || wire::load64(frame.data + 14) != number) return false;
    for (std::uint32_t i = 22; i < bytes; ++i) {
      if (frame.data[i] != std::byte(number * 7 + i)) return false;
    }
    return true;
  }

  static bool send(Port& port, const MacAddress& to, std::uint32_t bytes, std::uint64_t number,
                   std::uint16_t type = 0x88b5) {
    Frame frame;
    if (!eventually([&] { return port.reserve({&frame, 1}) == 1; })) return false;
    write_frame(frame, to, port.address(), bytes, number, type);
    port.submit({&frame, 1});
    port.flush();
    return true;
  }

  // The frame stays lent.
  static bool receive(Port& port, Frame& frame) {
    return eventually([&] { return port.receive({&frame, 1}) == 1; });
  }

  static bool has_program(const std::string& interface) {
    return std::system(("ip -d link show dev " + interface + " | grep -q prog/xdp").c_str()) == 0;
  }

  std::string notes_;
};

}  // namespace viaduct

#endif
