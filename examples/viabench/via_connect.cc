// Connections: requested, both ends connected, disconnected at both ends.
#include <array>
#include <cstring>

#include "examples/viabench/via.h"
#include "examples/viabench/via_link.h"

namespace viabench {
namespace {

using via::check;
using via::Failure;

// A VI with a single receive: that it is flushed tells the end of a connection, as the end of the
// stream does with TCP.
class Vi {
 public:
  explicit Vi(ViaLink& link) : nic_(link.nic().handle()) {
    VIP_VI_ATTRIBUTES attributes = link.attributes();
    check(VipRegisterMem(nic_, memory_.data(), memory_.size(), nullptr, &region_),
          "VipRegisterMem");
    check(VipCreateVi(nic_, &attributes, nullptr, nullptr, &vi_), "VipCreateVi");
  }
  ~Vi() {
    VipDisconnect(vi_);
    VipDestroyVi(vi_);
    VipDeregisterMem(nic_, memory_.data(), region_);
  }
  Vi(const Vi&) = delete;
  Vi& operator=(const Vi&) = delete;

  VIP_VI_HANDLE get() const { return vi_; }
  void disconnect() const { check(VipDisconnect(vi_), "VipDisconnect"); }

  void post() {
    memory_.fill(0);
    check(VipPostRecv(vi_, reinterpret_cast<VIP_DESCRIPTOR*>(memory_.data()), region_),
          "VipPostRecv");
  }

  void await_end() const {
    constexpr auto kMs = static_cast<VIP_ULONG>(kSilence.count() * 1000);
    VIP_DESCRIPTOR* d = nullptr;
    const VIP_RETURN result = VipRecvWait(vi_, kMs, &d);
    if (result != VIP_DESCRIPTOR_ERROR || d == nullptr) {
      throw Failure(via::format("the connection does not end: %s", via::return_text(result)));
    }
  }

 private:
  VIP_NIC_HANDLE nic_;
  VIP_VI_HANDLE vi_ = nullptr;
  VIP_MEM_HANDLE region_ = 0;
  alignas(VIP_DESCRIPTOR_ALIGNMENT) std::array<std::uint8_t, sizeof(VIP_DESCRIPTOR)> memory_{};
};

}  // namespace

void via_connect_near(const Case& c, const Site& site, const std::string& where,
                      const Reporter& report) {
  ViaLink link(c, site);
  link.aim(where);
  Vi vi(link);
  Clock::time_point start;
  for (std::uint32_t i = 0; i < c.count + warm_up(c); ++i) {
    if (i == warm_up(c)) start = Clock::now();
    vi.post();
    link.connect(vi.get());
    vi.await_end();
    vi.disconnect();
  }
  const std::chrono::duration<double> whole = Clock::now() - start;
  report.value("connections_s", c.count / whole.count());
}

void via_connect_far(const Case& c, const Site& site, const Reporter& report) {
  ViaLink link(c, site);
  const Vi vi(link);
  link.listen(report);
  for (std::uint32_t i = 0; i < c.count + warm_up(c); ++i) {
    link.accept(vi.get());
    vi.disconnect();
  }
}

}  // namespace viabench
