// Fuzz target of a session's rings: a program's own segment. The steps of the input run commands, post descriptors,
// write over words of the segment and ring doorbells, in any order and with time passing; the program's peer on the
// other host helps it along. Two good programs on the same two stacks must go on undisturbed, and nothing may be left
// at the end.
#include <cstring>

#include "tests/fuzz/fuzz_hosts.h"

using namespace viaduct;  // NOLINT: one translation unit

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

using fuzz::ArenaHost;
using fuzz::Input;

constexpr std::size_t kMostSteps = 300;
constexpr std::uint64_t kTimes[] = {0,          1'000,       20'000,        200'000,
                                    2'000'000, 50'000'000, 1'000'000'000, 4'000'000'000};
constexpr std::uint16_t kLevels[] = {vip::kUnreliable, vip::kReliableDelivery,
                                     vip::kReliableReception};

struct Attack {
  fuzz::Hosts hosts{1};
  // The hostile program's knowledge of itself; later entries push earlier ones out.
  std::uint32_t handles[4] = {}, ptags[4] = {}, vis[4] = {}, cqs[4] = {}, requests[4] = {};
  std::uint32_t vi_generations[4] = {}, cq_generations[4] = {};
  std::uint32_t handle_count = 0, ptag_count = 0, vi_count = 0, cq_count = 0, request_count = 0;
  std::uint32_t peer_vi = 0, peer_handle = 0;
  std::uint32_t positions[64][2] = {};
  std::uint32_t next_command = 0;

  sim::Program& program() { return *hosts.hostile; }
  std::byte* arena() { return hosts.a.arena; }

