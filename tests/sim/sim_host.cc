#include "tests/sim/sim_host.h"
#include "tests/sim/counter_tally.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>

namespace viaduct::sim {

namespace {

void* map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) std::abort();
  return memory;
}

// Copies piece by piece in order, as the agent's system calls do.
void copy(std::span<const iovec> to, std::span<const iovec> from) {
  std::size_t t = 0, to_at = 0;
  for (const iovec& piece : from) {
    std::size_t at = 0;
    while (at < piece.iov_len) {
      const std::size_t n = std::min(piece.iov_len - at, to[t].iov_len - to_at);
      std::memcpy(static_cast<std::byte*>(to[t].iov_base) + to_at,
                  static_cast<const std::byte*>(piece.iov_base) + at, n);
      at += n;
      to_at += n;
      if (to_at == to[t].iov_len) ++t, to_at = 0;
    }
  }
}

}  // namespace

StackLimits small_limits() {
  StackLimits limits;
  limits.sessions = 4;
  limits.vis = 64;
  limits.cqs = 8;
  limits.regions = 1024;
  limits.ptags = 16;
  limits.peers = 16;
  limits.requests = 64;
  limits.goodbyes = 64;
  limits.held = 1024;
  limits.slots = 4096;
  return limits;
}

// ---------------------------------------------------------------------------- Program

Program::Program(Host& host) : host_(host) {
  bytes_ = layout::Offsets(host.stack->capacity()).total;
  segment_ = map(bytes_);
  session_ = host.stack->open_session(segment_).value();
  view_ = layout::View(segment_, host.stack->capacity());
  host.programs.push_back(this);
  descriptor_handle_ = register_memory(descriptor_, sizeof descriptor_);
}

Program::~Program() {
  host_.stack->close_session(session_, host_.network.now());
  std::erase(host_.programs, this);
  munmap(segment_, bytes_);
}

void Program::command(const layout::CommandBody& body, Done done) {
  for (std::uint32_t c = 0; c < layout::kCommands; ++c) {
    if (commands_.contains(c)) continue;
    layout::Command& slot = view_.command(c);
    slot.body = body;
    slot.state.store(layout::kSubmitted);
    commands_[c] = std::move(done);
    view_.header().doorbells.ring(layout::command_bit(c));
    return;
  }
  std::abort();
}

void Program::poll() {
  for (auto it = commands_.begin(); it != commands_.end();) {
    layout::Command& slot = view_.command(it->first);
    if (slot.state.load() != layout::kFinished) {
      ++it;
      continue;
    }
    const layout::CommandBody body = slot.body;
    slot.state.store(layout::kIdle);
    const Done done = std::move(it->second);
    it = commands_.erase(it);
    if (done) done(body);
  }
}

layout::CommandBody Program::now(const layout::CommandBody& body) {
  std::optional<layout::CommandBody> answer;
  command(body, [&answer](const layout::CommandBody& b) { answer = b; });
  // In the first round, unless the session has had done more than its share before.
  constexpr int kRounds = 1000;
  for (int i = 0; i < kRounds && !answer; ++i) {
    host_.stack->progress(host_.network.now());
    poll();
  }
  if (!answer) std::abort();
  return *answer;
}

std::uint32_t Program::register_memory(const void* address, std::size_t length,
                                       std::uint32_t ptag, bool rdma_write, bool rdma_read) {
  layout::CommandBody body{};
  body.op = layout::Op::kRegisterMemory;
  body.memory.address = reinterpret_cast<std::uint64_t>(address);
  body.memory.length = length;
  body.memory.ptag = ptag;
  body.memory.enable_write = rdma_write;
  body.memory.enable_read = rdma_read;
  return now(body).handle;
}

std::uint32_t Program::create_vi(std::uint16_t reliability, std::uint32_t send_cq,
                                 std::uint32_t receive_cq, bool rdma_write, bool rdma_read) {
  layout::CommandBody body{};
  body.op = layout::Op::kCreateVi;
  body.vi_attributes.reliability = reliability;
  body.vi_attributes.max_transfer = 65536;
  body.vi_attributes.enable_write = rdma_write;
  body.vi_attributes.enable_read = rdma_read;
  body.send_cq = send_cq;
  body.receive_cq = receive_cq;
  body = now(body);
  if (body.result != vip::kSuccess) std::abort();
  generations_[body.vi] = body.generation;
  queues_.erase({body.vi, false});
  queues_.erase({body.vi, true});
  return body.vi;
}

Program::Queue& Program::queue(std::uint32_t vi, bool receive) { return queues_[{vi, receive}]; }

std::uint32_t Program::take_slot() {
  if (free_slots_.empty()) return fresh_slots_++;
  const std::uint32_t slot = free_slots_.back();
  free_slots_.pop_back();
  return slot;
}

