#include "tests/sim/world/stream_job.h"

#include <cstring>

#include "tests/sim/world/failure.h"
#include "tests/sim/world/pattern.h"

namespace viaduct::sim {
namespace {

constexpr std::uint32_t kMuch = 1'000'000;  // bytes under way

constexpr std::uint64_t kCrime = 1ull << 63;  // in the tag of a message that must not succeed
constexpr unsigned kNarrow = 64;

}  // namespace

StreamJob::StreamJob(Simulation& world, Process& asking, Process& answering,
                     const StreamOptions& options)
    : world_(world), options_(options) {
  for (const unsigned side : {0u, 1u}) {
    Link::Options its{};
    its.job = options.job;
    its.level = options.level;
    its.kind = side == 0 ? Link::Kind::kCaller : Link::Kind::kAnswerer;
    links.push_back(
        std::make_unique<Link>(world, side == 0 ? asking : answering, *this, side, its));
  }
  links[0]->set_peer(*links[1]);
  links[1]->set_peer(*links[0]);
}

std::string StreamJob::text() const {
  char line[256];
  std::snprintf(
      line, sizeof line,
      "stream %u level %u%s: %llu of %u and %llu of %u, window %u, up to %u bytes, states "
      "%d and %d",
      options_.job, options_.level, options_.answers ? " with answers" : "",
      static_cast<unsigned long long>(sides_[0].delivered), options_.quota[0],
      static_cast<unsigned long long>(sides_[1].delivered), options_.quota[1], options_.window,
      options_.largest, static_cast<int>(links[0]->state()), static_cast<int>(links[1]->state()));
  return line;
}

bool StreamJob::finished() const {
  return sides_[0].delivered >= options_.quota[0] && sides_[1].delivered >= options_.quota[1];
}

// Known to both sides; a few are empty, most are small.
std::uint32_t StreamJob::size_of(std::uint64_t stream, std::uint64_t number) const {
  if (options_.all_largest) return options_.largest;
  const std::uint64_t draw = mix(stream ^ 0x517e, number);
  const std::uint64_t kind = draw % 8;
  const std::uint64_t most = kind == 0 ? 2 : kind < 5 ? 500 : options_.largest + 1ull;
  return static_cast<std::uint32_t>((draw >> 8) %
                                    std::min<std::uint64_t>(most, options_.largest + 1));
}

// ---------------------------------------------------------------------------- beginnings

void StreamJob::born(unsigned s) {
  const std::uint64_t delivered = sides_[s].delivered;
  sides_[s] = Side{};
  sides_[s].delivered = delivered;
}

void StreamJob::prepare(unsigned s) {
  Side& side = sides_[s];
  Client& client = links[s]->client();
  if (!side.equipped) {
    side.equipped = true;
    Buffer* const out = &client.memory.allocate(1, false);
    static_cast<void>(out);
    for (unsigned i = 0; i < options_.window; ++i) {
      side.free_out.push_back(&client.memory.allocate(options_.largest + 32));
      side.free_in.push_back(&client.memory.allocate(options_.largest + 8));
      if (!client.register_buffer(*side.free_out.back(), options_.largest + 32) ||
          !client.register_buffer(*side.free_in.back(), options_.largest + 8)) {
        fail("the simulation has too few regions");
      }
    }
    side.narrow = &client.memory.allocate(kNarrow + 64);
    if (!client.register_buffer(*side.narrow, kNarrow)) fail("the simulation has too few regions");
  }
  side.posted = side.got = 0;
  side.offered = links[s]->vi->posted(true);
  while (!side.free_in.empty()) {
    Buffer* const buffer = side.free_in.back();
    side.free_in.pop_back();
    offer(s, *buffer);
  }
}

void StreamJob::offer(unsigned s, Buffer& buffer) {
  Work work;
  work.buffer = &buffer;
  work.length = options_.largest + (options_.largest % 2 == 0 ? 8 : 0);
  work.pieces = 1 + static_cast<unsigned>(world_.random.below(3));
  links[s]->vi->post(true, work);
  ++sides_[s].offered;
}

void StreamJob::up(unsigned s) {
  sides_[s].burst = 0;
  sides_[s].not_before = world_.now();
}

void StreamJob::down(unsigned) {}

// ---------------------------------------------------------------------------- receiving

void StreamJob::back(unsigned s, bool receive, const Done& done) {
  Side& side = sides_[s];
  const Connection* const c = links[s]->connection;
  if (receive) {
    if (done.ok()) {
      take(s, done);
    } else if ((done.status & vip::kErrorMask &
                ~(vip::kFlushedError | vip::kPartialError | vip::kTransportError)) != 0 &&
               !c->spoilt) {
      fail("a receive has ended with status %x", done.status);
    }
    if (links[s]->is_up() && links[s]->vi->state() == vip::kConnected) {
      offer(s, *done.buffer);
    } else {
      side.free_in.push_back(done.buffer);
    }
    return;
  }
  if ((done.tag & kCrime) != 0) {
    if (done.ok()) fail("a send that must not succeed has succeeded: status %x", done.status);
    if (done.buffer != side.narrow) side.free_out.push_back(done.buffer);
    return;
  }
  if (done.ok() && done.length != size_of(c->streams[s], done.tag)) {
    fail("a send of %u bytes has completed with %u", size_of(c->streams[s], done.tag), done.length);
  }
  if (!done.ok() && options_.level == vip::kUnreliable &&
      (done.status & vip::kErrorMask & ~(vip::kFlushedError | vip::kPartialError)) != 0) {
    fail("an unreliable send has ended with status %x", done.status);
  }
  // The program uses its memory for something else now.
  std::memset(done.buffer->data, 0xee, std::min<std::uint32_t>(done.buffer->size, 64));
  side.free_out.push_back(done.buffer);
}

void StreamJob::take(unsigned s, const Done& done) {
  Side& side = sides_[s];
  const Connection& c = *links[s]->connection;
  const std::uint64_t stream = c.streams[1 - s];
  std::uint64_t number = side.got;
  if (((done.status & vip::kImmediate) != 0) != options_.numbered) {
    fail("immediate data is %s", options_.numbered ? "missing" : "there, and was not sent");
  }
  if (c.level == vip::kUnreliable) {
    if (done.immediate < side.got) {
      fail("unreliable message %u after %llu", done.immediate,
           static_cast<unsigned long long>(side.got) - 1);
    }
    number = done.immediate;
  } else if (options_.numbered && done.immediate != static_cast<std::uint32_t>(number)) {
    fail("connection %u: message %u has come instead of %llu", c.number, done.immediate,
         static_cast<unsigned long long>(number));
  }
  const std::uint32_t size = size_of(stream, number);
  if (done.length != size) {
    fail("message %llu has come with %u bytes instead of %u",
         static_cast<unsigned long long>(number), done.length, size);
  }
  const std::size_t right = Pattern(stream, number).right(done.buffer->data, size);
  if (right != size) {
    fail("connection %u: byte %zu of message %llu (%u bytes) is wrong", c.number, right,
         static_cast<unsigned long long>(number), size);
  }
  side.got = number + 1;
  ++side.delivered;
  // Programs that wait for this may go on.
  links[1 - s]->process().restless = true;
  if (options_.answers) links[s]->process().restless = true;
}

// ---------------------------------------------------------------------------- sending

bool StreamJob::may_send(unsigned s) {
  const Side& me = sides_[s];
  const Side& other = sides_[1 - s];
  const Link& mine = *links[s];
  const Link& theirs = *links[1 - s];
  if (finished() || options_.quota[1 - s] == 0 || me.free_out.empty()) return false;
  // Never more under way than the peer has receives for.
  const std::uint64_t room = theirs.connection == mine.connection ? other.offered : options_.window;
  if (options_.level != vip::kUnreliable && me.posted >= room) return false;
  if (options_.answers && s == 1) return me.posted < me.got;
  if (options_.answers) return me.posted < me.got + 1 + options_.window / 4;
  return true;
}

bool StreamJob::send(unsigned s) {
  Side& side = sides_[s];
  Link& link = *links[s];
  if (!may_send(s)) return false;
  if (side.burst == 0) {
    if (world_.now() < side.not_before) {
      link.process().wake_at(side.not_before);
      return false;
    }
    side.burst = 1 + static_cast<unsigned>(world_.random.below(2 * options_.window));
  }
  if (--side.burst == 0) {
    side.not_before = world_.now() + world_.random.below(2 * options_.pause + 20 * kUs);
    // Much data that nobody waits for any more would keep this process busy for long.
    const bool enough = sides_[1 - s].delivered > 2 * options_.quota[1 - s];
    if (enough && options_.largest * options_.window > kMuch) side.not_before += 5 * kMsec;
  }
  if (crimes_ != 0 && world_.plan.crime != 0 && world_.random.chance(world_.plan.crime)) {
    --crimes_;
    commit_crime(s);
    return true;
  }
  Buffer* const buffer = side.free_out.back();
  side.free_out.pop_back();
  const std::uint64_t stream = link.connection->streams[s];
  Work work;
  work.buffer = buffer;
  work.length = size_of(stream, side.posted);
  work.from = static_cast<std::uint32_t>(world_.random.below(8));
  work.pieces = 1 + static_cast<unsigned>(world_.random.below(3));
  if (options_.numbered) work.immediate = static_cast<std::uint32_t>(side.posted);
  work.tag = side.posted;
  work.in_slot = work.length != 0 &&
                 work.length + 3 * sizeof(layout::Segment) <= layout::kMaxInlineSend &&
                 world_.random.chance(0.8);
  Pattern(stream, side.posted).fill(buffer->data + work.from, work.length);
  ++side.posted;
  link.vi->post(false, work);
  if (churns_ != 0 && options_.churn != 0 && world_.random.chance(options_.churn)) {
    --churns_;
    link.hang_up();
  }
  return true;
}

// VIA answers these with an error: of the descriptor, and on the reliable levels of the connection.
void StreamJob::commit_crime(unsigned s) {
  Side& side = sides_[s];
  Link& link = *links[s];
  Work work;
  work.tag = kCrime;
  if (options_.level == vip::kUnreliable || world_.random.chance(0.5)) {
    // The last segment goes beyond its region.
    if (side.narrow->status != nullptr) return;
    work.buffer = side.narrow;
    work.length = kNarrow;
    work.beyond = 1 + static_cast<std::uint32_t>(world_.random.below(16));
  } else {
    // More than any receive has room for.
    work.buffer = side.free_out.back();
    side.free_out.pop_back();
    work.length = options_.largest + 9 + static_cast<std::uint32_t>(world_.random.below(16));
  }
  if (options_.level != vip::kUnreliable) link.connection->spoilt = true;
  link.vi->post(false, work);
}

bool StreamJob::step(Process& process) {
  bool any = false;
  for (const unsigned s : {0u, 1u}) {
    if (&links[s]->process() != &process) continue;
    for (unsigned most = options_.window; most > 0 && links[s]->is_up(); --most) {
      if (!send(s)) break;
      any = true;
    }
  }
  return any;
}

}  // namespace viaduct::sim
