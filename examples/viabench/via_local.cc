// Measurements on one host: registering memory, copying it, and the memory that VIs take.
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "examples/viabench/via.h"
#include "examples/viabench/via_link.h"

namespace viabench {
namespace {

using via::check;
using via::Failure;

struct Free {
  void operator()(char* p) const { std::free(p); }
};
using Pages = std::unique_ptr<char, Free>;

// Written once, so that it is really there.
Pages pages(std::size_t bytes) {
  const std::size_t whole = (bytes + 4095) & ~std::size_t{4095};
  Pages memory(static_cast<char*>(std::aligned_alloc(4096, whole)));
  if (!memory) throw Failure("no memory");
  std::memset(memory.get(), 1, whole);
  return memory;
}

double microseconds_each(const Case& c, Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / c.count;
}

// Of this process, shared memory included.
double resident_bytes() {
  std::ifstream in("/proc/self/smaps_rollup");
  for (std::string word; in >> word;) {
    double kib;
    if (word == "Rss:" && in >> kib) return kib * 1024;
  }
  throw Failure("/proc/self/smaps_rollup does not tell how much memory this process has");
}

}  // namespace

void via_register(const Case& c, const Site& site, const Reporter& report) {
  ViaLink link(c, site);
  const Pages memory = pages(c.size);
  const Clock::time_point start = Clock::now();
  for (std::uint32_t i = 0; i < c.count; ++i) {
    VIP_MEM_HANDLE region;
    check(VipRegisterMem(link.nic().handle(), memory.get(), c.size, nullptr, &region),
          "VipRegisterMem");
    check(VipDeregisterMem(link.nic().handle(), memory.get(), region), "VipDeregisterMem");
  }
  report.value("us", microseconds_each(c, start));
}

void copy_memory(const Case& c, const Reporter& report) {
  const Pages from = pages(c.size);
  const Pages to = pages(c.size);
  const Clock::time_point start = Clock::now();
  for (std::uint32_t i = 0; i < c.count; ++i) {
    std::memcpy(to.get(), from.get(), c.size);
    // Else all but one of the copies would be left out.
    asm volatile("" : : "r"(to.get()) : "memory");
  }
  report.value("us", microseconds_each(c, start));
}

void via_memory(const Case& c, const Site& site, const Reporter& report) {
  const double before = resident_bytes();
  ViaLink link(c, site);
  const auto create = [&](std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      VIP_VI_ATTRIBUTES attributes = link.attributes();
      attributes.MaxTransferSize = 32768;
      VIP_VI_HANDLE vi = nullptr;
      check(VipCreateVi(link.nic().handle(), &attributes, nullptr, nullptr, &vi), "VipCreateVi");
    }
  };
  create(c.size);
  const double some = resident_bytes();
  create(c.others);
  const double all = resident_bytes();
  report.value("bytes", some - before);
  report.value("bytes_for_each_idle_vi", (all - some) / std::max(c.others, 1u));
}

}  // namespace viabench
