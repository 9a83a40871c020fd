#include "tests/fuzz/fuzz_hosts.h"

#include <sys/mman.h>

#include <cstring>
#include <random>

namespace viaduct::fuzz {
namespace {

constexpr std::uint64_t kSecond = 1'000'000'000;
constexpr std::uintptr_t kArenas = 0x500000000000;  // never mapped otherwise, not by a sanitizer either
constexpr std::uint32_t kMessage = 3000;         // more than a frame
constexpr std::uint64_t kMostRounds = 100'000;   // of the stacks without the clock moving

StackLimits few() {
  StackLimits out = sim::small_limits();
  out.vis = 32;
  out.cqs = 8;
  out.regions = 64;
  out.slots = 512;
  out.requests = out.goodbyes = 16;
  out.held = 128;
  return out;
}

}  // namespace

ArenaHost::ArenaHost(SimNetwork& net, std::uint8_t number) : Host(net, number, few(), number) {
  const std::uintptr_t at = kArenas + number * std::uintptr_t{16} * kBytes;
  void* const memory = mmap(reinterpret_cast<void*>(at), kBytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  require(memory == reinterpret_cast<void*>(at), "no memory for the arena");
  arena = static_cast<std::byte*>(memory);
  std::memset(arena + kGood, 0x5a, kBytes - kGood);
}

ArenaHost::~ArenaHost() { munmap(arena, kBytes); }

bool ArenaHost::inside(std::uint32_t session, std::span<const iovec> pieces) const {
  const auto begin = reinterpret_cast<std::uintptr_t>(arena);
  for (const iovec& piece : pieces) {
    const auto at = reinterpret_cast<std::uintptr_t>(piece.iov_base);
    if (at < begin || at > begin + kBytes || piece.iov_len > begin + kBytes - at) return false;
  }
  // The real agent reaches the memory of the session's program only. Here a wrong session would
  // reach the good program's, whose pattern would be gone.
  return session < limits.sessions;
}

bool ArenaHost::read_program(std::uint32_t session, const Reader& reader, std::span<const iovec> remote,
                             std::span<const iovec> local) {
  return inside(session, remote) && Host::read_program(session, reader, remote, local);
}

bool ArenaHost::write_program(std::uint32_t session, std::span<const iovec> remote,
                              std::span<const iovec> local) {
  if (!inside(session, remote)) return false;
  for (const iovec& piece : remote) {
    const auto* at = static_cast<const std::byte*>(piece.iov_base);
    require(session == good_session || at + piece.iov_len <= arena + kGood || piece.iov_len == 0,
            "memory of another program is written");
  }
  return Host::write_program(session, remote, local);
}

bool ArenaHost::charge(std::uint32_t session, Quota what, std::int64_t change) {
  static constexpr std::int64_t kMost[] = {6, 12, 1 << 24};
  std::int64_t& charge = charges_[session][static_cast<std::size_t>(what)];
  if (change > 0 && charge + change > kMost[static_cast<std::size_t>(what)]) return false;
  charge += change;
  require(charge >= 0, "more is given back than was taken");
  return true;
}

bool ArenaHost::charged() const {
  for (const auto& session : charges_) {
    for (const std::int64_t charge : session) {
      if (charge != 0) return true;
    }
  }
  return false;
}

std::uint64_t ArenaHost::random() {
  static std::random_device device;
  return std::uint64_t{device()} << 32 | device();
}

Hosts::Hosts(std::uint64_t seed)
    : network(small_network(), seed), a(network, 1), b(network, 2), hosts_{&a, &b} {
  good = std::make_unique<sim::Program>(a);
  good_peer = std::make_unique<sim::Program>(b);
  hostile = std::make_unique<sim::Program>(a);
  hostile_peer = std::make_unique<sim::Program>(b);
  a.good_session = good->session();
  b.good_session = good_peer->session();
  vi_ = good->create_vi(vip::kReliableDelivery);
  peer_vi_ = good_peer->create_vi(vip::kReliableDelivery);
  handle_ = good->register_memory(a.arena + ArenaHost::kGood, 3 * kMessage);
  peer_handle_ = good_peer->register_memory(b.arena + ArenaHost::kGood, 3 * kMessage);
  require(sim::connect(network, hosts_, *good, vi_, *good_peer, peer_vi_, b.port.address(), 77),
          "the good programs can't connect");
}

void Hosts::send(sim::Program& from, std::uint32_t from_vi, std::byte* out,
                 std::uint32_t out_handle, sim::Program& to, std::uint32_t to_vi, std::byte* in,
                 std::uint32_t in_handle) {
  ++sent_;
  for (unsigned i = 0; i < kMessage; ++i) out[i] = static_cast<std::byte>(i * 7 + sent_);
  to.post_receive(to_vi, in, kMessage, in_handle);
  from.post_send(from_vi, out, kMessage, out_handle, sent_, sent_);
  bool sent = false, received = false;
  const auto logic = [&] {
    bool worked = false;
    if (const auto done = to.done(to_vi, true)) {
      require((done->status & vip::kErrorMask) == 0 && done->immediate == sent_,
              "a good program's receive fails");
      received = worked = true;
    }
    if (const auto done = from.done(from_vi, false)) {
      require((done->status & vip::kErrorMask) == 0, "a good program's send fails");
      sent = worked = true;
    }
    return worked;
  };
  sim::run(network, hosts_, logic, [&] { return sent && received; }, network.now() + 30 * kSecond);
  require(sent && received, "a good program's message does not arrive");
  require(std::memcmp(out, in, kMessage) == 0, "a good program's message is changed");
}

void Hosts::exchange() {
  std::byte* const here = a.arena + ArenaHost::kGood;
  std::byte* const there = b.arena + ArenaHost::kGood;
  send(*good, vi_, here, handle_, *good_peer, peer_vi_, there + kMessage, peer_handle_);
  send(*good_peer, peer_vi_, there, peer_handle_, *good, vi_, here + kMessage, handle_);
}

// Time passes whatever the stacks have to do: a program that keeps one busy must not stop it.
void Hosts::run_for(std::uint64_t ns) {
  const std::uint64_t until = network.now() + ns;
  std::uint64_t rounds = 0;
  for (;;) {
    bool worked = false;
    for (sim::Host* host : hosts_) worked |= host->step();
    if (worked && ++rounds % 64 != 0) continue;
    require(rounds < kMostRounds, "a stack never comes to rest");
    std::uint64_t next = std::min(network.next_event(), until);
    for (sim::Host* host : hosts_) next = std::min(next, host->next_deadline());
    if (network.now() >= until) return;
    network.advance_to(std::max(next, network.now() + 1));
  }
}

void Hosts::run_badly(std::uint64_t ns) {
  SimFaults faults;
  faults.loss = faults.reordering = 0.3;
  faults.duplication = 0.1;
  network.set_faults(faults);
  // Not so long that the good programs' connection could be given up.
  run_for(std::min(ns, kSecond / 2));
  network.set_faults({});
}

std::pair<std::uint32_t, std::uint32_t> Hosts::connect_hostile(std::uint16_t reliability) {
  const bool rdma_read = reliability != vip::kUnreliable;
  layout::CommandBody body{};
  body.op = layout::Op::kCreateCq;
  body.entries = 8;
  const std::uint32_t cq = 1 + hostile->now(body).handle;
  const std::uint32_t here = hostile->create_vi(reliability, cq, cq, true, rdma_read);
  const std::uint32_t there = hostile_peer->create_vi(reliability, 0, 0, true, rdma_read);
  require(sim::connect(network, hosts_, *hostile, here, *hostile_peer, there, b.port.address(), 9),
          "the hostile programs can't connect before they are hostile");
  return {here, there};
}

void Hosts::end() {
  for (const ArenaHost* host : {&a, &b}) {
    // As the byte before it, and so on back to the first one.
    const std::byte* const rest = host->arena + ArenaHost::kGood + 3 * kMessage;
    const std::size_t bytes = ArenaHost::kBytes - ArenaHost::kGood - 3 * kMessage;
    require(rest[0] == std::byte{0x5a} && std::memcmp(rest, rest + 1, bytes - 1) == 0,
            "memory of a good program has been written");
  }
  for (auto* program : {&hostile, &hostile_peer, &good, &good_peer}) program->reset();
  run_for(10 * kSecond);
  for (const ArenaHost* host : {&a, &b}) {
    const Stack::Usage left = host->stack->usage();
    require(left.sessions == 0 && left.vis == 0 && left.cqs == 0 && left.regions == 0 &&
                left.ptags == 0 && left.connected == 0 && left.claims == 0,
            "something of a session is left");
    require(!host->charged(), "something is still charged");
    require(left.held == 0, "held frames are left");
    require(left.requests == 0 && left.goodbyes == 0, "a request or a goodbye is left");
    require(host->port.outstanding() == 0, "frames of the port are left");
  }
}

}  // namespace viaduct::fuzz
