// A VI with memory of its own, and messages that name their sender: for the tests of processes that attach.
#ifndef VIADUCT_TESTS_INTEGRATION_FORK_END_H
#define VIADUCT_TESTS_INTEGRATION_FORK_END_H

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "vipl/vipl_ext.h"

inline constexpr std::uint32_t kMost = 20000;  // bytes of a message
inline constexpr unsigned kReceives = 4;       // posted on each VI
inline constexpr unsigned kPatience = 10000;   // ms, for what must come
inline constexpr char kChildren[] = "children", kParent[] = "parent";

[[noreturn]] inline void fail(const std::string& what) {
  std::printf("process %d: %s\n", getpid(), what.c_str());
  std::fflush(stdout);
  std::_Exit(1);
}

inline void check(VIP_RETURN result, const std::string& what, VIP_RETURN wanted = VIP_SUCCESS) {
  if (result != wanted) fail(what + ": " + VipxReturnText(result));
}

inline void check(bool holds, const std::string& what) {
  if (!holds) fail("not so: " + what);
}

inline std::atomic<unsigned> g_lost;  // how often the error handler heard that the NIC is gone

inline void on_error(VIP_PVOID, VIP_ERROR_DESCRIPTOR* error) {
  if (error->ResourceCode == VIP_RESOURCE_NIC) ++g_lost;
}

inline VIP_NIC_HANDLE open_nic() {
  VIP_NIC_HANDLE nic = nullptr;
  check(VipOpenNic("nic0", &nic), "VipOpenNic");
  check(VipNSInit(nic, nullptr), "VipNSInit");
  check(VipErrorCallback(nic, nullptr, on_error), "VipErrorCallback");
  return nic;
}

struct Address {
  alignas(VIP_NET_ADDRESS) unsigned char room[sizeof(VIP_NET_ADDRESS) + 64] = {};
  VIP_NET_ADDRESS* get() { return reinterpret_cast<VIP_NET_ADDRESS*>(room); }
  void name(const char* discriminator) {
    get()->DiscriminatorLen = static_cast<VIP_UINT16>(std::strlen(discriminator));
    std::memcpy(get()->HostAddress + get()->HostAddressLen, discriminator,
                std::strlen(discriminator));
  }
};

inline Address local(VIP_NIC_HANDLE nic, const char* discriminator) {
  VIP_NIC_ATTRIBUTES attributes;
  check(VipQueryNic(nic, &attributes), "VipQueryNic");
  Address out;
  out.get()->HostAddressLen = 6;
  std::memcpy(out.get()->HostAddress, attributes.LocalNicAddress, 6);
  out.name(discriminator);
  return out;
}

inline Address remote(VIP_NIC_HANDLE nic, const std::string& host, const char* discriminator) {
  Address out;
  std::string text = host;
  check(VipNSGetHostByName(nic, text.data(), out.get(), 0), "VipNSGetHostByName");
  out.name(discriminator);
  return out;
}

struct alignas(64) Packet {
  VIP_DESCRIPTOR descriptor;
  unsigned char data[kMost];
};

// A message: its sender, its number, its length, and bytes that follow from these.
struct Head {
  std::uint32_t process, number, bytes;
};

inline unsigned char byte_at(const Head& head, std::uint32_t i) {
  return static_cast<unsigned char>(head.process * 7 + head.number * 13 + i);
}

inline void compose(Packet& packet, std::uint32_t number, std::uint32_t bytes) {
  const Head head{static_cast<std::uint32_t>(getpid()), number, bytes};
  std::memcpy(packet.data, &head, sizeof head);
  for (std::uint32_t i = sizeof head; i < bytes; ++i) packet.data[i] = byte_at(head, i);
}

inline Head judge(const Packet& packet) {
  Head head;
  std::memcpy(&head, packet.data, sizeof head);
  if (packet.descriptor.CS.Length != head.bytes) {
    fail("message " + std::to_string(head.number) + " of " + std::to_string(head.process) + " has " +
         std::to_string(packet.descriptor.CS.Length) + " bytes and says " +
         std::to_string(head.bytes));
  }
  for (std::uint32_t i = sizeof head; i < head.bytes; ++i) {
    if (packet.data[i] != byte_at(head, i)) fail("a message has other bytes than it should");
  }
  return head;
}

