#include "tests/sim/world/library.h"

#include <algorithm>
#include <cstring>

#include "kagent/contract/granted_segment.h"
#include "kagent/stack/remains.h"
#include "kagent/stack/tables.h"
#include "tests/sim/world/failure.h"
#include "tests/sim/world/library_side.h"
#include "tests/sim/world/world.h"

namespace viaduct::sim {
namespace {

constexpr std::uint64_t kNever = ~0ull;

control::NicAttributes attributes_of(const Stack& stack) {
  control::NicAttributes out;
  std::memset(static_cast<void*>(&out), 0, sizeof out);
  const StackLimits& limits = stack.limits();
  std::memcpy(out.name, "sim", 3);
  const MacAddress address = stack.address();
  std::copy(address.begin(), address.end(), out.address);
  out.max_discriminator = layout::kMaxDiscriminator;
  out.max_regions = limits.regions;
  out.max_bytes = limits.session_bytes;
  out.max_block_bytes = limits.session_bytes;
  out.max_vis = limits.vis;
  out.max_descriptors = std::min(layout::kRingEntries, limits.slots);
  out.max_segments = layout::kMaxDataSegments;
  out.max_cqs = limits.cqs;
  out.max_cq_entries = limits.cq_entries;
  out.max_transfer = limits.max_transfer;
  out.native_mtu = stack.mtu();
  out.max_ptags = limits.ptags;
  out.reliability_support = vip::kUnreliable | vip::kReliableDelivery | vip::kReliableReception;
  out.rdma_read_support = vip::kReliableDelivery | vip::kReliableReception;
  return out;
}

}  // namespace

Library::Library(Simulation& its_world) : world(its_world), kernel_(Kernel::the()) {
  Random& random = world.random;
  preemption_ = random.chance(0.3) ? 0 : static_cast<double>(random.magnitude(1, 64)) / 512;
  spin_us_ = random.chance(0.3) ? 0 : static_cast<std::uint32_t>(random.magnitude(1, 50));
  kernel_.begin(*this);
}

Library::~Library() { kernel_.end(); }

LibraryProgram& Library::add(unsigned host, bool granted) {
  programs.push_back(std::make_unique<LibraryProgram>(
      *this, static_cast<unsigned>(programs.size()), host, granted));
  return *programs.back();
}

// ---------------------------------------------------------------------------- the kernel's view

std::uint64_t Library::now() const { return world.now(); }

Random& Library::random_of(const void* owner) {
  for (const auto& program : programs) {
    if (program.get() == owner) return program->random;
  }
  return world.random;
}

bool Library::may_run(const void* owner) {
  for (const auto& program : programs) {
    if (program.get() != owner) continue;
    return now() >= program->paused_until && now() >= world.drivers[program->host].paused_until;
  }
  return true;
}

bool Library::agent_is_there(unsigned host) const { return !world.drivers[host].dead; }

bool Library::connects(const std::shared_ptr<SocketFile>& socket) {
  for (const auto& program : programs) {
    if (program.get() != kernel_.fibers.current()->owner) continue;
    if (!agent_is_there(program->host)) return false;
    auto talk = std::make_unique<Talk>();
    talk->program = program.get();
    talk->host = program->host;
    talk->socket = socket;
    talks_.push_back(std::move(talk));
    return true;
  }
  fail("the agent is asked by nobody");
}

// ---------------------------------------------------------------------------- memory

bool Library::may_touch(const LibraryProgram& program, std::span<const iovec> memory,
                        bool write) const {
  return std::all_of(memory.begin(), memory.end(), [&](const iovec& piece) {
    const auto at = reinterpret_cast<std::uint64_t>(piece.iov_base);
    return write ? program.memory->may_write(at, piece.iov_len)
                 : program.memory->may_read(at, piece.iov_len);
  });
}

Library::Talk* Library::talk_of(Host& host, std::uint32_t session) {
  for (const auto& talk : talks_) {
    if (talk->open && world.agents[talk->host].get() == &host && talk->session == session) {
      return talk.get();
    }
  }
  return nullptr;
}

bool Library::reads(Host& host, std::uint32_t session, std::span<const iovec> memory) {
  const Talk* const talk = talk_of(host, session);
  if (talk == nullptr) fail("a stack reads the memory of nobody");
  if (talk->memory_gone) return false;
  if (!may_touch(*talk->program, memory, false)) fail("a stack reads what it must not read");
  return true;
}

bool Library::writes(Host& host, std::uint32_t session, std::span<const iovec> memory) {
  const Talk* const talk = talk_of(host, session);
  if (talk == nullptr) fail("a stack writes to the memory of nobody");
  if (talk->memory_gone) return false;
  if (!may_touch(*talk->program, memory, true)) fail("a stack writes to where it must not write");
  return true;
}

// Of a granted program's own stack: one of the two lies in the program's memory.
bool Library::copies(void* to, const void* from, std::size_t bytes) {
  const LibraryProgram* const writes = program_with(to);
  const LibraryProgram* const reads = program_with(from);
  const iovec target{to, bytes}, source{const_cast<void*>(from), bytes};
  if (writes != nullptr && !writes->dead() && !may_touch(*writes, {&target, 1}, true)) {
    fail("a program's stack writes %zu bytes to where it must not write", bytes);
  }
  if (reads != nullptr && !reads->dead() && !may_touch(*reads, {&source, 1}, false)) {
    fail("a program's stack reads %zu bytes that it must not read", bytes);
  }
  if ((writes != nullptr && writes->dead()) || (reads != nullptr && reads->dead())) return false;
  std::memcpy(to, from, bytes);
  return true;
}

const LibraryProgram* Library::program_with(const void* address) const {
  for (const auto& program : programs) {
    if (Memory::is_in_arena(program->number, address)) return program.get();
  }
  return nullptr;
}

void Library::poll_wakes(Host& host, std::uint32_t session) {
  if (Talk* const talk = talk_of(host, session)) ++talk->poll_wake->messages;
}

// ---------------------------------------------------------------------------- the agent's side

bool Library::serve(Talk& talk) {
  const Driver& driver = world.drivers[talk.host];
  if (driver.dead || now() < driver.paused_until) return false;
  if (talk.socket->shut && now() >= talk.unnoticed_until) {
    if (talk.open) end(talk);
    talk.socket->hung_up = true;
    return true;
  }
  if (!talk.socket->hello || talk.socket->shut) return false;
  answer(talk);
  return true;
}

void Library::answer(Talk& talk) {
  Host& host = *world.agents[talk.host];
  SocketFile::Answer out;
  std::memset(static_cast<void*>(&out.text), 0, sizeof out.text);
  control::HelloAnswer& text = out.text;
  text.head = control::MessageHead{};
  text.head.kind = static_cast<std::uint16_t>(control::Kind::kHello);
  text.head.bytes = sizeof text;
  talk.socket->hello.reset();
  talk.segment = std::make_shared<MemoryFile>(layout::Offsets(host.stack->capacity()).total);
  const auto session = host.stack->open_session(talk.segment->base);
  if (!session) {
    text.head.result = vip::kErrorResource;
    std::strcpy(text.reason, "no session left");
    talk.socket->answer = std::move(out);
    return;
  }
  talk.session = *session;
  talk.open = true;
  talk.poll_wake = std::make_shared<PollWakeFile>();
  const auto agent_wake = std::make_shared<EventFile>();
  Driver& driver = world.drivers[talk.host];
  agent_wake->rung = [&driver] { driver.rang = true; };
  driver.kicked = true;
  text.capacity = host.stack->capacity();
  text.segment_bytes = talk.segment->bytes;
  text.busy_poll_us = spin_us_;
  text.nic = attributes_of(*host.stack);
  text.placement = static_cast<std::uint32_t>(control::Placement::kHosted);
  std::memcpy(text.host, text.nic.address, sizeof text.host);
  std::memcpy(text.control_session, text.nic.address, sizeof text.control_session);
  out.files = {talk.segment, agent_wake};
  if (talk.program->granted) grant(talk, text, out);
  out.files.push_back(talk.poll_wake);
  talk.program->socket = talk.socket;
  talk.socket->answer = std::move(out);
}

void Library::grant(Talk& talk, control::HelloAnswer& text, SocketFile::Answer& out) {
  AgentHost& agent = *world.agents[talk.host];
  const StackLimits& limits = agent.limits;
  SimPort& port = world.network.add_host(world.new_child(talk.host), world.plan.mtus[talk.host]);
  talk.port = std::make_shared<PortFile>(world.network, port);
  agent.stack->delegate(talk.session, port.address());
  text.placement = static_cast<std::uint32_t>(control::Placement::kGranted);
  text.port.address = port.address();
  text.port.ether_type = wire::kDefaultEtherType;
  text.port.mtu = world.plan.mtus[talk.host];
  const MacAddress control_session = agent.control_session.address();
  std::copy(control_session.begin(), control_session.end(), text.control_session);
  text.keepalive_ms = static_cast<std::uint32_t>(limits.keepalive_ns / kMsec);
  text.peer_timeout_ms = static_cast<std::uint32_t>(limits.peer_timeout_ns / kMsec);
  text.stopped_peer_ms = static_cast<std::uint32_t>(limits.stopped_peer_ns / kMsec);
  text.checksum = limits.checksum ? 1 : 0;
  text.granted_vis = limits.vis;
  text.granted_cqs = limits.cqs;
  text.granted_slots = limits.slots;
  text.granted_regions = limits.regions;
  text.granted_ptags = limits.ptags;
  text.granted_peers = limits.peers;
  text.granted_requests = limits.requests;
  text.granted_goodbyes = limits.goodbyes;
  text.granted_held = limits.held;
  talk.limits = granted_limits(text);
  text.granted_segment_bytes = granted_segment_bytes(talk.limits, Tables::footprint(talk.limits));
  talk.home = std::make_shared<MemoryFile>(text.granted_segment_bytes);
  agent.own[talk.session] = {talk.home->base + granted_stack_offset(talk.limits), talk.limits, {}};
  out.files.push_back(talk.port);
  out.files.push_back(std::make_shared<MemoryFile>(4096));  // the UMEM: frames lie in the network
  out.files.push_back(talk.home);
}

void Library::note_remains(Talk& talk) {
  if (talk.home == nullptr || talk.noted) return;
  talk.noted = true;
  talk.remains.resize(talk.limits.vis + talk.limits.goodbyes);
  talk.remains.resize(remains(talk.home->base + granted_stack_offset(talk.limits), talk.limits,
                                     talk.remains));
}

// In the program's name, three times, as the agent does.
void Library::say_goodbye(Talk& talk) {
  SimPort& port = talk.port->port;
  talk.port->dead = true;
  world.network.reopen(port);
  for (int i = 0; i < 3; ++i) {
    for (const Remains& one : talk.remains) {
      wire::Header header{};
      header.type = wire::Type::kDisconnect;
      header.vi = one.vi;
      header.key = one.key;
      header.psn = one.psn;
      header.ack = one.ack;
      Frame frame;
      if (port.reserve({&frame, 1}) != 1) continue;
      frame.length = static_cast<std::uint32_t>(
          wire::encode(header, one.peer, port.address(), wire::kDefaultEtherType, frame.data));
      port.submit({&frame, 1});
    }
  }
  port.flush();
}

void Library::end(Talk& talk) {
  talk.open = false;
  world.agents[talk.host]->own.erase(talk.session);
  world.agents[talk.host]->stack->close_session(talk.session, now());
  layout::View(talk.segment->base, world.agents[talk.host]->stack->capacity())
      .header()
      .closed.store(1);
  talk.poll_wake->hung_up = true;
  world.drivers[talk.host].rang = true;
  if (talk.port == nullptr) return;
  world.port_ended(talk.host, talk.port->port.address());
  note_remains(talk);
  say_goodbye(talk);
}

bool Library::tell_of_rings(const MacAddress& port, RingMessage message) {
  for (const auto& talk : talks_) {
    if (!talk->open || talk->port == nullptr || talk->port->port.address() != port || talk->socket->shut) continue;
    SocketFile::Message told;
    std::memset(static_cast<void*>(&told.text), 0, sizeof told.text);
    told.text.head = control::MessageHead{};
    told.text.head.kind =
        static_cast<std::uint16_t>(message.file ? control::Kind::kLocalPeer : control::Kind::kLocalEnd);
    told.text.head.bytes = sizeof told.text;
    std::copy(message.peer.begin(), message.peer.end(), told.text.address);
    told.text.end = static_cast<std::uint16_t>(message.end);
    told.text.program = message.program;
    if (message.file) told.files.push_back(std::make_shared<RingsFile>(std::move(message.file)));
    talk->socket->messages.push_back(std::move(told));
    return true;
  }
  return false;
}

// ---------------------------------------------------------------------------- steps

bool Library::step() {
  bool any = false;
  for (std::size_t i = 0; i < talks_.size(); ++i) any |= serve(*talks_[i]);
  std::erase_if(talks_, [](const auto& talk) { return talk->socket->hung_up; });
  for (const auto& program : programs) {
    if (!program->dead() || now() < program->dead_until || !program->buried) continue;
    if (now() < program->unnoticed_until || !agent_is_there(program->host)) continue;
    const bool known = std::any_of(talks_.begin(), talks_.end(), [&](const auto& talk) {
      return talk->program == program.get();
    });
    if (known) continue;
    program->born();
    any = true;
  }
  return kernel_.run() || any;
}

std::uint64_t Library::next() const {
  std::uint64_t next = kernel_.next();
  const auto at = [&](std::uint64_t time) {
    if (time > now()) next = std::min(next, time);
  };
  for (const auto& talk : talks_) at(talk->unnoticed_until);
  for (const auto& program : programs) {
    at(program->paused_until);
    at(program->dead_until);
    at(program->unnoticed_until);
  }
  return next;
}

bool Library::ended() const {
  return talks_.empty() && kernel_.files() == 0 && kernel_.maps() == 0 &&
         std::all_of(programs.begin(), programs.end(),
                     [this](const auto& program) {
                       return program->done && program->buried &&
                              kernel_.fibers.count(program.get()) == 0;
                     }) &&
         kernel_.fibers.count(nullptr) <= 1;
}

std::string Library::text() const {
  std::string out = std::to_string(talks_.size()) + " sessions, " +
                    std::to_string(kernel_.files()) + " descriptors, " +
                    std::to_string(kernel_.maps()) + " maps, fibers:" + kernel_.fibers.text();
  for (const auto& program : programs) {
    out += ", program " + std::to_string(program->number) + (program->done ? " done" : "") +
           (program->dead() ? " dead" : "") + (program->buried ? "" : " not buried");
  }
  return out;
}

void Library::check_nothing_left() {
  for (const auto& program : programs) program->memory.reset();
}

void Library::check_slots(const LibraryProgram& program) const {
  for (const auto& talk : talks_) {
    if (talk->program != &program || talk->socket != program.socket || !talk->open) continue;
    const bool own = talk->home != nullptr;
    const layout::Capacity capacity = own ? granted_capacity(talk->limits)
                                          : world.agents[talk->host]->stack->capacity();
    const layout::View view(own ? talk->home->base : talk->segment->base, capacity);
    const layout::Header& header = view.header();
    const std::uint32_t used = header.fresh_slots.load();
    std::uint32_t free = 0;
    for (auto top = static_cast<std::uint32_t>(header.free_slots.load()); top != 0; ++free) {
      if (top > capacity.slots || free > used) fail("the list of free slots is broken");
      top = view.slot(top - 1).completion.length;
    }
    if (free != used) {
      fail("program %u: %u slots were used and %u are free again", program.number, used, free);
    }
    for (std::uint32_t i = 0; i < layout::kCommands; ++i) {
      if (view.command(i).owner.load() != 0) fail("program %u: commands are left", program.number);
    }
  }
}

// ---------------------------------------------------------------------------- troubles

void Library::pause(std::uint32_t which, std::uint64_t until) {
  LibraryProgram& program = *programs[which % programs.size()];
  tell("program %u pauses", program.number);
  program.paused_until = until;
}

void Library::kill(std::uint32_t which, std::uint64_t back_after, bool unnoticed) {
  LibraryProgram& program = *programs[which % programs.size()];
  if (program.dead() || program.done || !agent_is_there(program.host)) return;
  tell("program %u dies%s", program.number,
       unnoticed ? ", which its agent does not see at once" : "");
  program.dead_until = now() + std::max<std::uint64_t>(back_after, 1);
  program.unnoticed_until = unnoticed ? now() + random_of(nullptr).magnitude(10 * kUs, 20 * kMsec) : 0;
  for (const auto& talk : talks_) {
    if (talk->program != &program) continue;
    talk->memory_gone = true;
    talk->unnoticed_until = program.unnoticed_until;
    if (!talk->open || talk->port == nullptr) continue;
    note_remains(*talk);
    talk->port->dead = true;
    world.network.reopen(talk->port->port);
  }
  bury(program, kernel_.fibers.end([&](const Fiber& fiber) {
    return fiber.owner == &program && fiber.name != kLibrarysOwn;
  }));
}

// Closes the library's objects of a program that has died, as if its process had never been.
void Library::bury(LibraryProgram& program, std::vector<Fibers::Remains> threads) {
  for (LibrarySide* const side : program.sides) side->died();
  program.buried = false;
  kernel_.close_all(&program);
  kernel_.fibers.disown(&program);
  const VIP_NIC_HANDLE nic = program.nic;
  program.nic = nullptr;
  kernel_.fibers.start(nullptr, "undertaker", [this, &program, nic, threads = std::move(threads)] {
    for (const Fibers::Remains& thread : threads) kernel_.fibers.retire(thread);
    if (nic != nullptr) VipCloseNic(nic);
    program.buried = true;
  });
}

void Library::kill_agent(unsigned host) {
  for (const auto& talk : talks_) {
    if (talk->host != host) continue;
    talk->socket->hung_up = true;
    talk->open = false;
    if (talk->poll_wake != nullptr) talk->poll_wake->hung_up = true;
    if (talk->port == nullptr) continue;
    talk->port->dead = true;
    world.network.reopen(talk->port->port);
    world.network.kill(talk->port->port);
  }
}

void Library::end_of_troubles() {
  for (const auto& program : programs) {
    program->paused_until = std::min(program->paused_until, now());
    program->unnoticed_until = std::min(program->unnoticed_until, now());
    if (program->dead_until != 0) program->dead_until = now();
  }
  for (const auto& talk : talks_) talk->unnoticed_until = std::min(talk->unnoticed_until, now());
}

SimPort* Library::port_of(const std::byte* address) const {
  for (const auto& talk : talks_) {
    if (talk->port == nullptr || talk->port->dead) continue;
    SimPort& port = talk->port->port;
    if (std::memcmp(port.address().data(), address, port.address().size()) == 0) return &port;
  }
  return nullptr;
}

}  // namespace viaduct::sim
