#include "tests/sim/world/plan.h"

#include <algorithm>
#include <cstdio>

#include "tests/sim/sim_host.h"

namespace viaduct::sim {
namespace {

// Where bits may flip and it is noticed without a checksum: in what the stack compares with what it
// knows. Source address, version, VI and key.
struct Field {
  std::uint32_t from, to;
};
constexpr Field kCompared[] = {{6, 12}, {14, 15}, {18, 22}, {22, 30}};
// With one: everywhere behind the Ethernet header.
constexpr Field kChecked = {14, 0xffffffff};

// Stacks that have checksums, and those from before.
template <class Limits>
bool draw_checksum(Random& random, Limits& limits) {
  if constexpr (requires { limits.checksum; }) {
    return limits.checksum = random.chance(0.8);
  } else {
    static_cast<void>(random), static_cast<void>(limits);
    return false;
  }
}

SimFaults draw_faults(Random& random, std::uint64_t span, bool checksum) {
  SimFaults faults;
  if (random.chance(0.7)) faults.loss = random.chance(0.5) ? 0.3 : 0.03;
  faults.loss *= static_cast<double>(random.below(1000)) / 1000;
  if (random.chance(0.4)) faults.duplication = static_cast<double>(random.below(300)) / 1000;
  if (random.chance(0.5)) faults.reordering = static_cast<double>(random.below(500)) / 1000;
  faults.reorder_ns = random.magnitude(kUs, std::min(kSec, std::max(span, kMsec)));
  if (random.chance(0.3)) faults.jitter_ns = random.magnitude(kUs, kSec);
  if (random.chance(0.2)) {
    faults.corruption = static_cast<double>(random.below(100)) / 1000;
    const Field& field =
        checksum ? kChecked : kCompared[random.below(std::size(kCompared))];
    faults.corrupt_from = field.from;
    faults.corrupt_to = field.to;
    faults.corrupt_bits = 1 + static_cast<std::uint32_t>(random.below(8));
  }
  return faults;
}

}  // namespace

std::uint64_t Random::magnitude(std::uint64_t low, std::uint64_t high) {
  unsigned doublings = 0;
  while (low << (doublings + 1) <= high && doublings < 62) ++doublings;
  const std::uint64_t base = low << below(doublings + 1);
  return std::min(high, base + below(base));
}

const char* name_of(Workload workload) {
  switch (workload) {
    case Workload::kStream:
      return "stream";
    case Workload::kExchange:
      return "exchange";
    case Workload::kRdma:
      return "rdma";
    case Workload::kStorm:
      return "storm";
    case Workload::kManyToOne:
      return "many-to-one";
    case Workload::kLanes:
      return "lanes";
    case Workload::kMixed:
      return "mixed";
    case Workload::kLibrary:
      return "library";
    case Workload::kCount:
      break;
  }
  return "?";
}

Plan::Plan(std::uint64_t its_seed, Workload its_workload) : seed(its_seed), workload(its_workload) {
  Random random(its_seed * 1315423911u + static_cast<std::uint64_t>(its_workload) + 77);
  hosts = workload == Workload::kManyToOne ? 3 + static_cast<unsigned>(random.below(6))
          : workload == Workload::kStorm   ? 2 + static_cast<unsigned>(random.below(3))
          : workload == Workload::kMixed   ? 2 + static_cast<unsigned>(random.below(3))
          : workload == Workload::kLibrary ? 2 + static_cast<unsigned>(random.below(2))
                                           : 2;
  mtus.assign(hosts, random.chance(0.7) ? 1500
                                        : static_cast<std::uint32_t>(random.between(576, 3000)));
  // Long frames, and hosts that differ. Drawn apart, so that all else of a seed is what it was.
  Random sizes(its_seed * 2246822519u + static_cast<std::uint64_t>(its_workload) + 9000);
  if (sizes.chance(0.3)) {
    for (std::uint32_t& mtu : mtus) {
      mtu = sizes.chance(0.5) ? 9000u
            : sizes.chance(0.5) ? 1500u
                                : static_cast<std::uint32_t>(sizes.between(576, 9000));
    }
  }

  network.latency_ns =
      random.chance(0.6) ? random.between(kUs, 20 * kUs) : random.magnitude(kUs, 50 * kMsec);
  if (workload == Workload::kManyToOne || random.chance(0.3)) {
    network.bits_per_second = random.magnitude(100'000'000, 25'000'000'000);
    network.queue_frames = static_cast<std::uint32_t>(random.between(16, 256));
  }
  network.receive_frames = 2048;
  if (random.chance(0.2)) {  // few frames
    network.receive_frames = static_cast<std::uint32_t>(random.between(32, 256));
    network.receive_queue = network.receive_frames / 2;
    network.lendable = network.receive_frames / 4;
  }
  if (random.chance(0.2)) {
    network.transmit_frames = static_cast<std::uint32_t>(random.between(4, 64));
  }

  limits = small_limits();
  const bool checksum = draw_checksum(random, limits);
  limits.sessions = 12;
  if (random.chance(0.2)) limits.vis = static_cast<std::uint32_t>(random.between(6, 16));
  if (random.chance(0.2)) limits.goodbyes = static_cast<std::uint32_t>(random.between(1, 4));
  if (random.chance(0.2)) limits.requests = static_cast<std::uint32_t>(random.between(2, 8));
  if (random.chance(0.1)) limits.peers = static_cast<std::uint32_t>(random.between(2, 4));
  if (random.chance(0.2)) limits.held = static_cast<std::uint32_t>(random.between(1, 32));
  limits.keepalive_ns = random.chance(0.7) ? 500 * kMsec : random.between(50, 500) * kMsec;
  limits.peer_timeout_ns = limits.keepalive_ns * random.between(6, 8);

  granted = random.chance(0.5) ? 0.0 : 0.5;
  if (random.chance(0.3)) crime = 0.02;
  span = random.chance(0.1) ? 0 : random.magnitude(5 * kMsec, 8 * kSec);
  patience = 300 * kSec;

  // Faults: few kinds of them at once, so that each is also seen alone.
  SimFaults quiet;
  if (random.chance(0.3)) quiet.loss = static_cast<double>(random.below(100)) / 1000;
  if (random.chance(0.2)) quiet.reordering = static_cast<double>(random.below(100)) / 1000;
  if (random.chance(0.2)) quiet.duplication = static_cast<double>(random.below(100)) / 1000;
  quiet.reorder_ns = random.magnitude(kUs, 200 * kUs);
  network.faults = quiet;
  if (span == 0) return;
  const unsigned kinds = static_cast<unsigned>(random.below(5));
  for (unsigned k = 0; k < kinds; ++k) {
    const auto trouble =
        random.chance(0.3) ? Trouble::kFaults : static_cast<Trouble>(random.below(10));
    const auto times = trouble == Trouble::kKillAgent || trouble == Trouble::kKillProgram
                           ? 1 + random.below(2)
                           : 1 + random.below(6);
    for (std::uint64_t n = 0; n < times; ++n) {
      Event event{random.below(span), trouble};
      event.a = static_cast<std::uint32_t>(random.below(hosts));
      event.b = static_cast<std::uint32_t>((event.a + 1 + random.below(hosts - 1)) % hosts);
      switch (trouble) {
        case Trouble::kFaults:
          event.duration =
              random.chance(0.5) ? random.magnitude(kMsec, span) : random.between(span / 4, span);
          event.faults = draw_faults(random, span, checksum);
          corrupts |= event.faults.corruption > 0;
          // An ACCEPT from an unknown address makes a connection without a peer.
          if (event.faults.corruption > 0 && event.faults.corrupt_from < 12) calm = false;
          if (event.faults.jitter_ns > 50 * kMsec || event.faults.reorder_ns > 50 * kMsec ||
              event.faults.loss > 0.1) {
            calm = false;
          }
          break;
        case Trouble::kBurst:
          event.duration = random.magnitude(10 * kUs, 50 * kMsec);
          break;
        case Trouble::kCut:
        case Trouble::kPart:
          event.duration = random.magnitude(100 * kUs, 5 * kSec);
          if (event.duration > 100 * kMsec) calm = false;
          break;
        case Trouble::kPauseHost:
          event.duration = random.magnitude(100 * kUs, 5 * kSec);
          if (event.duration > 100 * kMsec) calm = false;
          break;
        case Trouble::kPauseProgram:
          event.duration = random.magnitude(100 * kUs, 10 * kSec);
          // Its agent answers for it, unless what they say is lost again and again.
          if (event.duration > 100 * kMsec && (kinds > 1 || quiet.loss > 0.02)) calm = false;
          break;
        case Trouble::kKillProgram:
        case Trouble::kKillAgent:
          event.a = static_cast<std::uint32_t>(random.next());
          event.duration = random.magnitude(100 * kUs, 2 * kSec);
          calm = false;
          break;
        case Trouble::kReplay:
        case Trouble::kForge:
          forges = true;
          break;
      }
      events.push_back(event);
    }
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& one, const Event& other) { return one.at < other.at; });
}

std::string Plan::text() const {
  const auto [least, most] = std::minmax_element(mtus.begin(), mtus.end());
  char line[256];
  std::snprintf(
      line, sizeof line,
      "%u hosts, MTU %u to %u, latency %.1f us, rate %.2f Gb/s, quiet loss %.3f, troubles %zu in "
      "%.3f s, crime %.2f, granted %.1f%s%s",
      hosts, *least, *most, static_cast<double>(network.latency_ns) / 1e3,
      static_cast<double>(network.bits_per_second) / 1e9, network.faults.loss, events.size(),
      static_cast<double>(span) / 1e9, crime, granted, calm ? ", calm" : "",
      forges ? ", forged frames" : "");
  return line;
}

}  // namespace viaduct::sim
