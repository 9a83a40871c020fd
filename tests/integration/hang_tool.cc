// hang_tool FOLDER USERS ATTEMPTS: hosted programs that send from pages of a file system which never answers a read (FUSE). A
// copy of such a page can't be ended, not even by kill -9 of who makes it.
//
// The folder is where the file system is mounted, seen by these programs alone. Users from kFirstUser on run beside each other, each ATTEMPTS programs one after the other. Says how each has ended,
// "done" when all have, and waits to be killed: then the file system goes, and the copies end.
//
// hang_tool FOLDER SOCKET COUNT: asks so often for a session in vain, as user 0 without any capability.
#include <fcntl.h>
#include <grp.h>
#include <linux/capability.h>
#include <linux/fuse.h>
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "kagent/contract/control.h"
#include "vipl/vipl_ext.h"

namespace {

namespace control = viaduct::control;

constexpr std::uint32_t kBytes = 4096;
constexpr uid_t kFirstUser = 20000;
constexpr std::uint64_t kFile = 2;  // its node; 1 is the folder

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  _exit(1);
}

fuse_attr attributes_of(std::uint64_t node) {
  fuse_attr out{};
  out.ino = node;
  out.size = node == kFile ? 1 << 30 : kBytes;
  out.mode = node == kFile ? S_IFREG | 0666 : S_IFDIR | 0777;
  out.nlink = 1;
  out.blksize = kBytes;
  return out;
}

template <class Body>
void answer(int device, std::uint64_t request, const Body& body) {
  struct {
    fuse_out_header head;
    Body body;
  } out{{sizeof out, 0, request}, body};
  if (write(device, &out, sizeof out) < 0 && errno != ENOENT) fail("answer");
}

void answer(int device, std::uint64_t request, int error) {
  const fuse_out_header out{sizeof out, -error, request};
  if (write(device, &out, sizeof out) < 0 && errno != ENOENT) fail("answer");
}

// Answers everything but reads.
[[noreturn]] void serve(int device) {
  static char room[1 << 20];
  for (;;) {
    const ssize_t bytes = read(device, room, sizeof room);
    if (bytes < 0 && (errno == EINTR || errno == ENOENT)) continue;
    if (bytes < 0) _exit(0);
    const auto* const head = reinterpret_cast<const fuse_in_header*>(room);
    switch (head->opcode) {
      case FUSE_INIT: {
        fuse_init_out out{};
        out.major = FUSE_KERNEL_VERSION;
        out.minor = 31;
        out.max_write = 65536;
        answer(device, head->unique, out);
        break;
      }
      case FUSE_LOOKUP: {
        fuse_entry_out out{};
        out.nodeid = kFile;
        out.entry_valid = out.attr_valid = 1000;
        out.attr = attributes_of(kFile);
        answer(device, head->unique, out);
        break;
      }
      case FUSE_GETATTR: {
        fuse_attr_out out{};
        out.attr_valid = 1000;
        out.attr = attributes_of(head->nodeid);
        answer(device, head->unique, out);
        break;
      }
      case FUSE_OPEN: answer(device, head->unique, fuse_open_out{}); break;
      case FUSE_READ:
      case FUSE_INTERRUPT:
      case FUSE_FORGET:
      case FUSE_BATCH_FORGET: break;
      case FUSE_FLUSH:
      case FUSE_RELEASE: answer(device, head->unique, 0); break;
      default: answer(device, head->unique, ENOSYS);
    }
  }
}

