#include "tests/sim/world/lane_job.h"

#include <algorithm>
#include <cstring>

#include "tests/sim/world/failure.h"
#include "tests/sim/world/pattern.h"

namespace viaduct::sim {

using sovia::kChunkBytes;
using sovia::kTokenBytes;
using sovia::Lane;

// ---------------------------------------------------------------------------- the transport

LaneTransport::LaneTransport(Link& link, const sovia::LaneOptions& options)
    : link_(link), places_(sovia::places_for(options)) {}

bool LaneTransport::equip() {
  Client& client = link_.client();
  const auto make = [&](std::vector<Buffer*>& out, std::uint32_t count, std::uint32_t bytes) {
    for (std::uint32_t i = 0; i < count; ++i) {
      out.push_back(&client.memory.allocate(bytes, false));
      if (!client.register_buffer(*out.back(), bytes)) return false;
    }
    return true;
  };
  std::vector<Buffer*> one;
  if (!make(one, 1, kChunkBytes)) return false;
  direct = one.front();
  return make(data_, places_.data, kChunkBytes) && make(control_, places_.control, kControlBytes) &&
         make(receive_, places_.receive, kChunkBytes);
}

void LaneTransport::post_receives() {
  completed_ = 0;
  for (std::uint32_t i = 0; i < places_.receive; ++i) {
    if (receive_[i]->status == nullptr) post(i);
  }
}

bool LaneTransport::send(Buffer& buffer, std::uint32_t bytes, std::uint32_t immediate) {
  if (link_.vi == nullptr || link_.vi->state() != vip::kConnected) return false;
  Work work;
  work.buffer = &buffer;
  work.length = bytes;
  work.in_slot = bytes != 0 && bytes + sizeof(layout::Segment) <= layout::kMaxInlineSend;
  work.immediate = immediate;
  link_.vi->post(false, work);
  return true;
}

bool LaneTransport::post_data(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  return send(*data_[place], bytes, immediate);
}

bool LaneTransport::post_control(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) {
  return send(*control_[place], bytes, immediate);
}

bool LaneTransport::post_memory(std::uint32_t, const std::byte* data, std::uint32_t bytes,
                           std::uint32_t memory, std::uint32_t immediate) {
  if (data != direct->data || memory != direct->handle) fail("a lane sends other memory");
  return send(*direct, bytes, immediate);
}

// What comes after the end is not replaced: the VI may be idle by then.
bool LaneTransport::post_receive(std::uint32_t place) {
  if (!link_.is_up() || link_.vi->state() == vip::kError) return false;
  post(place);
  return true;
}

void LaneTransport::post(std::uint32_t place) {
  Work work;
  work.buffer = receive_[place];
  work.length = kChunkBytes;
  work.tag = place;
  link_.vi->post(true, work);
}

void LaneTransport::set_patient(bool patient) {
  if (link_.vi != nullptr) link_.vi->set_patient(patient);
}

std::uint32_t LaneTransport::completed() { return std::exchange(completed_, 0); }

// ---------------------------------------------------------------------------- the job

LaneJob::LaneJob(Simulation& world, Process& a, Process& b, const LaneJobOptions& options)
    : world_(world), options_(options), scratch_(2 * kChunkBytes) {
  for (const unsigned side : {0u, 1u}) {
    Link::Options its{};
    its.job = options.job;
    its.level = options.level;
    its.max_transfer = kChunkBytes;
    its.kind = Link::Kind::kPeer;
    links.push_back(std::make_unique<Link>(world, side == 0 ? a : b, *this, side, its));
  }
  links[0]->set_peer(*links[1]);
  links[1]->set_peer(*links[0]);
}

std::string LaneJob::text() const {
  char line[320];
  int n = std::snprintf(line, sizeof line, "lane %u level %u: %u of %u ends", options_.job,
                        options_.level, ended_, 2 * options_.rounds);
  for (const unsigned s : {0u, 1u}) {
    const Side& side = sides_[s];
    if (n < 0 || static_cast<std::size_t>(n) >= sizeof line) break;
    n += std::snprintf(line + n, sizeof line - static_cast<std::size_t>(n),
                       "; w %u t %u, state %d, lane %d/%d, written %llu of %llu, read %llu",
                       options_.lanes[s].window, options_.lanes[s].ack_threshold,
                       static_cast<int>(links[s]->state()),
                       side.lane ? static_cast<int>(side.lane->control.sending()) : -1,
                       side.lane ? static_cast<int>(side.lane->control.receiving()) : -1,
                       static_cast<unsigned long long>(side.written),
                       static_cast<unsigned long long>(side.quota),
                       static_cast<unsigned long long>(side.read));
  }
  return line;
}

void LaneJob::born(unsigned s) { sides_[s] = Side{}; }

void LaneJob::prepare(unsigned s) {
  Side& side = sides_[s];
  if (side.transport == nullptr) {
    side.transport = std::make_unique<LaneTransport>(*links[s], options_.lanes[s]);
    if (!side.transport->equip()) fail("the simulation has too few regions");
  }
  side.transport->post_receives();
}

void LaneJob::up(unsigned s) {
  Side& side = sides_[s];
  const Connection& c = *links[s]->connection;
  side.lane = std::make_unique<Lane>(*side.transport, options_.lanes[s]);
  side.stream_out = c.streams[s];
  side.stream_in = 0;
  side.written = side.read = 0;
  side.quota = world_.random.below(options_.bytes[s] + 1);
  side.over = side.lent = false;
  side.not_before = world_.now();
  side.flush_at = 0;
  // The token says whose stream it is.
  std::uint8_t token[kTokenBytes] = {};
  std::memcpy(token, &side.stream_out, sizeof side.stream_out);
  side.lane->greet(token);
}

void LaneJob::down(unsigned s) {
  Side& side = sides_[s];
  if (side.lane != nullptr) end(s);
}

void LaneJob::back(unsigned s, bool receive, const Done& done) {
  Side& side = sides_[s];
  if (!receive) {
    if (done.ok() && side.transport != nullptr) side.transport->sent();
    return;
  }
  if (!done.ok() || side.lane == nullptr) return;
  if ((done.status & vip::kImmediate) == 0) fail("immediate data is missing");
  side.lane->arrived(static_cast<std::uint32_t>(done.tag), done.length, done.immediate);
  if (side.lane->control.broken() && links[s]->vi->state() == vip::kConnected) {
    fail("a lane says that its peer breaks the protocol: packet %x of %u bytes", done.immediate,
         done.length);
  }
}

// Both directions have come to their end: all that was written has been read.
void LaneJob::settle(unsigned s) {
  Side& side = sides_[s];
  if (side.over) return;
  side.over = true;
  ++ended_;
  if (side.read != written_[side.stream_in]) {
    fail("a lane has ended after %llu bytes of %llu", static_cast<unsigned long long>(side.read),
         static_cast<unsigned long long>(written_[side.stream_in]));
  }
}

// The lane is over, or its connection is. Data that has come in order may still be read.
void LaneJob::end(unsigned s) {
  Side& side = sides_[s];
  const bool orderly = side.lane->control.over() && !side.lane->control.broken();
  if (!orderly) side.lane->cut();
  while (read(s)) {
  }
  if (orderly) settle(s);
  if (side.read > written_[side.stream_in]) fail("a lane has more bytes than were written");
  side.lane.reset();
}

// Follows what the peer has said about where its bytes come from. No byte is the kernel's, so each stay on the lane
// begins where the last one has ended.
void LaneJob::follow(unsigned s) {
  Side& side = sides_[s];
  sovia::LaneRx& rx = side.lane->rx;
  while (rx.first() || rx.take_down()) {
    const auto first = rx.first();
    if (!first) continue;
    if (*first != side.read) {
      fail("a lane goes on behind %llu bytes, and %llu have been read", static_cast<unsigned long long>(*first),
           static_cast<unsigned long long>(side.read));
    }
    rx.go_up();
  }
}

bool LaneJob::read(unsigned s) {
  Side& side = sides_[s];
  follow(s);
  if (side.lane->rx.unread() == 0) return false;
  const std::size_t want = world_.random.chance(0.3) ? 1 + world_.random.below(100)
                                                     : 1 + world_.random.below(scratch_.size() - 8);
  if (world_.random.chance(0.02)) {
    side.read += side.lane->rx.discard(std::min<std::size_t>(want, side.lane->rx.unread_here()));
    return true;
  }
  const iovec piece{scratch_.data(), want};
  const std::size_t before = side.lane->rx.unread_here();
  const std::size_t got = side.lane->rx.read(&piece, 1, 0, false);
  if (got != std::min(want, before)) {
    fail("%zu bytes are there, %zu were asked for, %zu were read", before, want, got);
  }
  const std::size_t right = Pattern(side.stream_in, 0).right(scratch_.data(), got, side.read);
  if (right != got) {
    fail("byte %llu of a lane is wrong", static_cast<unsigned long long>(side.read + right));
  }
  side.read += got;
  return true;
}

bool LaneJob::write(unsigned s) {
  Side& side = sides_[s];
  Lane& lane = *side.lane;
  if (lane.control.sending() != Lane::State::kUp) return false;
  if (side.written == side.quota) {
    lane.finish(world_.random.chance(0.3));
    return true;
  }
  if (world_.random.chance(0.02)) return lane.tx.go_down();
  if (world_.now() < side.not_before) {
    links[s]->process().wake_at(side.not_before);
    return false;
  }
  if (side.lent && lane.ring.has_completed(side.ticket)) {
    if (side.transport->direct->is_busy()) fail("a lane says that a direct send is done, and its memory is still read");
    side.lent = false;
  }
  if (world_.random.chance(0.1) && !side.lent && side.transport->direct->status == nullptr) {
    const auto whole = static_cast<std::uint32_t>(
        std::min<std::uint64_t>(side.quota - side.written, 1 + world_.random.below(kChunkBytes)));
    Pattern(side.stream_out, 0).fill(side.transport->direct->data, whole, side.written);
    if (lane.tx.write_direct(side.transport->direct->data, whole, side.transport->direct->handle, side.ticket)) {
      side.lent = true;
      side.written += whole;
      written_[side.stream_out] = side.written;
      return true;
    }
  }
  if (!lane.tx.has_room()) return false;
  const std::size_t most = world_.random.chance(0.5) ? 200 : scratch_.size();
  const std::size_t bytes =
      std::min<std::size_t>(side.quota - side.written, 1 + world_.random.below(most));
  Pattern(side.stream_out, 0).fill(scratch_.data(), bytes, side.written);
  const iovec piece{scratch_.data(), bytes};
  const std::size_t taken = lane.tx.write(&piece, 1, 0, world_.random.chance(0.7));
  if (taken == 0 && !lane.control.broken()) fail("a lane with room has taken nothing");
  side.written += taken;
  written_[side.stream_out] = side.written;
  if (options_.pause != 0 && world_.random.chance(0.2)) {
    side.not_before = world_.now() + world_.random.below(2 * options_.pause);
  }
  return true;
}

bool LaneJob::work(unsigned s) {
  Side& side = sides_[s];
  Lane& lane = *side.lane;
  bool any = false;
  if (lane.greeting.has_hello() && side.stream_in == 0) {
    std::memcpy(&side.stream_in, lane.greeting.peer_token(), sizeof side.stream_in);
    lane.trust();
    any = true;
  }
  const bool started = lane.greeting.may_start();
  if (started && lane.tx.go_up(side.written)) any = true;
  lane.poll();
  if (lane.control.peer_leaves()) lane.finish(false);
  if (started && world_.random.chance(0.001)) lane.ask_to_leave();
  // Credits come back only if the program reads; some programs are slow.
  if ((lane.rx.unread() != 0 || lane.rx.has_turns()) && !world_.random.chance(0.2)) any |= read(s);
  any |= write(s);
  // Combined data is sent in the end, as SOVIA's background thread does it.
  if (!lane.tx.holds()) {
    side.flush_at = 0;
  } else if (side.flush_at == 0) {
    side.flush_at = world_.now() + 200 * kUs;
  } else if (world_.now() >= side.flush_at) {
    side.flush_at = 0;
    lane.tx.flush();
    any = true;
  }
  if (side.flush_at != 0) links[s]->process().wake_at(side.flush_at);
  if (lane.rx.unread() != 0 || lane.rx.has_turns()) links[s]->process().restless = true;
  if (lane.control.over() && !lane.control.broken() && lane.rx.unread() == 0 && lane.ring.unsent() == 0 &&
      links[s]->vi->posted(false) == 0) {
    any = true;
    settle(s);
    links[s]->hang_up();
  }
  return any;
}

bool LaneJob::step(Process& process) {
  bool any = false;
  for (const unsigned s : {0u, 1u}) {
    if (&links[s]->process() == &process && links[s]->is_up() && sides_[s].lane != nullptr) {
      any |= work(s);
    }
  }
  return any;
}

}  // namespace viaduct::sim
