// One end of a load that can be verified, for `make storm` and `make soak`: it goes on for ever,
// whatever happens to its peer, its agent or the network, until it is killed.
//
//   load_tool LEDGER SLOT serve NUMBER LEVEL          waits for requests to "load NUMBER"
//   load_tool LEDGER SLOT ask HOST NUMBER LEVEL       connects to that on host 1, 2, ... of a lab
//
//   asker                                   server
//   message 0, 1, 2 ... --------------->    verifies, answers each with its number and checksum
//   verifies       <-------------------
//
// What is wrong with a message is seen and counted (load_message.h). When anything fails everything is
// closed and begun anew. LEVEL is rd or rr; ud is for no more than "at most once".
//
// LEDGER is a file of 64 slots of 16 counters (struct Ledger), mapped by all and by the watcher.
// `beats` rises at least every two seconds as long as no call hangs.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/storm/load_message.h"
#include "vipl/vipl_ext.h"

namespace {

using namespace load;

constexpr unsigned kReceives = 16;
constexpr VIP_ULONG kStepMs = 1000;  // no call may take longer than that and a little

struct alignas(64) Packet {
  VIP_DESCRIPTOR descriptor;
  unsigned char data[kBytes];
};

// A NIC, a VI and the memory of its messages. The memory outlives it, as a program's would.
class End {
 public:
  explicit End(VIP_RELIABILITY_LEVEL level) {
    if (VipOpenNic(const_cast<char*>("nic0"), &nic_) != VIP_SUCCESS) return;
    // The default handler would end the process.
    VipErrorCallback(nic_, nullptr, [](VIP_PVOID, VIP_ERROR_DESCRIPTOR*) {});
    ++ledger->opened;
    VIP_VI_ATTRIBUTES attributes = {};
    attributes.ReliabilityLevel = level;
    attributes.MaxTransferSize = kBytes;
    if (VipRegisterMem(nic_, packets(), sizeof(Packet) * kAll, nullptr, &memory_) != VIP_SUCCESS ||
        VipCreateVi(nic_, &attributes, nullptr, nullptr, &vi_) != VIP_SUCCESS) {
      return;
    }
    for (unsigned i = 0; i < kReceives; ++i) receive(packets()[i]);
    good_ = true;
  }
  ~End() {
    if (nic_ == nullptr) return;
    if (vi_ != nullptr) {
      VipDisconnect(vi_);
      VIP_DESCRIPTOR* done;
      while (VipRecvDone(vi_, &done) != VIP_NOT_DONE && done != nullptr) done = nullptr;
      done = nullptr;
      while (VipSendDone(vi_, &done) != VIP_NOT_DONE && done != nullptr) done = nullptr;
      VipDestroyVi(vi_);
    }
    if (memory_ != 0) VipDeregisterMem(nic_, packets(), memory_);
    VipCloseNic(nic_);
  }

  bool good() const { return good_; }
  VIP_NIC_HANDLE nic() const { return nic_; }
  VIP_VI_HANDLE vi() const { return vi_; }

  bool receive(Packet& packet) {
    set(packet, kBytes);
    return VipPostRecv(vi_, &packet.descriptor, memory_) == VIP_SUCCESS;
  }
  bool send(Packet& packet, std::uint32_t length) {
    set(packet, length);
    return VipPostSend(vi_, &packet.descriptor, memory_) == VIP_SUCCESS;
  }
  // The packets to send from go round; the oldest one is waited for.
  Packet* take_to_send() {
    if (sending_ == kWindow) {
      VIP_DESCRIPTOR* done = nullptr;
      const VIP_RETURN result = VipSendWait(vi_, kStepMs, &done);
      if (result != VIP_SUCCESS) {
        tell("a send does not complete", result, done == nullptr ? 0 : done->CS.Status);
        return nullptr;
      }
      --sending_;
    }
    ++sending_;
    return &packets()[kReceives + next_++ % kWindow];
  }

 private:
  static constexpr unsigned kAll = kReceives + kWindow;
  static Packet* packets() {
    static Packet all[kAll];
    return all;
  }
  void set(Packet& packet, std::uint32_t length) const {
    VIP_DESCRIPTOR& d = packet.descriptor;
    d.CS.SegCount = 1;
    d.CS.Control = VIP_CONTROL_OP_SENDRECV;
    d.CS.Length = length;
    d.DS[0].Local.Data.Address = packet.data;
    d.DS[0].Local.Handle = memory_;
    d.DS[0].Local.Length = length;
  }

