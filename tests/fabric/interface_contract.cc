// fi_getinfo's answers to hints of every kind, and the errors of calls for features that do not exist.
#include <cstring>
#include <initializer_list>
#include <memory>

#include "tests/fabric/ends.h"

namespace {

struct FreeInfo {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using Info = std::unique_ptr<fi_info, FreeInfo>;

constexpr int kBasicMap = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;

Info new_hints() {
  Info hints(fi_allocinfo());
  hints->mode = ~std::uint64_t{0};
  hints->ep_attr->type = FI_EP_MSG;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | kBasicMap;
  hints->fabric_attr->prov_name = strdup(World::get().info->fabric_attr->prov_name);
  return hints;
}

// nullptr if there is nothing that suits.
Info ask(const fi_info* hints, const char* node = nullptr, const char* service = nullptr,
         std::uint64_t flags = 0, std::uint32_t version = FI_VERSION(1, 17)) {
  fi_info* info = nullptr;
  const int result = fi_getinfo(version, node, service, flags, hints, &info);
  EXPECT_TRUE(result == 0 || result == -FI_ENODATA) << result;
  return Info(info);
}

TEST(Hints, WhatIsNotOfferedIsRefused) {
  for (const std::uint64_t cap : {FI_TAGGED, FI_ATOMIC, FI_MULTI_RECV, FI_DIRECTED_RECV, FI_SOURCE,
                                  FI_TRIGGER, FI_HMEM, FI_RMA_EVENT, FI_NAMED_RX_CTX}) {
    const Info hints = new_hints();
    hints->caps = FI_MSG | cap;
    EXPECT_EQ(ask(hints.get()), nullptr) << std::hex << cap;
  }
  Info hints = new_hints();
  hints->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
  EXPECT_EQ(ask(hints.get()), nullptr) << "a shared receive context";
  hints = new_hints();
  hints->ep_attr->tx_ctx_cnt = FI_SHARED_CONTEXT;
  EXPECT_EQ(ask(hints.get()), nullptr) << "a shared transmit context";
  hints = new_hints();
  hints->ep_attr->type = FI_EP_DGRAM;
  EXPECT_EQ(ask(hints.get()), nullptr) << "datagrams";
  hints = new_hints();
  hints->domain_attr->name = strdup("no-such-domain");
  EXPECT_EQ(ask(hints.get()), nullptr) << "another domain";
  hints->domain_attr->name = nullptr;
}

TEST(Hints, CapabilitiesComeAsTheyWereAskedFor) {
  constexpr std::uint64_t kWays = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  Info hints = new_hints();
  hints->caps = FI_MSG;
  Info info = ask(hints.get());
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->caps & (FI_MSG | FI_SEND | FI_RECV | FI_RMA | kWays), FI_MSG | FI_SEND | FI_RECV);
  EXPECT_EQ(info->tx_attr->caps, FI_MSG | FI_SEND);
  EXPECT_EQ(info->rx_attr->caps, FI_MSG | FI_RECV);
  hints->caps = FI_MSG | FI_RMA | FI_WRITE | FI_FENCE;
  info = ask(hints.get());
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->caps & kWays, FI_WRITE);
  EXPECT_NE(info->tx_attr->caps & FI_FENCE, 0u);
  EXPECT_EQ(info->rx_attr->caps & FI_FENCE, 0u);
  // Of one way less than of the endpoint.
  hints->caps = FI_MSG | FI_RMA;
  hints->tx_attr->caps = FI_MSG;
  info = ask(hints.get());
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->tx_attr->caps & (FI_RMA | kWays), 0u);
  EXPECT_NE(info->rx_attr->caps & FI_REMOTE_READ, 0u);
}

