#include "tests/scale/limits.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "tests/scale/link.h"
#include "vipl/vipl_ext.h"

namespace scale {
namespace {

using Make = std::function<VIP_RETURN(std::uint64_t number)>;
using Unmake = std::function<VIP_RETURN(std::uint64_t number)>;

constexpr std::uint32_t kPairs = 0x5ca1e002;  // discriminator
constexpr VIP_ULONG kPatienceMs = 20000;

bool say(bool right, const char* what, std::uint64_t limit, const char* how) {
  std::printf("%s: %s %llu %s\n", right ? "ok" : "not ok", what,
              static_cast<unsigned long long>(limit), how);
  std::fflush(stdout);
  return right;
}

// Makes things until that fails and unmakes all of them, twice: there must be `limit` both times.
bool check(const char* what, std::uint64_t limit, const Make& make, const Unmake& unmake) {
  for (int round = 1; round <= 2; ++round) {
    std::uint64_t made = 0;
    VIP_RETURN code;
    while ((code = make(made)) == VIP_SUCCESS && made < limit) ++made;
    if (code == VIP_SUCCESS) return say(false, what, limit, "can be exceeded");
    const bool right = made == limit && code == VIP_ERROR_RESOURCE;
    bool undone = true;
    for (std::uint64_t i = 0; i < made; ++i) undone &= unmake(i) == VIP_SUCCESS;
    if (!right) {
      std::printf("  round %d: %llu made, then %d\n", round, static_cast<unsigned long long>(made),
                  static_cast<int>(code));
      return say(false, what, limit, round == 1 ? "is not what holds" : "is leaked");
    }
    if (!undone) return say(false, what, limit, "can't be given back");
  }
  return say(true, what, limit, "holds, twice");
}

bool check_vis(const Nic& nic, const char* what, std::uint64_t limit) {
  std::vector<VIP_VI_HANDLE> vis(limit + 1);
  VIP_VI_ATTRIBUTES plain = {};
  plain.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  plain.MaxTransferSize = 4096;
  return check(
      what, limit,
      [&](std::uint64_t i) { return VipCreateVi(nic.get(), &plain, nullptr, nullptr, &vis[i]); },
      [&](std::uint64_t i) { return VipDestroyVi(vis[i]); });
}

bool check_objects(const Nic& nic) {
  const VIP_NIC_ATTRIBUTES& limits = nic.attributes();
  const VIP_NIC_HANDLE handle = nic.get();
  bool right = check_vis(nic, "MaxVI", limits.MaxVI);
  std::vector<VIP_CQ_HANDLE> cqs(limits.MaxCQ + 1);
  right &= check(
      "MaxCQ", limits.MaxCQ,
      [&](std::uint64_t i) { return VipCreateCQ(handle, 1, &cqs[i]); },
      [&](std::uint64_t i) { return VipDestroyCQ(cqs[i]); });
  std::vector<VIP_PROTECTION_HANDLE> ptags(limits.MaxPtags + 1);
  right &= check(
      "MaxPtags", limits.MaxPtags,
      [&](std::uint64_t i) { return VipCreatePtag(handle, &ptags[i]); },
      [&](std::uint64_t i) { return VipDestroyPtag(handle, ptags[i]); });
  return right;
}

// Registering touches no memory, so that addresses need not exist.
bool check_regions(const Nic& nic, const char* what, std::uint64_t count, VIP_ULONG bytes) {
  std::vector<VIP_MEM_HANDLE> regions(count + 1);
  auto* const anywhere = reinterpret_cast<char*>(0x10000);
  return check(
      what, count,
      [&](std::uint64_t i) {
        return VipRegisterMem(nic.get(), anywhere, bytes, nullptr, &regions[i]);
      },
      [&](std::uint64_t i) { return VipDeregisterMem(nic.get(), anywhere, regions[i]); });
}

bool check_memory(const Nic& nic) {
  const VIP_NIC_ATTRIBUTES& limits = nic.attributes();
  bool right = check_regions(nic, "MaxRegisterRegions", limits.MaxRegisterRegions, 1);
  const VIP_ULONG block = limits.MaxRegisterBlockBytes;
  VIP_MEM_HANDLE memory;
  const bool too_large = VipRegisterMem(nic.get(), reinterpret_cast<char*>(0x10000), block + 1,
                                        nullptr, &memory) == VIP_ERROR_RESOURCE;
  right &= say(too_large, "MaxRegisterBlockBytes", block, "can't be exceeded");
  right &= check_regions(nic, "MaxRegisterBytes, in blocks of the largest size,",
                         limits.MaxRegisterBytes / block, block);
  constexpr std::uint64_t kParts = 1024;
  right &= check_regions(nic, "MaxRegisterBytes, in parts,", kParts,
                         limits.MaxRegisterBytes / kParts);
  return right;
}

// Objects of another handle count against the limits, and come back when it is closed.
bool check_shared(const std::string& device, const Nic& nic) {
  constexpr std::uint64_t kTaken = 100;
  {
    const Nic other(device);
    for (std::uint64_t i = 0; i < kTaken; ++i) other.create_vi();
    if (!check_vis(nic, "MaxVI, beside another handle's,", nic.attributes().MaxVI - kTaken)) {
      return false;
    }
  }
  return check_vis(nic, "MaxVI, after VipCloseNic of a handle with VIs,", nic.attributes().MaxVI);
}

// How many handles there can be is not stated, but running out of them must not leak.
bool check_handles(const std::string& device) {
  constexpr std::size_t kMost = 2000;
  std::size_t counts[3];
  bool right = true;
  for (std::size_t& count : counts) {
    std::vector<VIP_NIC_HANDLE> handles;
    VIP_NIC_HANDLE handle;
    VIP_RETURN code;
    while ((code = VipOpenNic(device.c_str(), &handle)) == VIP_SUCCESS && handles.size() < kMost) {
      handles.push_back(handle);
    }
    right &= code == VIP_ERROR_RESOURCE;
    count = handles.size();
    std::printf("%zu handles, then %s\n", count, VipxReturnText(code));
    for (const VIP_NIC_HANDLE open : handles) right &= VipCloseNic(open) == VIP_SUCCESS;
  }
  right &= counts[0] > 0 && counts[0] == counts[1] && counts[0] == counts[2];
  return say(right, "NIC handles", counts[0], "at once, thrice");
}

// ---------------------------------------------------------------------------- with connections

// Two VIs of this program, connected to each other. The memory of their descriptors must outlive them.
class Pair {
 public:
  explicit Pair(const Nic& nic, VIP_CQ_HANDLE cq = nullptr)
      : from(nic.create_vi(cq)), to(nic.create_vi(cq)) {
    std::jthread accepting([&] { nic.accept(to, kPairs); });
    nic.connect(from, nic.self(), kPairs);
  }
  ~Pair() {
    for (const VIP_VI_HANDLE vi : {from, to}) {
      VIP_DESCRIPTOR* done;
      VipDisconnect(vi);
      while (VipSendDone(vi, &done), done != nullptr) continue;
      while (VipRecvDone(vi, &done), done != nullptr) continue;
      VipDestroyVi(vi);
    }
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;

  const VIP_VI_HANDLE from, to;
};

// Registered memory, zeroed.
class Memory {
 public:
  Memory(const Nic& nic, std::size_t bytes)
      : nic_(nic), start_(static_cast<char*>(std::aligned_alloc(64, round(bytes)))) {
    std::memset(start_, 0, bytes);
    must(VipRegisterMem(nic.get(), start_, bytes, nullptr, &handle), "VipRegisterMem");
  }
  ~Memory() {
    VipDeregisterMem(nic_.get(), start_, handle);
    std::free(start_);
  }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  char* at(std::size_t offset) const { return start_ + offset; }

