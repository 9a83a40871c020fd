// The steering program, run by the kernel on frames made here. Root only; skipped otherwise.
#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <gtest/gtest.h>
#include <linux/if_xdp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wcast-qual"
#include "xdp/bpf/steer.skel.h"
#pragma GCC diagnostic pop

namespace {

using Address = std::array<std::uint8_t, 6>;
constexpr Address kOwn{2, 0, 0, 0, 0, 1};
constexpr Address kAll{0xff, 0xff, 0xff, 0xff, 0xff, 0xff};

class SteerTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root can load BPF programs";
    load(0x88b5);
  }

  void TearDown() override {
    steer_bpf__destroy(program_);
    if (socket_ >= 0) close(socket_);
  }

  void load(std::uint16_t type) {
    steer_bpf__destroy(program_);
    program_ = steer_bpf__open();
    ASSERT_NE(program_, nullptr);
    program_->rodata->ether_type = type;
    std::memcpy(const_cast<std::uint8_t*>(program_->rodata->address), kOwn.data(), kOwn.size());
    ASSERT_EQ(steer_bpf__load(program_), 0);
  }

  // An AF_XDP socket in the map is all that a redirect needs to be decided on.
  void put_socket() {
    socket_ = socket(AF_XDP, SOCK_RAW | SOCK_CLOEXEC, 0);
    ASSERT_GE(socket_, 0) << std::strerror(errno);
    const std::uint32_t queue = 0;
    ASSERT_EQ(bpf_map_update_elem(bpf_map__fd(program_->maps.sockets), &queue, &socket_, 0), 0)
        << std::strerror(errno);
  }

  std::uint32_t run(const Address& to, std::uint16_t type, std::size_t bytes = 64) {
    std::vector<std::uint8_t> frame(bytes), out(bytes + 256);
    std::memcpy(frame.data(), to.data(), to.size());
    frame[12] = static_cast<std::uint8_t>(type >> 8);
    frame[13] = static_cast<std::uint8_t>(type);
    DECLARE_LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = frame.data(),
                        .data_out = out.data(),
                        .data_size_in = static_cast<std::uint32_t>(frame.size()),
                        .data_size_out = static_cast<std::uint32_t>(out.size()));
    const int program = bpf_program__fd(program_->progs.viaduct_steer);
    const int error = bpf_prog_test_run_opts(program, &options);
    EXPECT_EQ(error, 0) << std::strerror(-error);
    EXPECT_EQ(options.data_size_out, frame.size());
    EXPECT_EQ(std::memcmp(out.data(), frame.data(), frame.size()), 0) << "the frame was changed";
    return options.retval;
  }

  steer_bpf* program_ = nullptr;
  int socket_ = -1;
};

TEST_F(SteerTest, TakesOurFramesToTheSocket) {
  put_socket();
  EXPECT_EQ(run(kOwn, 0x88b5), XDP_REDIRECT);
  EXPECT_EQ(run(kOwn, 0x88b5, 1514), XDP_REDIRECT);
  EXPECT_EQ(run(kAll, 0x88b5), XDP_REDIRECT);
}

TEST_F(SteerTest, PassesOurFramesWhileThereIsNoSocket) {
  EXPECT_EQ(run(kOwn, 0x88b5), XDP_PASS);
  EXPECT_EQ(run(kAll, 0x88b5), XDP_PASS);
}

TEST_F(SteerTest, PassesOtherProtocols) {
  put_socket();
  constexpr std::uint16_t kOthers[] = {0x0800, 0x86dd, 0x0806, 0x88b6, 0xb588, 0x8100, 0x002e};
  for (const std::uint16_t type : kOthers) {
    EXPECT_EQ(run(kOwn, type), XDP_PASS) << std::hex << type;
  }
}

TEST_F(SteerTest, PassesFramesForOtherAddresses) {
  put_socket();
  for (std::size_t i = 0; i < 6; ++i) {
    Address other = kOwn;
    other[i] ^= 0x40;
    EXPECT_EQ(run(other, 0x88b5), XDP_PASS) << "byte " << i;
    other = kAll;
    other[i] ^= 0x01;
    EXPECT_EQ(run(other, 0x88b5), XDP_PASS) << "byte " << i;
  }
}

TEST_F(SteerTest, LooksNoFurtherThanTheEthernetHeader) {
  put_socket();
  EXPECT_EQ(run(kOwn, 0x88b5, 14), XDP_REDIRECT);
  EXPECT_EQ(run(kOwn, 0x0800, 14), XDP_PASS);
}

TEST_F(SteerTest, TakesTheConfiguredEtherTypeOnly) {
  load(0x88b6);
  put_socket();
  EXPECT_EQ(run(kOwn, 0x88b6), XDP_REDIRECT);
  EXPECT_EQ(run(kOwn, 0x88b5), XDP_PASS);
}

}  // namespace