// No bit comes that the program has not said it can do with.
TEST(Hints, EveryModeOfRegistration) {
  for (const std::uint64_t caps : std::initializer_list<std::uint64_t>{0, FI_MSG, FI_MSG | FI_RMA}) {
    for (int bits = 0; bits < 32; ++bits) {
      const Info hints = new_hints();
      hints->caps = caps;
      hints->domain_attr->mr_mode = ((bits & 1) != 0 ? FI_MR_LOCAL : 0) |
                                    ((bits & 2) != 0 ? FI_MR_VIRT_ADDR : 0) |
                                    ((bits & 4) != 0 ? FI_MR_ALLOCATED : 0) |
                                    ((bits & 8) != 0 ? FI_MR_PROV_KEY : 0) |
                                    ((bits & 16) != 0 ? FI_MR_ENDPOINT : 0);
      const int mode = hints->domain_attr->mr_mode;
      const Info info = ask(hints.get());
      const bool enough = (mode & kBasicMap) == kBasicMap;
      ASSERT_EQ(info != nullptr, enough || (caps & FI_RMA) == 0) << caps << " " << mode;
      if (info == nullptr) continue;
      EXPECT_EQ(info->domain_attr->mr_mode & ~mode, 0) << caps << " " << mode;
      EXPECT_EQ((info->caps & FI_RMA) != 0, enough && caps != FI_MSG) << caps << " " << mode;
    }
  }
  Info hints = new_hints();
  hints->caps = FI_MSG | FI_RMA;
  hints->domain_attr->mr_mode = FI_MR_BASIC;
  Info info = ask(hints.get());
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->domain_attr->mr_mode, FI_MR_BASIC);
  info = ask(hints.get(), nullptr, nullptr, 0, FI_VERSION(1, 0));
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->domain_attr->mr_mode, FI_MR_BASIC);
  hints->domain_attr->mr_mode = FI_MR_SCALABLE;
  EXPECT_EQ(ask(hints.get()), nullptr);
}

TEST(Hints, EveryOrderOfEitherSide) {
  for (const std::uint64_t order : {FI_ORDER_RAR, FI_ORDER_RAW, FI_ORDER_RAS, FI_ORDER_WAR, FI_ORDER_WAW,
                                    FI_ORDER_WAS, FI_ORDER_SAR, FI_ORDER_SAW, FI_ORDER_SAS}) {
    for (const bool sends : {false, true}) {
      const Info hints = new_hints();
      (sends ? hints->tx_attr->msg_order : hints->rx_attr->msg_order) = order;
      const Info info = ask(hints.get());
      ASSERT_NE(info, nullptr);
      EXPECT_NE((sends ? info->tx_attr->msg_order : info->rx_attr->msg_order) & order, 0u);
    }
  }
}

TEST(Hints, SizesInOrder) {
  using Size = std::size_t fi_ep_attr::*;
  for (const auto& [order, size] : {std::pair<std::uint64_t, Size>{FI_ORDER_RAW, &fi_ep_attr::max_order_raw_size},
                                    {FI_ORDER_WAR, &fi_ep_attr::max_order_war_size},
                                    {FI_ORDER_WAW, &fi_ep_attr::max_order_waw_size}}) {
    const Info hints = new_hints();
    hints->caps = FI_RMA;
    hints->tx_attr->msg_order = hints->rx_attr->msg_order = order;
    const Info info = ask(hints.get());
    ASSERT_NE(info, nullptr);
    const std::size_t most = info->ep_attr->*size;
    ASSERT_GT(most, 0u);
    hints->ep_attr->*size = most;
    EXPECT_NE(ask(hints.get()), nullptr);
    hints->ep_attr->*size = most + 1;
    EXPECT_EQ(ask(hints.get()), nullptr);
  }
}

TEST(Hints, ProgressAsItWasAskedFor) {
  for (const fi_progress progress : {FI_PROGRESS_AUTO, FI_PROGRESS_MANUAL}) {
    const Info hints = new_hints();
    hints->domain_attr->control_progress = hints->domain_attr->data_progress = progress;
    const Info info = ask(hints.get());
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->domain_attr->control_progress, progress);
    EXPECT_EQ(info->domain_attr->data_progress, progress);
  }
}

TEST(Hints, Addresses) {
  const Info hints = new_hints();
  Info info = ask(hints.get(), "localhost", "9228", FI_SOURCE);
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->src_addrlen, sizeof(sockaddr_in));
  EXPECT_EQ(info->dest_addr, nullptr);
  info = ask(hints.get(), "localhost", "9228");
  ASSERT_NE(info, nullptr);
  EXPECT_EQ(info->src_addrlen, sizeof(sockaddr_in));
  ASSERT_EQ(info->dest_addrlen, sizeof(sockaddr_in));
  EXPECT_EQ(static_cast<sockaddr_in*>(info->dest_addr)->sin_port, htons(9228));
  hints->addr_format = FI_SOCKADDR_IN6;
  EXPECT_EQ(ask(hints.get()), nullptr);
}