  // A descriptor at `offset` for `length` bytes at `data`, in so many segments.
  VIP_DESCRIPTOR* describe(std::size_t offset, std::size_t data, std::uint32_t length,
                           std::uint16_t segments) const {
    auto* const d = reinterpret_cast<VIP_DESCRIPTOR*>(at(offset));
    *d = {};
    d->CS.Length = length;
    d->CS.SegCount = segments;
    VIP_DESCRIPTOR_SEGMENT* const all = d->DS;
    for (std::uint16_t i = 0; i < segments; ++i) {
      const std::uint32_t each = length / segments;
      all[i].Local.Data.Address = at(data + std::size_t{i} * each);
      all[i].Local.Handle = handle;
      all[i].Local.Length = each;
    }
    return d;
  }

  VIP_MEM_HANDLE handle = 0;

 private:
  static std::size_t round(std::size_t bytes) { return (bytes + 63) & ~std::size_t{63}; }

  const Nic& nic_;
  char* start_;
};

// A message from one VI to the other; its status at the sender, or ~0 when something failed.
std::uint32_t transfer(const Pair& pair, const Memory& memory, VIP_DESCRIPTOR* send,
                       VIP_DESCRIPTOR* receive, std::uint32_t& received) {
  VIP_DESCRIPTOR* done = nullptr;
  if (VipPostRecv(pair.to, receive, memory.handle) != VIP_SUCCESS) return ~0u;
  if (VipPostSend(pair.from, send, memory.handle) != VIP_SUCCESS) return ~0u;
  if (VipSendWait(pair.from, kPatienceMs, &done); done != send) return ~0u;
  received = 0;
  if ((send->CS.Status & VIP_STATUS_ERROR_MASK) == 0) {
    if (VipRecvWait(pair.to, kPatienceMs, &done) != VIP_SUCCESS || done != receive) return ~0u;
    received = receive->CS.Length;
  }
  return send->CS.Status;
}

bool check_transfer(const Nic& nic) {
  const auto most = static_cast<std::uint32_t>(nic.attributes().MaxTransferSize);
  VIP_VI_ATTRIBUTES attributes = {};
  attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  attributes.MaxTransferSize = most + 1;
  VIP_VI_HANDLE vi;
  bool right = VipCreateVi(nic.get(), &attributes, nullptr, nullptr, &vi) == VIP_INVALID_MTU;
  const std::size_t data = 256, there = data + most;
  const Memory memory(nic, there + most + 1);
  const Pair pair(nic);
  for (std::uint32_t i = 0; i < most; ++i) memory.at(data)[i] = static_cast<char>(i * 7 + (i >> 8));
  std::uint32_t received = 0;
  const std::uint32_t status =
      transfer(pair, memory, memory.describe(0, data, most, 1),
               memory.describe(128, there, most, 1), received);
  right &= (status & VIP_STATUS_ERROR_MASK) == 0 && received == most &&
           std::memcmp(memory.at(data), memory.at(there), most) == 0;
  const std::uint32_t too_long =
      transfer(pair, memory, memory.describe(0, data, most + 1, 1),
               memory.describe(128, there, most, 1), received);
  right &= too_long != ~0u && (too_long & VIP_STATUS_LENGTH_ERROR) != 0;
  return say(right, "MaxTransferSize", most, "holds");
}

bool check_segments(const Nic& nic) {
  const auto most = static_cast<std::uint16_t>(nic.attributes().MaxSegmentsPerDesc);
  const std::size_t descriptor =
      (sizeof(VIP_DESCRIPTOR) + sizeof(VIP_DESCRIPTOR_SEGMENT) * (most + 1u) + 63) &
      ~std::size_t{63};
  const std::size_t data = 2 * descriptor, bytes = 8u * (most + 1u);
  bool right = true;
  for (const int more : {0, 1}) {
    const Memory memory(nic, data + 2 * bytes);
    const Pair pair(nic);
    for (std::size_t i = 0; i < bytes; ++i) memory.at(data)[i] = static_cast<char>(i + 1);
    const auto segments = static_cast<std::uint16_t>(most + more);
    const std::uint32_t length = 8u * segments;
    std::uint32_t received = 0;
    const std::uint32_t status =
        transfer(pair, memory, memory.describe(0, data, length, segments),
                 memory.describe(descriptor, data + bytes, length, most), received);
    if (more == 0) {
      right &= (status & VIP_STATUS_ERROR_MASK) == 0 && received == length &&
               std::memcmp(memory.at(data), memory.at(data + bytes), length) == 0;
    } else {
      right &= status != ~0u && (status & VIP_STATUS_FORMAT_ERROR) != 0;
    }
  }
  return say(right, "MaxSegmentsPerDesc", most, "holds");
}

// Fills both queues of a connection, to the last descriptor; all of them are carried out.
bool check_queues(const Nic& nic) {
  const std::uint64_t most = nic.attributes().MaxDescriptorsPerQueue;
  const Memory memory(nic, 2 * (most + 1) * sizeof(VIP_DESCRIPTOR));
  const Pair pair(nic);
  const auto place = [&](bool send, std::uint64_t i) {
    return (2 * i + (send ? 1 : 0)) * sizeof(VIP_DESCRIPTOR);
  };
  const auto take = [&](VIP_VI_HANDLE vi, bool send, std::uint64_t i) {
    VIP_DESCRIPTOR* done = nullptr;
    const VIP_RETURN code =
        send ? VipSendWait(vi, kPatienceMs, &done) : VipRecvWait(vi, kPatienceMs, &done);
    return code == VIP_SUCCESS && reinterpret_cast<char*>(done) != memory.at(place(send, i))
               ? VIP_NOT_DONE
               : code;
  };
  bool right = true;
  for (int round = 0; right && round < 2; ++round) {
    for (const bool send : {false, true}) {
      for (std::uint64_t i = 0; right && i <= most; ++i) {
        VIP_DESCRIPTOR* const d = memory.describe(place(send, i), 0, 0, 0);
        const VIP_RETURN code = send ? VipPostSend(pair.from, d, memory.handle)
                                     : VipPostRecv(pair.to, d, memory.handle);
        right = code == (i == most ? VIP_ERROR_RESOURCE : VIP_SUCCESS);
      }
    }
    for (std::uint64_t i = 0; right && i < most; ++i) {
      right = take(pair.from, true, i) == VIP_SUCCESS && take(pair.to, false, i) == VIP_SUCCESS;
    }
  }
  return say(right, "MaxDescriptorsPerQueue", most, "holds on both queues, twice");
}

// A CQ shows as many completions as it can be made for.
bool check_cq_entries(const Nic& nic) {
  const auto most = static_cast<std::uint32_t>(nic.attributes().MaxCQEntries);
  const auto queue = static_cast<std::uint32_t>(nic.attributes().MaxDescriptorsPerQueue);
  const VIP_NIC_HANDLE handle = nic.get();
  VIP_CQ_HANDLE cq;
  bool right = VipCreateCQ(handle, most + 1, &cq) == VIP_ERROR_RESOURCE &&
               VipCreateCQ(handle, 1, &cq) == VIP_SUCCESS &&
               VipResizeCQ(cq, most + 1) == VIP_ERROR_RESOURCE &&
               VipResizeCQ(cq, most) == VIP_SUCCESS;
  if (right) {
    // A pair fills 2 * queue of them.
    const std::uint32_t count = most / queue / 2;
    const Memory memory(nic, 2 * sizeof(VIP_DESCRIPTOR) * queue * count);
    std::vector<std::unique_ptr<Pair>> pairs;
    for (std::uint32_t i = 0; i < count; ++i) pairs.push_back(std::make_unique<Pair>(nic, cq));
    std::size_t next = 0;
    const auto post = [&](VIP_VI_HANDLE vi, bool send) {
      VIP_DESCRIPTOR* const d = memory.describe(next++ * sizeof(VIP_DESCRIPTOR), 0, 0, 0);
      return (send ? VipPostSend(vi, d, memory.handle) : VipPostRecv(vi, d, memory.handle)) ==
             VIP_SUCCESS;
    };
    for (const bool send : {false, true}) {
      for (const auto& pair : pairs) {
        for (std::uint32_t i = 0; i < queue; ++i) right &= post(send ? pair->from : pair->to, send);
      }
    }
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN receive;
    VIP_DESCRIPTOR* done;
    for (std::uint32_t i = 0; right && i < 2 * count * queue; ++i) {
      right = VipCQWait(cq, kPatienceMs, &vi, &receive) == VIP_SUCCESS &&
              (receive ? VipRecvDone(vi, &done) : VipSendDone(vi, &done)) == VIP_SUCCESS;
    }
    right &= VipCQDone(cq, &vi, &receive) == VIP_NOT_DONE;
  }
  right &= VipDestroyCQ(cq) == VIP_SUCCESS;
  return say(right, "MaxCQEntries", most, "holds, and so many completions fit");
}

void ignore(VIP_PVOID, VIP_ERROR_DESCRIPTOR*) {}

}  // namespace

bool check_limits(const std::string& device) {
  bool right = check_handles(device);
  const Nic nic(device);
  must(VipErrorCallback(nic.get(), nullptr, ignore), "VipErrorCallback");
  right &= check_objects(nic);
  right &= check_memory(nic);
  right &= check_shared(device, nic);
  right &= check_transfer(nic);
  right &= check_segments(nic);
  right &= check_queues(nic);
  right &= check_cq_entries(nic);
  return right;
}

}  // namespace scale
