// vipl-scale: what many operations and many objects cost. Knows nothing but vipl.h.
//
// The server accepts one connection over which the client commands it, then others as it is told.
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tests/scale/limits.h"
#include "tests/scale/link.h"
#include "tests/scale/meter.h"

namespace scale {
namespace {

struct Options {
  std::string device = "nic0";
  std::string host;
  std::uint32_t count = 0;
  std::uint32_t rounds = 5;
  std::uint32_t messages = 20000;
  std::uint64_t allowed_kib = 256;
  std::vector<pid_t> watch;
};

constexpr std::uint32_t kControl = 0x5ca1e000, kOthers = 0x5ca1e001;

// Commands; the count is in the low bits.
enum Command : std::uint32_t {
  kEcho = 0u << 28,
  kAccept = 1u << 28,      // so many connections, which stay
  kDrop = 2u << 28,        // all of these
  kComeAndGo = 3u << 28,   // so many connections, one after the other, on one VI
  kEnd = 4u << 28,
};
constexpr std::uint32_t kCountMask = (1u << 28) - 1;

VIP_VI_STATE state_of(VIP_VI_HANDLE vi) {
  VIP_VI_STATE state;
  VIP_VI_ATTRIBUTES attributes;
  VIP_BOOLEAN send_empty, receive_empty;
  must(VipQueryVi(vi, &state, &attributes, &send_empty, &receive_empty), "VipQueryVi");
  return state;
}

void drop(std::vector<VIP_VI_HANDLE>& vis) {
  for (const VIP_VI_HANDLE vi : vis) must(VipDisconnect(vi), "VipDisconnect");
  for (const VIP_VI_HANDLE vi : vis) must(VipDestroyVi(vi), "VipDestroyVi");
  vis.clear();
}

int serve(const Options& options) {
  const Nic nic(options.device);
  Link link(nic);
  std::printf("waiting\n");
  std::fflush(stdout);
  nic.accept(link.vi(), kControl);
  std::vector<VIP_VI_HANDLE> others;
  for (;;) {
    const std::uint32_t command = link.receive();
    const std::uint32_t count = command & kCountMask;
    switch (command & ~kCountMask) {
      case kAccept:
        for (std::uint32_t i = 0; i < count; ++i) {
          others.push_back(nic.create_vi());
          nic.accept(others.back(), kOthers);
        }
        break;
      case kDrop: drop(others); break;
      case kComeAndGo: {
        const VIP_VI_HANDLE vi = nic.create_vi();
        for (std::uint32_t i = 0; i < count; ++i) {
          nic.accept(vi, kOthers);
          while (state_of(vi) == VIP_STATE_CONNECTED) continue;
          must(VipDisconnect(vi), "VipDisconnect");
        }
        must(VipDestroyVi(vi), "VipDestroyVi");
        break;
      }
      case kEnd: link.send(0); return 0;
      default: break;
    }
    link.send(command);
  }
}

int register_pairs(const Options& options) {
  const Nic nic(options.device);
  const std::uint32_t count = options.count != 0 ? options.count : 300000;
  std::vector<char> memory(1 << 20);
  Meter meter("register", count, options.watch);
  for (std::uint32_t i = 0; i < count; ++i) {
    VIP_MEM_HANDLE handle;
    must(VipRegisterMem(nic.get(), memory.data(), memory.size(), nullptr, &handle),
         "VipRegisterMem");
    must(VipDeregisterMem(nic.get(), memory.data(), handle), "VipDeregisterMem");
    meter.tick();
  }
  return meter.report(options.allowed_kib) ? 0 : 1;
}

// The client's end of the control connection.
class Client {
 public:
  explicit Client(const Options& options) : nic(options.device), link_(nic), host_(options.host) {
    nic.connect(link_.vi(), host_, kControl);
  }
  ~Client() { try { call(kEnd); } catch (const std::exception&) {} }

  void ask(std::uint32_t command) { link_.send(command); }
  void answered() { link_.receive(); }
  void call(std::uint32_t command) { ask(command), answered(); }
  void connect(VIP_VI_HANDLE vi) const { nic.connect(vi, host_, kOthers); }

  // ns there and back, the median.
  double round_trip(std::uint32_t messages) {
    std::vector<double> times;
    for (std::uint32_t i = 0; i < messages; ++i) {
      const auto begin = std::chrono::steady_clock::now();
      call(kEcho);
      const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
      times.push_back(time.count());
    }
    std::nth_element(times.begin(), times.begin() + static_cast<long>(messages / 2), times.end());
    return times[messages / 2];
  }

  const Nic nic;