// The file system ends when its only server does, which has no file of it open.
void mount_and_serve(const std::string& folder) {
  const int device = open("/dev/fuse", O_RDWR | O_CLOEXEC);
  if (device < 0) {
    std::printf("no FUSE\n");
    std::exit(77);
  }
  if (unshare(CLONE_NEWNS) != 0 || mount("", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) fail("namespace");
  const std::string options =
      "fd=" + std::to_string(device) + ",rootmode=40000,user_id=0,group_id=0,allow_other";
  if (mount("hangs", folder.c_str(), "fuse", MS_NOSUID | MS_NODEV, options.c_str()) != 0) fail("mount");
  if (fork() == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    serve(device);
  }
  close(device);
}

bool connect(VIP_NIC_HANDLE nic, VIP_VI_HANDLE from, VIP_VI_HANDLE to) {
  VIP_NIC_ATTRIBUTES about;
  if (VipQueryNic(nic, &about) != VIP_SUCCESS) return false;
  alignas(VIP_NET_ADDRESS) unsigned char rooms[3][sizeof(VIP_NET_ADDRESS) + 64] = {};
  VIP_NET_ADDRESS* addresses[3];
  const std::string name = std::to_string(getpid());
  for (unsigned i = 0; i < 3; ++i) {
    addresses[i] = reinterpret_cast<VIP_NET_ADDRESS*>(rooms[i]);
    addresses[i]->HostAddressLen = 6;
    std::memcpy(addresses[i]->HostAddress, about.LocalNicAddress, 6);
    addresses[i]->DiscriminatorLen = static_cast<VIP_UINT16>(name.size() + 1);
    addresses[i]->HostAddress[6] = static_cast<VIP_UINT8>('0' + i);
    std::memcpy(addresses[i]->HostAddress + 7, name.data(), name.size());
  }
  addresses[2]->DiscriminatorLen = 64;
  bool accepted = false;
  std::thread server([&] {
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;
    accepted = VipConnectWait(nic, addresses[1], 10'000, addresses[2], &theirs, &request) == VIP_SUCCESS &&
               VipConnectAccept(request, to) == VIP_SUCCESS;
  });
  VIP_VI_ATTRIBUTES theirs;
  const bool asked = VipConnectRequest(from, addresses[0], addresses[1], 10'000, &theirs) == VIP_SUCCESS;
  server.join();
  return asked && accepted;
}

// Returns what to say of the attempt.
std::string attempt(void* page) {
  static VIP_DESCRIPTOR descriptor, received;
  static char room[kBytes];
  VIP_NIC_HANDLE nic;
  VIP_VI_HANDLE from, to;
  VIP_MEM_HANDLE memory, its, rooms, received_handle;
  VIP_VI_ATTRIBUTES attributes = {};
  attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  attributes.MaxTransferSize = kBytes;
  VIP_RETURN result = VipOpenNic(const_cast<char*>("nic0"), &nic);
  if (result != VIP_SUCCESS) return std::string("not opened: ") + VipxReturnText(result);
  if (VipCreateVi(nic, &attributes, nullptr, nullptr, &from) != VIP_SUCCESS ||
      VipCreateVi(nic, &attributes, nullptr, nullptr, &to) != VIP_SUCCESS ||
      VipRegisterMem(nic, page, kBytes, nullptr, &memory) != VIP_SUCCESS ||
      VipRegisterMem(nic, &descriptor, sizeof descriptor, nullptr, &its) != VIP_SUCCESS ||
      VipRegisterMem(nic, &received, sizeof received, nullptr, &received_handle) != VIP_SUCCESS ||
      VipRegisterMem(nic, room, sizeof room, nullptr, &rooms) != VIP_SUCCESS) {
    return "no set-up";
  }
  received.CS.SegCount = 1;
  received.CS.Length = kBytes;
  received.DS[0].Local.Data.Address = room;
  received.DS[0].Local.Handle = rooms;
  received.DS[0].Local.Length = kBytes;
  if (VipPostRecv(to, &received, received_handle) != VIP_SUCCESS || !connect(nic, from, to)) return "no connection";
  descriptor.CS.SegCount = 1;
  descriptor.CS.Length = kBytes;
  descriptor.DS[0].Local.Data.Address = page;
  descriptor.DS[0].Local.Handle = memory;
  descriptor.DS[0].Local.Length = kBytes;
  if (VipPostSend(from, &descriptor, its) != VIP_SUCCESS) return "no send";
  VIP_DESCRIPTOR* done = nullptr;
  result = VipSendWait(from, 30'000, &done);
  return std::string("sent: ") + VipxReturnText(result);
}

// Asks for sessions while the page with the bytes for the proof never comes. The main
// thread's stack may be in that page.
void ask(int file, const std::string& socket_name, unsigned count) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  socket_name.copy(address.sun_path, sizeof address.sun_path - 1);
  address.sun_path[0] = '\0';
  const auto bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + socket_name.size());
  control::Hello hello{};
  hello.head = control::MessageHead{};
  hello.head.kind = static_cast<std::uint16_t>(control::Kind::kHello);
  hello.head.bytes = sizeof hello;
  std::strcpy(hello.device, "nic0");
  hello.placement = static_cast<std::uint32_t>(control::Placement::kHosted);
  hello.proof.words[0] = 1;
  const std::uint64_t page = getauxval(AT_RANDOM) / kBytes * kBytes;
  if (mmap(reinterpret_cast<void*>(page), kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED, file, 0) ==
      MAP_FAILED) {
    fail("mmap");
  }
  std::vector<int> sockets;
  for (unsigned i = 0; i < count; ++i) {
    sockets.push_back(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    if (connect(sockets.back(), reinterpret_cast<const sockaddr*>(&address), bytes) != 0 ||
        send(sockets.back(), &hello, sizeof hello, 0) < 0) {
      fail("ask");
    }
  }
  dprintf(STDOUT_FILENO, "asked\n");
  for (const int each : sockets) {
    control::HelloAnswer answer{};
    if (recv(each, static_cast<void*>(&answer), sizeof answer, 0) <= 0) fail("answer");
    dprintf(STDOUT_FILENO, "answer: %.*s\n", static_cast<int>(sizeof answer.reason), answer.reason);
  }
  dprintf(STDOUT_FILENO, "done\n");
  for (;;) pause();
}

void run_user(int file, unsigned user, unsigned attempts) {
  const uid_t number = kFirstUser + user;
  if (setgroups(0, nullptr) != 0 || setresgid(number, number, number) != 0 || setresuid(number, number, number) != 0) {
    fail("setuid");
  }
  for (unsigned i = 0; i < attempts; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      const auto at = static_cast<off_t>((user * attempts + i) * kBytes);
      void* const page = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, at);
      if (page == MAP_FAILED) fail("mmap");
      const std::string text = attempt(page);
      std::printf("user %u attempt %u: %s\n", number, i, text.c_str());
      std::fflush(stdout);
      _exit(0);
    }
    waitpid(child, nullptr, 0);
  }
  _exit(0);
}

}  // namespace

int main(int count, char** values) {
  if (count != 4) return 2;
  const std::string folder = values[1], socket = values[2];
  const auto users = static_cast<unsigned>(std::atoi(values[2]));
  const auto attempts = static_cast<unsigned>(std::atoi(values[3]));
  mount_and_serve(folder);
  const int file = open((folder + "/file").c_str(), O_RDWR | O_CLOEXEC);
  if (file < 0) fail("open");
  if (socket[0] == '@') {
    __user_cap_header_struct head{_LINUX_CAPABILITY_VERSION_3, 0};
    const __user_cap_data_struct none[2]{};
    if (syscall(SYS_capset, &head, none) != 0) fail("capset");
    std::thread([&] { ask(file, socket, attempts); }).join();
  }
  std::vector<pid_t> children;
  for (unsigned user = 0; user < users; ++user) {
    children.push_back(fork());
    if (children.back() == 0) run_user(file, user, attempts);
  }
  for (const pid_t child : children) waitpid(child, nullptr, 0);
  std::printf("done\n");
  std::fflush(stdout);
  for (;;) pause();
}
