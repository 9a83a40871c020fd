// Families: processes that attach to a session, what they share and what they leave.
//
//   open_session --> first program ----------------------leave()--> gone --no heirs left--> forgotten
//   join() --------> another one: has a copy of what its parent had registered --leave()--^
//
// A VI belongs to one program at a time, and with it its CQs: what is posted there, and what a peer's
// RDMA names, means that program's memory. take_vi() changes whose it is.
//
// Memory is the program's that registered it, and of those that have a copy of it: they were forked
// later. Each fork of a member raises Header::forks first, so a region is inherited if it bears a
// smaller number than the fork.
#include <algorithm>
#include <cstring>

#include "kagent/stack/stack.h"

namespace viaduct {

using state::kNone;
using state::Vi;

namespace {

constexpr std::uint64_t kMostHandedOver = 4 << 20;  // bytes: the driver does nothing else meanwhile
constexpr std::size_t kAtOnce = 8192;

}  // namespace

void Stack::begin_program(std::uint32_t program, std::uint32_t session, std::uint32_t member) {
  programs_[program] = {};
  programs_[program].session = session;
  programs_[program].member = member;
  programs_[program].id = ++root_->last_program_id;
  programs_[program].parent = kNone;
  sessions_[session].programs[member] = program;
}

// This is where a member's number from shared memory is judged.
std::uint32_t Stack::program_of(std::uint32_t session, std::uint32_t member) const {
  return member <= layout::kMembers ? sessions_[session].programs[member] : kNone;
}

std::optional<std::uint32_t> Stack::join(std::uint32_t session, std::uint32_t parent_id,
                                         std::uint32_t forks) {
  std::uint32_t* const all = sessions_[session].programs;
  const std::uint32_t* const place = std::find(all + 1, all + layout::kMembers + 1, kNone);
  if (place == all + layout::kMembers + 1) return std::nullopt;
  const std::uint32_t taken = members_.take();
  if (taken == kNone) return std::nullopt;
  const std::uint32_t program = limits_.sessions + taken;
  const auto member = static_cast<std::uint32_t>(place - all);
  begin_program(program, session, member);
  const layout::View& view = views_[program] = views_[session];
  view.alert(member).store(0);
  layout::Errors& errors = view.errors(member);
  errors.wanted.store(0);
  errors.taken.store(0);
  for (layout::ErrorEvent& event : errors.events) event.number.store(0);
  // One that has gone long ago has left nothing.
  const auto is_parent = [&](std::uint32_t p) {
    return p != program && programs_[p].session == session && programs_[p].id == parent_id;
  };
  std::uint32_t parent = is_parent(session) ? session : kNone;
  for (std::uint32_t p = limits_.sessions; parent == kNone && p < limits_.sessions + members_.fresh();
       ++p) {
    if (is_parent(p)) parent = p;
  }
  programs_[program].parent = parent;
  programs_[program].forks = forks;
  if (parent != kNone) ++programs_[parent].heirs;
  return program;
}

// ---------------------------------------------------------------------------- VIs

vip::Return Stack::may_take(std::uint32_t program, const layout::CommandBody& body) const {
  const Vi* const vi = find_vi(programs_[program].session, body.vi, body.generation);
  if (vi == nullptr) return vip::kInvalidParameter;
  if (vi->program == program) return vip::kSuccess;
  if (vi->state == vip::kConnectPending || vi->divert != state::Divert::kNone || vi->reads != 0) {
    return vip::kInvalidState;
  }
  // Other VIs would lose their CQ.
  for (const std::uint32_t cq : {vi->send.cq, vi->receive.cq}) {
    if (cq == kNone) continue;
    const std::uint32_t own = (vi->send.cq == cq ? 1 : 0) + (vi->receive.cq == cq ? 1 : 0);
    if (cqs_[cq].users != own) return vip::kInvalidState;
  }
  return vip::kSuccess;
}

// The first bytes of a receive, from one program's memory to the same place in another's.
bool Stack::copy_received(const Vi& vi, const Vi& heir, std::uint32_t slot, std::uint32_t length,
                          std::uint64_t& budget) {
  Target target;
  if (!load_target(vi, slot, 0, target) || !allowed(vi, target, length) ||
      !allowed(heir, target, length) || length > budget) {
    return false;
  }
  budget -= length;
  std::byte room[kAtOnce];
  for (std::uint32_t s = 0; s < target.segment_count && length != 0; ++s) {
    std::uint64_t at = target.segments[s].address;
    const std::uint32_t here = std::min(length, target.segments[s].length);
    length -= here;
    for (std::size_t left = here; left != 0;) {
      const std::size_t n = std::min(left, kAtOnce);
      const iovec remote{reinterpret_cast<void*>(at), n}, local{room, n};
      if (!environment_.read_program(vi.program, {&remote, 1}, {&local, 1}) ||
          !environment_.write_program(heir.program, {&remote, 1}, {&local, 1})) {
        return false;
      }
      at += n;
      left -= n;
    }
  }
  return true;
}

// What has come on a VI since the fork lies in the memory of the one who had it; but what came in the
// slots themselves, which whoever takes them back puts where it belongs.
bool Stack::hand_over_received(const Vi& vi, const Vi& heir) {
  const ViIndex i = vis_.index(vi);
  std::uint64_t budget = kMostHandedOver;
  std::uint32_t position = view(vi).vi(i).receive.dequeued.load(std::memory_order_acquire);
  if (vi.receive.completed - position > layout::kRingEntries) return false;
  for (; position != vi.receive.completed; ++position) {
    const std::uint64_t word =
        view(vi).receive_ring(i)[position % layout::kRingEntries].word.load();
    const std::uint32_t slot = layout::ring_word_slot(word);
    if (!layout::ring_word_is(word, position, vi.generation) || slot >= limits_.slots) return false;
    const layout::SlotCompletion& completion = view(vi).slot(slot).completion;
    const std::uint32_t status = completion.status.load(std::memory_order_acquire);
    const std::uint32_t length = completion.length;
    const bool here = (status & (vip::kErrorMask | vip::kOpMask)) == vip::kOpReceive &&
                      completion.inline_length == 0 && length != 0;
    if (here && !copy_received(vi, heir, slot, length, budget)) return false;
  }
  return !receives_in_part(vi) ||
         copy_received(vi, heir, vi.receive_slot, vi.message_received, budget);
}

// Who takes it holds the locks of its queues: nobody is about to change them.
vip::Return Stack::take_vi(std::uint32_t program, const layout::CommandBody& body) {
  const vip::Return judged = may_take(program, body);
  if (judged != vip::kSuccess) return judged;
  Vi& vi = vis_[body.vi];
  if (vi.program == program) return vip::kSuccess;
  if (placing_ == body.vi) flush_placement();
  credit_ -= kSystemCallCost;
  Vi heir = vi;
  heir.program = program;
  if (!hand_over_received(vi, heir)) return vip::kErrorResource;
  const std::uint32_t member = programs_[program].member;
  layout::Vi& shared = view(vi).vi(body.vi);
  shared.send.owner.store(member);
  shared.receive.owner.store(member);
  for (const std::uint32_t cq : {vi.send.cq, vi.receive.cq}) {
    if (cq == kNone) continue;
    view(vi).cq(cq).owner.store(member);
    cqs_[cq].program = program;
    wake_later(vi.program, view(vi).cq(cq).sleepers);
  }
  // Those who wait there in the other process find that it is theirs no more.
  wake_later(vi.program, shared.send.sleepers);
  wake_later(vi.program, shared.receive.sleepers);
  flush_wakes();
  vi.program = program;
  return vip::kSuccess;
}

// ---------------------------------------------------------------------------- leaving

// The slots that it had taken for commands are free again.
void Stack::drop_commands(std::uint32_t program) {
  const std::uint32_t session = programs_[program].session;
  const std::uint32_t owner = 1 + programs_[program].member;
  for (std::uint32_t c = 0; c < layout::kCommands; ++c) {
    if (pending(session, c).op != layout::Op::kNone && pending(session, c).program == program) {
      cancel_command(session, c, vip::kErrorResource);
    }
    layout::Command& slot = views_[session].command(c);
    if (slot.owner.load() != owner) continue;
    slot.state.store(layout::kIdle);
    slot.owner.store(0);
  }
}

// Connection requests that it was given; kNone: that any program of the session was.
void Stack::drop_requests(std::uint32_t session, std::uint32_t program) {
  for (std::uint32_t r = 0; r < requests_.fresh(); ++r) {
    state::Request& request = requests_[r];
    if (request.session != session || (program != kNone && request.program != program)) continue;
    if (request.state == state::RequestState::kMatched) {
      send_request_answer(request, wire::Type::kConnectReject, 0);
      release_request(r);
      bury_request(r);
    } else if (request.state == state::RequestState::kDone) {
      release_request(r);
    }
  }
}

void Stack::free_lock(std::atomic<std::uint32_t>& lock, std::uint32_t member) {
  const std::uint32_t held = lock.load();
  if ((held & ~layout::kLockWanted) != 1 + member) return;
  lock.store(0);
  environment_.wake(lock);
}

// What the library in that process may have held when it was killed.
void Stack::free_locks(std::uint32_t program) {
  const state::Program& gone = programs_[program];
  const layout::View& view = views_[gone.session];
  for (ViIndex i = 0; i < vis_.fresh(); ++i) {
    free_lock(view.vi(i).send.lock, gone.member);
    free_lock(view.vi(i).receive.lock, gone.member);
  }
  for (std::uint32_t i = 0; i < cqs_.fresh(); ++i) free_lock(view.cq(i).lock, gone.member);
}

void Stack::leave(std::uint32_t program, std::uint64_t now) {
  now_ = now;
  state::Program& gone = programs_[program];
  const std::uint32_t session = gone.session;
  drop_commands(program);
  drop_requests(session, program);
  for (ViIndex i = 0; i < vis_.fresh(); ++i) {
    if (vis_[i].session != session || vis_[i].program != program) continue;
    end_connection(i, End::kGone, 0);
    free_vi(i);
  }
  for (std::uint32_t i = 0; i < cqs_.fresh(); ++i) {
    if (cqs_[i].session == session && cqs_[i].program == program) free_cq(i);
  }
  free_locks(program);
  flush_wakes();
  port_.flush();
  sessions_[session].programs[gone.member] = kNone;
  gone.gone = 1;
  if (gone.heirs == 0) forget_program(program);
}

// Nobody has a copy of its memory.
void Stack::forget_program(std::uint32_t program) {
  while (program != kNone) {
    state::Program& gone = programs_[program];
    for (std::uint32_t i = 0; i < regions_.fresh(); ++i) {
      if (regions_[i].handle != 0 && regions_[i].program == program) free_region(regions_[i]);
    }
    const std::uint32_t parent = gone.parent;
    const bool first = program < limits_.sessions;
    gone.parent = kNone;
    if (!first) {
      gone.session = kNone;
      views_[program] = layout::View();
      members_.give(program - limits_.sessions);
    }
    if (parent == kNone) return;
    --programs_[parent].heirs;
    program = programs_[parent].gone != 0 && programs_[parent].heirs == 0 ? parent : kNone;
  }
}

}  // namespace viaduct