// ------------------------------------------------------------------------------------ calls

TEST(Refused, ObjectsThatAreNotThere) {
  World& world = World::get();
  fid_av* addresses;
  fi_av_attr av{};
  EXPECT_EQ(fi_av_open(world.domain, &av, &addresses, nullptr), -FI_ENOSYS);
  fid_ep* context;
  EXPECT_EQ(fi_srx_context(world.domain, world.info->rx_attr, &context, nullptr), -FI_ENOSYS);
  fid_stx* shared;
  EXPECT_EQ(fi_stx_context(world.domain, world.info->tx_attr, &shared, nullptr), -FI_ENOSYS);
  EXPECT_EQ(fi_scalable_ep(world.domain, world.info, &context, nullptr), -FI_ENOSYS);
  fid_wait* wait;
  fi_wait_attr wait_attr{};
  EXPECT_EQ(fi_wait_open(world.fabric, &wait_attr, &wait), -FI_ENOSYS);
  fid_poll* poll;
  fi_poll_attr poll_attr{};
  EXPECT_EQ(fi_poll_open(world.domain, &poll_attr, &poll), -FI_ENOSYS);
}

TEST(Refused, ClosingWhatIsInUse) {
  World& world = World::get();
  End end;
  end.open(world.info);
  EXPECT_EQ(fi_close(&world.fabric->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&world.domain->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&world.events->fid), -FI_EBUSY);
  EXPECT_EQ(fi_close(&end.queue->fid), -FI_EBUSY);
  fi_cntr_attr attr{};
  fid_cntr* counter;
  ASSERT_EQ(fi_cntr_open(world.domain, &attr, &counter, nullptr), 0);
  ASSERT_EQ(fi_ep_bind(end.ep, &counter->fid, FI_RECV), 0);
  EXPECT_EQ(fi_ep_bind(end.ep, &counter->fid, FI_RECV), -FI_EINVAL);
  EXPECT_EQ(fi_close(&counter->fid), -FI_EBUSY);
  end.close();
  EXPECT_EQ(fi_close(&counter->fid), 0);
}

TEST(Refused, AnEndpointThatIsNotReady) {
  World& world = World::get();
  fid_ep* ep;
  char byte = 0;
  ASSERT_EQ(fi_endpoint(world.domain, world.info, &ep, nullptr), 0);
  EXPECT_EQ(fi_recv(ep, &byte, 1, nullptr, 0, nullptr), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_send(ep, &byte, 1, nullptr, 0, nullptr), -FI_EOPBADSTATE);
  EXPECT_EQ(fi_enable(ep), -FI_ENOEQ);
  ASSERT_EQ(fi_ep_bind(ep, &world.events->fid, 0), 0);
  EXPECT_EQ(fi_enable(ep), -FI_ENOCQ);
  fi_cq_attr attr{};
  fid_cq* queue;
  ASSERT_EQ(fi_cq_open(world.domain, &attr, &queue, nullptr), 0);
  ASSERT_EQ(fi_ep_bind(ep, &queue->fid, FI_TRANSMIT), 0);
  EXPECT_EQ(fi_enable(ep), -FI_ENOCQ) << "nobody is told of what it receives";
  ASSERT_EQ(fi_ep_bind(ep, &queue->fid, FI_RECV), 0);
  EXPECT_EQ(fi_enable(ep), 0);
  EXPECT_EQ(fi_send(ep, &byte, 1, nullptr, 0, nullptr), -FI_ENOTCONN);
  EXPECT_EQ(fi_shutdown(ep, 0), -FI_ENOTCONN);
  EXPECT_EQ(fi_accept(ep, nullptr, 0), -FI_EOPBADSTATE);
  sockaddr_in peer;
  std::size_t length = sizeof peer;
  EXPECT_EQ(fi_getpeer(ep, &peer, &length), -FI_ENOTCONN);
  EXPECT_EQ(fi_close(&ep->fid), 0);
  EXPECT_EQ(fi_close(&queue->fid), 0);
}

