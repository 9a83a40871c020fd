#include "tests/scale/limits.h"

#include <cstdio>
#include <functional>
#include <memory>
#include <vector>

namespace scale {
namespace {

using Make = std::function<VIP_RETURN(std::uint64_t number)>;
using Unmake = std::function<VIP_RETURN(std::uint64_t number)>;

bool say(bool right, const char* what, std::uint64_t limit, const char* how) {
  std::printf("%s: %s %llu %s\n", right ? "ok" : "not ok", what,
              static_cast<unsigned long long>(limit), how);
  std::fflush(stdout);
  return right;
}

// `held`: how many of the limit are in use anyway.
bool check(const char* what, std::uint64_t limit, std::uint64_t held, const Make& make,
           const Unmake& unmake) {
  const std::uint64_t most = limit - held;
  for (int round = 1; round <= 2; ++round) {
    std::uint64_t made = 0;
    VIP_RETURN code;
    while ((code = make(made)) == VIP_SUCCESS && made < most) ++made;
    if (code == VIP_SUCCESS) return say(false, what, limit, "can be exceeded");
    const bool right = made == most && code == VIP_ERROR_RESOURCE;
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

}  // namespace

bool check_limits(const Nic& nic) {
  const VIP_NIC_ATTRIBUTES& limits = nic.attributes();
  const VIP_NIC_HANDLE handle = nic.get();
  bool right = true;

  std::vector<VIP_PVOID> made(1u << 20);
  VIP_VI_ATTRIBUTES plain = {};
  plain.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  plain.MaxTransferSize = 4096;
  right &= check(
      "MaxVI", limits.MaxVI, 0,
      [&](std::uint64_t i) { return VipCreateVi(handle, &plain, nullptr, nullptr, &made[i]); },
      [&](std::uint64_t i) { return VipDestroyVi(made[i]); });
  right &= check(
      "MaxCQ", limits.MaxCQ, 0,
      [&](std::uint64_t i) { return VipCreateCQ(handle, 1, &made[i]); },
      [&](std::uint64_t i) { return VipDestroyCQ(made[i]); });
  right &= check(
      "MaxPtags", limits.MaxPtags, 0,
      [&](std::uint64_t i) { return VipCreatePtag(handle, &made[i]); },
      [&](std::uint64_t i) { return VipDestroyPtag(handle, made[i]); });

  std::vector<VIP_MEM_HANDLE> regions(limits.MaxRegisterRegions + 1);
  char byte = 0;
  right &= check(
      "MaxRegisterRegions", limits.MaxRegisterRegions, 0,
      [&](std::uint64_t i) { return VipRegisterMem(handle, &byte, 1, nullptr, &regions[i]); },
      [&](std::uint64_t i) { return VipDeregisterMem(handle, &byte, regions[i]); });

  // Registering touches no memory, so that the addresses need not exist.
  auto* const anywhere = reinterpret_cast<char*>(0x10000);
  const VIP_ULONG block = limits.MaxRegisterBlockBytes;
  VIP_MEM_HANDLE memory;
  const bool too_large =
      VipRegisterMem(handle, anywhere, block + 1, nullptr, &memory) == VIP_ERROR_RESOURCE;
  right &= say(too_large, "MaxRegisterBlockBytes", block, "holds");
  const std::uint64_t blocks = limits.MaxRegisterBytes / block;
  right &= check(
      "MaxRegisterBytes, in blocks,", blocks, 0,
      [&](std::uint64_t i) { return VipRegisterMem(handle, anywhere, block, nullptr, &regions[i]); },
      [&](std::uint64_t i) { return VipDeregisterMem(handle, anywhere, regions[i]); });

  VIP_CQ_HANDLE cq;
  const bool cq_holds = VipCreateCQ(handle, limits.MaxCQEntries, &cq) == VIP_SUCCESS &&
                        VipResizeCQ(cq, limits.MaxCQEntries + 1) == VIP_ERROR_RESOURCE &&
                        VipDestroyCQ(cq) == VIP_SUCCESS &&
                        VipCreateCQ(handle, limits.MaxCQEntries + 1, &cq) == VIP_ERROR_RESOURCE;
  right &= say(cq_holds, "MaxCQEntries", limits.MaxCQEntries, "holds");

  plain.MaxTransferSize = limits.MaxTransferSize + 1;
  VIP_VI_HANDLE vi;
  const bool transfer = VipCreateVi(handle, &plain, nullptr, nullptr, &vi) == VIP_INVALID_MTU;
  plain.MaxTransferSize = limits.MaxTransferSize;
  right &= say(transfer && VipCreateVi(handle, &plain, nullptr, nullptr, &vi) == VIP_SUCCESS,
               "MaxTransferSize", limits.MaxTransferSize, "holds");

  struct alignas(64) Aligned {
    VIP_DESCRIPTOR descriptor;
  };
  const std::uint64_t queue = limits.MaxDescriptorsPerQueue;
  const auto descriptors = std::make_unique<Aligned[]>(queue + 1);
  must(VipRegisterMem(handle, descriptors.get(), (queue + 1) * sizeof(Aligned), nullptr, &memory),
       "VipRegisterMem");
  // On an Idle VI receives stay; making it anew empties it.
  right &= check(
      "MaxDescriptorsPerQueue", queue, 0,
      [&](std::uint64_t i) {
        descriptors[i].descriptor = {};
        return VipPostRecv(vi, &descriptors[i].descriptor, memory);
      },
      [&](std::uint64_t i) {
        if (i != 0) return VIP_SUCCESS;
        const VIP_RETURN code = VipDestroyVi(vi);
        return code != VIP_SUCCESS ? code : VipCreateVi(handle, &plain, nullptr, nullptr, &vi);
      });
  must(VipDestroyVi(vi), "VipDestroyVi");
  must(VipDeregisterMem(handle, descriptors.get(), memory), "VipDeregisterMem");
  return right;
}

}  // namespace scale
