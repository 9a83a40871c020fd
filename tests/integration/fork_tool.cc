// The programs of the test of attached processes on the hosts of a lab.
//
//   fork_tool serve CLIENTS WAYS     answers one client itself and forks for each of the others; the
//                                    children attach, answer, and end in these ways, in turn: `exit`
//                                    (nothing closed), `close` (everything), `die` (SIGKILL, at a random
//                                    moment). Also looks whether the children's memory is theirs
//   fork_tool ask HOST CLIENTS MS    the clients: all at once, for this time; each answer is looked at.
//                                    Those whose server is a child connect again when it ends
//   fork_tool orphan HOW             forks for a client; the first process ends: `exit` or `die`. The
//                                    child says what it sees
//   fork_tool follow HOST WHAT       its client: the child `goes-on`, or the connection `ends`
//   fork_tool echo CLIENTS           answers so many clients
//   fork_tool rules HOST             with an `echo 5` there: what may be taken and what not, and whose
//                                    memory is whose
//   fork_tool agent HOST WHAT        with an `echo 2` there: this host's agent is killed, and for both
//                                    processes the NIC is `lost`, or `stays`
//   fork_tool idle HOST              with an `echo 1` there: a child that does not attach opens a NIC,
//                                    another executes a program, another exits; the first process's
//                                    session is as before
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/integration/fork_end.h"

int rules(const std::string& host);
int idle(const std::string& host);

namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// ---------------------------------------------------------------------------- serve and ask

[[noreturn]] void be_child(End& end, const std::string& way) {
  attach_and_take(end);
  // Memory of its own too.
  End more(end.nic);
  answer(end);
  if (way == "close") {
    more.destroy();
    more.forget();
    end.destroy();
    check(VipDeregisterMem(end.nic, end.packets, end.memory), "the parent's registration",
          VIP_INVALID_PARAMETER);
    check(VipCloseNic(end.nic), "VipCloseNic");
  }
  std::exit(0);
}

struct Child {
  pid_t pid;
  End end;
  std::string way;
  steady_clock::time_point dies;
};

// Waits for a child. Its messages must not have come to this process, but for the first one, which may have come
// before the child took the VI.
void bury(Child& child) {
  int status = 0;
  waitpid(child.pid, &status, 0);
  if (child.way == "die") {
    check(WIFSIGNALED(status) || status == 0, "a child dies or has done its work");
  } else {
    check(status == 0, "a child ends well");
  }
  for (unsigned i = 1; i <= kReceives; ++i) {
    Head head;
    std::memcpy(&head, child.end.packets[i].data, sizeof head);
    check(head.number == 0, "what a child received is not in its parent's memory");
  }
  VIP_DESCRIPTOR* done;
  const VIP_RETURN result = VipRecvDone(child.end.vi, &done);
  if (result != VIP_INVALID_PARAMETER && WIFSIGNALED(status)) {
    child.end.destroy();  // it died before it took it
  } else {
    check(result, "the handle of a VI that was taken", VIP_INVALID_PARAMETER);
  }
  child.end.forget();
}

int serve(unsigned clients, const std::vector<std::string>& ways) {
  const VIP_NIC_HANDLE nic = open_nic();
  std::atomic<bool> over{false};
  std::thread own([&] {
    End end(nic);
    if (!end.accept(kParent)) fail("nobody came for the first process");
    answer(end);
    end.destroy();
    over = true;
  });
  std::mt19937 random(static_cast<unsigned>(getpid()));
  std::vector<Child> children;
  std::printf("waiting\n");
  std::fflush(stdout);
  unsigned served = 0;
  const auto look = [&](bool all) {
    for (std::size_t i = 0; i < children.size();) {
      siginfo_t info = {};
      const bool kills = children[i].way == "die" && steady_clock::now() >= children[i].dies;
      if (kills) kill(children[i].pid, SIGKILL);
      waitid(P_PID, static_cast<id_t>(children[i].pid), &info, WEXITED | WNOWAIT | WNOHANG);
      if (info.si_pid == 0 && !all) {
        ++i;
        continue;
      }
      bury(children[i]);
      children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
    }
  };
  while (!over) {
    End end(nic);
    Address here = local(nic, kChildren), there;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE connection = nullptr;
    VIP_RETURN waited;
    do {
      waited = VipConnectWait(nic, here.get(), 5, there.get(), &attributes, &connection);
      look(false);
    } while (waited == VIP_TIMEOUT && !over);
    if (over || waited != VIP_SUCCESS || VipConnectAccept(connection, end.vi) != VIP_SUCCESS) {
      end.destroy();
      end.forget();
      continue;
    }
    const std::string& way = ways[served++ % ways.size()];
    const pid_t pid = fork();
    if (pid == 0) be_child(end, way);
    children.push_back({pid, end, way, steady_clock::now() + milliseconds(random() % 30)});
  }
  own.join();
  look(true);
  check(served >= clients, "all clients were served by children");
  check(g_lost == 0, "the session has not ended");
  check(VipCloseNic(nic), "VipCloseNic");
  std::printf("served %u\n", served);
  return 0;
}

