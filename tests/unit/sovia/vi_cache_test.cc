// cached VIs: which connections they are for, and what a peer can do with one.
#include "sovia/background/vi_cache.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>

#include "sovia/background/background_state.h"
#include "sovia/process/clock.h"
#include "sovia/socket/socket_pool.h"
#include "tests/unit/sovia/fake_transport.h"
#include "tests/unit/sovia/lane_pair.h"

namespace viaduct::sovia::background {
namespace {

FlowEnd end_at(unsigned char host, unsigned char port) {
  FlowEnd made{};
  made.address[0] = host;
  made.port[1] = port;
  return made;
}

class ViCacheTest : public testing::Test {
 protected:
  ViCacheTest() : socket_(SocketPool::make(true)) {
    near_.connect(far_);
    far_.connect(near_);
  }
  ~ViCacheTest() override { requests().queue = nullptr; }  // no thread looks at the lanes of these tests
  // This process called the peer, or was called by it, at the peer's port 80 or its own.
  void vi_cache(Role role) {
    end_ = std::make_unique<LaneEndpoint>(socket_->reference(), *socket_, near_, options_);
    end_->role = role;
    end_->tcp = flow(role, 1000);
    end_->peer = peer_of(end_->tcp, role);
    std::memcpy(end_->host, way_.peer, sizeof end_->host);
    peer_ = std::make_unique<Lane>(far_, options_);
    ASSERT_TRUE(cache_.put(*end_));
  }
  void peer_parks() {
    settle();
    ASSERT_TRUE(peer_->park());
    settle();
  }
  // The peer takes it for a connection, as it sees it.
  void peer_wakes(const Flow& connection) {
    far_.begin_again();
    peer_ = std::make_unique<Lane>(far_, options_);
    peer_->greet(LanePair::kTokenB, hello_flow(connection));
    settle();
  }
  void settle() {
    for (bool any = true; any;) {
      any = false;
      ProcessNic::Arrival arrival;
      while (near_.deliver() || far_.deliver() || far_.take_in(*peer_) || near_.complete() || far_.complete()) {
        any = true;
      }
      while (near_.take(arrival)) near_.receives.told->arrived(arrival);
    }
  }
  static Flow flow(Role role, unsigned other_port) {
    const auto port = static_cast<unsigned char>(other_port);
    if (role == Role::kCaller) return {false, end_at(1, port), end_at(2, 80)};
    return {false, end_at(1, 80), end_at(2, port)};
  }
  static Flow reversed(const Flow& flow) { return {flow.ipv6, flow.remote, flow.local}; }
  static Task task(const Flow& flow, Role role) {
    Task made;
    made.flow = flow;
    made.flow_known = true;
    made.role = role;
    made.peer = peer_of(flow, role);
    return made;
  }

