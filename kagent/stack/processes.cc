#include "kagent/stack/processes.h"

#include <algorithm>
#include <cstring>

namespace viaduct {

using state::Vi;
using state::kNone;

namespace {

constexpr std::uint32_t kMostHandedOver = 4 << 20;  // bytes: the driver does nothing else meanwhile

constexpr std::uint32_t kAtOnce = 8192;

}  // namespace

template <class Platform>
void Processes<Platform>::begin_program(std::uint32_t program, std::uint32_t session,
                                        std::uint32_t member) {
  programs_[program] = {};
  programs_[program].session = session;
  programs_[program].member = member;
  programs_[program].id = ++root_->last_program_id;
  programs_[program].parent = programs_[program].taken_vi = kNone;
  sessions_[session].programs[member] = program;
}

// This is where a member's number from shared memory is judged.
template <class Platform>
std::uint32_t Processes<Platform>::program_of(std::uint32_t session, std::uint32_t member) const {
  return member <= layout::kMembers ? sessions_[session].programs[member] : kNone;
}

template <class Platform>
std::optional<std::uint32_t> Processes<Platform>::join(std::uint32_t session, std::uint32_t parent_id,
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
  // A parent that has gone long ago is not found, and has left nothing to inherit.
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
  if (parent != kNone) ++programs_[parent].inheriting_processes;
  return program;
}

template <class Platform>
vip::Return Processes<Platform>::may_take(std::uint32_t program,
                                          const layout::CommandBody& body) const {
  const Vi* const vi = find_vi(programs_[program].session, body.vi, body.generation);
  if (vi == nullptr) return vip::kInvalidParameter;
  if (vi->program == program) return vip::kSuccess;
  if (vi->state == vip::kConnectPending || vi->rx.redirect != state::Redirect::kNone ||
      vi->tx.reads != 0) {
    return vip::kInvalidState;
  }
  // The taker gets the VI's CQs too, and other VIs that use them would lose them.
  for (const std::uint32_t cq : {vi->tx.send.cq, vi->rx.receive.cq}) {
    if (cq == kNone) continue;
    const std::uint32_t own = (vi->tx.send.cq == cq ? 1 : 0) + (vi->rx.receive.cq == cq ? 1 : 0);
    if (cqs_[cq].users != own) return vip::kInvalidState;
  }
  return vip::kSuccess;
}

// Copies the first bytes of a receive from one program's memory to the same place in another's.
template <class Platform>
vip::Return Processes<Platform>::copy_received(HandOver& all, std::uint32_t slot, std::uint32_t length) {
  Target target;
  if (!receiver_.load_target(all.vi, slot, 0, target) || !receiver_.allowed(all.vi, target, length) ||
      !receiver_.allowed(all.heir, target, length) || length > kMostHandedOver - all.passed) {
    return vip::kErrorResource;
  }
  using Reader = typename Platform::Environment::Reader;
  std::byte room[kAtOnce];
  for (std::uint32_t s = 0; s < target.segment_count && length != 0; ++s) {
    const std::uint32_t here = std::min(length, target.segments[s].length);
    length -= here;
    while (all.done < all.passed + here) {
      const std::uint32_t at = all.done - all.passed, n = std::min(here - at, kAtOnce);
      const iovec remote{reinterpret_cast<void*>(target.segments[s].address + at), n}, local{room, n};
      const Reader reader{Reader::What::kTakenVi, vis_.index(all.vi), all.vi.generation, all.done};
      if (!environment_.read_program(all.vi.program, reader, {&remote, 1}, {&local, 1})) {
        return environment_.postponed ? vip::kNotDone : vip::kErrorResource;
      }
      if (!environment_.write_program(all.heir.program, {&remote, 1}, {&local, 1})) return vip::kErrorResource;
      all.done += n;
    }
    all.passed += here;
  }
  return vip::kSuccess;
}

// Data in the slots themselves stays there: the program that takes the descriptor back puts it in its place.
template <class Platform>
vip::Return Processes<Platform>::copy_all_received(HandOver& all) {
  const Vi& vi = all.vi;
  const ViIndex i = vis_.index(vi);
  std::uint32_t position = view(vi).vi(i).receive.dequeued.load(std::memory_order_acquire);
  if (vi.rx.receive.completed - position > layout::kRingEntries) return vip::kErrorResource;
  for (; position != vi.rx.receive.completed; ++position) {
    const std::uint64_t word =
        view(vi).receive_ring(i)[position % layout::kRingEntries].word.load();
    const std::uint32_t slot = layout::ring_word_slot(word);
    if (!layout::ring_word_is(word, position, vi.generation) || slot >= limits_.slots) return vip::kErrorResource;
    const layout::SlotCompletion& completion = view(vi).slot(slot).completion;
    const std::uint32_t status = completion.status.load(std::memory_order_acquire);
    const std::uint32_t length = completion.length;
    const bool here = (status & (vip::kErrorMask | vip::kOpMask)) == vip::kOpReceive &&
                      completion.inline_length == 0 && length != 0;
    const vip::Return copied = here ? copy_received(all, slot, length) : vip::kSuccess;
    if (copied != vip::kSuccess) return copied;
  }
  return receiver_.receives_in_part(vi) ? copy_received(all, vi.rx.receive_slot, vi.rx.message_received)
                                        : vip::kSuccess;
}

// Copies data that a VI has received since the fork from the old owner's memory to the heir's. kNotDone: the memory of
// one of them can't be reached now.
template <class Platform>
vip::Return Processes<Platform>::hand_over_received(const Vi& vi, const Vi& heir) {
  state::Program& taker = programs_[heir.program];
  if (environment_.is_late(vi.program)) return vip::kNotDone;
  const std::uint32_t position = view(vi).vi(vis_.index(vi)).receive.dequeued.load(std::memory_order_acquire);
  const bool goes_on = taker.taken_vi == vis_.index(vi) && taker.taken_generation == vi.generation &&
                       taker.taken_position == position;
  HandOver all{vi, heir, goes_on ? taker.handed_over : 0, 0};
  const vip::Return copied = copy_all_received(all);
  taker.taken_vi = copied == vip::kErrorResource ? kNone : vis_.index(vi);
  taker.taken_generation = vi.generation;
  taker.taken_position = position;
  taker.handed_over = all.done;
  // The heir looks at its memory as soon as the VI is its own.
  return copied == vip::kSuccess && environment_.is_late(heir.program) ? vip::kNotDone : copied;
}

// The taker holds the locks of the VI's queues, so that they do not change. kNotDone: the command is to be repeated.
template <class Platform>
vip::Return Processes<Platform>::take_vi(std::uint32_t program, const layout::CommandBody& body) {
  const vip::Return judged = may_take(program, body);
  if (judged != vip::kSuccess) return judged;
  Vi& vi = vis_[body.vi];
  if (vi.program == program) return vip::kSuccess;
  placer_.flush_of(body.vi);
  budget_.charge(Budget::kSystemCall);
  Vi heir = vi;
  heir.program = program;
  const vip::Return handed = hand_over_received(vi, heir);
  if (handed != vip::kSuccess) return handed;
  const std::uint32_t member = programs_[program].member;
  layout::Vi& shared = view(vi).vi(body.vi);
  shared.send.owner.store(member);
  shared.receive.owner.store(member);
  for (const std::uint32_t cq : {vi.tx.send.cq, vi.rx.receive.cq}) {
    if (cq == kNone) continue;
    view(vi).cq(cq).owner.store(member);
    cqs_[cq].program = program;
    wakeups_.wake_later(vi.program, view(vi).cq(cq).sleepers);
  }
  // Threads of the other process that wait there wake up and find that the VI is not theirs any more.
  wakeups_.wake_later(vi.program, shared.send.sleepers);
  wakeups_.wake_later(vi.program, shared.receive.sleepers);
  wakeups_.flush_wakes();
  vi.program = program;
  programs_[program].handed_over = 0;
  programs_[program].taken_vi = kNone;
  return vip::kSuccess;
}

// Drops the connection requests that the program was given; kNone: that any program of the session was given.
template <class Platform>
void Processes<Platform>::drop_requests(std::uint32_t session, std::uint32_t program) {
  for (std::uint32_t r = 0; r < requests_.fresh(); ++r) {
    state::Request& request = requests_[r];
    if (request.session != session || (program != kNone && request.program != program)) continue;
    if (request.state == state::RequestState::kMatched) {
      forwarding_.send_request_answer(request, wire::Type::kConnectReject, 0);
      connect_requests_.release_request(r);
      connect_requests_.bury_request(r);
    } else if (request.state == state::RequestState::kDone) {
      connect_requests_.release_request(r);
    }
  }
}

template <class Platform>
void Processes<Platform>::free_lock(std::atomic<std::uint32_t>& lock, std::uint32_t member) {
  const std::uint32_t held = lock.load();
  if ((held & ~layout::kLockWanted) != 1 + member) return;
  lock.store(0);
  environment_.wake(lock);
}

// Frees locks that the library in that process may have held when it was killed.
template <class Platform>
void Processes<Platform>::free_locks(std::uint32_t program) {
  const state::Program& gone = programs_[program];
  const layout::View& view = views_[gone.session];
  for (ViIndex i = 0; i < vis_.fresh(); ++i) {
    free_lock(view.vi(i).send.lock, gone.member);
    free_lock(view.vi(i).receive.lock, gone.member);
  }
  for (std::uint32_t i = 0; i < cqs_.fresh(); ++i) free_lock(view.cq(i).lock, gone.member);
}

// Frees what the program has registered. To be called when no program has a copy of its memory.
template <class Platform>
void Processes<Platform>::forget_program(std::uint32_t program) {
  while (program != kNone) {
    state::Program& gone = programs_[program];
    for (std::uint32_t i = 0; i < regions_.fresh(); ++i) {
      if (regions_[i].handle != 0 && regions_[i].program == program) {
        memory_table_.free_region(regions_[i]);
      }
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
    --programs_[parent].inheriting_processes;
    program = programs_[parent].gone != 0 && programs_[parent].inheriting_processes == 0 ? parent : kNone;
  }
}

}  // namespace viaduct
