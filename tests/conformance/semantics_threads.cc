// Many threads on the same objects. The raw calls here add no lock of the suite's, so that what they
// share is the library's alone.
#include <atomic>
#include <cstring>
#include <memory>
#include <thread>

#include "suite.h"

namespace conformance {
namespace {

constexpr VIP_RELIABILITY_LEVEL kLevel = VIP_SERVICE_RELIABLE_DELIVERY;

// Receives and sends of this process, made by hand.
struct alignas(64) Packet {
  VIP_DESCRIPTOR descriptor;
  char data[64];
};

class SemanticsThreads : public Conformance {
 protected:
  static constexpr std::size_t kPackets = 512;

  void SetUp() override {
    Conformance::SetUp();
    if (near.attributes().thread_safe != VIP_TRUE) GTEST_SKIP() << "the NIC says no";
    packets_ = std::make_unique<Packet[]>(kPackets);
    std::memset(static_cast<void*>(packets_.get()), 0, kPackets * sizeof(Packet));
    ASSERT_EQ(VIP(RegisterMem, near.raw(), packets_.get(), kPackets * sizeof(Packet), nullptr,
                  &memory_),
              VIP_SUCCESS);
  }

  VIP_DESCRIPTOR* packet(std::size_t i) {
    VIP_DESCRIPTOR& d = packets_[i].descriptor;
    std::memset(&d, 0, sizeof d);
    d.CS.SegCount = 1;
    d.CS.Length = sizeof packets_[i].data;
    d.DS[0].Local.Data.Address = packets_[i].data;
    d.DS[0].Local.Handle = memory_;
    d.DS[0].Local.Length = sizeof packets_[i].data;
    return &d;
  }

  VIP_MEM_HANDLE memory() const { return memory_; }
  VIP_VI_HANDLE raw(const Vi& vi) const { return Nic::raw_handle(vi.handle); }

