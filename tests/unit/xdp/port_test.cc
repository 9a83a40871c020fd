// Ports on real interfaces. Root only; skipped otherwise.
#include <linux/if_link.h>
#include <linux/if_xdp.h>
#include <poll.h>

#include <map>

#include "tests/unit/xdp/fixture.h"
#include "xdp/port_error.h"
#include "xdp/xsk/af_xdp_queue.h"
#include "xdp/interface.h"

namespace viaduct {
namespace {

constexpr MacAddress kV0{2, 0, 0, 0, 0, 1}, kV1{2, 0, 0, 0, 0, 2};

// ---------------------------------------------------------------------------- every kind

class PortTest : public VethTest, public ::testing::WithParamInterface<PortKind> {
 protected:
  void open_both(std::uint32_t frames = 8192, std::uint32_t ring = 2048) {
    a_ = open("v0", GetParam(), frames, ring);
    b_ = open("v1", GetParam(), frames, ring);
  }
  std::unique_ptr<Port> a_, b_;
};

INSTANTIATE_TEST_SUITE_P(Kinds, PortTest,
                         ::testing::Values(PortKind::kTcx, PortKind::kXdpNative, PortKind::kXdpGeneric,
                                           PortKind::kPcap),
                         [](const auto& info) {
                           return info.param == PortKind::kTcx          ? "Tcx"
                                  : info.param == PortKind::kXdpNative  ? "Native"
                                  : info.param == PortKind::kXdpGeneric ? "Generic"
                                                                        : "Pcap";
                         });

TEST_P(PortTest, SaysWhatItIs) {
  open_both();
  EXPECT_EQ(a_->address(), kV0);
  EXPECT_EQ(b_->address(), kV1);
  EXPECT_EQ(a_->mtu(), 1500u);
  EXPECT_TRUE(a_->alive());
  const std::string expected = GetParam() == PortKind::kTcx         ? "tcx"
                               : GetParam() == PortKind::kXdpNative ? "xdp-native, copy"
                               : GetParam() == PortKind::kXdpGeneric ? "xdp-generic"
                                                                     : "pcap";
  EXPECT_EQ(a_->mode(), expected);
}

TEST_P(PortTest, FramesOfEverySizeArriveWholeInBothDirections) {
  open_both();
  std::uint64_t number = 0;
  for (const std::uint32_t bytes : {60u, 61u, 64u, 300u, 1000u, 1513u, 1514u}) {
    for (Port* from : {a_.get(), b_.get()}) {
      Port& to = from == a_.get() ? *b_ : *a_;
      ASSERT_TRUE(send(*from, to.address(), bytes, ++number));
      Frame frame;
      ASSERT_TRUE(receive(to, frame)) << bytes;
      EXPECT_TRUE(is_right(frame, bytes, number)) << bytes;
      to.release({&frame, 1});
    }
  }
  EXPECT_EQ(a_->counters().tx_frames, 7u);
  EXPECT_EQ(a_->counters().rx_frames, 7u);
  EXPECT_EQ(b_->counters().rx_bytes, b_->counters().tx_bytes);
}

TEST_P(PortTest, TakesItsOwnFramesAndBroadcastsAndNothingElse) {
  open_both();
  ASSERT_TRUE(send(*a_, MacAddress{2, 0, 0, 0, 0, 9}, 64, 1));  // another host's
  ASSERT_TRUE(send(*a_, kV1, 64, 2, 0x88b6));                  // another protocol
  ASSERT_TRUE(send(*a_, kBroadcast, 64, 3));
  ASSERT_TRUE(send(*a_, kV1, 64, 4));
  for (const std::uint64_t number : {3u, 4u}) {
    Frame frame;
    ASSERT_TRUE(receive(*b_, frame));
    EXPECT_TRUE(is_right(frame, 64, number));
    b_->release({&frame, 1});
  }
  Frame frame;
  EXPECT_EQ(b_->receive({&frame, 1}), 0u);
  EXPECT_EQ(a_->receive({&frame, 1}), 0u) << "a frame came back to its sender";
}

TEST_P(PortTest, KeptFramesStayAsTheyAreAndDoNotStarveTheOthers) {
  open_both(1024, 256);
  std::vector<Frame> kept;
  std::uint64_t number = 0;
  for (; kept.size() < b_->lendable(); ++number) {
    ASSERT_TRUE(send(*a_, kV1, 200, number));
    kept.emplace_back();
    ASSERT_TRUE(receive(*b_, kept.back()));
  }
  for (const std::uint64_t end = number + 5000; number < end; ++number) {
    ASSERT_TRUE(send(*a_, kV1, 64, number));
    Frame frame;
    ASSERT_TRUE(receive(*b_, frame)) << number;
    ASSERT_TRUE(is_right(frame, 64, number));
    b_->release({&frame, 1});
  }
  for (std::size_t i = 0; i < kept.size(); ++i) ASSERT_TRUE(is_right(kept[i], 200, i));
  b_->release(kept);
}

TEST_P(PortTest, SmallRingsWorkToo) {
  open_both(64, 32);
  Frame kept;
  ASSERT_TRUE(send(*a_, kV1, 64, 1000));
  ASSERT_TRUE(receive(*b_, kept));
  for (std::uint64_t number = 0; number < 500; ++number) {
    ASSERT_TRUE(send(*a_, kV1, 64, number));
    Frame frame;
    ASSERT_TRUE(receive(*b_, frame)) << number;
    b_->release({&frame, 1});
  }
  b_->release({&kept, 1});
}

TEST_P(PortTest, ReservedBuffersRunOutAndComeBack) {
  open_both(1024, 256);
  for (int round = 0; round < 3; ++round) {
    std::vector<Frame> all;
    Frame some[100];
    for (std::size_t n; (n = a_->reserve(some)) != 0;) all.insert(all.end(), some, some + n);
    ASSERT_GE(all.size(), 256u);
    ASSERT_LE(all.size(), 1024u);
    for (Frame& frame : all) write_frame(frame, kV1, kV0, 64, 5);
    const std::uint64_t before = a_->counters().tx_frames;
    if (round == 1) {
      a_->cancel(all);
      EXPECT_EQ(a_->counters().tx_frames, before);
    } else {
      a_->submit(all);
      a_->flush();
      const PortCounters c = a_->counters();
      EXPECT_EQ(c.tx_frames + c.tx_dropped_busy - before, all.size());
    }
    ASSERT_TRUE(eventually([&] {
      a_->flush();
      Frame frame;
      if (a_->reserve({&frame, 1}) != 1) return false;
      a_->cancel({&frame, 1});
      return true;
    }));
  }
  EXPECT_GE(a_->counters().tx_no_buffer, 3u);
}

TEST_P(PortTest, ALongBurstArrivesInOrder) {
  open_both();
  constexpr std::uint64_t kFrames = 20000;
  std::uint64_t sent = 0, expected = 0;
  ASSERT_TRUE(eventually([&] {
    // At most 64 under way, so that no queue on the way is too short.
    while (sent < kFrames && sent - expected < 64) {
      Frame frame;
      if (a_->reserve({&frame, 1}) != 1) break;
      write_frame(frame, kV1, kV0, 64, sent++);
      a_->submit({&frame, 1});
    }
    a_->flush();
    Frame frames[32];
    const std::size_t n = b_->receive(frames);
    for (std::size_t i = 0; i < n; ++i) {
      EXPECT_EQ(wire::load64(frames[i].data + 14), expected);
      ++expected;
    }
    b_->release({frames, n});
    return expected == kFrames;
  })) << expected;
}

TEST_P(PortTest, TheDescriptorTellsThatAFrameIsThere) {
  open_both();
  pollfd state{b_->descriptor(), POLLIN, 0};
  ASSERT_GE(state.fd, 0);
  EXPECT_EQ(poll(&state, 1, 0), 0);
  ASSERT_TRUE(send(*a_, kV1, 64, 1));
  EXPECT_EQ(poll(&state, 1, 10'000), 1);
  Frame frame;
  ASSERT_TRUE(receive(*b_, frame));
  b_->release({&frame, 1});
}

TEST_P(PortTest, GoesOnWhenTheLinkIsBack) {
  open_both();
  run("ip link set v1 down");
  for (std::uint64_t i = 0; i < 100; ++i) {
    Frame frame;
    if (a_->reserve({&frame, 1}) == 1) {
      write_frame(frame, kV1, kV0, 64, i);
      a_->submit({&frame, 1});
    }
    a_->flush();
    if (b_->reserve({&frame, 1}) == 1) {
      write_frame(frame, kV0, kV1, 64, i);
      b_->submit({&frame, 1});
    }
    b_->flush();
    EXPECT_EQ(b_->receive({&frame, 1}), 0u);
    b_->counters();
  }
  EXPECT_TRUE(a_->alive());
  EXPECT_TRUE(b_->alive());
  run("ip link set v1 up");
  for (Port* from : {a_.get(), b_.get()}) {
    Port& to = from == a_.get() ? *b_ : *a_;
    ASSERT_TRUE(eventually([&] {
      Frame frame;
      if (from->reserve({&frame, 1}) == 1) {
        write_frame(frame, to.address(), from->address(), 64, 4711);
        from->submit({&frame, 1});
      }
      from->flush();
      from->counters();
      if (to.receive({&frame, 1}) != 1) return false;
      const bool right = is_right(frame, 64, 4711);
      to.release({&frame, 1});
      return right;
    }));
  }
}

TEST_P(PortTest, IsSilentOnceTheInterfaceIsGone) {
  open_both();
  ASSERT_TRUE(send(*a_, kV1, 64, 1));
  Frame lent, reserved;
  ASSERT_TRUE(receive(*b_, lent));
  ASSERT_EQ(b_->reserve({&reserved, 1}), 1u);
  write_frame(reserved, kV0, kV1, 64, 1);
  run("ip link del v1");
  for (int i = 0; i < 3; ++i) {
    b_->counters();
    Frame frame;
    EXPECT_EQ(b_->receive({&frame, 1}), 0u);
    b_->flush();
  }
  EXPECT_FALSE(b_->alive());
  EXPECT_TRUE(is_right(lent, 64, 1));
  b_->release({&lent, 1});
  b_->submit({&reserved, 1});
  b_->flush();
  b_->counters();
}

TEST_P(PortTest, LeavesNothingOnTheInterface) {
  open_both();
  const std::string child = "vds" + std::to_string(query_interface("v0").index);
  EXPECT_EQ(has_program("v0"), GetParam() == PortKind::kXdpNative || GetParam() == PortKind::kXdpGeneric);
  EXPECT_EQ(has_program(child), GetParam() == PortKind::kTcx);
  a_.reset();
  EXPECT_FALSE(has_program("v0"));
  EXPECT_THROW(query_interface(child), PortError);
  a_ = open("v0", GetParam());
  ASSERT_TRUE(send(*b_, kV0, 64, 1));
  Frame frame;
  ASSERT_TRUE(receive(*a_, frame));
  a_->release({&frame, 1});
}

TEST_P(PortTest, AnInterfaceHasOneAgent) {
  open_both();
  try {
    open("v0", GetParam());
    FAIL() << "two ports on one interface";
  } catch (const PortError& error) {
    const std::string text = error.what();
    EXPECT_NE(text.find("v0"), std::string::npos) << text;
    EXPECT_NE(text.find("process " + std::to_string(getpid())), std::string::npos) << text;
  }
  ASSERT_TRUE(send(*b_, kV0, 64, 1));
  Frame frame;
  ASSERT_TRUE(receive(*a_, frame));
}

TEST_P(PortTest, LargeFramesFitOnALinkThatAllowsThem) {
  make_pair("mtu 3400");
  open_both();
  ASSERT_EQ(a_->mtu(), 3400u);
  ASSERT_TRUE(send(*a_, kV1, 3414, 1));
  Frame frame;
  ASSERT_TRUE(receive(*b_, frame));
  EXPECT_TRUE(is_right(frame, 3414, 1));
}

// ---------------------------------------------------------------------------- AF_XDP

class AfXdpTest : public VethTest, public ::testing::WithParamInterface<PortKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, AfXdpTest,
                         ::testing::Values(PortKind::kXdpNative, PortKind::kXdpGeneric),
                         [](const auto& info) {
                           return info.param == PortKind::kXdpNative ? "Native" : "Generic";
                         });

TEST_P(AfXdpTest, ReceivesOnEveryQueue) {
  make_pair("numrxqueues 4 numtxqueues 4");
  const auto port = open("v0", GetParam(), 1024, 256);
  EXPECT_EQ(port->receive({}), 0u);
  std::map<std::uint64_t, int> from;
  for (std::uint32_t q = 0; q < 4; ++q) {
    // Sent through queue q, received on queue q.
    PortCounters counters;
    AfXdpQueue sender({"v1", q, 2048, 64, 64, 64, true}, counters);
    for (int i = 0; i < 50; ++i) {
      Frame frame;
      ASSERT_TRUE(eventually([&] { return sender.reserve({&frame, 1}) == 1; }));
      write_frame(frame, kV0, kV1, 100, q);
      sender.submit({&frame, 1});
      sender.flush();
      // All frames of a queue share its buffers; give them back to the right one.
      pollfd state{port->descriptor(), POLLIN, 0};
      ASSERT_EQ(poll(&state, 1, 10'000), 1) << "queue " << q;
      ASSERT_TRUE(receive(*port, frame)) << "queue " << q;
      ASSERT_TRUE(is_right(frame, 100, q));
      ++from[q];
      port->release({&frame, 1});
    }
  }
  EXPECT_EQ(from.size(), 4u);
}

TEST_P(AfXdpTest, EveryQueueGetsItsBuffersBack) {
  make_pair("numrxqueues 4 numtxqueues 4");
  const auto port = open("v0", GetParam(), 256, 64);
  PortCounters counters;
  AfXdpQueue sender({"v1", 3, 2048, 64, 64, 64, true}, counters);
  for (int i = 0; i < 2000; ++i) {
    Frame frame;
    ASSERT_TRUE(eventually([&] { return sender.reserve({&frame, 1}) == 1; }));
    write_frame(frame, kV0, kV1, 100, i);
    sender.submit({&frame, 1});
    sender.flush();
    ASSERT_TRUE(receive(*port, frame)) << i;
    port->release({&frame, 1});
  }
}

TEST_P(AfXdpTest, ASocketMadeAnewSendsAgainAndLeavesLentFramesAlone) {
  const auto port = open("v0", GetParam());
  PortCounters counters;
  AfXdpQueue sender({"v1", 0, 2048, 64, 64, 64, true}, counters);
  std::string error;
  for (std::uint64_t round = 0; round < 5; ++round) {
    Frame early, late;
    ASSERT_EQ(sender.reserve({&early, 1}), 1u);
    write_frame(early, kV0, kV1, 100, round);
    ASSERT_TRUE(eventually([&] { return sender.rebind(error) || !error.empty(); }));
    ASSERT_EQ(error, "");
    ASSERT_EQ(sender.sending(), 0u);
    ASSERT_EQ(sender.reserve({&late, 1}), 1u);
    EXPECT_NE(early.id, late.id);
    write_frame(late, kV0, kV1, 100, round + 100);
    sender.submit({&early, 1});
    sender.submit({&late, 1});
    sender.flush();
    for (const std::uint64_t number : {round, round + 100}) {
      Frame frame;
      ASSERT_TRUE(receive(*port, frame));
      EXPECT_TRUE(is_right(frame, 100, number));
      port->release({&frame, 1});
    }
  }
}

TEST_P(AfXdpTest, AQueueInUseIsRefusedWithTheReason) {
  PortCounters counters;
  AfXdpQueue first({"v1", 0, 2048, 64, 64, 64, true}, counters);
  try {
    open("v1", GetParam());
    FAIL() << "two sockets on one queue";
  } catch (const PortError& error) {
    EXPECT_NE(std::string(error.what()).find("another AF_XDP socket"), std::string::npos)
        << error.what();
  }
  EXPECT_FALSE(has_program("v1"));
}

// ---------------------------------------------------------------------------- opening

class OpenPortTest : public VethTest {};

TEST_F(OpenPortTest, AutomaticIsTcxWithoutHardware) {
  EXPECT_FALSE(query_interface("v0").hardware);
  EXPECT_EQ(open("v0", PortKind::kAuto)->mode(), "tcx");
}

TEST_F(OpenPortTest, SaysThatThereIsNoSuchInterface) {
  for (const char* name : {"nothere", "", "a-name-that-is-much-too-long-for-an-interface"}) {
    EXPECT_THROW(open(name, PortKind::kAuto), PortError) << name;
  }
}

TEST_F(OpenPortTest, SaysThatTheInterfaceIsDown) {
  run("ip link set v0 down");
  try {
    open("v0", PortKind::kAuto);
    FAIL();
  } catch (const PortError& error) {
    EXPECT_NE(std::string(error.what()).find("v0 is down"), std::string::npos) << error.what();
  }
}

TEST_F(OpenPortTest, RefusesAnInterfaceThatIsNotEthernet) {
  run("ip link set lo up");
  EXPECT_THROW(open("lo", PortKind::kAuto), PortError);
}

TEST_F(OpenPortTest, RefusesOddSizes) {
  EXPECT_THROW(open("v0", PortKind::kAuto, 1000, 256), PortError);
  EXPECT_THROW(open("v0", PortKind::kAuto, 1024, 1024), PortError);
  EXPECT_THROW(open("v0", PortKind::kAuto, 0, 0), PortError);
}

TEST_F(OpenPortTest, ListsAddressesWithIpVersion4First) {
  run("ip addr add 10.1.2.3/24 dev v0 && ip addr add fd00::5/64 dev v0 nodad");
  const auto addresses = interface_addresses("v0");
  ASSERT_GE(addresses.size(), 2u);
  EXPECT_EQ(addresses[0], "10.1.2.3");
  EXPECT_NE(std::find(addresses.begin(), addresses.end(), "fd00::5"), addresses.end());
  EXPECT_TRUE(interface_addresses("nothere").empty());
}

}  // namespace
}  // namespace viaduct
