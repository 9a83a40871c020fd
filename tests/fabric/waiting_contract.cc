// Waiting: by descriptor, by a call that blocks, and by several threads.
#include <poll.h>

#include <atomic>
#include <cstring>
#include <initializer_list>
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

// An end whose queue is of another kind.
struct KindOfQueue {
  explicit KindOfQueue(fi_wait_obj wait, fi_cq_wait_cond condition = FI_CQ_COND_NONE) {
    fi_cq_attr attr{};
    attr.format = FI_CQ_FORMAT_DATA;
    attr.wait_obj = wait;
    attr.wait_cond = condition;
    opened = fi_cq_open(World::get().domain, &attr, &queue, nullptr);
  }
  ~KindOfQueue() {
    if (opened == 0) {
      EXPECT_EQ(fi_close(&queue->fid), 0);
    }
  }
  fid_cq* queue = nullptr;
  int opened;
};

TEST(Waiting, QueuesOfEveryKind) {
  World& world = World::get();
  for (const fi_wait_obj wait : {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD}) {
    const KindOfQueue kind(wait);
    ASSERT_EQ(kind.opened, 0) << wait;
    fi_cq_data_entry entry;
    EXPECT_EQ(fi_cq_read(kind.queue, &entry, 1), -FI_EAGAIN);
    fi_cq_err_entry error{};
    EXPECT_EQ(fi_cq_readerr(kind.queue, &error, 0), -FI_EAGAIN);
    EXPECT_EQ(fi_cq_sread(kind.queue, &entry, 1, nullptr, 1), wait == FI_WAIT_NONE ? -FI_ENOSYS : -FI_EAGAIN);
    int fd = -1;
    const bool has_descriptor = wait == FI_WAIT_UNSPEC || wait == FI_WAIT_FD;
    EXPECT_EQ(fi_control(&kind.queue->fid, FI_GETWAIT, &fd), has_descriptor ? 0 : -FI_ENODATA);
    fid* waiting[] = {&kind.queue->fid};
    EXPECT_EQ(fi_trywait(world.fabric, waiting, 1), has_descriptor ? 0 : -FI_EINVAL);
  }
  for (const fi_wait_obj wait : {FI_WAIT_SET, FI_WAIT_MUTEX_COND}) {
    EXPECT_EQ(KindOfQueue(wait).opened, -FI_ENOSYS) << wait;
  }
}

// A signal that comes before the wait is not lost.
TEST(Waiting, ASignalIsKept) {
  for (const fi_wait_obj wait : {FI_WAIT_UNSPEC, FI_WAIT_YIELD}) {
    const KindOfQueue kind(wait);
    fi_cq_data_entry entry;
    ASSERT_EQ(fi_cq_signal(kind.queue), 0);
    EXPECT_EQ(fi_cq_sread(kind.queue, &entry, 1, nullptr, -1), -FI_EAGAIN);
  }
}

// Sends `count` messages of a pair whose second end's queue is of this kind, after it has begun to wait.
void wait_for_messages(const KindOfQueue& kind, unsigned count, std::size_t threshold) {
  World& world = World::get();
  ASSERT_EQ(kind.opened, 0);
  End a;
  a.open(world.info);
  ASSERT_EQ(fi_connect(a.ep, &world.address, nullptr, 0), 0);
  const Told request = next_event();
  fid_ep* b;
  ASSERT_EQ(fi_endpoint(world.domain, request.info, &b, nullptr), 0);
  fi_freeinfo(request.info);
  ASSERT_EQ(fi_ep_bind(b, &world.events->fid, 0), 0);
  ASSERT_EQ(fi_ep_bind(b, &kind.queue->fid, FI_TRANSMIT | FI_RECV), 0);
  Buffer in(64);
  ASSERT_EQ(fi_enable(b), 0);
  for (unsigned i = 0; i < count; ++i) ASSERT_EQ(fi_recv(b, in.data(), 64, in.desc(), 0, nullptr), 0);
  ASSERT_EQ(fi_accept(b, nullptr, 0), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(next_event().kind, static_cast<std::uint32_t>(FI_CONNECTED));
  std::thread sender([&] {
    for (unsigned i = 0; i < count; ++i) {
      EXPECT_EQ(a.insist([&] { return fi_inject(a.ep, "x", 1, 0); }), 0);
    }
  });
  fi_cq_data_entry entries[8];
  EXPECT_EQ(fi_cq_sread(kind.queue, entries, 8, reinterpret_cast<void*>(threshold), -1),
            static_cast<ssize_t>(count));
  sender.join();
  EXPECT_EQ(fi_close(&b->fid), 0);
  EXPECT_EQ(next_event().kind, static_cast<std::uint32_t>(FI_SHUTDOWN));
}

TEST(Waiting, ABlockingReadThatYields) { wait_for_messages(KindOfQueue(FI_WAIT_YIELD), 1, 0); }

TEST(Waiting, ABlockingReadForSeveralEntries) {
  wait_for_messages(KindOfQueue(FI_WAIT_FD, FI_CQ_COND_THRESHOLD), 5, 5);
}

TEST(Waiting, EventsOfTheProgramItself) {
  World& world = World::get();
  for (const fi_wait_obj wait : {FI_WAIT_NONE, FI_WAIT_UNSPEC, FI_WAIT_FD, FI_WAIT_YIELD}) {
    fi_eq_attr attr{};
    attr.wait_obj = wait;
    attr.flags = FI_WRITE;
    fid_eq* events;
    ASSERT_EQ(fi_eq_open(world.fabric, &attr, &events, nullptr), 0) << wait;
    fi_eq_entry entry{&world.fabric->fid, &world, 7};
    std::uint32_t kind = 0;
    fi_eq_err_entry error{};
    EXPECT_EQ(fi_eq_read(events, &kind, &entry, sizeof entry, 0), -FI_EAGAIN);
    EXPECT_EQ(fi_eq_readerr(events, &error, 0), -FI_EAGAIN);
    EXPECT_EQ(fi_eq_sread(events, &kind, &entry, sizeof entry, 1, 0), -FI_EAGAIN);
    EXPECT_EQ(fi_eq_write(events, FI_NOTIFY, &entry, sizeof entry, 0), static_cast<ssize_t>(sizeof entry));
    EXPECT_EQ(fi_eq_read(events, &kind, &entry, 1, 0), -FI_ETOOSMALL);
    for (const std::uint64_t flags : std::initializer_list<std::uint64_t>{FI_PEEK, 0}) {
      fi_eq_entry got{};
      ASSERT_EQ(fi_eq_sread(events, &kind, &got, sizeof got, 0, flags), static_cast<ssize_t>(sizeof got));
      EXPECT_EQ(kind, static_cast<std::uint32_t>(FI_NOTIFY));
      EXPECT_EQ(got.context, &world);
    }
    EXPECT_EQ(fi_eq_read(events, &kind, &entry, sizeof entry, 0), -FI_EAGAIN);
    EXPECT_EQ(fi_close(&events->fid), 0);
  }
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
