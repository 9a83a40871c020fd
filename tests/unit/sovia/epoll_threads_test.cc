// One epoll set and several threads.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <unistd.h>

#include <atomic>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "sovia/launcher/counters_reader.h"
#include "sovia/poll/epoll_set.h"
#include "sovia/sovia.h"
#include "tests/unit/sovia/laned_connection.h"

namespace {

using namespace viaduct::sovia;
using ready::Connection;
using ready::Epoll;
using ready::Later;
using ready::Pipe;

void pause_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

class Threads {
 public:
  Threads(int count, std::function<void(int)> f) {
    for (int i = 0; i < count; ++i) threads_.emplace_back(f, i);
  }
  ~Threads() { join(); }
  void join() {
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  std::vector<std::thread> threads_;
};

// How often a thread of the process has slept as one that lanes can wake.
std::uint64_t sleeps() {
  const auto all = launcher::read_counters(getpid());
  return all ? all->values[static_cast<std::size_t>(Counter::kSleeps)] : 0;
}

// A thread that sleeps in the kernel, as the set was the kernel's alone.
TEST(EpollThreads, AddingASocketWakesWhoSleepsInTheKernel) {
  Connection c;
  Epoll set;
  const Later later([&] {
    ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
    pause_ms(20);
    c.up();
    c.data();
  });
  EXPECT_EQ(set.wait(5000), "7:IN");
}

TEST(EpollThreads, SeveralWhoSleepInTheKernelAreAllMoved) {
  Connection c;
  Epoll set;
  std::atomic<int> told{0};
  const std::uint64_t before = sleeps();
  Threads waiters(4, [&](int) {
    if (set.wait(5000) == "7:IN") ++told;
  });
  pause_ms(30);
  ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
  pause_ms(30);
  EXPECT_EQ(sleeps(), before);  // without a lane the kernel tells of it
  c.up();
  c.data();
  waiters.join();
  EXPECT_EQ(told, 4);  // level-triggered: every waiter is told
}

TEST(EpollThreads, AnEdgeWakesOne) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLET, 7), 0);
  c.up();
  std::atomic<int> told{0};
  Threads waiters(4, [&](int) {
    if (set.wait(300) == "7:IN") ++told;
  });
  pause_ms(50);
  c.data();
  waiters.join();
  EXPECT_EQ(told, 1);
}

TEST(EpollThreads, AOneShotWakesOneEachTime) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLONESHOT, 7), 0);
  c.up();
  std::atomic<int> told{0};
  std::atomic<int> inside{0};
  std::atomic<bool> clash{false};
  Threads workers(4, [&](int) {
    while (told < 200) {
      if (set.wait(100) != "7:IN") continue;
      if (++inside != 1) clash = true;
      ++told;
      --inside;
      EXPECT_EQ(set.modify(c.fd(), EPOLLIN | EPOLLONESHOT, 7), 0);
    }
  });
  c.data();
  workers.join();
  EXPECT_FALSE(clash);
}

// Threads that sleep on the set have to hear of new routes; the program does not.
TEST(EpollThreads, ASetThatIsPolledIsNotReadyWhenARouteChanges) {
  for (const bool select : {false, true}) {
    Connection c;
    Epoll set;
    ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0);
    const Later later([&] {
      c.up();
      pause_ms(30);
      c.data();
    });
    if (select) {
      fd_set sets;
      FD_ZERO(&sets);
      FD_SET(set.fd(), &sets);
      EXPECT_EQ(sovia_select(set.fd() + 1, &sets, nullptr, nullptr, nullptr), 1);
    } else {
      pollfd at{set.fd(), POLLIN, 0};
      EXPECT_EQ(sovia_poll(&at, 1, 5000), 1);
      EXPECT_EQ(at.revents, POLLIN);
    }
    EXPECT_EQ(set.wait(), "7:IN");
  }
}

TEST(EpollThreads, NeitherIsASetInASet) {
  Connection c;
  Epoll inner, outer;
  ASSERT_EQ(inner.add(c.fd(), EPOLLIN, 7), 0);
  ASSERT_EQ(outer.add(inner.fd(), EPOLLIN, 1), 0);
  {
    const Later later([&] { c.sends_on_lane(); });
    pollfd at{inner.fd(), POLLIN, 0};
    EXPECT_EQ(sovia_poll(&at, 1, 100), 0);
  }
  EXPECT_EQ(outer.wait(), "");
  c.up();
  c.data();
  EXPECT_EQ(outer.wait(1000), "1:IN");
}

