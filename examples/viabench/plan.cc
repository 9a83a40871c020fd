#include "examples/viabench/plan.h"

#include <algorithm>
#include <string>

#include "examples/viabench/raw_socket.h"

namespace viabench {
namespace {

using Words = std::vector<std::string>;
using Sizes = std::vector<std::uint32_t>;

class Plan {
 public:
  Plan(const Options& options, const Available& available) : o_(options), a_(available) {
    placements_ = {"hosted"};
    if (available.granted) placements_.push_back("granted");
    offloads_ = available.offload ? Words{"on", "off"} : Words{"kept"};
    all_levels_ = {"rd", "ud", "rr"};
    levels_ = options.quick ? Words{"rd"} : all_levels_;
    waits_ = {"poll", "block"};
  }

  std::vector<Case> make() {
    if (o_.wants("latency")) latency();
    if (o_.wants("bandwidth")) bandwidth();
    if (o_.wants("rate")) rate();
    if (o_.wants("connect")) connect();
    if (o_.wants("register")) registration();
    if (o_.wants("idle")) idle();
    if (o_.wants("senders")) senders();
    if (o_.wants("memory")) memory();
    return std::move(cases_);
  }

 private:
  std::uint32_t raw_mtu() const { return std::min(o_.mtu, RawSocket::kLargestMtu); }

  std::uint32_t some(double count) const {
    const double quick = o_.quick ? 0.5 : 1;
    return static_cast<std::uint32_t>(std::max(count * quick * o_.fraction, 10.0));
  }

  void raw(const char* what, std::uint32_t size, double count) {
    if (!a_.raw || size > raw_mtu()) return;
    Case c;
    c.what = what;
    c.transport = "raw";
    c.size = size;
    c.count = some(count);
    cases_.push_back(c);
  }

  void tcp(const char* what, const Words& waits, const Words& offloads, std::uint32_t size,
           double count, std::uint32_t others = 0) {
    for (const std::string& wait : waits) {
      for (const std::string& offload : offloads) {
        cases_.push_back({what, "tcp", wait, "-", offload, size, some(count), others});
      }
    }
  }

  void via(const char* what, const Words& waits, const Words& levels, std::uint32_t size,
           double count, std::uint32_t others = 0) {
    for (const std::string& placement : placements_) {
      for (const std::string& wait : waits) {
        for (const std::string& level : levels) {
          cases_.push_back({what, placement, wait, level, "-", size, some(count), others});
        }
      }
    }
  }

  void latency() {
    const Sizes sizes =
        o_.quick ? Sizes{4, 1024, 65536} : Sizes{4, 64, 256, 1024, 4096, 16384, 65536};
    for (const std::uint32_t size : sizes) {
      const double count = size >= 16384 ? 500 : 2000;
      raw("latency", size, count);
      tcp("latency", waits_, {offloads_.front()}, size, count);
      via("latency", waits_, size == 4 ? all_levels_ : levels_, size, count);
    }
  }

  void bandwidth() {
    // About as many bytes whatever the size, but small messages are many enough as they are.
    const auto count = [](std::uint32_t size) { return std::min(96e6 / size, 40e3); };
    raw("bandwidth", raw_mtu(), 80e3);
    const Sizes sizes = o_.quick ? Sizes{32768} : Sizes{1024, 4096, 32768, 65536};
    for (const std::uint32_t size : sizes) {
      tcp("bandwidth", waits_, offloads_, size, count(size));
      via("bandwidth", waits_, levels_, size, count(size));
    }
  }

  void rate() {
    constexpr std::uint32_t kSize = 64;
    raw("rate", kSize, 80e3);
    tcp("rate", waits_, offloads_, kSize, 50e3);
    via("rate", waits_, levels_, kSize, 50e3);
  }

  void connect() {
    tcp("connect", waits_, {offloads_.front()}, 0, 500);
    via("connect", {"block"}, {"rd"}, 0, 500);
  }

  void registration() {
    for (const std::uint32_t size : {4096u, 65536u, 1048576u}) {
      const double count = size >= 1048576 ? 500 : 2000;
      cases_.push_back({"register", "copy", "-", "-", "-", size, some(count), 0});
      via("register", {"-"}, {"-"}, size, count);
    }
  }

  void idle() {
    const Sizes all = o_.quick ? Sizes{0, 128} : Sizes{0, 16, 256, 1024};
    for (const std::uint32_t others : all) via("idle", {"poll"}, {"rd"}, 4, 2000, others);
  }

  void senders() {
    const Sizes all = o_.quick ? Sizes{1, 4} : Sizes{1, 2, 4, 8};
    for (const std::uint32_t others : all) {
      tcp("senders", {"block"}, offloads_, 32768, 3000, others);
      via("senders", {"block"}, {"rd"}, 32768, 3000, others);
    }
  }

  void memory() {
    constexpr std::uint32_t kVis = 16;
    for (const std::string& placement : placements_) {
      cases_.push_back({"memory", placement, "-", "-", "-", kVis, 1, 256});
    }
  }

  const Options& o_;
  const Available a_;
  Words placements_, offloads_, levels_, all_levels_, waits_;
  std::vector<Case> cases_;
};

}  // namespace

std::vector<Case> make_plan(const Options& options, const Available& available) {
  return Plan(options, available).make();
}

}  // namespace viabench
