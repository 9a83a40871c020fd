// Families in the stack: the right to use registrations, VIs that change hands, and the remains when a process goes.
#include <algorithm>

#include "kagent/contract/vip_codes.h"
#include "tests/sim/pair.h"

namespace viaduct::sim {
namespace {

using layout::CommandBody;
using layout::Op;

constexpr std::uint32_t kMessageBytes = 3000;

bool all_are(const std::vector<std::uint32_t>& programs, std::uint32_t program) {
  return !programs.empty() && std::count(programs.begin(), programs.end(), program) ==
                                  static_cast<std::ptrdiff_t>(programs.size());
}

// Notes whose memory the server's stack reads and writes.
class Memories final : public Watch {
 public:
  bool reads(Host&, std::uint32_t program, std::span<const iovec>) override {
    read_by.push_back(program);
    return !gone.contains(program);
  }
  bool writes(Host&, std::uint32_t program, std::span<const iovec>) override {
    written_by.push_back(program);
    return !gone.contains(program);
  }
  void wrote(Host&, std::uint32_t) override {}
  void wakes(Host&, std::atomic<std::uint32_t>& word) override { woken.push_back(&word); }
  void poll_wakes(Host&, std::uint32_t program) override { poll_woken.push_back(program); }
  void rings(Host&) override {}

  std::vector<std::uint32_t> read_by, written_by, poll_woken;
  std::vector<std::atomic<std::uint32_t>*> woken;
  std::set<std::uint32_t> gone;
};

struct Family : Pair {
  Family() : from(kMessageBytes), to(kMessageBytes) {
    b.watch = &memories;
    from_handle = client->register_memory(from.data(), kMessageBytes);
    to_handle = server->register_memory(to.data(), kMessageBytes);
    EXPECT_TRUE(connect());
  }
  ~Family() { b.watch = nullptr; }

  std::uint32_t first() const { return server->session(); }
  // One that was forked just now.
  std::uint32_t fork_of(std::uint32_t parent) {
    const std::uint32_t forks = server->view().header().forks.fetch_add(1) + 1;
    return join(parent, forks);
  }
  std::uint32_t join(std::uint32_t parent, std::uint32_t forks) {
    const auto joined = b.stack->join(first(), b.stack->id_of(parent), forks);
    EXPECT_TRUE(joined.has_value());
    return joined.value_or(0);
  }
  vip::Return run_as(std::uint32_t program, CommandBody& body) {
    body.member = b.stack->member_of(program);
    body = server->now(body);
    return static_cast<vip::Return>(body.result);
  }
  std::uint32_t register_as(std::uint32_t program, void* at, std::size_t bytes) {
    CommandBody body{};
    body.op = Op::kRegisterMemory;
    body.memory.address = reinterpret_cast<std::uint64_t>(at);
    body.memory.length = bytes;
    EXPECT_EQ(run_as(program, body), vip::kSuccess);
    return body.handle;
  }
  vip::Return query_as(std::uint32_t program, std::uint32_t handle, const void* at) {
    CommandBody body{};
    body.op = Op::kQueryMemory;
    body.memory.address = reinterpret_cast<std::uint64_t>(at);
    body.handle = handle;
    return run_as(program, body);
  }
  vip::Return take_as(std::uint32_t program, std::uint32_t vi) {
    CommandBody body{};
    body.op = Op::kTakeVi;
    body.vi = vi;
    return run_as(program, body);
  }
  std::uint32_t create_vi_as(std::uint32_t program, std::uint32_t cq = 0) {
    CommandBody body{};
    body.op = Op::kCreateVi;
    body.vi_attributes = {vip::kReliableDelivery, kMessageBytes, 0, 0, 0};
    body.send_cq = body.receive_cq = cq;
    EXPECT_EQ(run_as(program, body), vip::kSuccess);
    return body.vi;
  }
  std::uint32_t owner(std::uint32_t vi) const {
    const layout::Vi& shared = server->view().vi(vi);
    EXPECT_EQ(shared.send.owner.load(), shared.receive.owner.load());
    return shared.send.owner.load();
  }
  void receive() { server->post_receive(server_vi, to.data(), kMessageBytes, to_handle); }
  std::uint32_t exchange() {
    client->post_send(client_vi, from.data(), kMessageBytes, from_handle);
    std::optional<Completion> done;
    run(network, hosts, {}, [&] { return (done = client->done(client_vi, false)).has_value(); },
        network.now() + 20 * kSecond);
    return done ? done->status & vip::kErrorMask : ~0u;
  }

