#include "tests/sim/world/rdma_job.h"

#include <cstring>

#include "tests/sim/world/failure.h"
#include "tests/sim/world/pattern.h"

namespace viaduct::sim {
namespace {

enum Tag : std::uint64_t { kBlock = 1, kAnswer = 2, kRead = 3, kCrime = 4 };
constexpr std::uint64_t kConstantStream = 0xc0457a47;
constexpr std::uint32_t kConstantBytes = 20'000;

std::uint64_t word_at(const std::byte* at) {
  std::uint64_t word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

}  // namespace

RdmaJob::RdmaJob(Simulation& world, Process& writer, Process& target, const RdmaOptions& options)
    : world_(world), options_(options), reads_(2 * options.blocks) {
  for (const unsigned side : {0u, 1u}) {
    Link::Options its{};
    its.job = options.job;
    its.level = options.level;
    its.rdma = true;
    its.kind = side == 0 ? Link::Kind::kCaller : Link::Kind::kAnswerer;
    links.push_back(std::make_unique<Link>(world, side == 0 ? writer : target, *this, side, its));
  }
  links[0]->set_peer(*links[1]);
  links[1]->set_peer(*links[0]);
}

std::string RdmaJob::text() const {
  char line[256];
  std::snprintf(
      line, sizeof line,
      "rdma %u level %u: %u of %u blocks up to %u bytes; written %llu, seen %llu, answered "
      "%llu, states %d and %d",
      options_.job, options_.level, blocks_, options_.blocks, options_.largest,
      static_cast<unsigned long long>(sides_[0].posted),
      static_cast<unsigned long long>(sides_[1].seen),
      static_cast<unsigned long long>(sides_[0].seen), static_cast<int>(links[0]->state()),
      static_cast<int>(links[1]->state()));
  return line;
}

// Whole words, so that the flag behind them is one.
std::uint32_t RdmaJob::size_of(std::uint64_t stream, std::uint64_t number) const {
  return static_cast<std::uint32_t>(mix(stream ^ 0xb10c, number) % (options_.largest / 8)) * 8;
}

std::uint64_t RdmaJob::flag_of(std::uint64_t stream, std::uint64_t number) const {
  return mix(stream ^ 0xf1a6, number) | 1;
}

void RdmaJob::born(unsigned s) { sides_[s] = Side{}; }

void RdmaJob::prepare(unsigned s) {
  Side& side = sides_[s];
  Client& client = links[s]->client();
  Memory& memory = client.memory;
  if (!side.equipped) {
    side.equipped = true;
    bool ready = true;
    // The region ends where its use ends; the memory goes on.
    const std::uint32_t bytes = s == 1 ? (options_.largest + 8) / 8 * 8 : 8;
    side.target = &memory.allocate(bytes + 64);
    ready &= client.register_buffer(*side.target, bytes, true);
    if (s == 1) {
      side.constant = &memory.allocate(kConstantBytes + 64);
      Pattern(kConstantStream, 0).fill(side.constant->data, kConstantBytes);
      ready &= client.register_buffer(*side.constant, kConstantBytes, false, true);
    }
    for (unsigned i = 0; i < 4; ++i) {
      side.free.push_back(&memory.allocate(options_.largest + 64));
      ready &= client.register_buffer(*side.free.back(), options_.largest + 64);
    }
    side.receive = &memory.allocate(16);
    ready &= client.register_buffer(*side.receive, 16);
    if (!ready) fail("the simulation has too few regions");
  }
  std::memset(side.target->data, 0, side.target->region);
  side.posted = side.seen = side.immediates = 0;
  if (!side.receive_posted) {
    Work work;
    work.buffer = side.receive;
    work.length = 16;
    links[s]->vi->post(true, work);
    side.receive_posted = true;
  }
}

void RdmaJob::up(unsigned s) { sides_[s].not_before = sides_[s].again_at = world_.now(); }

void RdmaJob::back(unsigned s, bool receive, const Done& done) {
  Side& side = sides_[s];
  if (receive) {
    side.receive_posted = false;
    if (!done.ok()) return;
    const Connection& c = *links[s]->connection;
    if ((done.status & vip::kImmediate) == 0) fail("immediate data is missing");
    if (c.level != vip::kUnreliable && done.immediate != side.seen + 1 &&
        done.immediate != side.seen) {
      fail("the immediate data of block %u has come after block %llu", done.immediate,
           static_cast<unsigned long long>(side.seen));
    }
    // It comes behind the data.
    side.immediates = done.immediate;
    look_for_block();
    if (c.level != vip::kUnreliable && side.seen < side.immediates) {
      fail("immediate data has come before its block");
    }
    if (links[s]->is_up() && links[s]->vi->state() == vip::kConnected) {
      Work work;
      work.buffer = side.receive;
      work.length = 16;
      links[s]->vi->post(true, work);
      side.receive_posted = true;
    }
    return;
  }
  if (done.tag == kCrime && done.ok() && options_.level != vip::kUnreliable) {
    fail("an RDMA write to where nobody may write has succeeded");
  }
  if (done.tag == kRead && done.ok()) {
    const auto from = static_cast<std::uint32_t>(word_at(done.buffer->data + options_.largest + 8));
    const std::size_t right =
        Pattern(kConstantStream, 0).right(done.buffer->data, done.length, from);
    if (right != done.length) fail("byte %zu of %u read is wrong", right, done.length);
  }
  side.free.push_back(done.buffer);
}

// ---------------------------------------------------------------------------- the writer

void RdmaJob::write(unsigned s, Buffer& from, std::uint32_t bytes, const Buffer& to,
                    std::uint64_t tag, std::uint32_t offset) {
  Work work;
  work.op = layout::kOpRdmaWrite;
  work.buffer = &from;
  work.length = bytes;
  work.pieces = 1 + static_cast<unsigned>(world_.random.below(3));
  work.remote = reinterpret_cast<std::uint64_t>(to.data) + offset;
  work.remote_handle = to.handle;
  work.tag = tag;
  // The peer has a receive for it: it has seen all blocks before this one.
  if (tag == kBlock && options_.level != vip::kUnreliable && sides_[1].receive_posted &&
      sides_[1].immediates == sides_[1].seen && world_.random.chance(0.3)) {
    work.immediate = static_cast<std::uint32_t>(sides_[0].posted);
  }
  links[s]->vi->post(false, work);
}

bool RdmaJob::write_block() {
  Side& side = sides_[0];
  Link& link = *links[0];
  // Both must be there, for the same connection: the target's memory is named.
  if (finished() || !link.is_up() || links[1]->connection != link.connection ||
      sides_[1].target == nullptr || side.free.empty()) {
    return false;
  }
  const std::uint64_t stream = link.connection->streams[0];
  const bool again = side.posted > side.seen;
  if (again) {
    // Unreliable: a lost block is not reported.
    if (options_.level != vip::kUnreliable) return false;
    if (world_.now() < side.again_at) {
      link.process().wake_at(side.again_at);
      return false;
    }
    --side.posted;
  } else if (world_.now() < side.not_before) {
    link.process().wake_at(side.not_before);
    return false;
  }
  if (crimes_ != 0 && world_.plan.crime != 0 && world_.random.chance(2 * world_.plan.crime)) {
    return commit_crime();
  }
  Buffer* const buffer = side.free.back();
  side.free.pop_back();
  ++side.posted;
  const std::uint32_t size = size_of(stream, side.posted);
  const std::uint64_t flag = flag_of(stream, side.posted);
  Pattern(stream, side.posted).fill(buffer->data, size);
  std::memcpy(buffer->data + size, &flag, 8);
  write(0, *buffer, size + 8, *sides_[1].target, kBlock);
  side.not_before = world_.now() + world_.random.below(2 * options_.pause + 1);
  side.again_at = world_.now() + 4 * world_.plan.network.latency_ns + kMsec;
  return true;
}

bool RdmaJob::read_back() {
  Side& side = sides_[0];
  Link& link = *links[0];
  if (options_.level == vip::kUnreliable || !link.is_up() || side.free.size() < 2 ||
      links[1]->connection != link.connection || finished() || reads_ == 0 ||
      !world_.random.chance(0.05)) {
    return false;
  }
  --reads_;
  Buffer* const buffer = side.free.back();
  side.free.pop_back();
  const auto length = static_cast<std::uint32_t>(
      world_.random.below(std::min(options_.largest, kConstantBytes) + 1));
  const std::uint64_t from = world_.random.below(kConstantBytes - length + 1);
  std::memcpy(buffer->data + options_.largest + 8, &from, 8);
  Work work;
  work.op = layout::kOpRdmaRead;
  work.buffer = buffer;
  work.length = length;
  work.pieces = 1 + static_cast<unsigned>(world_.random.below(3));
  work.remote = reinterpret_cast<std::uint64_t>(sides_[1].constant->data) + from;
  work.remote_handle = sides_[1].constant->handle;
  work.tag = kRead;
  link.vi->post(false, work);
  return true;
}

// Beyond the region, into one that is closed, or with a handle of nothing. On the reliable levels
// the connection ends; nothing is written in any case.
bool RdmaJob::commit_crime() {
  --crimes_;
  Side& side = sides_[0];
  Buffer* const buffer = side.free.back();
  side.free.pop_back();
  const Buffer* target = sides_[1].target;
  std::uint32_t offset = 0;
  const auto beyond = 1 + static_cast<std::uint32_t>(world_.random.below(16));
  Buffer wrong = *target;
  switch (world_.random.below(3)) {
    case 0:
      offset = target->region - std::min(target->region, 8u) + beyond;
      break;
    case 1:
      wrong = *sides_[1].constant;
      break;
    default:
      wrong.handle += 1u << 20;
      break;
  }
  if (options_.level != vip::kUnreliable) links[0]->connection->spoilt = true;
  write(0, *buffer, 8, wrong, kCrime, offset);
  return true;
}

bool RdmaJob::look_for_answer() {
  Side& side = sides_[0];
  if (!links[0]->is_up() || side.seen == side.posted) return false;
  const std::uint64_t answer = word_at(side.target->data);
  const std::uint64_t stream = links[0]->connection->streams[1];
  if (answer != flag_of(stream, side.posted)) {
    if (answer == 0 || answer == flag_of(stream, side.posted - 1)) return false;
    fail("the word that came back is none that was sent: %llx",
         static_cast<unsigned long long>(answer));
  }
  side.seen = side.posted;
  return true;
}

// ---------------------------------------------------------------------------- the target

bool RdmaJob::look_for_block() {
  Side& side = sides_[1];
  Link& link = *links[1];
  if (link.connection == nullptr || !link.connection->stood[1]) return false;
  const std::uint64_t stream = link.connection->streams[0];
  const std::uint64_t number = side.seen + 1;
  const std::uint32_t size = size_of(stream, number);
  if (word_at(side.target->data + size) == flag_of(stream, number)) {
    const std::size_t right = Pattern(stream, number).right(side.target->data, size);
    if (right != size) {
      fail("block %llu: its flag is there, but byte %zu of %u is not",
           static_cast<unsigned long long>(number), right, size);
    }
    side.seen = number;
    ++blocks_;
    side.again_at = world_.now();
  }
  if (!link.is_up() || link.vi->state() != vip::kConnected) return false;
  // Answered again if the answer may be lost.
  if (side.posted == side.seen &&
      (options_.level != vip::kUnreliable || side.seen == 0 || world_.now() < side.again_at)) {
    if (options_.level == vip::kUnreliable && side.seen != 0) link.process().wake_at(side.again_at);
    return false;
  }
  if (side.free.empty() || links[0]->connection != link.connection || sides_[0].target == nullptr) {
    return false;
  }
  Buffer* const buffer = side.free.back();
  side.free.pop_back();
  const std::uint64_t answer = flag_of(link.connection->streams[1], side.seen);
  std::memcpy(buffer->data, &answer, 8);
  side.posted = side.seen;
  side.again_at = world_.now() + 4 * world_.plan.network.latency_ns + kMsec;
  write(1, *buffer, 8, *sides_[0].target, kAnswer);
  return true;
}

void RdmaJob::peek(Process& process) {
  if (&links[1]->process() == &process) look_for_block();
}

bool RdmaJob::step(Process& process) {
  bool any = false;
  // Flags wake no program.
  for (const auto& link : links) {
    if (link->is_up() && !finished()) link->process().stay_awake();
  }
  if (&links[1]->process() == &process) any |= look_for_block();
  if (&links[0]->process() == &process) {
    any |= look_for_answer();
    any |= write_block();
    any |= read_back();
  }
  return any;
}

}  // namespace viaduct::sim