 private:
  std::unique_ptr<Packet[]> packets_;
  VIP_MEM_HANDLE memory_ = 0;
};

TEST_F(SemanticsThreads, OneViIsPostedOnAndPolledByMany) {
  const auto [a, b] = connected(kLevel);
  constexpr int kEach = 60, kThreads = 4;
  const Region in = far.memory(64);
  for (int i = 0; i < kThreads * kEach; ++i) must(b.post_recv({.segments = {in.all()}}));
  std::atomic<int> posted{0}, taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; ++i) {
        VIP_DESCRIPTOR* const d = packet(static_cast<std::size_t>(t * kEach + i));
        if (VIP(PostSend, raw(a), d, memory()) == VIP_SUCCESS) ++posted;
      }
    });
    threads.emplace_back([&, t] {
      while (taken < kThreads * kEach) {
        VIP_DESCRIPTOR* d = nullptr;
        const VIP_RETURN code = t % 2 != 0 ? VIP(SendDone, raw(a), &d) : VIP(SendWait, raw(a), 5, &d);
        if (code == VIP_SUCCESS) ++taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(posted, kThreads * kEach);
  EXPECT_EQ(taken, kThreads * kEach) << "each came back once";
  for (int i = 0; i < kThreads * kEach; ++i) EXPECT_EQ(b.recv_wait().code, VIP_SUCCESS);
}

TEST_F(SemanticsThreads, ASleeperWithoutATimeoutIsWokenBesideAPoller) {
  CHECKLIST(25);
  const Cq cq = must(near.create_cq(16));
  const Vi a = must(near.create_vi(near.vi_attributes(kLevel), {}, cq.handle));
  const Vi b = far.vi(kLevel), busy = near.vi(kLevel);
  connect(a, b);
  ASSERT_EQ(VIP(PostRecv, raw(busy), packet(0), memory()), VIP_SUCCESS);
  std::atomic<bool> stop{false};
  std::thread poller([&] {
    while (!stop) {
      VIP_DESCRIPTOR* d = nullptr;
      VIP(RecvDone, raw(busy), &d);
      VIP(SendDone, raw(a), &d);
    }
  });
  for (int i = 0; i < 50; ++i) {
    auto waiting = start([cq] { return cq.wait(kInfinite); });
    if (i % 2 != 0) {
      EXPECT_FALSE(waiting.returned_within(5));  // asleep by now
    }
    must(a.post_recv({}));
    must(b.post_send({}));
    EXPECT_EQ(waiting.get().code, VIP_SUCCESS);
    EXPECT_EQ(a.recv_done().code, VIP_SUCCESS);
    must(b.send_wait());
  }
  stop = true;
  poller.join();
}

TEST_F(SemanticsThreads, OneCqIsServedByMany) {
  CHECKLIST(25);
  VIP_CQ_HANDLE cq = nullptr;
  ASSERT_EQ(VIP(CreateCQ, near.raw(), 64, &cq), VIP_SUCCESS);
  const Vi a = must(near.create_vi(near.vi_attributes(kLevel), {},
                                   static_cast<CqHandle>(reinterpret_cast<std::uintptr_t>(cq))));
  const Vi b = far.vi(kLevel), busy = near.vi(kLevel);
  connect(a, b);
  constexpr int kMessages = 200;
  const Region out = far.memory(64);
  for (int i = 0; i < kMessages; ++i) {
    ASSERT_EQ(VIP(PostRecv, raw(a), packet(static_cast<std::size_t>(i)), memory()), VIP_SUCCESS);
  }
  std::atomic<int> taken{0};
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (taken < kMessages) {
        VIP_VI_HANDLE vi;
        VIP_BOOLEAN receive;
        if (VIP(CQWait, cq, 5, &vi, &receive) != VIP_SUCCESS) continue;
        VIP_DESCRIPTOR* d = nullptr;
        while (VIP(RecvDone, vi, &d) == VIP_NOT_DONE) continue;
        if (d != nullptr) ++taken;
      }
    });
  }
  // One that polls another VI all the time must not slow the sleepers down.
  threads.emplace_back([&] {
    while (!stop) {
      VIP_DESCRIPTOR* d = nullptr;
      VIP(RecvDone, raw(busy), &d);
    }
  });
  for (int i = 0; i < kMessages; ++i) {
    must(b.post_send({.segments = {out.all()}}));
    must(b.send_wait());
  }
  for (int t = 0; t < 3; ++t) threads[static_cast<std::size_t>(t)].join();
  stop = true;
  threads.back().join();
  EXPECT_EQ(taken, kMessages);
}

TEST_F(SemanticsThreads, ObjectsComeAndGoInMany) {
  std::vector<std::thread> threads;
  std::atomic<int> failures{0};
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 50; ++i) {
        VIP_PROTECTION_HANDLE tag;
        VIP_CQ_HANDLE cq;
        VIP_VI_HANDLE vi;
        VIP_MEM_HANDLE region;
        char room[100];
        VIP_VI_ATTRIBUTES attributes = {};
        attributes.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
        attributes.MaxTransferSize = 1000;
        bool right = VIP(CreatePtag, near.raw(), &tag) == VIP_SUCCESS;
        right &= VIP(CreateCQ, near.raw(), 16, &cq) == VIP_SUCCESS;
        right &= VIP(RegisterMem, near.raw(), room, sizeof room, nullptr, &region) == VIP_SUCCESS;
        right &= VIP(CreateVi, near.raw(), &attributes, cq, cq, &vi) == VIP_SUCCESS;
        VIP_VI_STATE state;
        VIP_BOOLEAN empty;
        right &= VIP(QueryVi, vi, &state, &attributes, &empty, &empty) == VIP_SUCCESS;
        right &= VIP(ResizeCQ, cq, 64) == VIP_SUCCESS;
        right &= VIP(Disconnect, vi) == VIP_SUCCESS;
        right &= VIP(DestroyVi, vi) == VIP_SUCCESS;
        right &= VIP(DestroyCQ, cq) == VIP_SUCCESS;
        right &= VIP(DeregisterMem, near.raw(), room, region) == VIP_SUCCESS;
        right &= VIP(DestroyPtag, near.raw(), tag) == VIP_SUCCESS;
        failures += !right;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(failures, 0);
}