  Memories memories;
  std::vector<std::byte> from, to;
  std::uint32_t from_handle = 0, to_handle = 0;
};

TEST(Families, ShareWhatWasRegisteredBeforeTheFork) {
  Family family;
  const std::uint32_t child = family.fork_of(family.first());
  std::byte later[64];
  const std::uint32_t after = family.register_as(family.first(), later, sizeof later);
  const std::uint32_t own = family.register_as(child, later, sizeof later);
  EXPECT_EQ(family.query_as(child, family.to_handle, family.to.data()), vip::kSuccess);
  EXPECT_EQ(family.query_as(child, after, later), vip::kInvalidParameter);
  EXPECT_EQ(family.query_as(child, own, later), vip::kSuccess);
  EXPECT_EQ(family.query_as(family.first(), own, later), vip::kInvalidParameter);
  // Its own child has what it has, and not what was registered elsewhere meanwhile.
  const std::uint32_t grandchild = family.fork_of(child);
  const std::uint32_t too_late = family.register_as(child, later, sizeof later);
  EXPECT_EQ(family.query_as(grandchild, family.to_handle, family.to.data()), vip::kSuccess);
  EXPECT_EQ(family.query_as(grandchild, own, later), vip::kSuccess);
  EXPECT_EQ(family.query_as(grandchild, after, later), vip::kInvalidParameter);
  EXPECT_EQ(family.query_as(grandchild, too_late, later), vip::kInvalidParameter);
}

TEST(Families, GiveBackOnlyWhatTheyHaveRegisteredThemselves) {
  Family family;
  const std::uint32_t child = family.fork_of(family.first());
  CommandBody body{};
  body.op = Op::kDeregisterMemory;
  body.memory.address = reinterpret_cast<std::uint64_t>(family.to.data());
  body.handle = family.to_handle;
  CommandBody again = body;
  EXPECT_EQ(family.run_as(child, body), vip::kInvalidParameter);
  EXPECT_EQ(family.run_as(family.first(), again), vip::kSuccess);
}

TEST(Families, MeanTheMemoryOfWhoHasTheVi) {
  Family family;
  family.receive(), family.receive();
  const std::uint32_t child = family.fork_of(family.first());
  EXPECT_EQ(family.exchange(), 0u);
  EXPECT_TRUE(all_are(family.memories.written_by, family.first()));
  EXPECT_EQ(family.owner(family.server_vi), 0u);
  EXPECT_EQ(family.take_as(child, family.server_vi), vip::kSuccess);
  EXPECT_EQ(family.owner(family.server_vi), family.b.stack->member_of(child));
  // Data that had come was brought over.
  EXPECT_TRUE(all_are(family.memories.read_by, family.first()));
  EXPECT_EQ(family.memories.written_by.back(), child);
  family.memories.written_by.clear();
  EXPECT_EQ(family.exchange(), 0u);
  EXPECT_TRUE(all_are(family.memories.written_by, child));
}

TEST(Families, BringNothingOverThatWasTakenBack) {
  Family family;
  family.receive();
  EXPECT_EQ(family.exchange(), 0u);
  const std::uint32_t child = family.fork_of(family.first());
  family.server->view().vi(family.server_vi).receive.dequeued.store(1);
  EXPECT_EQ(family.take_as(child, family.server_vi), vip::kSuccess);
  EXPECT_TRUE(family.memories.read_by.empty());
}

TEST(Families, DoNotTakeWhatCannotBeBroughtOver) {
  Family family;
  family.receive();
  const std::uint32_t child = family.fork_of(family.first());
  EXPECT_EQ(family.exchange(), 0u);
  family.memories.gone.insert(child);
  EXPECT_EQ(family.take_as(child, family.server_vi), vip::kErrorResource);
  EXPECT_EQ(family.owner(family.server_vi), 0u);
  // Nor when positions make no sense.
  family.memories.gone.clear();
  family.server->view().vi(family.server_vi).receive.dequeued.store(77);
  EXPECT_EQ(family.take_as(child, family.server_vi), vip::kErrorResource);
}

TEST(Families, TakeOnceBothMemoriesCanBeReached) {
  Family family;
  family.receive();
  const std::uint32_t child = family.fork_of(family.first());
  EXPECT_EQ(family.exchange(), 0u);
  // Neither while completions of the first process wait for their data, ...
  family.b.late_programs = {family.first()};
  EXPECT_EQ(family.take_as(child, family.server_vi), vip::kNotDone);
  EXPECT_TRUE(family.memories.read_by.empty());
  // ... nor while its memory can't be read, ...
  family.b.late_programs.clear();
  family.b.postponed = true;
  family.memories.gone = {family.first()};
  EXPECT_EQ(family.take_as(child, family.server_vi), vip::kNotDone);
  EXPECT_NE(family.memories.written_by.back(), child);
  // ... nor while the child's has not been written.
  family.b.postponed = false;
  family.memories.gone.clear();
  family.b.late_programs = {child};
  EXPECT_EQ(family.take_as(child, family.server_vi), vip::kNotDone);
  EXPECT_EQ(family.memories.written_by.back(), child);
  EXPECT_EQ(family.owner(family.server_vi), 0u);
  family.memories.written_by.clear();
  family.b.late_programs.clear();
  EXPECT_EQ(family.take_as(child, family.server_vi), vip::kSuccess);
  EXPECT_EQ(family.owner(family.server_vi), family.b.stack->member_of(child));
  EXPECT_TRUE(family.memories.written_by.empty()) << "data was brought over twice";
}

TEST(Families, BringOverAnewWhatCameBehindADescriptorThatWasTakenBack) {
  Family family;
  family.receive(), family.receive();
  const std::uint32_t child = family.fork_of(family.first());
  EXPECT_EQ(family.exchange(), 0u);
  family.b.late_programs = {child};
  EXPECT_EQ(family.take_as(child, family.server_vi), vip::kNotDone);
  // The child has given up, and the first process goes on.
  family.server->view().vi(family.server_vi).receive.dequeued.store(1);
  EXPECT_EQ(family.exchange(), 0u);
  family.memories.written_by.clear();
  family.b.late_programs.clear();
  EXPECT_EQ(family.take_as(child, family.server_vi), vip::kSuccess);
  EXPECT_EQ(family.memories.written_by, (std::vector<std::uint32_t>{child}));
}

TEST(Families, WakeTheOneWhoHadTheVi) {
  Family family;
  const std::uint32_t child = family.fork_of(family.first());
  std::atomic<std::uint32_t>& word = family.server->view().vi(family.server_vi).receive.sleepers;
  word.store(layout::kSleeper | layout::kPoller | layout::kCallbackThread);
  family.memories.woken.clear();
  EXPECT_EQ(family.take_as(child, family.server_vi), vip::kSuccess);
  EXPECT_NE(std::find(family.memories.woken.begin(), family.memories.woken.end(), &word),
            family.memories.woken.end());
  EXPECT_EQ(family.memories.poll_woken, (std::vector<std::uint32_t>{family.first()}));
  EXPECT_EQ(family.server->view().alert(0).load(), 1u);
  // From then on the other one.
  word.store(layout::kPoller | layout::kCallbackThread);
  family.receive();
  EXPECT_EQ(family.exchange(), 0u);
  EXPECT_EQ(family.memories.poll_woken.back(), child);
  EXPECT_EQ(family.server->view().alert(family.b.stack->member_of(child)).load(), 1u);
}

TEST(Families, TakeCqsAlongUnlessOthersAreOnThem) {
  Family family;
  CommandBody body{};
  body.op = Op::kCreateCq;
  body.entries = 16;
  EXPECT_EQ(family.run_as(family.first(), body), vip::kSuccess);
  const std::uint32_t cq = body.handle;
  const std::uint32_t vi = family.create_vi_as(family.first(), cq + 1);
  const std::uint32_t other = family.create_vi_as(family.first(), cq + 1);
  const std::uint32_t child = family.fork_of(family.first());
  EXPECT_EQ(family.take_as(child, vi), vip::kInvalidState);
  CommandBody destroy{};
  destroy.op = Op::kDestroyVi;
  destroy.vi = other;
  EXPECT_EQ(family.run_as(family.first(), destroy), vip::kSuccess);
  EXPECT_EQ(family.take_as(child, vi), vip::kSuccess);
  EXPECT_EQ(family.server->view().cq(cq).owner.load(), family.b.stack->member_of(child));
  // And no other member makes VIs for it.
  CommandBody create{};
  create.op = Op::kCreateVi;
  create.vi_attributes = {vip::kReliableDelivery, kMessageBytes, 0, 0, 0};
  create.send_cq = cq + 1;
  EXPECT_EQ(family.run_as(family.first(), create), vip::kInvalidParameter);
}

TEST(Families, LeaveNothingWhenAProcessGoes) {
  Family family;
  const Stack::Usage before = family.b.stack->usage();
  const std::uint32_t child = family.fork_of(family.first());
  const std::uint32_t member = family.b.stack->member_of(child);
  std::byte own[64];
  family.register_as(child, own, sizeof own);
  const std::uint32_t vi = family.create_vi_as(child);
  CommandBody create{};
  create.op = Op::kCreateCq;
  create.entries = 16;
  EXPECT_EQ(family.run_as(child, create), vip::kSuccess);
  const layout::View& view = family.server->view();
  view.vi(family.server_vi).send.lock.store(1 + member);
  view.vi(vi).receive.lock.store((1 + member) | layout::kLockWanted);
  view.cq(create.handle).lock.store(1);
  view.command(5).owner.store(1 + member);
  view.command(6).owner.store(1);
  family.b.stack->leave(child, family.network.now());
  EXPECT_EQ(view.vi(family.server_vi).send.lock.load(), 0u);
  EXPECT_EQ(view.vi(vi).receive.lock.load(), 0u);
  EXPECT_EQ(view.cq(create.handle).lock.load(), 1u) << "that one is another's";
  EXPECT_EQ(view.command(5).owner.load(), 0u);
  EXPECT_EQ(view.command(6).owner.load(), 1u);
  const Stack::Usage after = family.b.stack->usage();
  EXPECT_EQ(after.vis, before.vis);
  EXPECT_EQ(after.cqs, before.cqs);
  EXPECT_EQ(after.regions, before.regions);
  EXPECT_EQ(after.members, 0u);
  family.receive();
  EXPECT_EQ(family.exchange(), 0u) << "the first one goes on";
}

TEST(Families, EndTheCommandsOfAProcessThatGoes) {
  Family family;
  const std::uint32_t child = family.fork_of(family.first());
  CommandBody wait{};
  wait.op = Op::kConnectWait;
  wait.member = family.b.stack->member_of(child);
  wait.timeout_ms = layout::kForever;
  bool ended = false;
  family.server->command(wait, [&](const CommandBody&) { ended = true; });
  family.wait(kMillisecond);
  EXPECT_FALSE(ended);
  family.b.stack->leave(child, family.network.now());
  family.wait(kMillisecond);
  EXPECT_TRUE(ended);
}

TEST(Families, TellThePeersWhenTheOneGoesWhoHadTheVi) {
  Family family;
  const std::uint32_t child = family.fork_of(family.first());
  EXPECT_EQ(family.take_as(child, family.server_vi), vip::kSuccess);
  family.b.stack->leave(child, family.network.now());
  family.wait(100 * kMillisecond);
  EXPECT_EQ(family.client->state(family.client_vi), vip::kError);
}

TEST(Families, KeepWhatHeirsNeedUntilTheLastOneGoes) {
  Family family;
  const std::uint32_t child = family.fork_of(family.first());
  std::byte own[64];
  const std::uint32_t handle = family.register_as(child, own, sizeof own);
  const std::uint32_t grandchild = family.fork_of(child);
  EXPECT_EQ(family.take_as(grandchild, family.server_vi), vip::kSuccess);
  family.b.stack->leave(child, family.network.now());
  EXPECT_EQ(family.query_as(grandchild, handle, own), vip::kSuccess);
  family.b.stack->leave(family.first(), family.network.now());
  EXPECT_EQ(family.query_as(grandchild, family.to_handle, family.to.data()), vip::kSuccess);
  family.b.stack->leave(grandchild, family.network.now());
  const Stack::Usage usage = family.b.stack->usage();
  EXPECT_EQ(usage.regions, 0u);
  EXPECT_EQ(usage.members, 0u);
  EXPECT_EQ(usage.sessions, 1u) << "that is the agent's to end";
}

TEST(Families, GiveNothingToTheChildOfOneThatIsForgotten) {
  Family family;
  const std::uint32_t child = family.fork_of(family.first());
  const std::uint32_t id = family.b.stack->id_of(child);
  family.b.stack->leave(child, family.network.now());
  // Another process has its place now.
  const std::uint32_t other = family.fork_of(family.first());
  EXPECT_EQ(other, child);
  std::byte own[64];
  const std::uint32_t handle = family.register_as(other, own, sizeof own);
  const auto late = family.b.stack->join(family.first(), id, ~0u);
  ASSERT_TRUE(late.has_value());
  EXPECT_EQ(family.query_as(*late, handle, own), vip::kInvalidParameter);
}

TEST(Families, HaveLimits) {
  Family family;
  unsigned joined = 0;
  while (family.b.stack->join(family.first(), 1, 1)) ++joined;
  EXPECT_EQ(joined, std::min(layout::kMembers, family.b.limits.members));
  for (std::uint32_t member = layout::kMembers + 1; member != 0; member *= 2) {
    CommandBody body{};
    body.op = Op::kCreatePtag;
    body.member = member;
    EXPECT_EQ(family.server->now(body).result, std::uint32_t{vip::kInvalidParameter});
  }
}

TEST(Families, EndWithTheirSession) {
  Family family;
  const std::uint32_t child = family.fork_of(family.first());
  family.take_as(child, family.server_vi);
  std::byte own[64];
  family.register_as(child, own, sizeof own);
  family.fork_of(child);
  family.server.reset();
  family.wait(5 * kSecond);
  expect_nothing_left(family.b);
}

}  // namespace
}  // namespace viaduct::sim
