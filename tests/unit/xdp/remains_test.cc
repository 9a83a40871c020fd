// Granted ports that outlive the agent that made them, in the kernel.
#include <net/if.h>
#include <unistd.h>

#include "tests/unit/xdp/fixture.h"
#include "xdp/grant/grant.h"
#include "xdp/grant/grant_remains.h"
#include "xdp/grant/granted_child.h"
#include "xdp/grant/granted_port.h"
#include "xdp/interface.h"

namespace viaduct {
namespace {

constexpr MacAddress kV1{2, 0, 0, 0, 0, 2};
constexpr std::uint16_t kType = 0x88b5;
constexpr GrantFilter::Holder kHolder{1234, 5, 67, 89};

class RemainsTest : public VethTest {
 protected:
  // An agent and a program of its.
  struct Agent {
    explicit Agent(const GrantRemains* remains = nullptr)
        : lower(query_interface("v0")),
          filter(std::make_unique<GrantFilter>(lower, kType, remains)) {}
    std::unique_ptr<Grant> grant(GrantedPort& port) {
      Grant::Options options{*filter};
      auto out = std::make_unique<Grant>(options);
      EXPECT_STREQ(port.open(dup(out->socket()), dup(out->umem()), out->layout()), nullptr);
      return out;
    }
    Interface lower;
    std::unique_ptr<GrantFilter> filter;
  };

  // As an agent that hands over, or, but for the filter's relay child, one that is killed.
  static void go_away(Agent& agent, std::unique_ptr<Grant>& grant) {
    grant->leave();
    grant.reset();
    agent.filter.reset();
  }

