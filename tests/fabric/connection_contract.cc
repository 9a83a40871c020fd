// How connections are made, refused and ended.
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

#include "tests/fabric/ends.h"

namespace {

constexpr auto kRequest = static_cast<std::uint32_t>(FI_CONNREQ);
constexpr auto kConnected = static_cast<std::uint32_t>(FI_CONNECTED);
constexpr auto kShutdown = static_cast<std::uint32_t>(FI_SHUTDOWN);
constexpr char kPort[] = "VIADUCT_TEST_PORT";  // of the process that a requester connects to

TEST(Connection, DataGoesWithTheRequestAndTheAnswer) {
  World& world = World::get();
  End a;
  End b;
  a.open(world.info);
  const std::string ask(200, 'q');
  ASSERT_EQ(fi_connect(a.ep, &world.address, ask.data(), ask.size()), 0);
  Told request = next_event();
  ASSERT_EQ(request.kind, kRequest);
  EXPECT_EQ(request.fid, &world.listener->fid);
  EXPECT_EQ(request.data, ask);
  ASSERT_NE(request.info, nullptr);
  sockaddr_in from;
  ASSERT_EQ(request.info->dest_addrlen, sizeof from);
  std::memcpy(&from, request.info->dest_addr, sizeof from);
  EXPECT_EQ(from.sin_addr.s_addr, world.address.sin_addr.s_addr);
  b.open(request.info);
  fi_freeinfo(request.info);
  ASSERT_EQ(fi_accept(b.ep, "yes", 3), 0);
  for (int i = 0; i < 2; ++i) {
    const Told told = next_event();
    ASSERT_EQ(told.kind, kConnected);
    EXPECT_EQ(told.data, told.fid == &a.ep->fid ? "yes" : "");
  }
}

TEST(Connection, ARefusalBringsItsData) {
  World& world = World::get();
  End a;
  a.open(world.info);
  ASSERT_EQ(fi_connect(a.ep, &world.address, nullptr, 0), 0);
  Told request = next_event();
  ASSERT_EQ(request.kind, kRequest);
  ASSERT_EQ(fi_reject(world.listener, request.info->handle, "no room", 7), 0);
  fi_freeinfo(request.info);
  const Told told = next_event();
  EXPECT_EQ(told.error, FI_ECONNREFUSED);
  EXPECT_EQ(told.fid, &a.ep->fid);
  EXPECT_EQ(told.data, "no room");
}

TEST(Connection, ARequestCanBeAnsweredOnce) {
  World& world = World::get();
  End a;
  a.open(world.info);
  ASSERT_EQ(fi_connect(a.ep, &world.address, nullptr, 0), 0);
  Told request = next_event();
  ASSERT_EQ(fi_reject(world.listener, request.info->handle, nullptr, 0), 0);
  EXPECT_EQ(fi_reject(world.listener, request.info->handle, nullptr, 0), -FI_EINVAL);
  fid_ep* ep;
  EXPECT_EQ(fi_endpoint(world.domain, request.info, &ep, nullptr), -FI_EINVAL);
  fi_freeinfo(request.info);
  EXPECT_EQ(next_event().error, FI_ECONNREFUSED);
}

// A program reserves a port before it knows whether it will connect or accept.
TEST(Connection, AnEndpointCanHaveThePortOfAPassiveOne) {
  World& world = World::get();
  fi_info* hints = fi_dupinfo(world.info);
  sockaddr_in reserved;
  std::size_t length = sizeof reserved;
  fid_pep* passive;
  ASSERT_EQ(fi_passive_ep(world.fabric, world.info, &passive, nullptr), 0);
  sockaddr_in any = world.address;
  any.sin_port = 0;
  ASSERT_EQ(fi_setname(&passive->fid, &any, sizeof any), 0);
  ASSERT_EQ(fi_getname(&passive->fid, &reserved, &length), 0);
  ASSERT_NE(reserved.sin_port, 0);
  hints->handle = &passive->fid;
  fi_info* info;
  ASSERT_EQ(fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info), 0);
  ASSERT_EQ(info->handle, &passive->fid);
  End a;
  a.open(info);
  EXPECT_EQ(fi_close(&passive->fid), 0);
  sockaddr_in name;
  ASSERT_EQ(fi_getname(&a.ep->fid, &name, &length), 0);
  EXPECT_EQ(name.sin_port, reserved.sin_port);
  ASSERT_EQ(fi_connect(a.ep, &world.address, nullptr, 0), 0);
  const Told request = next_event();
  ASSERT_EQ(request.kind, kRequest);
  EXPECT_EQ(static_cast<sockaddr_in*>(request.info->dest_addr)->sin_port, reserved.sin_port);
  ASSERT_EQ(fi_reject(world.listener, request.info->handle, nullptr, 0), 0);
  fi_freeinfo(request.info);
  EXPECT_EQ(next_event().error, FI_ECONNREFUSED);
  fi_freeinfo(info);
  fi_freeinfo(hints);
}