// One client. Returns the number of answers; `others`: they may come from different processes.
unsigned ask_one(VIP_NIC_HANDLE nic, const std::string& host, const char* whom,
                 steady_clock::time_point until, bool others, unsigned seed) {
  std::mt19937 random(seed);
  unsigned answers = 0;
  std::uint32_t first = 0;
  while (steady_clock::now() < until) {
    End end(nic);
    const bool connected = end.request(host, whom);
    check(connected || others, "the first process accepts");
    for (unsigned i = 0; connected && steady_clock::now() < until; ++i) {
      const std::uint32_t bytes = sizeof(Head) + static_cast<std::uint32_t>(
          random() % 4 != 0 ? random() % 300 : random() % (kMost - sizeof(Head)));
      const VIP_RETURN sent = end.send(i, bytes);
      Packet* const packet = sent == VIP_SUCCESS ? end.take() : nullptr;
      if (packet == nullptr && others) break;
      check(packet != nullptr, "the first process answers");
      const Head head = judge(*packet);
      check(head.number == i && head.bytes == bytes, "it is the answer");
      if (first == 0) first = head.process;
      check(others || head.process == first, "the first process answers itself");
      end.receive(*packet);
      ++answers;
    }
    end.destroy();
    end.forget();
  }
  return answers;
}

int ask(const std::string& host, unsigned clients, unsigned ms) {
  const VIP_NIC_HANDLE nic = open_nic();
  const auto until = steady_clock::now() + milliseconds(ms);
  std::vector<std::thread> threads;
  std::atomic<unsigned> answers{0}, silent{0};
  for (unsigned i = 0; i < clients; ++i) {
    threads.emplace_back([&, i] {
      const unsigned got = ask_one(nic, host, kChildren, until, true, i);
      if (got == 0) ++silent;
      answers += got;
    });
  }
  // It ends last, and with it the server.
  const unsigned own = ask_one(nic, host, kParent, until + milliseconds(300), false, 99);
  for (std::thread& thread : threads) thread.join();
  check(VipCloseNic(nic), "VipCloseNic");
  check(own > 10, "the first process answers");
  check(silent == 0, "children answer each client");
  std::printf("%u answers of children, %u of the first process\n", answers.load(), own);
  return 0;
}

// ---------------------------------------------------------------------------- orphan and follow

int orphan(const std::string& how) {
  const VIP_NIC_HANDLE nic = open_nic();
  End end(nic);
  std::printf("waiting\n");
  std::fflush(stdout);
  check(end.accept(kChildren), "a client comes");
  int gate[2];
  check(pipe(gate) == 0, "a pipe");
  const pid_t parent = getpid();
  if (fork() != 0) {
    char anything;
    check(read(gate[0], &anything, 1) == 1, "the child has answered");
    if (how == "exit") std::exit(0);
    raise(SIGKILL);
  }
  attach_and_take(end);
  Packet* packet = end.take();
  check(packet != nullptr, "a first message");
  const Head head = judge(*packet);
  end.receive(*packet);
  check(end.send(head.number, head.bytes), "the first answer");
  check(write(gate[1], "x", 1) == 1, "the first process is told");
  while (getppid() == parent) usleep(1000);
  answer(end);
  // Else the peer has gone.
  for (int i = 0; i < 100 && g_lost == 0; ++i) usleep(1000);
  VIP_VI_STATE state;
  VIP_VI_ATTRIBUTES attributes;
  VIP_BOOLEAN empty;
  check(VipQueryVi(end.vi, &state, &attributes, &empty, &empty), "VipQueryVi");
  std::printf(g_lost != 0 ? "lost\n" : "went on\n");
  if (g_lost != 0) {
    check(state == VIP_STATE_ERROR, "the VI is in the error state");
    VIP_MEM_HANDLE memory;
    check(VipRegisterMem(nic, end.packets, 64, nullptr, &memory), "VipRegisterMem",
          VIP_ERROR_RESOURCE);
  }
  end.destroy();
  check(VipCloseNic(nic), "VipCloseNic");
  std::fflush(stdout);
  return 0;
}