TEST_F(SemanticsThreads, ConnectionsAreMadeInManyWhileOthersPost) {
  const std::string name = fresh();
  constexpr int kConnections = 12;
  std::vector<Started<Outgoing>> asked;
  std::vector<Vi> clients;
  for (int i = 0; i < kConnections; ++i) {
    clients.push_back(far.vi(kLevel));
    asked.push_back(start([vi = clients.back(), from = far.address("c"), to = near.address(name)] {
      return vi.connect_request(from, to, kSoon);
    }));
  }
  std::atomic<int> accepted{0};
  std::vector<std::thread> threads;
  const auto [a, b] = connected(kLevel);
  std::atomic<bool> stop{false};
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&] {
      while (accepted < kConnections) {
        const Incoming incoming = near.connect_wait(near.address(name), 20);
        if (incoming.code != VIP_SUCCESS) continue;
        if (near.connect_accept(incoming.conn, near.vi(kLevel)).code == VIP_SUCCESS) ++accepted;
      }
    });
  }
  threads.emplace_back([&, vi = a] {
    while (!stop) {
      VIP_DESCRIPTOR* d = packet(0);
      if (VIP(PostRecv, raw(vi), d, memory()) != VIP_SUCCESS) break;
      std::this_thread::yield();
      while (VIP(RecvDone, raw(vi), &d) == VIP_SUCCESS) continue;
      break;
    }
  });
  for (int t = 0; t < 3; ++t) threads[static_cast<std::size_t>(t)].join();
  stop = true;
  threads.back().join();
  for (auto& one : asked) EXPECT_EQ(one.get().code, VIP_SUCCESS);
}

TEST_F(SemanticsThreads, AQueueIsDestroyedUnderItsUsers) {
  CHECKLIST(13);
  for (int round = 0; round < 20; ++round) {
    VIP_CQ_HANDLE cq = nullptr;
    ASSERT_EQ(VIP(CreateCQ, near.raw(), 16, &cq), VIP_SUCCESS);
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        VIP_VI_HANDLE vi;
        VIP_BOOLEAN receive;
        ++ready;
        if (t == 0) {
          while (VIP(CQDone, cq, &vi, &receive) == VIP_NOT_DONE) std::this_thread::yield();
        } else {
          VIP(CQWait, cq, VIP_INFINITE, &vi, &receive);
        }
      });
    }
    while (ready < 3) std::this_thread::yield();
    EXPECT_EQ(VIP(DestroyCQ, cq), VIP_SUCCESS);
    for (std::thread& thread : threads) thread.join();
  }
}

TEST_F(SemanticsThreads, ANicIsClosedUnderItsUsers) {
  for (int round = 0; round < 10; ++round) {
    const Nic nic = open_near();
    const Vi vi = nic.vi(kLevel);
    std::atomic<int> ready{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([&, t] {
        ++ready;
        VIP_RETURN code;
        do {
          VIP_DESCRIPTOR* d = nullptr;
          VIP_VI_STATE state;
          VIP_VI_ATTRIBUTES attributes;
          VIP_BOOLEAN empty;
          code = t == 0   ? VIP(QueryVi, raw(vi), &state, &attributes, &empty, &empty)
                 : t == 1 ? VIP(RecvDone, raw(vi), &d)
                          : VIP(RecvWait, raw(vi), 1, &d);
        } while (code != VIP_INVALID_PARAMETER);
      });
    }
    while (ready < 3) std::this_thread::yield();
    EXPECT_EQ(nic.close().code, VIP_SUCCESS);
    for (std::thread& thread : threads) thread.join();
  }
}

}  // namespace
}  // namespace conformance
