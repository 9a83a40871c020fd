// fork_tool rules and idle: see fork_tool.cc.
#include <poll.h>
#include <sys/wait.h>

#include <thread>

#include "tests/integration/fork_end.h"

namespace {

constexpr std::size_t kBlock = 4096;

// Bytes between parent and child.
struct Channel {
  Channel() { check(pipe(ends) == 0, "a pipe"); }
  template <class T>
  void say(const T& value) {
    check(write(ends[1], &value, sizeof value) == sizeof value, "something is told");
  }
  template <class T>
  T hear() {
    T value;
    check(read(ends[0], &value, sizeof value) == sizeof value, "something is heard");
    return value;
  }
  int ends[2];
};

// Waits for a child, which must end well.
void expect_well(pid_t child, const char* what) {
  int status = -1;
  waitpid(child, &status, 0);
  if (status != 0) fail(std::string("not so: ") + what);
}

void talk(End& end, unsigned messages) {
  for (unsigned i = 1; i <= messages; ++i) {
    check(end.send(i, 50 + i % 28 * 700), "a message");
    Packet* const packet = end.take();
    check(packet != nullptr && judge(*packet).number == i, "its answer");
    end.receive(*packet);
  }
}

// Sends from memory that another process has registered, and not before the fork.
void send_from(End& end, void* memory, VIP_MEM_HANDLE handle) {
  Packet& packet = end.packets[0];
  end.fill(packet, 1000, handle);
  packet.descriptor.DS[0].Local.Data.Address = memory;
  check(VipPostSend(end.vi, &packet.descriptor, end.memory), "VipPostSend");
  VIP_DESCRIPTOR* done = nullptr;
  check(VipSendWait(end.vi, kPatience, &done), "memory of another process", VIP_DESCRIPTOR_ERROR);
  check(done != nullptr && (done->CS.Status & VIP_STATUS_PROTECTION_ERROR) != 0,
        "it is a protection error");
}

struct Things {
  explicit Things(const std::string& host)
      : nic(open_nic()), taken(nic), posted(nic), kept(nic), handed_on(nic), single_cq(make_cq()),
        shared_cq(make_cq()), on_cq(nic, single_cq), one(nic, shared_cq), other(nic, shared_cq) {
    for (End* const end : {&taken, &posted, &kept, &handed_on, &on_cq}) {
      check(end->request(host, kChildren), "a connection");
    }
  }
  VIP_CQ_HANDLE make_cq() const {
    VIP_CQ_HANDLE cq = nullptr;
    check(VipCreateCQ(nic, 64, &cq), "VipCreateCQ");
    return cq;
  }
  VIP_NIC_HANDLE nic;
  End taken, posted, kept, handed_on;
  VIP_CQ_HANDLE single_cq, shared_cq;
  End on_cq, one, other;
};

// A process that was forked from one that has attached.
void be_grandchild(Things& all) {
  check(VipxAttach(all.nic), "a grandchild attaches");
  check(VipxTakeVi(all.handed_on.vi), "and takes what the child had");
  talk(all.handed_on, 10);
  std::exit(0);
}

void be_stranger(const Things& all) {
  if (setgid(65534) != 0 || setuid(65534) != 0) std::_Exit(1);
  check(VipxAttach(all.nic), "another user", VIP_ERROR_RESOURCE);
  std::_Exit(0);
}

void use_cq(Things& all) {
  check(VipxTakeVi(all.on_cq.vi), "VipxTakeVi with its CQ");
  for (unsigned i = 1; i <= 20; ++i) {
    check(all.on_cq.send(i, 900), "a message");
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN receive = VIP_FALSE;
    if (i % 2 == 0) {
      const timespec patience{10, 0};
      check(VipxPoll(all.single_cq, nullptr, 0, &patience, nullptr) == 0, "VipxPoll");
    }
    check(VipCQWait(all.single_cq, kPatience, &vi, &receive), "VipCQWait");
    check(vi == all.on_cq.vi && receive == VIP_TRUE, "the CQ tells of the VI");
    Packet* const packet = all.on_cq.take(0);
    check(packet != nullptr && judge(*packet).number == i, "its answer");
    all.on_cq.receive(*packet);
  }
}

void be_child(Things& all, Channel& to_parent, Channel& from_parent) {
  VIP_NIC_ATTRIBUTES attributes;
  check(VipQueryNic(all.nic, &attributes), "the handle before", VIP_INVALID_PARAMETER);
  check(VipxTakeVi(all.taken.vi), "a VI before", VIP_INVALID_PARAMETER);
  check(VipxAttach(all.taken.vi), "what is no NIC", VIP_INVALID_PARAMETER);
  check(VipxAttach(all.nic), "VipxAttach");
  check(VipxAttach(all.nic), "VipxAttach once more");
  check(VipQueryNic(all.nic, &attributes), "VipQueryNic");
  const auto theirs = from_parent.hear<VIP_MEM_HANDLE>();
  Packet& packet = all.taken.packets[0];
  check(VipPostSend(all.taken.vi, &packet.descriptor, all.taken.memory), "a VI of the parent's",
        VIP_INVALID_PARAMETER);
  check(VipxTakeVi(all.posted.vi), "a VI on which something was posted", VIP_INVALID_STATE);
  check(VipxTakeVi(all.one.vi), "one of two VIs of a CQ", VIP_INVALID_STATE);
  check(VipxTakeVi(all.taken.vi), "VipxTakeVi");
  check(VipxTakeVi(all.taken.vi), "VipxTakeVi once more");
  talk(all.taken, 20);
  use_cq(all);

  VIP_MEM_ATTRIBUTES memory;
  check(VipQueryMem(all.nic, all.taken.packets, all.taken.memory, &memory), "what was registered");
  check(VipDeregisterMem(all.nic, all.taken.packets, all.taken.memory), "the parent's registration",
        VIP_INVALID_PARAMETER);
  VIP_MEM_HANDLE own;
  check(VipRegisterMem(all.nic, all.kept.packets, kBlock, nullptr, &own), "VipRegisterMem");

  check(VipxTakeVi(all.handed_on.vi), "another VI");
  pid_t grandchild = fork();
  if (grandchild == 0) be_stranger(all);
  expect_well(grandchild, "another user does not attach");
  grandchild = fork();
  if (grandchild == 0) be_grandchild(all);
  expect_well(grandchild, "a grandchild uses what the child and its parent had");

  to_parent.say(own);
  from_parent.hear<char>();
  send_from(all.taken, all.posted.packets, theirs);
  std::exit(0);
}

// The things a child may do without attaching; returns its status, or does not return.
int be_idle(int what, const std::string& host) {
  switch (what) {
    case 0: std::_Exit(0);
    case 1: return 0;  // exit handlers and all
    case 2: execl("/bin/true", "true", nullptr); return 1;
    case 3: open_nic(); return 0;
    default: break;
  }
  const VIP_NIC_HANDLE nic = open_nic();
  remote(nic, host, kChildren);
  check(VipCloseNic(nic), "VipCloseNic");
  return 0;
}

}  // namespace