  VIP_NIC_HANDLE nic_ = nullptr;
  VIP_VI_HANDLE vi_ = nullptr;
  VIP_MEM_HANDLE memory_ = 0;
  bool good_ = false;
  unsigned sending_ = 0, next_ = 0;
};

struct Address {
  alignas(VIP_NET_ADDRESS) unsigned char room[sizeof(VIP_NET_ADDRESS) + 64] = {};
  VIP_NET_ADDRESS* get() { return reinterpret_cast<VIP_NET_ADDRESS*>(room); }
  void set(const void* host, const std::string& discriminator) {
    get()->HostAddressLen = 6;
    std::memcpy(get()->HostAddress, host, 6);
    get()->DiscriminatorLen = static_cast<VIP_UINT16>(discriminator.size());
    std::memcpy(get()->HostAddress + 6, discriminator.data(), discriminator.size());
  }
};

// The next message, and its packet; null when there is none in time (`late`) or no more.
Packet* take(End& end, std::uint32_t& bytes, bool& late) {
  VIP_DESCRIPTOR* done = nullptr;
  const VIP_RETURN result = VipRecvWait(end.vi(), kStepMs, &done);
  late = result == VIP_TIMEOUT;
  if (late) return nullptr;
  if (result != VIP_SUCCESS || (done->CS.Status & VIP_STATUS_ERROR_MASK) != 0) {
    tell("a receive fails", result, done == nullptr ? 0 : done->CS.Status);
    return nullptr;
  }
  bytes = done->CS.Length;
  return reinterpret_cast<Packet*>(done);
}

void serve_connection(End& end, bool reliable) {
  std::uint64_t connection = 0, next = 0;
  for (unsigned idle = 0; idle < 60;) {
    ++ledger->beats;
    std::uint32_t bytes = 0;
    bool late = false;
    Packet* const packet = take(end, bytes, late);
    if (packet == nullptr && !late) return;
    if (packet == nullptr) {
      ++idle;
      continue;
    }
    idle = 0;
    Head head{};
    std::memcpy(&head, packet->data, std::min<std::size_t>(bytes, sizeof head));
    if (next == 0 && connection == 0) connection = head.connection;
    const bool order = reliable ? head.number == next : head.number >= next;
    if (bytes < sizeof head || head.connection != connection || !order) {
      return wrong("not the next message", head, connection, next);
    }
    if (!verify(packet->data, bytes, head)) {
      return wrong("changed message", head, connection, next);
    }
    next = head.number + 1;
    ++ledger->verified;
    ledger->verified_bytes += bytes;
    if (!end.receive(*packet)) return;
    Packet* const answer = end.take_to_send();
    if (answer == nullptr) return;
    std::memcpy(answer->data, &head, sizeof head);
    if (!end.send(*answer, sizeof head)) return;
  }
}

void serve(const std::string& number, VIP_RELIABILITY_LEVEL level) {
  End end(level);
  if (!end.good()) {
    ++ledger->refused;
    usleep(50'000);
    return;
  }
  VIP_NIC_ATTRIBUTES about;
  if (VipQueryNic(end.nic(), &about) != VIP_SUCCESS) return;
  Address local, remote;
  local.set(about.LocalNicAddress, "load " + number);
  for (;;) {
    ++ledger->beats;
    VIP_VI_ATTRIBUTES theirs;
    VIP_CONN_HANDLE request;
    std::memset(remote.room, 0, sizeof remote.room);
    remote.get()->DiscriminatorLen = 64;
    const VIP_RETURN result =
        VipConnectWait(end.nic(), local.get(), kStepMs, remote.get(), &theirs, &request);
    if (result == VIP_TIMEOUT) continue;
    if (result != VIP_SUCCESS || VipConnectAccept(request, end.vi()) != VIP_SUCCESS) return;
    break;
  }
  ++ledger->connections;
  serve_connection(end, level != VIP_SERVICE_UNRELIABLE);
  ++ledger->failures;
}

void ask_connection(End& end, std::uint64_t connection) {
  std::uint64_t sent = 0, answered = 0;
  std::uint32_t sums[kWindow] = {};
  unsigned idle = 0;
  for (;;) {
    ++ledger->beats;
    while (sent - answered < kWindow) {
      Packet* const packet = end.take_to_send();
      if (packet == nullptr) return;
      const std::uint32_t length = fill(packet->data, connection, sent);
      Head head;
      std::memcpy(&head, packet->data, sizeof head);
      sums[sent % kWindow] = head.checksum;
      if (!end.send(*packet, length)) return;
      ++sent;
      ++ledger->sent;
      ledger->sent_bytes += length;
    }
    std::uint32_t bytes = 0;
    bool late = false;
    Packet* const packet = take(end, bytes, late);
    if (packet == nullptr && late && ++idle < 15) continue;
    if (packet == nullptr && late) {
      // A reliable connection that is there and silent: no end may be left like that.
      ++ledger->unanswered;
      return;
    }
    if (packet == nullptr) return;
    idle = 0;
    Head head{};
    std::memcpy(&head, packet->data, std::min<std::size_t>(bytes, sizeof head));
    if (bytes != sizeof head || head.connection != connection || head.number != answered ||
        head.checksum != sums[answered % kWindow]) {
      return wrong("not the next answer", head, connection, answered);
    }
    ++answered;
    ++ledger->answered;
    if (!end.receive(*packet)) return;
  }
}

void ask(unsigned char host, const std::string& number, VIP_RELIABILITY_LEVEL level) {
  End end(level);
  if (!end.good()) {
    ++ledger->refused;
    usleep(50'000);
    return;
  }
  VIP_NIC_ATTRIBUTES about;
  if (VipQueryNic(end.nic(), &about) != VIP_SUCCESS) return;
  const unsigned char address[6] = {2, 0, 0, 0, 0, host};
  Address local, remote;
  local.set(about.LocalNicAddress, "asker " + number);
  remote.set(address, "load " + number);
  VIP_VI_ATTRIBUTES theirs;
  ++ledger->beats;
  if (VipConnectRequest(end.vi(), local.get(), remote.get(), kStepMs, &theirs) != VIP_SUCCESS) {
    ++ledger->refused;
    usleep(20'000);
    return;
  }
  ++ledger->connections;
  ask_connection(end, draw() | 1);
  ++ledger->failures;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 6) return 2;
  if (!open_ledger(argv[1], std::atoi(argv[2]))) return 2;
  const std::string what = argv[3];
  const std::string level = argv[what == "ask" ? 6 : 5];
  const VIP_RELIABILITY_LEVEL wanted = level == "rr"   ? VIP_SERVICE_RELIABLE_RECEPTION
                                       : level == "ud" ? VIP_SERVICE_UNRELIABLE
                                                       : VIP_SERVICE_RELIABLE_DELIVERY;
  for (;;) {
    ++ledger->beats;
    if (what == "serve") {
      serve(argv[4], wanted);
    } else {
      ask(static_cast<unsigned char>(std::atoi(argv[4])), argv[5], wanted);
    }
  }
}
