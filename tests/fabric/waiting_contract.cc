// Waiting: by descriptor, by a call that blocks, and by several threads.
#include <poll.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "tests/fabric/ends.h"

namespace {

int descriptor_of(fid_cq* queue) {
  int fd = -1;
  EXPECT_EQ(fi_control(&queue->fid, FI_GETWAIT, &fd), 0);
  return fd;
}

TEST(Waiting, TheDescriptorWakesUp) {
  World& world = World::get();
  Pair pair;
  Buffer in(64);
  const int fd = descriptor_of(pair.b.queue);
  for (int round = 0; round < 50; ++round) {
    ASSERT_EQ(fi_recv(pair.b.ep, in.data(), 64, in.desc(), 0, nullptr), 0);
    std::thread sender([&] {
      if (round % 2 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      EXPECT_EQ(pair.a.insist([&] { return fi_inject(pair.a.ep, "x", 1, 0); }), 0);
    });
    fi_cq_data_entry entry;
    for (;;) {
      fid* waiting[] = {&pair.b.queue->fid};
      if (fi_trywait(world.fabric, waiting, 1) == 0) {
        pollfd news{fd, POLLIN, 0};
        ASSERT_EQ(poll(&news, 1, 10000), 1) << "round " << round;
      }
      const ssize_t result = fi_cq_read(pair.b.queue, &entry, 1);
      if (result == 1) break;
      ASSERT_EQ(result, -FI_EAGAIN);
    }
    sender.join();
  }
}

TEST(Waiting, ABlockingReadEndsByACompletionTheTimeOrASignal) {
  Pair pair;
  Buffer in(64);
  fi_cq_data_entry entry;
  EXPECT_EQ(fi_cq_sread(pair.b.queue, &entry, 1, nullptr, 5), -FI_EAGAIN);
  ASSERT_EQ(fi_recv(pair.b.ep, in.data(), 64, in.desc(), 0, nullptr), 0);
  std::thread sender([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(pair.a.insist([&] { return fi_inject(pair.a.ep, "x", 1, 0); }), 0);
  });
  EXPECT_EQ(fi_cq_sread(pair.b.queue, &entry, 1, nullptr, -1), 1);
  sender.join();
  std::thread signaller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    fi_cq_signal(pair.b.queue);
  });
  EXPECT_EQ(fi_cq_sread(pair.b.queue, &entry, 1, nullptr, -1), -FI_EAGAIN);
  signaller.join();
}

TEST(Waiting, WhoSleepsAfterARefusedSendIsWokenWhenItCanBeMade) {
  constexpr unsigned kSize = 4;
  Pair pair(0, kSize);
  Buffer in(64);
  for (unsigned i = 0; i < kSize; ++i) ASSERT_EQ(fi_inject(pair.a.ep, "x", 1, 0), 0);
  ASSERT_EQ(fi_inject(pair.a.ep, "x", 1, 0), -FI_EAGAIN);
  std::thread receiver([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    EXPECT_EQ(fi_recv(pair.b.ep, in.data(), 64, in.desc(), 0, nullptr), 0);
  });
  fi_cq_data_entry entry;
  ssize_t result;
  do {
    EXPECT_EQ(fi_cq_sread(pair.a.queue, &entry, 1, nullptr, 10000), -FI_EAGAIN);
    result = fi_inject(pair.a.ep, "x", 1, 0);
  } while (result == -FI_EAGAIN);
  EXPECT_EQ(result, 0);
  receiver.join();
  EXPECT_EQ(pair.b.next().len, 1u);
}

TEST(Waiting, CountersCount) {
  World& world = World::get();
  fi_cntr_attr attr{};
  fid_cntr* counter;
  ASSERT_EQ(fi_cntr_open(world.domain, &attr, &counter, nullptr), 0);
  {
    Pair pair;
    ASSERT_EQ(fi_ep_bind(pair.b.ep, &counter->fid, FI_RECV), 0);
    Buffer in(64);
    for (int i = 0; i < 4; ++i) {
      ASSERT_EQ(fi_recv(pair.b.ep, in.data(), 64, in.desc(), 0, nullptr), 0);
    }
    for (int i = 0; i < 4; ++i) {
      ASSERT_EQ(pair.a.insist([&] { return fi_inject(pair.a.ep, "x", 1, 0); }), 0);
    }
    EXPECT_EQ(fi_cntr_wait(counter, 4, 10000), 0);
    EXPECT_EQ(fi_cntr_wait(counter, 5, 5), -FI_ETIMEDOUT);
  }
  EXPECT_EQ(fi_close(&counter->fid), 0);
}

TEST(Waiting, ThreadsUseTheirEndpointsAtTheSameTime) {
  constexpr unsigned kThreads = 4;
  constexpr unsigned kMessages = 2000;
  Pair pairs[kThreads];
  std::vector<std::thread> threads;
  for (Pair& pair : pairs) {
    threads.emplace_back([&pair] {
      Buffer in(16 * 64);
      for (unsigned i = 0; i < 16; ++i) {
        EXPECT_EQ(fi_recv(pair.b.ep, in.data() + i * 64, 64, in.desc(), 0, in.data() + i * 64), 0);
      }
      unsigned sent = 0;
      for (unsigned got = 0; got < kMessages;) {
        if (sent < kMessages && fi_inject(pair.a.ep, &sent, sizeof sent, 0) == 0) ++sent;
        fi_cq_data_entry entry;
        if (fi_cq_read(pair.b.queue, &entry, 1) != 1) continue;
        unsigned number;
        std::memcpy(&number, entry.op_context, sizeof number);
        ASSERT_EQ(number, got++);
        EXPECT_EQ(fi_recv(pair.b.ep, entry.op_context, 64, in.desc(), 0, entry.op_context), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// All threads use one endpoint.
TEST(Waiting, ThreadsUseOneEndpointAtTheSameTime) {
  constexpr unsigned kThreads = 4;
  constexpr unsigned kEach = 1000;
  Pair pair;
  Buffer in(64);
  std::atomic<unsigned> got = 0;
  std::vector<std::thread> threads;
  for (unsigned i = 0; i < 32; ++i) {
    ASSERT_EQ(fi_recv(pair.b.ep, in.data(), 64, in.desc(), 0, nullptr), 0);
  }
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      for (unsigned i = 0; i < kEach;) {
        if (fi_inject(pair.a.ep, "x", 1, 0) == 0) ++i;
        fi_cq_data_entry entry;
        if (fi_cq_read(pair.b.queue, &entry, 1) != 1) continue;
        ++got;
        EXPECT_EQ(fi_recv(pair.b.ep, in.data(), 64, in.desc(), 0, nullptr), 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  // More was taken than there were receives.
  while (got < kThreads * kEach && !HasFailure()) {
    pair.b.next();
    ++got;
    EXPECT_EQ(fi_recv(pair.b.ep, in.data(), 64, in.desc(), 0, nullptr), 0);
  }
}

}  // namespace