  static void send_one(GrantedPort& port, const MacAddress& to, const MacAddress& from,
                       std::uint64_t number) {
    Frame frame;
    ASSERT_TRUE(eventually([&] { return port.reserve({&frame, 1}) == 1; }));
    write_frame(frame, to, from, 64, number, kType);
    frame.data[14] = frame.data[15] = std::byte{1};
    port.submit({&frame, 1});
    port.flush();
  }
  template <class AnyPort>
  static std::uint64_t next(AnyPort& port) {
    Frame frame;
    if (!eventually([&] { return port.receive({&frame, 1}) == 1; })) return 0;
    const std::uint64_t number = wire::load64(frame.data + 14) & 0xffff'ffff'ffff;
    port.release({&frame, 1});
    return number;
  }
  static bool exists(const std::string& name) { return if_nametoindex(name.c_str()) != 0; }
};

TEST_F(RemainsTest, APortGoesOnWithoutItsAgentAndWithTheNext) {
  const auto peer = open("v1", PortKind::kXdpGeneric);
  Agent first;
  GrantedPort port;
  auto grant = first.grant(port);
  grant->enter_holder(kHolder);
  const std::string name = grant->name();
  send_one(port, kV1, port.address(), 1);
  EXPECT_EQ(next(*peer), 1u);
  go_away(first, grant);
  EXPECT_TRUE(exists(name));
  send_one(port, kV1, port.address(), 2);
  EXPECT_EQ(next(*peer), 2u);
  send_one(port, kV1, kV1, 3);  // forged: the filter is there
  const Interface lower = query_interface("v0");
  {
    // An agent's own port on the interface, which the kernel refuses while children have programs.
    const auto wire = open("v0", PortKind::kXdpGeneric);
    GrantRemains remains = take_remains(lower, kType);
    EXPECT_EQ(remains.removed, 0u);
    ASSERT_EQ(remains.ports.size(), 1u);
    GrantRemains::Port& left = remains.ports.front();
    EXPECT_EQ(left.entry.address, port.address());
    EXPECT_EQ(left.holder.user, kHolder.user);
    EXPECT_EQ(left.holder.device, kHolder.device);
    EXPECT_EQ(left.holder.granted_segment, kHolder.granted_segment);
    EXPECT_EQ(left.holder.umem, kHolder.umem);
    Agent second(&remains);
    Grant inherited(*second.filter, std::move(left));
    EXPECT_TRUE(inherited.is_kept());
    EXPECT_EQ(inherited.name(), name);
    send_one(port, kV1, port.address(), 4);
    EXPECT_EQ(next(*peer), 4u);
    EXPECT_EQ(inherited.counts().passed, 3u) << "the table goes on";
    EXPECT_EQ(inherited.counts().forged_source, 1u);
    // Its number is in use, and the two reach each other.
    GrantedPort other;
    auto another = second.grant(other);
    EXPECT_NE(another->name(), name);
    send_one(other, port.address(), other.address(), 5);
    EXPECT_EQ(next(port), 5u);
    send_one(port, other.address(), port.address(), 6);
    EXPECT_EQ(next(other), 6u);
    // No other port gets its number, though all others have been used.
    for (int i = 0; i < 1100; ++i) {
      const GrantFilter::Entry entry = second.filter->add();
      EXPECT_NE(child_name(lower, entry.number), name);
      second.filter->remove(entry);
    }
    inherited.end();
    EXPECT_FALSE(exists(name));
    send_one(port, kV1, port.address(), 7);
    Frame frame;
    usleep(20'000);
    EXPECT_EQ(peer->receive({&frame, 1}), 0u) << "it is dead at once";
    EXPECT_TRUE(inherited.is_kept());
  }
  EXPECT_EQ(take_remains(lower, kType).ports.size(), 0u);
}

TEST_F(RemainsTest, OnlyWhatIsWholeAndInUseIsFound) {
  const Interface lower = query_interface("v0");
  GrantedPort unknown, changed;
  auto closed = std::make_unique<GrantedPort>();
  Agent first;
  auto a = first.grant(unknown), b = first.grant(changed), c = first.grant(*closed);
  b->enter_holder(kHolder);
  c->enter_holder(kHolder);
  run("ip link set " + b->name() + " address 02:00:00:00:00:77");
  const std::vector<std::string> names{a->name(), b->name(), c->name()};
  for (Grant* each : {a.get(), b.get(), c.get()}) each->leave();
  closed.reset();
  a.reset(), b.reset(), c.reset();
  first.filter.reset();
  const GrantRemains remains = take_remains(lower, kType);
  EXPECT_EQ(remains.ports.size(), 0u)
      << "no holder was entered, another address, nobody has the socket";
  EXPECT_EQ(remains.removed, 3u);
  for (const std::string& name : names) EXPECT_FALSE(exists(name));
}

TEST_F(RemainsTest, AnotherEtherTypeIsAnotherAgents) {
  const Interface lower = query_interface("v0");
  GrantedPort port;
  Agent first;
  auto grant = first.grant(port);
  grant->enter_holder(kHolder);
  go_away(first, grant);
  EXPECT_EQ(take_remains(lower, kType + 1).ports.size(), 0u);
  EXPECT_EQ(take_remains(lower, kType).ports.size(), 0u) << "it has been removed";
}

TEST_F(RemainsTest, TheRelayChildKeepsItsAddress) {
  const Interface lower = query_interface("v0");
  GrantedPort port;
  MacAddress relay_child;
  {
    Agent first;
    auto grant = first.grant(port);
    grant->enter_holder(kHolder);
    Grant::Options options{*first.filter};
    options.agents_own = true;
    auto own = std::make_unique<Grant>(options);
    relay_child = own->address();
    own->leave();  // as if killed
    go_away(first, grant);
  }
  GrantRemains remains = take_remains(lower, kType);
  EXPECT_EQ(remains.removed, 1u);
  ASSERT_TRUE(remains.relay_child);
  Agent second(&remains);
  Grant::Options options{*second.filter};
  options.agents_own = true;
  EXPECT_EQ(Grant(options).address(), relay_child);
  EXPECT_NE(Grant(options).address(), relay_child) << "once";
}

}  // namespace
}  // namespace viaduct