  const LaneOptions options_ = window(4, 2);
  FakeTransport near_{places_for(options_)}, far_{places_for(options_)};
  Socket* const socket_;
  std::unique_ptr<LaneEndpoint> end_;
  std::unique_ptr<Lane> peer_;
  ViCache cache_;
  Way way_{"", {2, 2, 2, 2, 2, 2}, false};
};

TEST_F(ViCacheTest, TheCallerTakesOneForItsNextConnection) {
  vi_cache(Role::kCaller);
  const Task next = task(flow(Role::kCaller, 7), Role::kCaller);
  EXPECT_EQ(cache_.take(next, way_), nullptr) << "the peer has not said that it keeps it";
  peer_parks();
  EXPECT_FALSE(cache_.may_be_offered(next));
  Task elsewhere = task(next.flow, Role::kCaller);
  elsewhere.peer = end_at(2, 81);
  EXPECT_EQ(cache_.take(elsewhere, way_), nullptr);
  elsewhere.peer = end_at(3, 80);
  EXPECT_EQ(cache_.take(elsewhere, way_), nullptr);
  Way moved = way_;
  moved.peer[5] = 9;
  EXPECT_EQ(cache_.take(next, moved), nullptr) << "the address is another host's by now";
  CachedVi* const taken = cache_.take(next, way_);
  ASSERT_NE(taken, nullptr);
  EXPECT_EQ(&taken->vi, &near_);
  EXPECT_TRUE(cache_.empty());
  delete taken;
}

TEST_F(ViCacheTest, TheOtherEndLearnsWhichConnectionItIsFor) {
  vi_cache(Role::kAccepted);
  peer_parks();
  const Flow connection = flow(Role::kAccepted, 7);
  const Task accepted = task(connection, Role::kAccepted);
  EXPECT_TRUE(cache_.may_be_offered(accepted));
  EXPECT_EQ(cache_.take_offered(accepted, way_), nullptr);
  peer_wakes(reversed(connection));
  EXPECT_FALSE(cache_.may_be_offered(accepted));
  ASSERT_TRUE(cache_.has_offers());
  EXPECT_FALSE(cache_.is_offered(task(flow(Role::kAccepted, 8), Role::kAccepted)));
  Way moved = way_;
  moved.peer[5] = 9;
  EXPECT_EQ(cache_.take_offered(accepted, moved), nullptr);
  CachedVi* const taken = cache_.take_offered(accepted, way_);
  ASSERT_NE(taken, nullptr);
  LaneEndpoint next(socket_->reference(), *socket_, near_, options_);
  taken->pass_on(next);
  EXPECT_TRUE(next.lane.greeting.has_hello());
  EXPECT_EQ(std::memcmp(next.lane.greeting.peer_token(), LanePair::kTokenB, kTokenBytes), 0);
  delete taken;
}

TEST_F(ViCacheTest, AProcessCantOfferWhatAnotherHostConnected) {
  vi_cache(Role::kAccepted);
  peer_parks();
  Flow connection = flow(Role::kAccepted, 7);
  connection.remote = end_at(3, 7);
  peer_wakes(reversed(connection));
  EXPECT_FALSE(cache_.is_offered(task(connection, Role::kAccepted)));
}

TEST_F(ViCacheTest, WhoWasCalledTakesNone) {
  vi_cache(Role::kCaller);
  peer_parks();
  peer_wakes(reversed(flow(Role::kCaller, 7)));
  EXPECT_FALSE(cache_.has_offers());
  cache_.tidy(now_ns());
  EXPECT_TRUE(cache_.empty()) << "such a peer loses it";
}

TEST_F(ViCacheTest, ThePeerHasToParkFirst) {
  vi_cache(Role::kAccepted);
  settle();
  peer_wakes(reversed(flow(Role::kAccepted, 7)));
  EXPECT_FALSE(cache_.has_offers());
  cache_.tidy(now_ns());
  EXPECT_TRUE(cache_.empty());
}

TEST_F(ViCacheTest, IsTidied) {
  vi_cache(Role::kAccepted);
  peer_parks();
  const std::uint64_t now = now_ns();
  const std::uint64_t due = cache_.tidy(now);
  EXPECT_GT(due, now);
  EXPECT_LT(due, now + ViCache::kKeptNs);
  EXPECT_FALSE(cache_.empty());
  cache_.tidy(now + ViCache::kKeptNs);
  EXPECT_TRUE(cache_.empty());
}

TEST_F(ViCacheTest, OffersThatNobodyWantsEnd) {
  vi_cache(Role::kAccepted);
  peer_parks();
  peer_wakes(reversed(flow(Role::kAccepted, 7)));
  cache_.tidy(now_ns() + ViCache::kKeptNs / 2);
  EXPECT_TRUE(cache_.empty());
}

TEST_F(ViCacheTest, ALaneThatFailsToParkIsNotLeftInTheQueueOfTheThread) {
  auto* const end = new LaneEndpoint(socket_->reference(), *socket_, near_, options_);
  end->role = Role::kCaller;
  end->may_park = end->replaced = true;
  state().ends.push_back(end);
  engine::count_lanes(1);
  near_.break_down();
  EXPECT_TRUE(free_end(0));
  EXPECT_EQ(near_.failures(), 1u);
  EXPECT_TRUE(state().vi_cache.empty());
  EXPECT_EQ(requests().queue, nullptr);
}

TEST_F(ViCacheTest, WithoutARoleThereIsNone) {
  end_ = std::make_unique<LaneEndpoint>(socket_->reference(), *socket_, near_, options_);
  EXPECT_FALSE(cache_.put(*end_));
}

}  // namespace
}  // namespace viaduct::sovia::background