  void begin() {
    program().view().header().errors.wanted.store(1);
    handles[0] = program().register_memory(arena(), 200'000, 0, true, true);
    peer_handle = hosts.hostile_peer->register_memory(hosts.b.arena, 200'000, 0, true, true);
  }

  void learn(const layout::CommandBody& body) {
    if (body.result != vip::kSuccess) return;
    switch (body.op) {
      case layout::Op::kCreatePtag: ptags[ptag_count++ % 4] = body.handle; break;
      case layout::Op::kRegisterMemory: handles[++handle_count % 4] = body.handle; break;
      case layout::Op::kCreateVi:
        vis[vi_count % 4] = body.vi;
        vi_generations[vi_count++ % 4] = body.generation;
        positions[body.vi % 64][0] = positions[body.vi % 64][1] = 0;
        break;
      case layout::Op::kCreateCq:
        cqs[cq_count % 4] = body.handle;
        cq_generations[cq_count++ % 4] = body.generation;
        break;
      case layout::Op::kConnectWait: requests[request_count++ % 4] = body.handle; break;
      default: break;
    }
  }

  // Answers are read in place: the input may have written over the program's own book-keeping.
  void collect() {
    for (std::uint32_t c = 0; c < layout::kCommands; ++c) {
      layout::Command& slot = program().view().command(c);
      if (slot.state.load() != layout::kFinished) continue;
      learn(slot.body);
      slot.state.store(layout::kIdle);
    }
  }

  void submit(const layout::CommandBody& body) {
    const std::uint32_t number = next_command++ % layout::kCommands;
    layout::Command& slot = program().view().command(number);
    slot.body = body;
    slot.state.store(layout::kSubmitted);
    program().view().header().doorbells.ring(layout::command_bit(number));
  }
};

std::uint32_t pick(const std::uint32_t (&known)[4], Input& input) {
  const std::uint8_t which = input.byte();
  return which < 250 ? known[which % 4] : input.word();
}

void command(Attack& attack, Input& input) {
  layout::CommandBody body{};
  body.op = static_cast<layout::Op>(input.byte() % 34);
  const std::uint8_t vi = input.byte() % 4;
  body.vi = attack.vis[vi];
  body.generation = attack.vi_generations[vi];
  body.handle = pick(attack.handles, input);
  body.timeout_ms = input.byte();
  body.entries = input.byte();
  body.memory.address = reinterpret_cast<std::uint64_t>(attack.arena()) + input.number();
  body.memory.length = input.number();
  if (input.byte() > 240) body.memory.address += ArenaHost::kBytes - 1000;
  body.memory.ptag = input.byte() % 2 ? pick(attack.ptags, input) : 0;
  body.memory.enable_write = input.byte() % 2;
  body.memory.enable_read = input.byte() % 2;
  body.vi_attributes.reliability = kLevels[input.byte() % 3];
  body.vi_attributes.max_transfer = input.number();
  body.vi_attributes.ptag = input.byte() % 2 ? pick(attack.ptags, input) : 0;
  body.vi_attributes.enable_write = input.byte() % 2;
  body.vi_attributes.enable_read = input.byte() % 2;
  switch (body.op) {
    case layout::Op::kDestroyPtag: body.handle = pick(attack.ptags, input); break;
    case layout::Op::kDestroyCq:
    case layout::Op::kResizeCq: {
      const std::uint8_t cq = input.byte() % 4;
      body.handle = attack.cqs[cq];
      body.generation = attack.cq_generations[cq];
      break;
    }
    case layout::Op::kDeregisterMemory:
    case layout::Op::kQueryMemory:
    case layout::Op::kSetMemory:
      if (input.byte() % 2) body.memory.address = reinterpret_cast<std::uint64_t>(attack.arena());
      break;
    case layout::Op::kConnectAccept:
    case layout::Op::kConnectReject: body.handle = pick(attack.requests, input); break;
    case layout::Op::kCreateVi:
      body.send_cq = input.byte() % 4 == 0 ? 1 + attack.cqs[input.byte() % 4] : 0;
      body.receive_cq = input.byte() % 4 == 0 ? 1 + attack.cqs[input.byte() % 4] : 0;
      break;
    case layout::Op::kCancel: body.handle = attack.next_command - 1 - input.byte() % 4; break;
    default: break;
  }
  const MacAddress addresses[] = {attack.hosts.a.port.address(), attack.hosts.b.port.address(),
                                  {2, 0, 0, 0, 0, 9}};
  const MacAddress& to = addresses[input.byte() % 3];
  std::memcpy(body.remote.host, to.data(), to.size());
  body.local.discriminator_length = body.remote.discriminator_length = input.byte() % 4;
  body.local.discriminator[0] = body.remote.discriminator[0] = input.byte() % 2;
  // And then whatever the input likes.
  for (std::uint8_t changes = input.byte() % 4; changes > 0; --changes) {
    const std::size_t at = input.number() % sizeof body;
    reinterpret_cast<std::uint8_t*>(&body)[at] = input.byte();
  }
  attack.submit(body);
}

void post(Attack& attack, Input& input, bool receive) {
  const std::uint8_t which = input.byte() % 4;
  const std::uint32_t vi = attack.vis[which];
  if (vi >= attack.hosts.a.limits.vis) return;
  const layout::View& view = attack.program().view();
  const std::uint8_t low = input.byte();
  layout::SlotRequest& request = view.slot(low).request;
  // A few names of slots that there are not.
  const std::uint32_t index =
      low < 240 ? low : attack.hosts.a.limits.slots + input.word() % (layout::kMaxSlots / 2);
  const std::uint8_t shape = input.byte();
  request.op = receive ? std::uint16_t{layout::kOpReceive} : std::uint16_t(shape % 5);
  request.flags = shape < 64 ? input.number() : std::uint16_t(shape & 3);
  request.length = input.number();
  if (shape & 64) request.length %= 300;
  request.segment_count = input.byte() % 4 == 0 ? input.byte() : std::uint16_t(shape / 8 % 4);
  request.immediate = 5;
  request.descriptor = reinterpret_cast<std::uint64_t>(attack.arena()) + 1024;
  request.descriptor_handle = attack.handles[0];
  const bool peers = !receive && shape % 5 > 1;
  std::uint32_t left = request.length;
  for (unsigned i = 0; i < 4; ++i) {
    layout::Segment& segment = request.payload.segments[i];
    const bool remote = peers && i == 0;
    std::byte* const base = remote ? attack.hosts.b.arena : attack.arena();
    segment.address = reinterpret_cast<std::uint64_t>(base) + 4096 + 16384 * i;
    segment.handle = remote ? attack.peer_handle : pick(attack.handles, input);
    const std::uint8_t part = input.byte();
    segment.length = remote ? 0 : part < 128 ? left : input.number();
    left -= std::min(left, segment.length);
    if (part == 255) segment.address = input.word() | std::uint64_t{input.word()} << 32;
  }
  std::uint32_t& position = attack.positions[vi % 64][receive];
  const std::uint32_t generation =
      view.vi(vi).status.generation.load() + (input.byte() == 255 ? 1u : 0u);
  layout::RingEntry* const ring = receive ? view.receive_ring(vi) : view.send_ring(vi);
  ring[position % layout::kRingEntries].word.store(
      layout::ring_word(index, position, generation));
  ++position;
  view.vi(vi).send.dequeued.store(0);
  view.header().doorbells.ring(layout::vi_bit(vi));
}

void scribble(Attack& attack, Input& input, std::size_t from, std::size_t bytes) {
  const auto what = input.bytes(1 + input.byte() % 32);
  const std::size_t at = from + input.number() * std::size_t{8} % bytes;
  auto* const segment = reinterpret_cast<std::uint8_t*>(&attack.program().view().header());
  const std::size_t total = layout::Offsets(attack.hosts.a.stack->capacity()).total;
  if (at + what.size() <= total) std::memcpy(segment + at, what.data(), what.size());
}

// Only before anything else: it needs a program that keeps its book.
void connect(Attack& attack, std::uint16_t level) {
  const auto [here, there] = attack.hosts.connect_hostile(level);
  attack.vis[attack.vi_count % 4] = here;
  attack.vi_generations[attack.vi_count++ % 4] =
      attack.program().view().vi(here).status.generation.load();
  attack.cqs[attack.cq_count % 4] = attack.cq_count;
  attack.cq_generations[attack.cq_count++ % 4] = 0;
  attack.peer_vi = there;
  for (unsigned i = 0; i < 4; ++i) {
    attack.hosts.hostile_peer->post_receive(there, attack.hosts.b.arena + 1000 * i, 1000,
                                            attack.peer_handle);
  }
}

// Something to do for the hostile program's receive queue.
void peer_sends(Attack& attack, Input& input) {
  sim::Program& peer = *attack.hosts.hostile_peer;
  while (peer.done(attack.peer_vi, false)) {}
  if (peer.done(attack.peer_vi, true)) {
    peer.post_receive(attack.peer_vi, attack.hosts.b.arena, 1000, attack.peer_handle);
  }
  if (attack.vi_count == 0 || peer.state(attack.peer_vi) != vip::kConnected) return;
  if (peer.posted(attack.peer_vi, false) > 100) return;
  // The program reads what is on its CQ, or does not.
  if (input.byte() % 2) {
    layout::Cq& cq = attack.program().view().cq(0);
    cq.consumed.store(cq.consumed.load() + input.byte() % 8);
    attack.program().view().header().doorbells.ring(
        layout::cq_bit(attack.hosts.a.stack->capacity(), 0));
  }
  const std::uint16_t length = input.number() % 5000;
  if (input.byte() % 4 == 0) {
    peer.post_rdma(attack.peer_vi, input.byte() % 2 ? layout::kOpRdmaWrite : layout::kOpRdmaRead,
                   {reinterpret_cast<std::uint64_t>(attack.hosts.b.arena), attack.peer_handle, length},
                   attack.arena() + input.number(), pick(attack.handles, input));
  } else {
    peer.post_send(attack.peer_vi, attack.hosts.b.arena, length, attack.peer_handle, 0, 9);
  }
}

void step(Attack& attack, Input& input) {
  const layout::Offsets at(attack.hosts.a.stack->capacity());
  const std::uint8_t what = input.byte();
  switch (what % 16) {
    case 0:
    case 1:
    case 2: command(attack, input); break;
    case 3:
    case 4: post(attack, input, false); break;
    case 5: post(attack, input, true); break;
    case 6:
      for (unsigned i = 0; i < 4; ++i) post(attack, input, false);
      break;
    case 7: peer_sends(attack, input); break;
    case 8: scribble(attack, input, 0, at.slots); break;
    case 9: scribble(attack, input, at.slots, 256 * sizeof(layout::Slot)); break;
    case 10: scribble(attack, input, 0, at.total); break;
    case 11:
      attack.program().view().header().doorbells.ring(input.number() % layout::Doorbells::kBits);
      break;
    case 12:
      if (attack.hosts.a.stack->prepare_to_sleep()) attack.hosts.a.stack->awake();
      break;
    case 13:
      attack.hosts.run_badly(kTimes[what / 16 % std::size(kTimes)]);
      attack.collect();
      break;
    default:
      attack.hosts.run_for(kTimes[what / 16 % std::size(kTimes)]);
      attack.collect();
      break;
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Attack attack;
  attack.begin();
  Input input(data, size);
  const std::uint8_t shape = input.byte();
  for (unsigned i = 0; i < shape % 4; ++i) connect(attack, kLevels[(shape / 4 + i) % 3]);
  for (std::size_t i = 0; i < kMostSteps && !input.empty(); ++i) step(attack, input);
  attack.hosts.exchange();
  attack.hosts.end();
  return 0;
}