// The lane has had something all the time, so only epoll_ctl can wake the sleeper.
TEST(EpollThreads, ArmingWakesASleeper) {
  Connection c;
  Epoll set;
  ASSERT_EQ(set.add(c.fd(), EPOLLIN | EPOLLONESHOT, 7), 0);
  c.up();
  c.data();
  EXPECT_EQ(set.wait(), "7:IN");
  const Later later([&] { ASSERT_EQ(set.modify(c.fd(), EPOLLIN | EPOLLONESHOT, 8), 0); });
  EXPECT_EQ(set.wait(5000), "8:IN");
}

TEST(EpollThreads, AddingWakesASleeper) {
  Connection idle, c;
  Epoll set;
  ASSERT_EQ(set.add(idle.fd(), EPOLLIN, 1), 0);
  idle.up();
  c.up();
  c.data();
  const Later later([&] { ASSERT_EQ(set.add(c.fd(), EPOLLIN, 7), 0); });
  EXPECT_EQ(set.wait(5000), "7:IN");
}

// Sockets come, go up, have data, are changed, go down and are closed while others wait.
TEST(EpollThreads, AnythingAtOnce) {
  constexpr int kSockets = 8;
  constexpr int kMs = 700;
  Epoll set, outer;
  Pipe pipe;
  ASSERT_EQ(set.add(pipe.reader(), EPOLLIN, 1000), 0);
  ASSERT_EQ(outer.add(set.fd(), EPOLLIN, 1), 0);
  std::atomic<bool> done{false};
  std::atomic<long> told{0};
  Threads waiters(3, [&](int i) {
    while (!done) {
      epoll_event events[4];
      const int count = sovia_epoll_wait(i == 2 ? outer.fd() : set.fd(), events, 4, 20);
      ASSERT_GE(count, 0);
      for (int n = 0; n < count; ++n) {
        ASSERT_LE(events[n].data.u64, 1000u);
      }
      told += count;
    }
  });
  Threads makers(2, [&](int maker) {
    unsigned random = 12345u + static_cast<unsigned>(maker);
    std::vector<std::unique_ptr<Connection>> all(kSockets);
    while (!done) {
      random = random * 1103515245u + 12345u;
      const unsigned i = random >> 16 & (kSockets - 1);
      std::unique_ptr<Connection>& c = all[i];
      const auto data = static_cast<std::uint64_t>(maker * kSockets) + i;
      if (!c) {
        c = std::make_unique<Connection>();
        const std::uint32_t kinds[] = {0, EPOLLET};
        ASSERT_EQ(set.add(c->fd(), EPOLLIN | EPOLLOUT | kinds[random >> 20 & 1], data), 0);
        continue;
      }
      switch (random >> 24 & 7) {
        case 0: c->up(); break;
        case 1: c->down(); break;
        case 2: c->data(); break;
        case 3: c->data(false); break;
        case 4: c->room(random >> 28 & 1); break;
        case 5: set.modify(c->fd(), EPOLLIN | EPOLLONESHOT, data); break;
        case 6: set.modify(c->fd(), EPOLLIN | EPOLLET, data); break;
        case 7:
          if ((random >> 28 & 3) == 0) c.reset();
          break;
      }
    }
  });
  pause_ms(kMs);
  done = true;
  makers.join();
  waiters.join();
  EXPECT_GT(told, 0);
  pipe.fill();
  EXPECT_EQ(set.wait(1000), "1000:IN");
}

// Every wake counts: two threads throw a ball, each of which only ever sleeps until it comes.
TEST(EpollThreads, NoWakeIsLost) {
  Connection a, b;
  Epoll set_a, set_b;
  ASSERT_EQ(set_a.add(a.fd(), EPOLLIN | EPOLLET, 1), 0);
  ASSERT_EQ(set_b.add(b.fd(), EPOLLIN, 2), 0);
  a.up();
  b.up();
  constexpr int kThrows = 3000;
  Threads other(1, [&](int) {
    for (int i = 0; i < kThrows; ++i) {
      ASSERT_EQ(set_b.wait(5000), "2:IN") << i;
      b.data(false);
      a.data();
    }
  });
  for (int i = 0; i < kThrows; ++i) {
    b.data();
    ASSERT_EQ(set_a.wait(5000), "1:IN") << i;
    a.data(false);
  }
}

}  // namespace
