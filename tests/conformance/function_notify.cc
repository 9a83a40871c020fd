// VipSendNotify, VipRecvNotify, VipCQNotify.
#include "suite.h"

namespace conformance {
namespace {

using FunctionNotify = Conformance;
constexpr VIP_RELIABILITY_LEVEL kNotifyLevel = VIP_SERVICE_RELIABLE_DELIVERY;

TEST_F(FunctionNotify, AHandlerIsCalledForWhatCompletesLater) {
  const auto [a, b] = connected(kNotifyLevel);
  const Region out = near.memory(64), in = far.memory(64);
  const Posted receive = must(b.post_recv({.segments = {in.all()}}));
  const Notify received = must(b.recv_notify()), sent = must(a.send_notify());
  EXPECT_FALSE(b.await_notification(received, 50).came);
  const Posted send = must(a.post_send({.segments = {out.all()}}));
  const Notification r = b.await_notification(received), s = a.await_notification(sent);
  ASSERT_TRUE(r.came);
  EXPECT_EQ(r.vi, b.handle);
  EXPECT_EQ(r.nic, far.handle);
  EXPECT_EQ(r.completion.id, receive.id);
  EXPECT_EQ(r.completion.status, Status{VIP_STATUS_DONE | VIP_STATUS_OP_RECEIVE});
  EXPECT_FALSE(r.in_caller) << "a thread of the provider";
  ASSERT_TRUE(s.came);
  EXPECT_EQ(s.completion.id, send.id);
  EXPECT_EQ(b.recv_done().id, kNoDescriptor) << "it has been taken back";
}

TEST_F(FunctionNotify, AHandlerIsCalledForWhatIsThereAlready) {
  const auto [a, b] = connected(kNotifyLevel);
  const Region out = near.memory(64), in = far.memory(64);
  const Posted receive = must(b.post_recv({.segments = {in.all()}}));
  must(a.post_send({.segments = {out.all()}}));
  must(a.send_wait());
  const Notification r = b.await_notification(must(b.recv_notify()));
  ASSERT_TRUE(r.came);
  EXPECT_EQ(r.completion.id, receive.id);
}

TEST_F(FunctionNotify, EachRegistrationStandsForOneCompletion) {
  const auto [a, b] = connected(kNotifyLevel);
  const Region out = near.memory(64), in = far.memory(64);
  std::vector<Posted> receives;
  std::vector<Notify> registered;
  for (int i = 0; i < 4; ++i) receives.push_back(must(b.post_recv({.segments = {in.all()}})));
  for (int i = 0; i < 3; ++i) registered.push_back(must(b.recv_notify()));
  for (int i = 0; i < 4; ++i) must(a.post_send({.segments = {out.all()}}));
  for (std::size_t i = 0; i < 3; ++i) {
    const Notification r = b.await_notification(registered[i]);
    ASSERT_TRUE(r.came) << i;
    EXPECT_EQ(r.completion.id, receives[i].id) << "in order";
  }
  EXPECT_EQ(must(b.recv_wait()).id, receives[3].id) << "nobody had asked for this one";
}

TEST_F(FunctionNotify, AFlushedDescriptorIsACompletion) {
  const auto [a, b] = connected(kNotifyLevel);
  const Region in = far.memory(64);
  must(b.post_recv({.segments = {in.all()}}));
  const Notify registered = must(b.recv_notify());
  must(a.disconnect());
  const Notification r = b.await_notification(registered);
  ASSERT_TRUE(r.came);
  EXPECT_TRUE(r.completion.status.has(VIP_STATUS_DESC_FLUSHED_ERROR));
}

TEST_F(FunctionNotify, AHandlerOfACqGetsOneEntry) {
  const Cq cq = must(far.create_cq(16));
  const Vi a = near.vi(kNotifyLevel);
  const Vi b = must(far.create_vi(far.vi_attributes(kNotifyLevel), {}, cq.handle));
  connect(a, b);
  const Region out = near.memory(64), in = far.memory(64);
  for (int i = 0; i < 3; ++i) must(b.post_recv({.segments = {in.all()}}));
  must(a.post_send({.segments = {out.all()}}));
  must(a.send_wait());
  const Notify first = must(cq.notify()), second = must(cq.notify());
  const Notification r = cq.await_notification(first);
  ASSERT_TRUE(r.came);
  EXPECT_EQ(r.vi, b.handle);
  EXPECT_EQ(r.recv_queue, VIP_TRUE);
  EXPECT_FALSE(r.in_caller);
  EXPECT_EQ(b.recv_done().code, VIP_SUCCESS) << "the descriptor is the program's to take back";
  EXPECT_FALSE(cq.await_notification(second, 30).came);
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_TRUE(cq.await_notification(second).came);
  must(a.post_send({.segments = {out.all()}}));
  EXPECT_EQ(cq.wait().code, VIP_SUCCESS) << "nobody had asked for this one";
}

TEST_F(FunctionNotify, DestroyingCancels) {
  const Vi vi = near.vi(kNotifyLevel);
  const Cq cq = must(near.create_cq(16));
  const Notify of_vi = must(vi.recv_notify()), of_cq = must(cq.notify());
  must(vi.destroy());
  must(cq.destroy());
  EXPECT_FALSE(vi.await_notification(of_vi, 30).came);
  EXPECT_FALSE(cq.await_notification(of_cq, 30).came);
}

TEST_F(FunctionNotify, NonsenseIsRefused) {
  const Vi vi = near.vi(kNotifyLevel);
  const Cq cq = must(near.create_cq(16));
  EXPECT_EQ(vi.send_notify(null(3)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(vi.recv_notify(null(3)).code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(cq.notify(null(3)).code, VIP_INVALID_PARAMETER);
  must(vi.destroy());
  must(cq.destroy());
  EXPECT_EQ(vi.send_notify().code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(vi.recv_notify().code, VIP_INVALID_PARAMETER);
  EXPECT_EQ(cq.notify().code, VIP_INVALID_PARAMETER);
}

}  // namespace
}  // namespace conformance