int rules(const std::string& host) {
  Things all(host);
  Channel to_parent, from_parent;
  const pid_t child = fork();
  if (child == 0) be_child(all, to_parent, from_parent);
  std::thread waiting([&] {
    VIP_DESCRIPTOR* done;
    check(VipRecvWait(all.taken.vi, VIP_INFINITE, &done), "waiting on what is taken",
          VIP_INVALID_PARAMETER);
  });
  usleep(50'000);  // it waits
  all.posted.receive(all.posted.packets[0]);
  VIP_MEM_HANDLE again;
  check(VipRegisterMem(all.nic, all.posted.packets, kBlock, nullptr, &again), "VipRegisterMem");
  from_parent.say(again);
  talk(all.kept, 300);
  waiting.join();
  const auto theirs = to_parent.hear<VIP_MEM_HANDLE>();
  send_from(all.kept, all.kept.packets, theirs);
  from_parent.say('x');
  expect_well(child, "the child ends well");
  talk(all.posted, 20);
  VIP_DESCRIPTOR* done;
  check(VipSendDone(all.taken.vi, &done), "what was taken", VIP_INVALID_PARAMETER);
  for (End* const end : {&all.posted, &all.kept, &all.one, &all.other}) {
    end->destroy();
    end->forget();
  }
  check(VipDestroyCQ(all.shared_cq), "VipDestroyCQ");
  check(VipDestroyCQ(all.single_cq), "a CQ that was taken", VIP_INVALID_PARAMETER);
  check(g_lost == 0, "the session has not ended");
  check(VipCloseNic(all.nic), "VipCloseNic");
  return 0;
}

int idle(const std::string& host) {
  const VIP_NIC_HANDLE nic = open_nic();
  End end(nic);
  check(end.request(host, kChildren), "a connection");
  for (int what = 0; what < 5; ++what) {
    const pid_t child = fork();
    if (child == 0) std::exit(be_idle(what, host));
    talk(end, 5);
    expect_well(child, "a child that does not attach ends well");
    talk(end, 5);
  }
  check(g_lost == 0, "the session has not ended");
  end.destroy();
  check(VipCloseNic(nic), "VipCloseNic");
  return 0;
}