int follow(const std::string& host, const std::string& what) {
  const VIP_NIC_HANDLE nic = open_nic();
  End end(nic);
  check(end.request(host, kChildren), "a connection");
  check(end.send(0, 100), "a first message");
  check(end.take() != nullptr, "its answer");
  if (what == "ends") {
    check(end.take() == nullptr, "the connection ends");
  } else {
    usleep(300'000);  // the first process has ended
    for (unsigned i = 1; i <= 50; ++i) {
      check(end.send(i, 64 + i * 100), "a message");
      Packet* const packet = end.take();
      check(packet != nullptr && judge(*packet).number == i, "its answer");
      end.receive(*packet);
    }
  }
  end.destroy();
  check(VipCloseNic(nic), "VipCloseNic");
  return 0;
}

// `what`: whether the NIC is lost with the agent that is killed meanwhile, or stays.
int without_agent(const std::string& host, const std::string& what) {
  const VIP_NIC_HANDLE nic = open_nic();
  End end(nic), own(nic);
  check(end.request(host, kChildren), "a connection");
  check(own.request(host, kChildren), "another connection");
  const pid_t child = fork();
  End& mine = child == 0 ? end : own;
  if (child == 0) attach_and_take(end);
  const auto until = steady_clock::now() + milliseconds(what == "lost" ? kPatience : 2000);
  bool works = true;
  for (unsigned i = 0; steady_clock::now() < until && (works || g_lost == 0); ++i) {
    Packet* packet = nullptr;
    works = mine.send(i, 800) == VIP_SUCCESS && (packet = mine.take()) != nullptr;
    if (works) mine.receive(*packet);
    if (i == 20 && child != 0) std::printf("waiting\n"), std::fflush(stdout);
    usleep(2000);
  }
  check(works == (what == "stays") && (g_lost != 0) == (what == "lost"), "the NIC " + what);
  if (child == 0) std::exit(0);
  int status = -1;
  waitpid(child, &status, 0);
  check(status == 0, "the child finds the same");
  return 0;
}

int echo(unsigned clients) {
  const VIP_NIC_HANDLE nic = open_nic();
  std::vector<std::thread> threads;
  std::printf("waiting\n");
  std::fflush(stdout);
  for (unsigned i = 0; i < clients; ++i) {
    End end(nic);
    check(end.accept(kChildren), "a client comes");
    threads.emplace_back([end]() mutable { answer(end); });
  }
  for (std::thread& thread : threads) thread.join();
  check(VipCloseNic(nic), "VipCloseNic");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "serve" && argc > 3) {
    return serve(static_cast<unsigned>(std::atoi(argv[2])), {argv + 3, argv + argc});
  }
  if (what == "ask" && argc == 5) {
    return ask(argv[2], static_cast<unsigned>(std::atoi(argv[3])),
               static_cast<unsigned>(std::atoi(argv[4])));
  }
  if (what == "orphan" && argc == 3) return orphan(argv[2]);
  if (what == "follow" && argc == 4) return follow(argv[2], argv[3]);
  if (what == "echo" && argc == 3) return echo(static_cast<unsigned>(std::atoi(argv[2])));
  if (what == "agent" && argc == 4) return without_agent(argv[2], argv[3]);
  if (what == "rules" && argc == 3) return rules(argv[2]);
  if (what == "idle" && argc == 3) return idle(argv[2]);
  std::fprintf(stderr, "fork_tool: see its source\n");
  return 2;
}
