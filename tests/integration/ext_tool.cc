// The programs of vipl_ext.h's test on the hosts of a lab.
//
//   ext_tool serve CONNECTIONS           echoes messages; waits with VipxPoll alone
//   ext_tool poll HOST THREADS ROUNDS    threads on one CQ, each with a connection and a pipe of its
//                                        own; each message has an answer, and no thread may sleep
//                                        through it
//   ext_tool descriptors                 what VipxDescriptors says is what is open
//   ext_tool own PORT                    accepts a TCP connection, says which (as hex), claims it and
//                                        sends the token; takes the claim back for a byte
//   ext_tool trust HOST PORT             connects to that and verifies the claim, until it is taken
//                                        back
//   ext_tool pour HOST MESSAGES           sends messages of all sizes to `catch`
//   ext_tool catch                       receives them, redirected when it has to wait; compares all
//   ext_tool claim FLOW                  claims a connection that `own` has told
#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "vipl/vipl_ext.h"

namespace {

using std::chrono::microseconds;
using std::chrono::steady_clock;

constexpr std::uint32_t kBytes = 64;
constexpr unsigned kReceives = 8;  // posted on each VI
constexpr timespec kPatience{3, 0};

[[noreturn]] void fail(const std::string& what) {
  std::printf("%s\n", what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

void check(VIP_RETURN result, const char* what) {
  if (result != VIP_SUCCESS) fail(std::string(what) + ": " + VipxReturnText(result));
}

// A NIC, and memory for all messages.
struct Nic {
  Nic() {
    check(VipOpenNic("nic0", &nic), "VipOpenNic");
    check(VipNSInit(nic, nullptr), "VipNSInit");
    check(VipCreateCQ(nic, 1024, &cq), "VipCreateCQ");
  }
  ~Nic() { VipCloseNic(nic); }
  VIP_NIC_HANDLE nic = nullptr;
  VIP_CQ_HANDLE cq = nullptr;
};

struct Address {
  alignas(VIP_NET_ADDRESS) unsigned char room[sizeof(VIP_NET_ADDRESS) + 64] = {};
  VIP_NET_ADDRESS* get() { return reinterpret_cast<VIP_NET_ADDRESS*>(room); }
  void set(const void* host, const char* discriminator) {
    get()->HostAddressLen = 6;
    std::memcpy(get()->HostAddress, host, 6);
    get()->DiscriminatorLen = static_cast<VIP_UINT16>(std::strlen(discriminator));
    std::memcpy(get()->HostAddress + 6, discriminator, std::strlen(discriminator));
  }
};

struct alignas(64) Packet {
  VIP_DESCRIPTOR descriptor;
  unsigned char data[kBytes];
};

// A VI whose receives are announced on the NIC's CQ.
struct End {
  explicit End(Nic& nic) {
    VIP_VI_ATTRIBUTES attributes = {};
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = 4096;
    check(VipCreateVi(nic.nic, &attributes, nullptr, nic.cq, &vi), "VipCreateVi");
    check(VipRegisterMem(nic.nic, packets, sizeof packets, nullptr, &memory), "VipRegisterMem");
    for (unsigned i = 1; i <= kReceives; ++i) post(packets[i]);
  }
  void post(Packet& packet) {
    fill(packet);
    check(VipPostRecv(vi, &packet.descriptor, memory), "VipPostRecv");
  }
  void fill(Packet& packet) const {
    VIP_DESCRIPTOR& d = packet.descriptor;
    d.CS.SegCount = 1;
    d.CS.Control = VIP_CONTROL_OP_SENDRECV;
    d.CS.Length = kBytes;
    d.DS[0].Local.Data.Address = packet.data;
    d.DS[0].Local.Handle = memory;
    d.DS[0].Local.Length = kBytes;
  }
  void send() {
    VIP_DESCRIPTOR* done = nullptr;
    if (sending) {
      while (VipSendDone(vi, &done) == VIP_NOT_DONE) std::this_thread::yield();
    }
    sending = true;
    fill(packets[0]);
    check(VipPostSend(vi, &packets[0].descriptor, memory), "VipPostSend");
  }
  // Takes one message. False when the connection is over.
  bool take() {
    VIP_DESCRIPTOR* done = nullptr;
    if (VipRecvDone(vi, &done) != VIP_SUCCESS) return false;
    post(*reinterpret_cast<Packet*>(done));
    return true;
  }

  VIP_VI_HANDLE vi = nullptr;
  VIP_MEM_HANDLE memory = 0;
  bool sending = false;
  Packet packets[1 + kReceives] = {};
};

int serve(unsigned connections) {
  Nic nic;
  VIP_NIC_ATTRIBUTES about, told;
  check(VipQueryNic(nic.nic, &about), "VipQueryNic");
  check(VipxQueryDevice("nic0", &told), "VipxQueryDevice");
  if (std::strcmp(told.Name, about.Name) != 0 || told.MaxVI != about.MaxVI || told.LocalNicAddress != nullptr ||
      told.MaxDescriptorsPerQueue != about.MaxDescriptorsPerQueue || told.MaxTransferSize != about.MaxTransferSize) {
    fail("VipxQueryDevice tells something else than VipQueryNic");
  }
  if (VipxQueryDevice("nic99", &told) != VIP_INVALID_PARAMETER || VipxQueryDevice(nullptr, &told) != VIP_INVALID_PARAMETER ||
      VipxQueryDevice("nic0", nullptr) != VIP_INVALID_PARAMETER) {
    fail("VipxQueryDevice knows a NIC that is not there");
  }
  Address local, remote;
  local.set(about.LocalNicAddress, "ext");
  std::vector<std::unique_ptr<End>> ends;
  std::printf("waiting\n");
  std::fflush(stdout);
  for (unsigned i = 0; i < connections; ++i) {
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;
    std::memset(remote.room, 0, sizeof remote.room);
    remote.get()->DiscriminatorLen = 64;
    check(VipConnectWait(nic.nic, local.get(), 20'000, remote.get(), &theirs, &request),
          "VipConnectWait");
    ends.push_back(std::make_unique<End>(nic));
    check(VipConnectAccept(request, ends.back()->vi), "VipConnectAccept");
  }
  std::set<VIP_VI_HANDLE> open;
  for (const auto& end : ends) open.insert(end->vi);
  while (!open.empty()) {
    VIP_VI_HANDLE whose;
    VIP_BOOLEAN receive;
    const VIP_RETURN result = VipCQDone(nic.cq, &whose, &receive);
    if (result == VIP_NOT_DONE) {
      if (VipxPoll(nic.cq, nullptr, 0, nullptr, nullptr) < 0) fail("VipxPoll of the server");
      continue;
    }
    check(result, "VipCQDone");
    for (const auto& end : ends) {
      if (end->vi != whose) continue;
      if (end->take()) {
        end->send();
      } else {
        open.erase(whose);
      }
    }
  }
  std::printf("served\n");
  return 0;
}

// ---------------------------------------------------------------------------- the threads

class Pollers {
 public:
  Pollers(const char* host, unsigned threads) : count_(threads), answers_(threads) {
    VIP_NIC_ATTRIBUTES about;
    check(VipQueryNic(nic_.nic, &about), "VipQueryNic");
    Address local, remote, found;
    check(VipNSGetHostByName(nic_.nic, const_cast<char*>(host), found.get(), 0),
          "VipNSGetHostByName");
    remote.set(found.get()->HostAddress, "ext");
    for (unsigned t = 0; t < threads; ++t) {
      local.set(about.LocalNicAddress, ("from " + std::to_string(t)).c_str());
      ends_.push_back(std::make_unique<End>(nic_));
      VIP_VI_ATTRIBUTES theirs;
      check(VipConnectRequest(ends_[t]->vi, local.get(), remote.get(), 10'000, &theirs),
            "VipConnectRequest");
      std::array<int, 2> pipe;
      if (pipe2(pipe.data(), O_CLOEXEC | O_NONBLOCK) != 0) fail("pipe");
      pipes_.push_back(pipe);
    }
  }

  void run(unsigned rounds) {
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < count_; ++t) threads.emplace_back([=, this] { work(t, rounds); });
    for (std::thread& thread : threads) thread.join();
    std::sort(waits_.begin(), waits_.end());
    std::printf("rounds %zu median %ld p99 %ld longest %ld us\n", waits_.size(),
                static_cast<long>(waits_[waits_.size() / 2].count()),
                static_cast<long>(waits_[waits_.size() * 99 / 100].count()),
                static_cast<long>(waits_.back().count()));
  }

 private:
  void work(unsigned self, unsigned rounds) {
    std::mt19937 random(self);
    std::vector<microseconds> waits;
    for (unsigned round = 1; round <= rounds; ++round) {
      const auto begin = steady_clock::now();
      ends_[self]->send();
      while (answers_[self] < round) {
        if (take_one(self)) continue;
        pollfd fd = {pipes_[self][0], POLLIN, 0};
        const auto slept = steady_clock::now();
        const int ready = VipxPoll(nic_.cq, &fd, 1, &kPatience, nullptr);
        if (ready < 0) fail("VipxPoll: " + std::string(std::strerror(errno)));
        if (steady_clock::now() - slept >= std::chrono::seconds(kPatience.tv_sec)) {
          fail("thread " + std::to_string(self) + " has slept through an answer");
        }
        char told[64];
        if (ready == 1 && read(pipes_[self][0], told, sizeof told) < 1) fail("the pipe was empty");
      }
      waits.push_back(std::chrono::duration_cast<microseconds>(steady_clock::now() - begin));
      // Now and then the others must do without this thread.
      if (random() % 16 == 0) busy(microseconds(random() % 3000));
      if (random() % 16 == 0) std::this_thread::sleep_for(microseconds(random() % 3000));
    }
    const std::lock_guard lock(mutex_);
    waits_.insert(waits_.end(), waits.begin(), waits.end());
  }

  static void busy(microseconds time) {
    const auto until = steady_clock::now() + time;
    while (steady_clock::now() < until) continue;
  }

  // Takes an answer, whosever it is.
  bool take_one(unsigned self) {
    VIP_VI_HANDLE whose;
    VIP_BOOLEAN receive;
    {
      // So that the answers of one VI are taken in order.
      const std::lock_guard lock(mutex_);
      const VIP_RETURN result = VipCQDone(nic_.cq, &whose, &receive);
      if (result == VIP_NOT_DONE) return false;
      check(result, "VipCQDone");
      for (unsigned t = 0; t < count_; ++t) {
        if (ends_[t]->vi != whose) continue;
        if (!ends_[t]->take()) fail("a connection was lost");
        ++answers_[t];
        if (t != self && write(pipes_[t][1], "", 1) != 1) fail("write");
      }
    }
    return true;
  }

  Nic nic_;
  const unsigned count_;
  std::vector<std::unique_ptr<End>> ends_;
  std::vector<std::array<int, 2>> pipes_;
  std::vector<std::atomic<unsigned>> answers_;
  std::mutex mutex_;
  std::vector<microseconds> waits_;
};

std::set<int> open_files() {
  std::set<int> out;
  DIR* const directory = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(directory)) {
    const int fd = std::atoi(entry->d_name);
    if (entry->d_name[0] != '.' && fd != dirfd(directory)) out.insert(fd);
  }
  closedir(directory);
  return out;
}

int descriptors() {
  const std::set<int> before = open_files();
  Nic nic;
  const timespec moment{0, 1'000'000};
  VipxPoll(nic.cq, nullptr, 0, &moment, nullptr);
  std::vector<int> told(64);
  told.resize(static_cast<std::size_t>(VipxDescriptors(told.data(), 64)));
  std::set<int> expected = before;
  expected.insert(told.begin(), told.end());
  if (open_files() != expected || expected.size() != before.size() + told.size()) {
    fail("other descriptors are open than are told");
  }
  for (const int fd : told) {
    if (fd < 700) fail("descriptor " + std::to_string(fd) + " is in the way");
  }
  std::printf("%zu descriptors\n", told.size());
  return 0;
}

// ---------------------------------------------------------------------------- redirected receives

constexpr std::uint32_t kMost = 32768;
constexpr unsigned kWindow = 8;  // messages that may be under way

std::uint32_t length_of(unsigned message) {
  return message % 3 == 0 ? message * 37 % 600 : message * 7919 % kMost;
}
unsigned char byte_of(unsigned message, std::uint32_t at) {
  return static_cast<unsigned char>(message * 131 + at * 7 + (at >> 8));
}

// A VI with kWindow buffers for each direction, and one to redirect to.
struct Stream {
  explicit Stream(Nic& nic) : memory(kBuffers * kMost), packets(2 * kWindow) {
    VIP_VI_ATTRIBUTES attributes = {};
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = kMost;
    check(VipCreateVi(nic.nic, &attributes, nullptr, nullptr, &vi), "VipCreateVi");
    check(VipRegisterMem(nic.nic, memory.data(), memory.size(), nullptr, &region), "VipRegisterMem");
    check(VipRegisterMem(nic.nic, packets.data(), packets.size() * sizeof packets[0], nullptr,
                         &headers), "VipRegisterMem");
  }
  unsigned char* buffer(unsigned i) { return memory.data() + std::size_t{i} * kMost; }
  VIP_DESCRIPTOR* fill(unsigned i, std::uint32_t length) {
    VIP_DESCRIPTOR& d = packets[i].descriptor;
    d.CS.SegCount = 1;
    d.CS.Control = VIP_CONTROL_OP_SENDRECV;
    d.CS.Length = length;
    d.DS[0].Local.Data.Address = buffer(i);
    d.DS[0].Local.Handle = region;
    d.DS[0].Local.Length = length;
    return &d;
  }

  static constexpr unsigned kBuffers = 2 * kWindow + 1;
  VIP_VI_HANDLE vi = nullptr;
  VIP_MEM_HANDLE region = 0, headers = 0;
  std::vector<unsigned char> memory;
  std::vector<Packet> packets;
};

// The first kWindow buffers are for data, the others for credits.
int pour(const char* host, unsigned messages) {
  Nic nic;
  Stream stream(nic);
  VIP_NIC_ATTRIBUTES about;
  check(VipQueryNic(nic.nic, &about), "VipQueryNic");
  Address local, remote, found;
  check(VipNSGetHostByName(nic.nic, const_cast<char*>(host), found.get(), 0), "name");
  local.set(about.LocalNicAddress, "pour");
  remote.set(found.get()->HostAddress, "catch");
  for (unsigned i = 0; i < kWindow; ++i) {
    check(VipPostRecv(stream.vi, stream.fill(kWindow + i, 16), stream.headers), "VipPostRecv");
  }
  VIP_VI_ATTRIBUTES theirs;
  check(VipConnectRequest(stream.vi, local.get(), remote.get(), 10'000, &theirs), "connect");
  VIP_DESCRIPTOR* done = nullptr;
  for (unsigned message = 0; message < messages; ++message) {
    if (message >= kWindow) {
      check(VipRecvWait(stream.vi, 10'000, &done), "waiting for a credit");
      check(VipPostRecv(stream.vi, done, stream.headers), "VipPostRecv");
      check(VipSendWait(stream.vi, 10'000, &done), "VipSendWait");
    }
    const std::uint32_t length = length_of(message);
    VIP_DESCRIPTOR* const d = stream.fill(message % kWindow, length);
    for (std::uint32_t i = 0; i < length; ++i) {
      stream.buffer(message % kWindow)[i] = byte_of(message, i);
    }
    d->CS.Control |= VIP_CONTROL_IMMEDIATE;
    d->CS.ImmediateData = message + 1 == messages;
    check(VipPostSend(stream.vi, d, stream.headers), "VipPostSend");
  }
  for (unsigned i = 0; i < kWindow; ++i) {
    check(VipRecvWait(stream.vi, 10'000, &done), "waiting for the last credits");
  }
  std::printf("poured\n");
  return 0;
}

int catch_all() {
  Nic nic;
  Stream stream(nic);
  VIP_NIC_ATTRIBUTES about;
  check(VipQueryNic(nic.nic, &about), "VipQueryNic");
  Address local, remote;
  local.set(about.LocalNicAddress, "catch");
  for (unsigned i = 0; i < kWindow; ++i) {
    check(VipPostRecv(stream.vi, stream.fill(i, kMost), stream.headers), "VipPostRecv");
  }
  std::printf("waiting\n");
  std::fflush(stdout);
  VIP_VI_ATTRIBUTES theirs;
  VIP_CONN_HANDLE request;
  remote.get()->DiscriminatorLen = 64;
  check(VipConnectWait(nic.nic, local.get(), 20'000, remote.get(), &theirs, &request), "wait");
  check(VipConnectAccept(request, stream.vi), "VipConnectAccept");
  unsigned char* const elsewhere = stream.buffer(2 * kWindow);
  std::mt19937 random(1);
  unsigned redirected = 0, taken_back = 0;
  bool last = false;
  unsigned message = 0;
  for (; !last; ++message) {
    VIP_DESCRIPTOR* done = nullptr;
    VIP_RETURN result = VipRecvDone(stream.vi, &done);
    bool there = false;
    while (result == VIP_NOT_DONE) {
      const VIP_RETURN to = VipxRedirect(stream.vi, elsewhere, stream.region, kMost);
      if (to != VIP_SUCCESS && to != VIP_NOT_DONE) check(to, "VipxRedirect");
      // Sometimes for a moment only.
      for (unsigned looks = random() % 2 == 0 ? 1'000'000 : static_cast<unsigned>(random() % 50); looks != 0; --looks) {
        result = VipRecvDone(stream.vi, &done);
        if (result != VIP_NOT_DONE) break;
      }
      if (to != VIP_SUCCESS) continue;
      const VIP_RETURN back = VipxUnredirect(stream.vi);
      if (back == VIP_SUCCESS) {
        there = true;
        if (result == VIP_NOT_DONE) result = VipRecvDone(stream.vi, &done);
      } else {
        if (back != VIP_NOT_DONE) check(back, "VipxUnredirect");
        std::memset(elsewhere, 0xee, kMost);
        ++taken_back;
      }
    }
    check(result, "VipRecvDone");
    redirected += there;
    const std::uint32_t length = done->CS.Length;
    if (length != length_of(message)) fail("message " + std::to_string(message) + ": its length");
    const unsigned char* const at = there ? elsewhere : stream.buffer(message % kWindow);
    for (std::uint32_t i = 0; i < length; ++i) {
      if (at[i] != byte_of(message, i)) {
        fail("message " + std::to_string(message) + ", byte " + std::to_string(i) +
             (there ? " elsewhere" : ""));
      }
    }
    last = done->CS.ImmediateData != 0;
    check(VipPostRecv(stream.vi, stream.fill(message % kWindow, kMost), stream.headers), "post");
    VIP_DESCRIPTOR* sent = nullptr;
    if (message >= kWindow) check(VipSendWait(stream.vi, 10'000, &sent), "VipSendWait");
    VIP_DESCRIPTOR* const credit = stream.fill(kWindow + message % kWindow, 0);
    // Some are held for a moment: they leave all the same, and in order.
    const bool held = message % 2 == 0;
    if (held) check(VipxHoldPosts(nic.nic, VIP_TRUE), "VipxHoldPosts");
    check(VipPostSend(stream.vi, credit, stream.headers), "VipPostSend");
    if (held) check(VipxHoldPosts(nic.nic, VIP_FALSE), "VipxHoldPosts");
  }
  for (unsigned i = 0; i < kWindow; ++i) {
    VIP_DESCRIPTOR* sent = nullptr;
    check(VipSendWait(stream.vi, 10'000, &sent), "VipSendWait");
  }
  std::printf("caught %u redirected %u taken back %u\n", message, redirected, taken_back);
  return redirected > message / 20 && taken_back > message / 100 ? 0 : 1;
}

// ---------------------------------------------------------------------------- claims

void end_of(const sockaddr_in6& address, VIP_UINT16& port, VIP_UINT8 (&bytes)[16]) {
  if (address.sin6_family == AF_INET6) {
    port = address.sin6_port;
    std::memcpy(bytes, &address.sin6_addr, 16);
  } else {
    const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
    port = ipv4.sin_port;
    std::memcpy(bytes, &ipv4.sin_addr, 4);
  }
}

VipxFlow flow_of(int connection) {
  VipxFlow flow = {};
  sockaddr_in6 local{}, remote{};
  socklen_t bytes = sizeof local;
  getsockname(connection, reinterpret_cast<sockaddr*>(&local), &bytes);
  bytes = sizeof remote;
  getpeername(connection, reinterpret_cast<sockaddr*>(&remote), &bytes);
  flow.Family = local.sin6_family;
  end_of(local, flow.LocalPort, flow.LocalAddress);
  end_of(remote, flow.RemotePort, flow.RemoteAddress);
  return flow;
}

// As in SOVIA's servers, the socket may be one of IPv6 though the connection is not.
int own(const char* port) {
  const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int one = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  sockaddr_in6 address{};
  address.sin6_family = AF_INET6;
  address.sin6_port = htons(static_cast<std::uint16_t>(std::atoi(port)));
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      listen(listener, 1) != 0) {
    fail("listen");
  }
  std::printf("listening\n");
  std::fflush(stdout);
  Nic nic;
  const int connection = accept(listener, nullptr, nullptr);
  const VipxFlow flow = flow_of(connection);
  std::printf("flow ");
  for (std::size_t i = 0; i < sizeof flow; ++i) {
    std::printf("%02x", reinterpret_cast<const unsigned char*>(&flow)[i]);
  }
  std::printf("\n");
  std::fflush(stdout);
  unsigned char token[VIPX_TOKEN_BYTES];
  check(VipxClaim(nic.nic, &flow, token), "VipxClaim");
  if (write(connection, token, sizeof token) != sizeof token) fail("write");
  char end;
  while (read(connection, &end, 1) > 0) check(VipxUnclaim(nic.nic, token), "VipxUnclaim");
  return 0;
}

int trust(const char* host, const char* port) {
  Nic nic;
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host, port, &hints, &found) != 0) fail("getaddrinfo");
  const int connection = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (connect(connection, found->ai_addr, found->ai_addrlen) != 0) fail("connect");
  unsigned char token[VIPX_TOKEN_BYTES];
  if (recv(connection, token, sizeof token, MSG_WAITALL) != sizeof token) fail("no token came");
  Address address;
  check(VipNSGetHostByName(nic.nic, const_cast<char*>(host), address.get(), 0),
        "VipNSGetHostByName");
  const VipxFlow flow = flow_of(connection);
  const auto begin = steady_clock::now();
  check(VipxVerify(nic.nic, address.get(), &flow, token), "VipxVerify");
  const auto took = std::chrono::duration_cast<microseconds>(steady_clock::now() - begin);
  std::printf("good in %ld us\n", static_cast<long>(took.count()));
  std::fflush(stdout);
  token[7] ^= 1;
  if (VipxVerify(nic.nic, address.get(), &flow, token) != VIP_ERROR_NAMESERVICE) {
    fail("another token is good too");
  }
  token[7] ^= 1;
  // The other end is asked to take it back.
  if (write(connection, "", 1) != 1) fail("write");
  for (int i = 0; VipxVerify(nic.nic, address.get(), &flow, token) == VIP_SUCCESS; ++i) {
    if (i == 1000) fail("the claim was not taken back");
    std::this_thread::sleep_for(microseconds(1000));
  }
  std::printf("taken back\n");
  return 0;
}

int claim(const std::string& hex) {
  Nic nic;
  VipxFlow flow = {};
  for (std::size_t i = 0; i < sizeof flow && 2 * i + 1 < hex.size(); ++i) {
    reinterpret_cast<unsigned char*>(&flow)[i] =
        static_cast<unsigned char>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  unsigned char token[VIPX_TOKEN_BYTES];
  const VIP_RETURN result = VipxClaim(nic.nic, &flow, token);
  std::printf("%s\n", result == VIP_SUCCESS              ? "claimed"
                      : result == VIP_ERROR_NAMESERVICE ? "refused"
                                                        : VipxReturnText(result));
  return result == VIP_SUCCESS ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string what = argc > 1 ? argv[1] : "";
  if (what == "serve" && argc == 3) return serve(static_cast<unsigned>(std::atoi(argv[2])));
  if (what == "poll" && argc == 5) {
    Pollers(argv[2], static_cast<unsigned>(std::atoi(argv[3])))
        .run(static_cast<unsigned>(std::atoi(argv[4])));
    return 0;
  }
  if (what == "descriptors") return descriptors();
  if (what == "catch") return catch_all();
  if (what == "pour" && argc == 4) return pour(argv[2], static_cast<unsigned>(std::atoi(argv[3])));
  if (what == "own" && argc == 3) return own(argv[2]);
  if (what == "trust" && argc == 4) return trust(argv[2], argv[3]);
  if (what == "claim" && argc == 3) return claim(argv[2]);
  std::fprintf(stderr, "ext_tool: see the source\n");
  return 2;
}
