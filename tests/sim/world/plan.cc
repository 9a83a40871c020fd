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

Plan::Plan(std::uint64_t its_seed, Workload its_workload, const Less& its_less)
    : seed(its_seed), workload(its_workload), less(its_less) {
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
  network.hosts_by_last_byte = true;
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
  if (span != 0) draw_events(random, checksum);
  draw_paths(checksum);
  std::stable_sort(events.begin(), events.end(),
                   [](const Event& one, const Event& other) { return one.at < other.at; });
  leave_out();
}

// All is drawn as it would be without this, so that what stays is as it was.
void Plan::leave_out() {
  if (less.hosts < hosts) {
    hosts = less.hosts;
    mtus.resize(hosts);
  }
  std::vector<Event> left;
  for (std::size_t e = 0; e < events.size(); ++e) {
    Event event = events[e];
    event.a %= event.trouble == Trouble::kKillProgram || event.trouble == Trouble::kKillAgent ? ~0u : hosts;
    if (event.b >= hosts || event.b == event.a) event.b = (event.a + 1) % hosts;
    if (e >= 64 || (less.events >> e & 1) == 0) left.push_back(event);
  }
  events = std::move(left);
  if (less.trains) network.trains = false;
  if (less.rings) rings = false;
  if (less.granted) granted = 0;
  if (less.faults) network.faults = network.train_faults = SimFaults{};
  if (less.crimes) crime = 0;
}

void Plan::draw_events(Random& random, bool checksum) {
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
      draw_event(random, event, checksum, kinds == 1);
      events.push_back(event);
    }
  }
}

// `alone`: there is no other kind of trouble.
void Plan::draw_event(Random& random, Event& event, bool checksum, bool alone) {
  bool harmless = true;
  switch (event.trouble) {
    case Trouble::kTrains:
    case Trouble::kFaults:
      event.duration =
          random.chance(0.5) ? random.magnitude(kMsec, span) : random.between(span / 4, span);
      event.faults = draw_faults(random, span, checksum);
      corrupts |= event.faults.corruption > 0;
      // An ACCEPT from an unknown address makes a connection without a peer.
      // All that a train loses can go by express.
      harmless = event.trouble == Trouble::kTrains ||
                 ((event.faults.corruption == 0 || event.faults.corrupt_from >= 12) &&
                  event.faults.jitter_ns <= 50 * kMsec && event.faults.reorder_ns <= 50 * kMsec &&
                  event.faults.loss <= 0.1);
      break;
    case Trouble::kBurst:
      event.duration = random.magnitude(10 * kUs, 50 * kMsec);
      break;
    case Trouble::kCut:
    case Trouble::kPart:
    case Trouble::kPauseHost:
      event.duration = random.magnitude(100 * kUs, 5 * kSec);
      harmless = event.duration <= 100 * kMsec;
      break;
    case Trouble::kPauseProgram:
      event.duration = random.magnitude(100 * kUs, 10 * kSec);
      // Its agent answers for it, unless what they say is lost again and again.
      harmless = event.duration <= 100 * kMsec || (alone && network.faults.loss <= 0.02);
      break;
    case Trouble::kKillProgram:
    case Trouble::kKillAgent:
      event.a = static_cast<std::uint32_t>(random.next());
      event.duration = random.magnitude(100 * kUs, 2 * kSec);
      calm = false;
      harmless = event.trouble == Trouble::kKillAgent;
      break;
    case Trouble::kReplay:
    case Trouble::kForge:
      forges = true;
      break;
  }
  calm &= harmless;
  steady &= harmless;
}

// Trains, rings, agents that adopt, long outages. Drawn apart, so that all else of a seed is what it was before these.
void Plan::draw_paths(bool checksum) {
  Random random(seed * 3266489917u + static_cast<std::uint64_t>(workload) + 12000);
  network.trains = random.chance(0.4);
  network.train_latency_ns = random.chance(0.5) ? network.latency_ns : random.magnitude(kUs, 50 * kMsec);
  SimFaults quiet;
  quiet.reorder_ns = random.magnitude(kUs, 200 * kUs);
  if (random.chance(0.3)) quiet.loss = static_cast<double>(random.below(100)) / 1000;
  if (random.chance(0.2)) quiet.reordering = static_cast<double>(random.below(100)) / 1000;
  if (random.chance(0.2)) quiet.duplication = static_cast<double>(random.below(100)) / 1000;
  network.train_faults = quiet;
  const std::uint64_t faults = random.below(4);
  for (std::uint64_t n = 0; network.trains && span != 0 && n < faults; ++n) {
    Event event{random.below(span), Trouble::kTrains};
    draw_event(random, event, checksum, true);
    if (random.chance(0.4)) event.faults = SimFaults{.loss = 1};  // a firewall
    events.push_back(event);
  }
  rings = random.chance(0.6);
  const bool pairs = workload == Workload::kStream || workload == Workload::kExchange || workload == Workload::kRdma ||
                     workload == Workload::kLanes;
  one_host = pairs && random.chance(0.25);
  if (one_host && random.chance(0.7)) granted = 1;
  // Rings become full while their reader is stopped.
  for (std::uint64_t n = one_host && span != 0 ? random.below(4) : 0; n > 0; --n) {
    Event event{random.below(span), Trouble::kPauseProgram};
    event.a = static_cast<std::uint32_t>(random.below(2));
    event.duration = random.magnitude(100 * kUs, 100 * kMsec);
    events.push_back(event);
  }
  adopts = random.chance(0.6);
  if (span != 0 && random.chance(0.1)) draw_outages(random);
  // The agent speaks for a program that is stopped.
  const auto has = [this](Trouble trouble) {
    return std::any_of(events.begin(), events.end(), [trouble](const Event& event) { return event.trouble == trouble; });
  };
  steady &= !has(Trouble::kPauseProgram) || !has(Trouble::kKillAgent);
}

// Outages that connections survive, as their peers have the patience.
void Plan::draw_outages(Random& random) {
  limits.peer_timeout_ns = 150 * kSec;
  for (std::uint64_t n = 1 + random.below(2); n > 0; --n) {
    constexpr Trouble kKinds[] = {Trouble::kCut, Trouble::kPart, Trouble::kPauseHost};
    Event event{random.below(span), kKinds[random.below(std::size(kKinds))]};
    event.a = static_cast<std::uint32_t>(random.below(hosts));
    event.b = static_cast<std::uint32_t>((event.a + 1 + random.below(hosts - 1)) % hosts);
    event.duration = random.magnitude(kSec, 60 * kSec);
    events.push_back(event);
  }
}

std::string Plan::text() const {
  const auto [least, most] = std::minmax_element(mtus.begin(), mtus.end());
  char line[320];
  std::snprintf(
      line, sizeof line,
      "%u hosts, MTU %u to %u, latency %.1f us, rate %.2f Gb/s, quiet loss %.3f, troubles %zu in "
      "%.3f s, crime %.2f, granted %.1f%s%s%s%s%s%s%s",
      hosts, *least, *most, static_cast<double>(network.latency_ns) / 1e3,
      static_cast<double>(network.bits_per_second) / 1e9, network.faults.loss, events.size(),
      static_cast<double>(span) / 1e9, crime, granted, calm ? ", calm" : "",
      forges ? ", forged frames" : "", steady ? ", steady" : "", network.trains ? ", trains" : "",
      rings ? ", rings" : "", one_host ? ", one host" : "", adopts ? ", agents adopt" : "");
  return line;
}

}  // namespace viaduct::sim