// A VI with memory of its own.
struct End {
  explicit End(VIP_NIC_HANDLE of, VIP_CQ_HANDLE cq = nullptr) : nic(of) {
    VIP_VI_ATTRIBUTES attributes = {};
    attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
    attributes.MaxTransferSize = kMost;
    attributes.EnableRdmaWrite = VIP_TRUE;
    check(VipCreateVi(nic, &attributes, nullptr, cq, &vi), "VipCreateVi");
    packets = static_cast<Packet*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    check(VipRegisterMem(nic, packets, kBytes, nullptr, &memory), "VipRegisterMem");
    for (unsigned i = 1; i <= kReceives; ++i) receive(packets[i]);
  }
  void fill(Packet& packet, std::uint32_t bytes, VIP_MEM_HANDLE its) const {
    VIP_DESCRIPTOR& d = packet.descriptor;
    std::memset(&d, 0, sizeof d);
    d.CS.SegCount = 1;
    d.CS.Control = VIP_CONTROL_OP_SENDRECV;
    d.CS.Length = bytes;
    d.DS[0].Local.Data.Address = packet.data;
    d.DS[0].Local.Handle = its;
    d.DS[0].Local.Length = bytes;
  }
  void receive(Packet& packet) {
    fill(packet, kMost, memory);
    check(VipPostRecv(vi, &packet.descriptor, memory), "VipPostRecv");
  }
  VIP_RETURN send(std::uint32_t number, std::uint32_t bytes) {
    compose(packets[0], number, bytes);
    fill(packets[0], bytes, memory);
    check(VipPostSend(vi, &packets[0].descriptor, memory), "VipPostSend");
    VIP_DESCRIPTOR* done = nullptr;
    return VipSendWait(vi, kPatience, &done);
  }
  // nullptr: the connection is over.
  Packet* take(VIP_ULONG timeout = kPatience) {
    VIP_DESCRIPTOR* done = nullptr;
    const VIP_RETURN result = VipRecvWait(vi, timeout, &done);
    if (result == VIP_SUCCESS) return reinterpret_cast<Packet*>(done);
    if (result != VIP_DESCRIPTOR_ERROR) fail(std::string("VipRecvWait: ") + VipxReturnText(result));
    return nullptr;
  }
  bool accept(const char* discriminator) {
    Address here = local(nic, discriminator), there;
    VIP_VI_ATTRIBUTES attributes;
    VIP_CONN_HANDLE connection = nullptr;
    const VIP_RETURN waited =
        VipConnectWait(nic, here.get(), kPatience, there.get(), &attributes, &connection);
    if (waited == VIP_TIMEOUT) return false;
    check(waited, "VipConnectWait");
    const VIP_RETURN accepted = VipConnectAccept(connection, vi);
    if (accepted == VIP_TIMEOUT) return false;
    check(accepted, "VipConnectAccept");
    return true;
  }
  bool request(const std::string& host, const char* discriminator) {
    Address here = local(nic, "client"), there = remote(nic, host, discriminator);
    VIP_VI_ATTRIBUTES attributes;
    const VIP_RETURN result = VipConnectRequest(vi, here.get(), there.get(), kPatience, &attributes);
    if (result != VIP_SUCCESS && result != VIP_REJECT && result != VIP_NO_MATCH) {
      check(result, "VipConnectRequest");
    }
    return result == VIP_SUCCESS;
  }
  void destroy() {
    VipDisconnect(vi);
    VIP_DESCRIPTOR* done;
    do VipRecvDone(vi, &done);
    while (done != nullptr);
    do VipSendDone(vi, &done);
    while (done != nullptr);
    check(VipDestroyVi(vi), "VipDestroyVi");
  }
  void forget() {
    check(VipDeregisterMem(nic, packets, memory), "VipDeregisterMem");
    munmap(packets, kBytes);
  }
  static constexpr std::size_t kBytes = sizeof(Packet) * (1 + kReceives);
  VIP_NIC_HANDLE nic;
  VIP_VI_HANDLE vi = nullptr;
  Packet* packets;
  VIP_MEM_HANDLE memory = 0;
};

// Answers each message with one of the same number and length, until the peer has gone.
inline void answer(End& end) {
  while (Packet* const packet = end.take()) {
    const Head head = judge(*packet);
    end.receive(*packet);
    if (end.send(head.number, head.bytes) != VIP_SUCCESS) return;
  }
}

inline void attach_and_take(End& end) {
  check(VipxAttach(end.nic), "VipxAttach");
  check(VipxTakeVi(end.vi), "VipxTakeVi");
}

#endif