 private:
  Link link_;
  std::string host_;
};

int connect_pairs(const Options& options) {
  Client client(options);
  const std::uint32_t count = options.count != 0 ? options.count : 100000;
  client.ask(kComeAndGo | count);
  const VIP_VI_HANDLE vi = client.nic.create_vi();
  Meter meter("connect", count, options.watch);
  for (std::uint32_t i = 0; i < count; ++i) {
    client.connect(vi);
    must(VipDisconnect(vi), "VipDisconnect");
    meter.tick();
  }
  client.answered();
  must(VipDestroyVi(vi), "VipDestroyVi");
  return meter.report(options.allowed_kib) ? 0 : 1;
}

std::vector<VIP_VI_HANDLE> open_vis(Client& client, std::uint32_t count, Meter& meter) {
  client.ask(kAccept | count);
  std::vector<VIP_VI_HANDLE> vis;
  for (std::uint32_t i = 0; i < count; ++i) {
    vis.push_back(client.nic.create_vi());
    client.connect(vis.back());
    meter.tick();
  }
  client.answered();
  return vis;
}

// Memory is what so many VIs need, so that only coming and going again may not make it grow.
int open_many(const Options& options) {
  Client client(options);
  const std::uint32_t count = options.count != 0 ? options.count : 10000;
  Meter rounds("open and close " + std::to_string(count) + " VIs", 10, options.watch);
  for (int i = 0; i < 10; ++i) {
    Meter meter("open VI", count, options.watch);
    std::vector<VIP_VI_HANDLE> vis = open_vis(client, count, meter);
    for (const VIP_VI_HANDLE vi : vis) {
      if (state_of(vi) != VIP_STATE_CONNECTED) throw std::runtime_error("a connection was lost");
    }
    if (i == 0 || i == 9) meter.report(~0ull);
    drop(vis);
    client.call(kDrop);
    rounds.tick();
  }
  return rounds.report(options.allowed_kib) ? 0 : 1;
}

int idle_latency(const Options& options) {
  Client client(options);
  const std::uint32_t count = options.count != 0 ? options.count : 10000;
  client.round_trip(options.messages / 10);
  std::vector<double> ratios;
  for (std::uint32_t i = 0; i < options.rounds; ++i) {
    const double alone = client.round_trip(options.messages);
    Meter meter("", count, {});
    std::vector<VIP_VI_HANDLE> vis = open_vis(client, count, meter);
    const double crowded = client.round_trip(options.messages);
    drop(vis);
    client.call(kDrop);
    ratios.push_back(crowded / alone);
    std::printf("4 bytes there and back: alone %.0f ns, with %u idle VIs %.0f ns, ratio %.3f\n",
                alone, count, crowded, ratios.back());
    std::fflush(stdout);
  }
  std::sort(ratios.begin(), ratios.end());
  std::printf("idle-latency: median ratio %.3f\n", ratios[ratios.size() / 2]);
  return 0;
}

int limits(const Options& options) {
  const Nic nic(options.device);
  return check_limits(nic) ? 0 : 1;
}

}  // namespace
}  // namespace scale

int main(int argc, char** argv) {
  using namespace scale;
  Options options;
  CLI::App app("What many operations and many objects cost, over VIPL.");
  app.require_subcommand(1);
  app.add_option("--device", options.device, "NIC to open")->capture_default_str();
  int (*run)(const Options&) = nullptr;
  const auto mode = [&](const char* name, const char* text, int (*function)(const Options&),
                        bool has_host) {
    CLI::App* sub = app.add_subcommand(name, text);
    sub->callback([&run, function] { run = function; });
    if (has_host) sub->add_option("host", options.host, "where the server is")->required();
    sub->add_option("--count", options.count, "how many");
    sub->add_option("--rounds", options.rounds, "of measurements")->capture_default_str();
    sub->add_option("--messages", options.messages, "in a measurement")->capture_default_str();
    sub->add_option("--allowed", options.allowed_kib, "KiB that memory may grow by")
        ->capture_default_str();
    sub->add_option("--watch", options.watch, "processes whose memory counts")->delimiter(',');
  };
  mode("serve", "be the other side", serve, false);
  mode("register", "register and deregister memory", register_pairs, false);
  mode("connect", "connect and disconnect", connect_pairs, true);
  mode("vis", "open and close many VIs", open_many, true);
  mode("idle-latency", "latency beside many idle VIs", idle_latency, true);
  mode("limits", "run into each limit that the NIC states", limits, false);
  CLI11_PARSE(app, argc, argv);
  try {
    return run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "vipl-scale: %s\n", error.what());
    return 1;
  }
}