TEST(Connection, TheBacklogCanBeSet) {
  World& world = World::get();
  int backlog = 1024;
  EXPECT_EQ(fi_control(&world.listener->fid, FI_BACKLOG, &backlog), 0);
  backlog = -1;
  EXPECT_EQ(fi_control(&world.listener->fid, FI_BACKLOG, &backlog), -FI_EINVAL);
}

// The end that shuts a connection down gets the event too, once.
TEST(Connection, BothEndsHearOfAShutdown) {
  Pair pair;
  ASSERT_EQ(fi_shutdown(pair.a.ep, 0), 0);
  std::set<fid_t> told;
  for (int i = 0; i < 2; ++i) {
    const Told end = next_event();
    EXPECT_EQ(end.kind, kShutdown);
    told.insert(end.fid);
  }
  EXPECT_EQ(told, (std::set<fid_t>{&pair.a.ep->fid, &pair.b.ep->fid}));
  EXPECT_EQ(fi_shutdown(pair.b.ep, 0), 0);
  std::uint32_t kind;
  fi_eq_cm_entry entry;
  EXPECT_EQ(fi_eq_read(World::get().events, &kind, &entry, sizeof entry, 0), -FI_EAGAIN);
}

TEST(Connection, WhereNobodyListensItIsRefused) {
  World& world = World::get();
  End a;
  a.open(world.info);
  sockaddr_in nobody = world.address;
  nobody.sin_port = htons(1);
  ASSERT_EQ(fi_connect(a.ep, &nobody, nullptr, 0), 0);
  EXPECT_EQ(next_event().error, FI_ECONNREFUSED);
}

TEST(Connection, AnEndpointMayBeClosedWhileItConnects) {
  World& world = World::get();
  sockaddr_in nobody = world.address;
  nobody.sin_port = htons(1);
  End a;
  a.open(world.info);
  ASSERT_EQ(fi_connect(a.ep, &nobody, nullptr, 0), 0);
  a.close();
  Pair pair;  // the others work as before
}

TEST(Connection, ManyAtOnce) {
  World& world = World::get();
  constexpr int kMany = 24;
  End asking[kMany];
  End answering[kMany];
  for (End& end : asking) {
    end.open(world.info);
    ASSERT_EQ(fi_connect(end.ep, &world.address, nullptr, 0), 0);
  }
  int accepted = 0;
  std::set<fid_t> connected;
  while (connected.size() < 2 * kMany) {
    Told told = next_event();
    if (told.kind == kRequest) {
      answering[accepted].open(told.info);
      fi_freeinfo(told.info);
      ASSERT_EQ(fi_accept(answering[accepted++].ep, nullptr, 0), 0);
    } else {
      ASSERT_EQ(told.kind, kConnected);
      ASSERT_TRUE(connected.insert(told.fid).second);
    }
  }
  EXPECT_EQ(accepted, kMany);
}

TEST(Connection, WhenOneEndClosesTheOtherHears) {
  Pair pair;
  Buffer buffer(64);
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(fi_recv(pair.a.ep, buffer.data(), 64, buffer.desc(), 0, &buffer), 0);
  }
  pair.b.close();
  const Told told = next_event();
  EXPECT_EQ(told.kind, kShutdown);
  EXPECT_EQ(told.fid, &pair.a.ep->fid);
  for (int i = 0; i < 3; ++i) {
    const fi_cq_err_entry error = pair.a.next_error();
    EXPECT_EQ(error.err, FI_ECANCELED);
    EXPECT_EQ(error.op_context, &buffer);
  }
  EXPECT_EQ(fi_send(pair.a.ep, buffer.data(), 64, buffer.desc(), 0, nullptr), -FI_ENOTCONN);
}