void Program::post(std::uint32_t vi, bool receive, const std::vector<layout::Segment>& segments,
                   std::uint32_t length, std::uint64_t tag,
                   std::optional<std::uint32_t> immediate, const void* inline_data,
                   std::uint16_t op, std::uint16_t flags) {
  const std::uint32_t index = take_slot();
  layout::Slot& slot = view_.slot(index);
  slot.completion.status.store(0);
  layout::SlotRequest& request = slot.request;
  request.op = receive ? std::uint16_t{layout::kOpReceive} : op;
  request.flags = static_cast<std::uint16_t>(flags | (immediate ? layout::kSlotImmediate : 0));
  request.segment_count = static_cast<std::uint16_t>(segments.size());
  request.length = length;
  request.immediate = immediate.value_or(0);
  request.descriptor = reinterpret_cast<std::uint64_t>(descriptor_);
  request.descriptor_handle = descriptor_handle_;
  std::copy_n(segments.begin(), std::min<std::size_t>(segments.size(), layout::kMaxSegments),
              request.payload.segments);
  if (inline_data != nullptr) {
    request.flags |= layout::kSlotInline;
    std::memcpy(request.payload.inline_data + segments.size() * sizeof(layout::Segment),
                inline_data, length);
  }
  targets_[index] = segments;
  Queue& q = queue(vi, receive);
  q.slots.emplace_back(index, tag);
  layout::RingEntry* ring = receive ? view_.receive_ring(vi) : view_.send_ring(vi);
  ring[q.posted % layout::kRingEntries].word.store(
      layout::ring_word(index, q.posted, generations_[vi]));
  ++q.posted;
  view_.vi(vi).send.dequeued.store(0);
  if (!receive || state(vi) == vip::kError) {
    view_.header().doorbells.ring(layout::vi_bit(vi));
  }
}

void Program::post_send(std::uint32_t vi, const void* data, std::uint32_t length,
                        std::uint32_t handle, std::uint64_t tag,
                        std::optional<std::uint32_t> immediate) {
  std::vector<layout::Segment> segments;
  if (length != 0) segments.push_back({reinterpret_cast<std::uint64_t>(data), handle, length});
  const bool fits = length != 0 && sizeof(layout::Segment) + length <= layout::kMaxInlineSend;
  post(vi, false, segments, length, tag, immediate, fits ? data : nullptr);
}

void Program::post_rdma(std::uint32_t vi, layout::SlotOp op, const layout::Segment& local,
                        const void* address, std::uint32_t handle, std::uint64_t tag,
                        std::optional<std::uint32_t> immediate) {
  std::vector<layout::Segment> segments{{reinterpret_cast<std::uint64_t>(address), handle, 0}};
  if (local.length != 0) segments.push_back(local);
  post(vi, false, segments, local.length, tag, immediate, nullptr, op);
}

void Program::post_receive(std::uint32_t vi, void* data, std::uint32_t length,
                           std::uint32_t handle, std::uint64_t tag) {
  std::vector<layout::Segment> segments;
  if (length != 0) segments.push_back({reinterpret_cast<std::uint64_t>(data), handle, length});
  post(vi, true, segments, length, tag, {});
}

std::optional<Completion> Program::done(std::uint32_t vi, bool receive) {
  Queue& q = queue(vi, receive);
  if (q.posted == q.dequeued) return std::nullopt;
  const auto [index, tag] = q.slots[q.dequeued];
  const layout::Slot& slot = view_.slot(index);
  const std::uint32_t status = slot.completion.status.load();
  if (status == 0) return std::nullopt;
  if (receive && slot.completion.inline_length != 0) {
    const std::byte* data = slot.inline_data;
    std::uint32_t left = slot.completion.inline_length;
    for (const layout::Segment& segment : targets_[index]) {
      const std::uint32_t n = std::min(left, segment.length);
      std::memcpy(reinterpret_cast<void*>(segment.address), data, n);
      data += n;
      left -= n;
    }
  }
  ++q.dequeued;
  free_slots_.push_back(index);
  return Completion{status, slot.completion.length, slot.completion.immediate, tag};
}

std::uint32_t Program::posted(std::uint32_t vi, bool receive) const {
  const auto it = queues_.find({vi, receive});
  return it == queues_.end() ? 0 : it->second.posted - it->second.dequeued;
}

std::uint32_t Program::state(std::uint32_t vi) const { return view_.vi(vi).status.state.load(); }

std::optional<std::pair<std::uint32_t, bool>> Program::cq_entry(std::uint32_t cq) {
  layout::Cq& shared = view_.cq(cq);
  auto& [generation, consumed] = cqs_[cq];
  if (generation != shared.generation.load()) {
    generation = shared.generation.load();
    consumed = 0;
  }
  const layout::CqEntry& entry = view_.cq_ring(cq)[consumed % layout::kCqRingEntries];
  if (entry.tag.load() != layout::cq_tag(consumed, generation)) return std::nullopt;
  const std::pair<std::uint32_t, bool> out{entry.vi, entry.receive != 0};
  shared.consumed.store(++consumed);
  if (shared.starved.load()) {
    view_.header().doorbells.ring(layout::cq_bit(host_.stack->capacity(), cq));
  }
  return out;
}

// ---------------------------------------------------------------------------- Host