TEST(Refused, FlagsAndLengthsOfCalls) {
  Pair pair;
  std::vector<char> bytes(pair.a.ep != nullptr ? World::get().info->tx_attr->inject_size + 1 : 1);
  EXPECT_EQ(fi_inject(pair.a.ep, bytes.data(), bytes.size(), 0), -FI_EINVAL);
  const iovec range{bytes.data(), 1};
  void* desc = nullptr;
  const fi_msg message{&range, &desc, 1, 0, nullptr, 0};
  EXPECT_EQ(fi_recvmsg(pair.a.ep, &message, FI_MULTI_RECV), -FI_EBADFLAGS);
  EXPECT_EQ(fi_sendmsg(pair.a.ep, &message, FI_MULTICAST), -FI_EBADFLAGS);
  const iovec ranges[5] = {range, range, range, range, range};
  void* descs[5] = {};
  EXPECT_EQ(fi_sendv(pair.a.ep, ranges, descs, 5, 0, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_recvv(pair.a.ep, ranges, descs, 5, 0, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_read(pair.a.ep, bytes.data(), 1, nullptr, 0, 0, std::uint64_t{1} << 40, nullptr), -FI_EKEYREJECTED);
  EXPECT_EQ(fi_cancel(&pair.a.ep->fid, nullptr), -FI_ENOSYS);
  EXPECT_EQ(fi_connect(pair.a.ep, &World::get().address, nullptr, 0), -FI_EISCONN);
}

TEST(Options, TheSizeOfConnectionDataCanBeAskedFor) {
  World& world = World::get();
  End end;
  end.open(world.info);
  for (fid* fid : {&world.listener->fid, &end.ep->fid}) {
    std::size_t most = 0;
    std::size_t length = sizeof most;
    ASSERT_EQ(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &most, &length), 0);
    EXPECT_GE(most, 24u);
    EXPECT_EQ(fi_setopt(fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &most, length), -FI_ENOPROTOOPT);
    EXPECT_EQ(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &most, &length), -FI_ENOPROTOOPT);
    length = 1;
    EXPECT_EQ(fi_getopt(fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &most, &length), -FI_ETOOSMALL);
    const std::string data(most + 1, 'x');
    if (fid == &end.ep->fid) {
      EXPECT_EQ(fi_connect(end.ep, &world.address, data.data(), data.size()), -FI_EINVAL);
    }
  }
}

// ------------------------------------------------------------------------------------ memory

TEST(Registration, EveryAccessAndAgainAfterTheEnd) {
  World& world = World::get();
  for (int round = 0; round < 4; ++round) {
    std::vector<char> memory(100'000);
    for (const std::uint64_t access :
         std::initializer_list<std::uint64_t>{
             0, FI_SEND, FI_RECV, FI_READ | FI_WRITE, FI_REMOTE_READ, FI_REMOTE_WRITE,
          FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE}) {
      fid_mr* mr = nullptr;
      ASSERT_EQ(fi_mr_reg(world.domain, memory.data(), memory.size(), access, 0, 0, 0, &mr, nullptr), 0);
      EXPECT_NE(fi_mr_desc(mr), nullptr);
      EXPECT_EQ(fi_close(&mr->fid), 0);
    }
  }
  const iovec two[2] = {};
  fid_mr* mr;
  EXPECT_EQ(fi_mr_regv(world.domain, two, 2, FI_SEND, 0, 0, 0, &mr, nullptr), -FI_EINVAL);
}

// A region that is kept for its next use gives no right that its new user has not asked for.
TEST(Registration, WhatIsKeptGivesNoMoreRightsThanAskedFor) {
  World& world = World::get();
  Pair pair;
  Buffer near(100);
  std::vector<char> memory(100);
  fid_mr* mr;
  ASSERT_EQ(fi_mr_reg(world.domain, memory.data(), 100, FI_REMOTE_WRITE, 0, 0, 0, &mr, nullptr), 0);
  ASSERT_EQ(fi_close(&mr->fid), 0);
  ASSERT_EQ(fi_mr_reg(world.domain, memory.data(), 100, FI_REMOTE_READ, 0, 0, 0, &mr, nullptr), 0);
  ASSERT_EQ(fi_write(pair.a.ep, near.data(), 100, near.desc(), 0, reinterpret_cast<std::uintptr_t>(memory.data()),
                     fi_mr_key(mr), &near),
            0);
  EXPECT_EQ(pair.a.next_error().err, FI_EACCES);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(next_event().kind, static_cast<std::uint32_t>(FI_SHUTDOWN));
  EXPECT_EQ(fi_close(&mr->fid), 0);
}

}  // namespace
