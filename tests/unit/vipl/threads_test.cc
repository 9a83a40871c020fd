// Many threads on the same objects; worth most when built with -fsanitize=thread.
#include <filesystem>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "tests/unit/vipl/fixture.h"

namespace viaduct::test {
namespace {

using ViplThreads = ViplTest;

// The threads of this process. A thread that has just begun has not told its name yet.
std::size_t threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(tasks), end(tasks)));
}

// A program may unload what a thread's end would call as soon as the last NIC is closed.
TEST_F(ViplThreads, AreGoneWhenTheLastNicIsClosed) {
  const std::size_t before = threads();
  for (unsigned round = 0; round < 30; ++round) {
    start();
    connected_pair();
    EXPECT_GT(threads(), before);
    ASSERT_EQ(VipCloseNic(nic), VIP_SUCCESS);
    nic = nullptr;
    ASSERT_EQ(threads(), before) << round;
  }
}

// Each thread moves messages over a VI of its own.
TEST_F(ViplThreads, UseViSideBySide) {
  start();
  constexpr unsigned kThreads = 8;
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (unsigned round = 0; round < 5; ++round) {
        const auto [vi, peer] = connected_pair();
        for (unsigned i = 0; i < 100; ++i) {
          const std::uint32_t bytes = 1 + (i * 37 + t) % 600;
          exchange(vi, peer, filled(t * 2, bytes, i), packet(t * 2 + 1, bytes));
          expect_filled(t * 2 + 1, bytes, i);
        }
        for (const VIP_VI_HANDLE end : {vi, peer}) {
          EXPECT_EQ(VipDisconnect(end), VIP_SUCCESS);
          EXPECT_EQ(VipDestroyVi(end), VIP_SUCCESS);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(agent->session().slots_in_use(), 0u);
}

// Posters, pollers and sleepers share the ends of a connection: every descriptor comes back once. A
// message is sent when there is a receive for it.
TEST_F(ViplThreads, ShareOneVi) {
  start();
  const auto [to, from] = connected_pair();
  const VIP_VI_HANDLE receiver = to, sender = from;
  constexpr unsigned kMessages = 4000;
  constexpr unsigned kWindow = 400;
  std::atomic<unsigned> received{0}, sent{0};
  std::atomic<int> unused{0};  // receives
  std::vector<std::atomic<bool>> free(2 * kWindow);
  for (auto& flag : free) flag = true;
  const auto index = [&](VIP_DESCRIPTOR* d) {
    return static_cast<std::size_t>(reinterpret_cast<Packet*>(d) - arena.get());
  };
  const auto give = [&](VIP_DESCRIPTOR* d) { ASSERT_FALSE(free[index(d)].exchange(true)); };
  const auto poster = [&](bool receive, unsigned count) {
    const std::size_t base = receive ? kWindow : 0;
    for (unsigned posted = 0, at = 0; posted < count; at = (at + 1) % kWindow) {
      if (!receive && unused.fetch_sub(1) <= 0) {
        ++unused;
        std::this_thread::yield();
        continue;
      }
      if (!free[base + at].exchange(false)) {
        if (!receive) ++unused;
        if (at == 0) std::this_thread::yield();
        continue;
      }
      VIP_DESCRIPTOR* const d = packet(base + at, 16);
      ASSERT_EQ(receive ? VipPostRecv(receiver, d, memory) : VipPostSend(sender, d, memory), VIP_SUCCESS);
      if (receive) ++unused;
      ++posted;
    }
  };
  const auto taker = [&](bool receive, bool sleeps, std::atomic<unsigned>& done) {
    while (done.load() < kMessages) {
      VIP_DESCRIPTOR* d = nullptr;
      const VIP_RETURN result = receive  ? sleeps ? VipRecvWait(receiver, 5, &d) : VipRecvDone(receiver, &d)
                                 : sleeps ? VipSendWait(sender, 5, &d)
                                         : VipSendDone(sender, &d);
      if (result == VIP_SUCCESS) {
        give(d);
        ++done;
      } else {
        ASSERT_EQ(d, nullptr);
      }
    }
  };
  std::vector<std::thread> threads;
  for (int i = 0; i < 2; ++i) {
    threads.emplace_back(poster, true, kMessages / 2);
    threads.emplace_back(poster, false, kMessages / 2);
    threads.emplace_back([&, i] { taker(true, i == 0, received); });
    threads.emplace_back([&, i] { taker(false, i == 0, sent); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(received.load(), kMessages);
  EXPECT_EQ(sent.load(), kMessages);
}

// Several threads on one CQ: every completion is named once.
TEST_F(ViplThreads, ShareOneCq) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  const unsigned all = static_cast<unsigned>(overflow(cq).size() * kOverflowOfOne);
  std::atomic<unsigned> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      while (taken.load() < all) {
        VIP_VI_HANDLE vi;
        VIP_BOOLEAN receive;
        const VIP_RETURN result =
            t % 2 != 0 ? VipCQWait(cq, 5, &vi, &receive) : VipCQDone(cq, &vi, &receive);
        if (result != VIP_SUCCESS) continue;
        VIP_DESCRIPTOR* done = nullptr;
        ASSERT_EQ(VipRecvDone(vi, &done), VIP_DESCRIPTOR_ERROR);
        ASSERT_NE(done, nullptr);
        ++taken;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken.load(), all);
}

// The same while messages come.
TEST_F(ViplThreads, ShareACqOfConnectedVis) {
  start();
  const VIP_CQ_HANDLE cq = make_cq();
  constexpr unsigned kVis = 4;
  constexpr unsigned kPerVi = 200;
  std::vector<VIP_VI_HANDLE> peers;
  for (unsigned v = 0; v < kVis; ++v) {
    const auto [vi, peer] = connected_pair(nullptr, cq);
    peers.push_back(peer);
    for (unsigned i = 0; i < kPerVi; ++i) {
      ASSERT_EQ(VipPostRecv(vi, packet(v * kPerVi + i, 8), memory), VIP_SUCCESS);
    }
  }
  std::atomic<unsigned> taken{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      while (taken.load() < kVis * kPerVi) {
        VIP_VI_HANDLE vi;
        VIP_BOOLEAN receive;
        const VIP_RETURN result =
            t % 2 != 0 ? VipCQWait(cq, 5, &vi, &receive) : VipCQDone(cq, &vi, &receive);
        if (result != VIP_SUCCESS) continue;
        VIP_DESCRIPTOR* done = nullptr;
        ASSERT_EQ(VipRecvDone(vi, &done), VIP_SUCCESS);
        ++taken;
      }
    });
  }
  for (unsigned i = 0; i < kPerVi; ++i) {
    for (unsigned v = 0; v < kVis; ++v) {
      VIP_DESCRIPTOR* done = nullptr;
      ASSERT_EQ(VipPostSend(peers[v], packet(1000 + v, 8), memory), VIP_SUCCESS);
      ASSERT_EQ(VipSendWait(peers[v], 5000, &done), VIP_SUCCESS);
    }
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(taken.load(), kVis * kPerVi);
}

// Threads come and go, open, use and close NICs, while others look at handles long closed.
TEST_F(ViplThreads, OpenAndCloseNicsSideBySide) {
  start();
  std::atomic<bool> stop{false};
  std::atomic<std::uintptr_t> shown{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 60; ++i) {
        VIP_NIC_HANDLE mine = nullptr;
        ASSERT_EQ(VipOpenNic("nic0", &mine), VIP_SUCCESS);
        VIP_CQ_HANDLE cq = nullptr;
        ASSERT_EQ(VipCreateCQ(mine, 8, &cq), VIP_SUCCESS);
        shown = reinterpret_cast<std::uintptr_t>(cq);
        std::this_thread::yield();
        ASSERT_EQ(VipCloseNic(mine), VIP_SUCCESS);
      }
    });
  }
  std::vector<std::thread> lookers;
  for (int t = 0; t < 2; ++t) {
    lookers.emplace_back([&, t] {
      while (!stop) {
        VIP_VI_HANDLE vi;
        VIP_BOOLEAN receive;
        const auto cq = reinterpret_cast<VIP_CQ_HANDLE>(shown.load());
        const VIP_RETURN result =
            t == 0 ? VipCQDone(cq, &vi, &receive) : VipCQWait(cq, 2, &vi, &receive);
        ASSERT_NE(result, VIP_SUCCESS);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  stop = true;
  for (std::thread& thread : lookers) thread.join();
}

// The agent dies under load: every posted descriptor comes back, good or flushed.
TEST_F(ViplThreads, GetEverythingBackWhenTheAgentDiesUnderLoad) {
  for (int round = 0; round < 5; ++round) {
    start();
    const auto [vi, peer] = connected_pair();
    std::atomic<unsigned> posted{0}, back{0};
    const VIP_VI_HANDLE receiver = vi, sender_vi = peer;
    std::atomic<bool> stop{false};
    std::thread poster([&] {
      while (!stop) {
        if (posted.load() - back.load() > 300) {
          std::this_thread::yield();
        } else if (VipPostRecv(receiver, packet(posted % 1000, 8), memory) == VIP_SUCCESS) {
          ++posted;
        }
      }
    });
    std::thread sender([&] {
      VIP_DESCRIPTOR* done;
      for (unsigned sent = 0; !stop; ++sent) {
        while (sent == posted && !stop) std::this_thread::yield();
        if (VipPostSend(sender_vi, packet(1100, 8), memory) != VIP_SUCCESS) continue;
        VipSendWait(sender_vi, VIP_INFINITE, &done);
      }
    });
    std::thread taker([&] {
      VIP_DESCRIPTOR* done;
      while (!stop) {
        VipRecvWait(receiver, VIP_INFINITE, &done);
        if (done != nullptr) ++back;
      }
    });
    usleep(20000);
    agent->die();
    usleep(20000);
    stop = true;
    for (std::thread* thread : {&poster, &sender, &taker}) thread->join();
    VIP_DESCRIPTOR* done;
    do {
      VipRecvDone(vi, &done);
      if (done != nullptr) ++back;
    } while (done != nullptr);
    EXPECT_EQ(back.load(), posted.load());
    EXPECT_GT(back.load(), 0u);
    EXPECT_EQ(VipCloseNic(nic), VIP_SUCCESS);
    nic = nullptr;
  }
}

}  // namespace
}  // namespace viaduct::test