// The requester, another process, has the answer and ends while this one is stopped: then the answer's completion and
// the end are there at once.
TEST(Connection, AnEndBehindTheAnswerIsHeardBehindIt) {
  World& world = World::get();
  for (int round = 0; round < 4; ++round) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const pid_t self = getpid(), requester = fork();
    if (requester == 0) {
      close(ends[0]);
      setenv(kPort, std::to_string(ntohs(world.address.sin_port)).c_str(), 1);
      execl("/proc/self/exe", "contract_test", "--gtest_filter=Requester.ConnectsAndEnds", nullptr);
      _exit(1);
    }
    close(ends[1]);
    const pid_t waker = fork();
    if (waker == 0) {
      // Now and then it goes on for a moment: it may have been stopped before the answer had left.
      do {
        pollfd end{ends[0], POLLIN, 0};
        poll(&end, 1, 100);
      } while (kill(self, SIGCONT) == 0 && getppid() == self);
      _exit(0);
    }
    Told request = next_event();
    ASSERT_EQ(request.kind, kRequest);
    End b;
    b.open(request.info);
    fi_freeinfo(request.info);
    ASSERT_EQ(fi_accept(b.ep, nullptr, 0), 0);
    pollfd end{ends[0], POLLIN, 0};
    do raise(SIGSTOP);
    while (poll(&end, 1, 0) == 0);
    close(ends[0]);
    kill(waker, SIGKILL);
    int status = -1;
    ASSERT_EQ(waitpid(requester, &status, 0), requester);
    EXPECT_EQ(status, 0);
    ASSERT_EQ(waitpid(waker, &status, 0), waker);
    EXPECT_EQ(next_event().kind, kConnected);
    EXPECT_EQ(next_event().kind, kShutdown);
  }
}

TEST(Requester, ConnectsAndEnds) {
  const char* const port = std::getenv(kPort);
  if (port == nullptr) GTEST_SKIP() << "for another test";
  sockaddr_in to = World::get().address;
  to.sin_port = htons(static_cast<std::uint16_t>(std::stoi(port)));
  End a;
  a.open(World::get().info);
  ASSERT_EQ(fi_connect(a.ep, &to, nullptr, 0), 0);
  EXPECT_EQ(next_event().kind, kConnected);
}

TEST(Connection, WhatWaitsForAReceiveEndsWithTheConnection) {
  Pair pair;
  Buffer buffer(64);
  ASSERT_EQ(fi_inject(pair.a.ep, "x", 1, 0), 0);
  ASSERT_EQ(fi_send(pair.a.ep, buffer.data(), 64, buffer.desc(), 0, &buffer), 0);
  pair.b.close();
  EXPECT_EQ(next_event().kind, kShutdown);
  const fi_cq_err_entry error = pair.a.next_error();
  EXPECT_EQ(error.err, FI_ECONNRESET);
  EXPECT_EQ(error.op_context, &buffer);
}

TEST(Connection, WhatWasSentBeforeTheEndArrives) {
  for (int round = 0; round < 20; ++round) {
    Pair pair;
    Buffer in(64 * 32);
    for (unsigned i = 0; i < 32; ++i) {
      ASSERT_EQ(fi_recv(pair.b.ep, in.data() + i * 64, 64, in.desc(), 0, nullptr), 0);
    }
    unsigned char out[64] = {};
    for (unsigned i = 0; i < 32; ++i) {
      out[0] = static_cast<unsigned char>(i);
      ASSERT_EQ(pair.a.insist([&] { return fi_inject(pair.a.ep, out, 64, 0); }), 0);
    }
    pair.a.close();
    for (unsigned i = 0; i < 32; ++i) {
      ASSERT_EQ(pair.b.next().len, 64u) << "round " << round << " message " << i;
      EXPECT_EQ(in.data()[i * 64], i);
    }
    EXPECT_EQ(next_event().kind, kShutdown);
  }
}

}  // namespace