Host::Host(SimNetwork& net, std::uint8_t number, const StackLimits& its_limits,
           std::uint64_t seed, std::uint32_t mtu)
    : Host(net, net.add_host({0x02, 0, 0, 0, 0, number}, mtu), nullptr,
           {{0x02, 0, 0, 0, 0, number}, {0x02, 0, 0, 0, 0, number}}, its_limits,
           std::string(1, static_cast<char>('a' + number - 1)), seed) {}

Host::Host(SimNetwork& net, SimPort& its_port, std::unique_ptr<Port> through,
           const StackAddresses& addresses, const StackLimits& its_limits,
           const std::string& name, std::uint64_t seed)
    : network(net),
      port(its_port),
      limits(its_limits),
      addresses_(addresses),
      through_(std::move(through)),
      name_(name),
      random_(seed * 257 + port.address()[5] + 256 * port.address()[4]) {
  bytes_ = Stack::footprint(limits);
  segment_ = map(bytes_);
  Port& used = through_ != nullptr ? *through_ : port;
  stack = std::make_unique<Stack>(segment_, limits, wire::kDefaultEtherType, used, *this,
                                  addresses, net.now());
}

Host::~Host() {
  if (stack != nullptr) add_to_tally(stack->counters());
  stack.reset();
  munmap(segment_, bytes_);
}

void Host::crash() {
  add_to_tally(stack->counters());
  stack.reset();
  network.reopen(port);
  munmap(segment_, bytes_);
  segment_ = map(bytes_);
}

void Host::restart(std::unique_ptr<Port> through) {
  through_ = std::move(through);
  Port& used = through_ != nullptr ? *through_ : port;
  stack = std::make_unique<Stack>(segment_, limits, wire::kDefaultEtherType, used, *this,
                                  addresses_, network.now());
}

bool Host::step() {
  const bool worked = stack->progress(network.now()) != 0;
  for (Program* program : programs) program->poll();
  return worked;
}

bool Host::read_program(std::uint32_t session, const Reader&, std::span<const iovec> remote,
                        std::span<const iovec> local) {
  if (watch != nullptr && !watch->reads(*this, session, remote)) return false;
  copy(local, remote);
  return true;
}

bool Host::write_program(std::uint32_t session, std::span<const iovec> remote,
                         std::span<const iovec> local) {
  if (memory_gone) return false;
  if (watch == nullptr) {
    copy(remote, local);
    return true;
  }
  if (!watch->writes(*this, session, remote)) return false;
  std::size_t l = 0, from = 0;
  for (const iovec& piece : remote) {
    for (std::size_t at = 0; at < piece.iov_len;) {
      const std::size_t n = std::min(piece.iov_len - at, local[l].iov_len - from);
      std::memcpy(static_cast<std::byte*>(piece.iov_base) + at,
                  static_cast<const std::byte*>(local[l].iov_base) + from, n);
      at += n;
      from += n;
      if (from == local[l].iov_len) ++l, from = 0;
    }
    watch->wrote(*this, session);
  }
  return true;
}

std::optional<MacAddress> Host::look_up(std::string_view name) {
  if (name == name_) return port.address();
  return std::nullopt;
}

bool run(SimNetwork& network, std::span<Host* const> hosts, const std::function<bool()>& logic,
         const std::function<bool()>& finished, std::uint64_t deadline) {
  while (!finished()) {
    bool worked = logic && logic();
    std::uint64_t next = network.next_event();
    for (Host* host : hosts) worked |= host->step();
    if (worked) continue;
    for (Host* host : hosts) next = std::min(next, host->next_deadline());
    next = std::min(next, network.next_event());
    if (next >= deadline) return finished();
    network.advance_to(std::max(next, network.now() + 1));
  }
  return true;
}

bool connect(SimNetwork& network, std::span<Host* const> hosts, Program& client,
             std::uint32_t client_vi, Program& server, std::uint32_t server_vi,
             const MacAddress& server_address, std::uint32_t discriminator) {
  std::optional<std::uint32_t> asked, accepted;
  layout::CommandBody wait{};
  wait.op = layout::Op::kConnectWait;
  wait.timeout_ms = 60'000;
  wait.local.discriminator_length = 4;
  std::memcpy(wait.local.discriminator, &discriminator, 4);
  server.command(wait, [&](const layout::CommandBody& body) {
    if (body.result != vip::kSuccess) {
      accepted = body.result;
      return;
    }
    layout::CommandBody accept{};
    accept.op = layout::Op::kConnectAccept;
    accept.handle = body.handle;
    accept.vi = server_vi;
    server.command(accept, [&](const layout::CommandBody& b) { accepted = b.result; });
  });
  layout::CommandBody request{};
  request.op = layout::Op::kConnectRequest;
  request.vi = client_vi;
  request.timeout_ms = 60'000;
  std::memcpy(request.remote.host, server_address.data(), server_address.size());
  request.remote.discriminator_length = 4;
  std::memcpy(request.remote.discriminator, &discriminator, 4);
  client.command(request, [&](const layout::CommandBody& body) { asked = body.result; });
  run(network, hosts, {}, [&] { return asked && accepted; },
      network.now() + 120'000'000'000ull);
  return asked == vip::kSuccess && accepted == vip::kSuccess;
}

}  // namespace viaduct::sim
