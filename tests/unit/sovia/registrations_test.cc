// Which regions are registered when; by a VIPL that only counts.
#include "sovia/lane/registrations.h"

#include <gtest/gtest.h>

#include <vector>

#include "sovia/process/counters.h"

namespace {

unsigned g_registered, g_deregistered;

}  // namespace

extern "C" VIP_RETURN VipRegisterMem(VIP_NIC_HANDLE, VIP_PVOID, VIP_ULONG, VIP_MEM_ATTRIBUTES*,
                                     VIP_MEM_HANDLE* handle) {
  *handle = ++g_registered;
  return VIP_SUCCESS;
}
extern "C" VIP_RETURN VipDeregisterMem(VIP_NIC_HANDLE, VIP_PVOID, VIP_MEM_HANDLE) {
  ++g_deregistered;
  return VIP_SUCCESS;
}

namespace viaduct::sovia {
namespace {

class RegistrationsOf : public testing::Test {
 protected:
  RegistrationsOf() { g_registered = g_deregistered = 0; }
  VIP_MEM_HANDLE take(Registrations& all, std::size_t at) {
    return all.take(nullptr, nullptr, &memory_[at], 100);
  }
  std::vector<std::byte> memory_{1 << 20};
};

TEST_F(RegistrationsOf, AreKeptForTheNextSend) {
  const std::uint64_t hits = counters::value(Counter::kRegistrationHits);
  Registrations all(true);
  for (int i = 0; i < 5; ++i) {
    const VIP_MEM_HANDLE memory = take(all, 0);
    ASSERT_NE(memory, 0u);
    all.give_back(nullptr, memory);
  }
  EXPECT_EQ(g_registered, 1u);
  EXPECT_EQ(g_deregistered, 0u);
  EXPECT_EQ(counters::value(Counter::kRegistrationHits) - hits, 4u);
}

TEST_F(RegistrationsOf, AreDroppedWithoutTheCache) {
  const std::uint64_t hits = counters::value(Counter::kRegistrationHits);
  Registrations all(false);
  for (unsigned i = 1; i <= 5; ++i) {
    const VIP_MEM_HANDLE one = take(all, 0), other = take(all, 0);
    EXPECT_NE(one, other) << "each send has its own";
    all.give_back(nullptr, one);
    all.give_back(nullptr, other);
    EXPECT_EQ(g_registered, 2 * i);
    EXPECT_EQ(g_deregistered, 2 * i);
  }
  EXPECT_EQ(counters::value(Counter::kRegistrationHits), hits);
}

TEST_F(RegistrationsOf, ThatAreHeldStay) {
  for (const bool keeps : {true, false}) {
    Registrations all(keeps);
    std::vector<VIP_MEM_HANDLE> held;
    for (std::size_t at = 0;; at += 3 * 4096) {
      const VIP_MEM_HANDLE memory = take(all, at);
      if (memory == 0) break;
      held.push_back(memory);
      ASSERT_LT(held.size(), 65u);
    }
    EXPECT_EQ(g_deregistered, 0u) << keeps;
    all.give_back(nullptr, held.back());
    EXPECT_NE(take(all, 0), 0u);
    if (keeps) g_deregistered = 0;
  }
}

}  // namespace
}  // namespace viaduct::sovia
