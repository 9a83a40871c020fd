#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "tests/scale/limits.h"
#include "tests/scale/link.h"
#include "tests/scale/meter.h"
#include "tests/scale/modes.h"
#include "tests/scale/protocol.h"

namespace scale {
namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kRounds = 10;  // of opening many VIs
constexpr std::chrono::seconds kHearLimit{60};

// The client's end of the link.
class Client {
 public:
  explicit Client(const Options& options)
      : nic(options.device), host(nic.find(options.host)), link_(nic) {
    nic.connect(link_.vi(), host, kControl);
  }
  ~Client() {
    try {
      call(kEnd);
    } catch (const std::exception&) {
    }
  }

  void ask(std::uint32_t command) { link_.send(command); }
  std::uint32_t answer() { return link_.receive(); }
  std::uint32_t call(std::uint32_t command) {
    ask(command);
    return answer();
  }

  // ns there and back, the median.
  double round_trip(std::uint32_t messages) {
    std::vector<double> times;
    for (std::uint32_t i = 0; i < messages; ++i) {
      const Clock::time_point begin = Clock::now();
      call(kEcho);
      times.push_back(std::chrono::duration<double, std::nano>(Clock::now() - begin).count());
    }
    return median(times);
  }

  const Nic nic;
  const Host host;

 private:
  Link link_;
};

using Nics = std::vector<std::unique_ptr<Nic>>;

Nics open_nics(const Options& options) {
  Nics nics;
  for (std::uint32_t i = 0; i < options.nics; ++i) {
    nics.push_back(std::make_unique<Nic>(options.device));
  }
  return nics;
}

// Connected ones, on each handle in turn.
std::vector<VIP_VI_HANDLE> open_vis(Client& client, const Nics& nics, std::uint32_t count,
                                    Meter& meter) {
  client.ask(kAccept | count);
  std::vector<VIP_VI_HANDLE> vis;
  for (std::uint32_t i = 0; i < count; ++i) {
    const Nic& nic = *nics[i % nics.size()];
    vis.push_back(nic.create_vi());
    nic.connect(vis.back(), client.host, kOthers);
    meter.tick();
  }
  client.answer();
  return vis;
}

// The server must hear of the end of connections that were never disconnected. The client keeps on talking to it, so
// that no silence gives them away.
bool is_heard_of_all(Client& client, std::uint32_t count) {
  const Clock::time_point begin = Clock::now();
  std::uint32_t left;
  while ((left = client.call(kAlive)) != 0 && Clock::now() - begin < kHearLimit) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  const std::chrono::duration<double> time = Clock::now() - begin;
  std::printf("%s: %u VIs left connected by VipCloseNic: the other side sees %u as connected after "
              "%.1f s\n",
              left == 0 ? "ok" : "not ok", count, left, time.count());
  return left == 0;
}

}  // namespace

int register_pairs(const Options& options) {
  const Nic nic(options.device);
  const std::uint32_t count = options.count_or(300000);
  std::vector<char> memory(1 << 20);
  std::vector<VIP_MEM_HANDLE> live(options.live);
  Meter first("register, to stay", options.live, options.watch);
  for (VIP_MEM_HANDLE& handle : live) {
    must(VipRegisterMem(nic.get(), memory.data(), 4096, nullptr, &handle), "VipRegisterMem");
    first.tick();
  }
  if (!live.empty()) first.report(~0ull);
  Meter meter("register beside " + std::to_string(options.live), count, options.watch);
  for (std::uint32_t i = 0; i < count; ++i) {
    VIP_MEM_HANDLE handle;
    must(VipRegisterMem(nic.get(), memory.data(), memory.size(), nullptr, &handle),
         "VipRegisterMem");
    must(VipDeregisterMem(nic.get(), memory.data(), handle), "VipDeregisterMem");
    meter.tick();
  }
  for (const VIP_MEM_HANDLE handle : live) {
    must(VipDeregisterMem(nic.get(), memory.data(), handle), "VipDeregisterMem");
  }
  return meter.report(options.allowed_kib) ? 0 : 1;
}

int connect_pairs(const Options& options) {
  Client client(options);
  const std::uint32_t each = std::max(options.count_or(100000) / options.threads, 1u);
  client.call(kThreads | options.threads);
  client.ask(kComeAndGo | each);
  Meter meter("connect, " + std::to_string(options.threads) + " at once", each * options.threads,
              options.watch);
  std::mutex lock;
  std::string failure;
  const auto connect = [&](std::uint32_t thread) {
    try {
      const VIP_VI_HANDLE vi = client.nic.create_vi();
      for (std::uint32_t i = 0; i < each; ++i) {
        client.nic.connect(vi, client.host, kOfThread + thread);
        must(VipDisconnect(vi), "VipDisconnect");
        const std::lock_guard guard(lock);
        meter.tick();
      }
      must(VipDestroyVi(vi), "VipDestroyVi");
    } catch (const std::exception& error) {
      const std::lock_guard guard(lock);
      failure = error.what();
    }
  };
  {
    std::vector<std::jthread> threads;
    for (std::uint32_t t = 1; t < options.threads; ++t) threads.emplace_back(connect, t);
    connect(0);
  }
  if (!failure.empty()) throw std::runtime_error(failure);
  client.answer();
  return meter.report(options.allowed_kib) ? 0 : 1;
}

// Memory is what so many VIs need, so that only coming and going again may not make it grow.
int open_many(const Options& options) {
  Client client(options);
  const std::uint32_t count = options.count_or(10000);
  bool right = true;
  {
    const Nics nics = open_nics(options);
    Meter rounds("open and close " + std::to_string(count) + " VIs", kRounds, options.watch);
    for (unsigned i = 0; i < kRounds; ++i) {
      Meter meter("open VI", count, options.watch);
      std::vector<VIP_VI_HANDLE> vis = open_vis(client, nics, count, meter);
      for (const VIP_VI_HANDLE vi : vis) {
        if (state_of(vi) != VIP_STATE_CONNECTED) throw std::runtime_error("a connection was lost");
      }
      if (i == 0 || i == kRounds - 1) meter.report(~0ull);
      drop(vis);
      client.call(kDrop);
      rounds.tick();
    }
    right &= rounds.report(options.allowed_kib);
    Meter meter("", count, {});
    open_vis(client, nics, count, meter);
  }
  right &= is_heard_of_all(client, count);
  client.call(kDrop);
  return right ? 0 : 1;
}

int idle_latency(const Options& options) {
  Client client(options);
  const Nics nics = open_nics(options);
  const std::uint32_t count = options.count_or(10000);
  client.round_trip(options.messages);
  std::vector<double> ratios;
  double before = client.round_trip(options.messages);
  for (std::uint32_t i = 0; i < options.rounds; ++i) {
    Meter meter("", count, {});
    std::vector<VIP_VI_HANDLE> vis = open_vis(client, nics, count, meter);
    const double crowded = client.round_trip(options.messages);
    drop(vis);
    client.call(kDrop);
    const double after = client.round_trip(options.messages);
    ratios.push_back(2 * crowded / (before + after));
    std::printf("4 bytes there and back: alone %.0f and %.0f ns, with %u idle VIs %.0f ns, ratio "
                "%.3f\n",
                before, after, count, crowded, ratios.back());
    std::fflush(stdout);
    before = after;
  }
  std::printf("idle-latency: median ratio %.3f\n", median(ratios));
  return 0;
}

int limits(const Options& options) { return check_limits(options.device) ? 0 : 1; }

}  // namespace scale
