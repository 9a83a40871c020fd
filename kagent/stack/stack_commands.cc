// Control operations: what programs ask for through command slots.
//
// A command's body is copied out of the shared segment once and only the copy is looked at. A slot
// whose command is still under way is left alone until it has finished.
#include <cstring>

#include "kagent/stack/stack.h"

// For what the data path calls when it must, and else shall not pay for: the caller keeps all that it
// has in registers.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define KEEPS_REGISTERS \
  [[gnu::noinline, gnu::cold, gnu::no_caller_saved_registers, gnu::target("general-regs-only")]]
#else
#define KEEPS_REGISTERS [[gnu::noinline, gnu::cold]]
#endif

namespace viaduct {

using layout::CommandBody;
using layout::Op;
using state::kHandleBits;
using state::kNone;
using state::Vi;

namespace {

// Of regions and ptags.
constexpr std::uint32_t kHandleMask = (1u << kHandleBits) - 1;

constexpr std::uint32_t kMostAncestors = 64;  // that are asked for a registration

constexpr std::uint32_t make_handle(std::uint32_t index, std::uint32_t generation) {
  return generation << kHandleBits | (index + 1);
}

}  // namespace

void Stack::run_command(std::uint32_t session, std::uint32_t command) {
  layout::Command& slot = views_[session].command(command);
  if (slot.state.load(std::memory_order_acquire) != layout::kSubmitted) return;
  if (pending(session, command).op != Op::kNone) return;
  credit_ -= kCommandCost;
  CommandBody body;
  std::memcpy(&body, &slot.body, sizeof body);
  body.name[sizeof body.name - 1] = '\0';
  if (body.local.discriminator_length > layout::kMaxDiscriminator ||
      body.remote.discriminator_length > layout::kMaxDiscriminator) {
    return finish(session, command, vip::kInvalidParameter);
  }
  const std::uint32_t program = program_of(session, body.member);
  if (program == kNone) return finish(session, command, vip::kInvalidParameter);
  pending(session, command).program = program;

  vip::Return result = vip::kInvalidParameter;
  switch (body.op) {
    case Op::kCreatePtag: result = create_ptag(session, body); break;
    case Op::kDestroyPtag: result = destroy_ptag(session, body); break;
    case Op::kRegisterMemory: result = register_memory(program, body); break;
    case Op::kDeregisterMemory: result = deregister_memory(program, body); break;
    case Op::kCreateVi: result = create_vi(program, body); break;
    case Op::kDestroyVi: result = destroy_vi(session, body); break;
    case Op::kQueryVi:
      if (const Vi* vi = find_vi(session, body.vi, body.generation)) {
        body.vi_attributes = attributes_of(*vi);
        result = vip::kSuccess;
      }
      break;
    case Op::kCreateCq: result = create_cq(program, body); break;
    case Op::kDestroyCq: result = destroy_cq(session, body); break;
    case Op::kConnectWait: return connect_wait(session, command, body);
    case Op::kConnectAccept: return connect_accept(session, command, body);
    case Op::kConnectReject: result = connect_reject(session, body); break;
    case Op::kConnectRequest: return connect_request(session, command, body);
    case Op::kDisconnect: result = disconnect(session, body); break;
    case Op::kHostByName: return host_by_name(session, command, body);
    case Op::kCancel:
      if (body.handle < layout::kCommands && pending(session, body.handle).op != Op::kNone) {
        cancel_command(session, body.handle, vip::kTimeout);
        result = vip::kSuccess;
      }
      break;
    case Op::kQueryMemory: result = query_memory(program, body); break;
    case Op::kSetMemory: result = set_memory(program, body); break;
    case Op::kSetVi: result = set_vi(session, body); break;
    case Op::kResizeCq: result = resize_cq(session, body); break;
    case Op::kPeerRequest: result = peer_request(session, body); break;
    case Op::kPeerDone: result = peer_done(session, body); break;
    case Op::kPeerWait: return peer_wait(session, command, body);
    case Op::kHostByAddress: return host_by_address(session, command, body);
    case Op::kDiscover: return discover(session, command, body);
    case Op::kDiscovered: result = discovered(session, body); break;
    case Op::kClaim: result = claim(session, body); break;
    case Op::kUnclaim: result = unclaim(session, body); break;
    case Op::kVerify: return verify(session, command, body);
    case Op::kTakeVi: result = take_vi(program, body); break;
    case Op::kNone: break;
  }
  finish(session, command, result, body);
}

void Stack::finish(std::uint32_t session, std::uint32_t command, vip::Return result) {
  CommandBody body{};
  finish(session, command, result, body);
}

void Stack::finish(std::uint32_t session, std::uint32_t command, vip::Return result,
                   const CommandBody& body) {
  state::Pending& under_way = pending(session, command);
  if (under_way.op != Op::kNone) {
    under_way.op = Op::kNone;
    wheel_.disarm(command_timer(session, command));
  }
  layout::Command& slot = views_[session].command(command);
  std::memcpy(&slot.body, &body, sizeof body);
  slot.body.result = result;
  slot.state.store(layout::kFinished, std::memory_order_release);
  wake_later(session, slot.sleepers);
}

// Ends a command that is under way, undoing what it had begun.
void Stack::cancel_command(std::uint32_t session, std::uint32_t command, vip::Return result) {
  switch (pending(session, command).op) {
    case Op::kConnectWait:
      unlisten(session, command);
      finish(session, command, result);
      break;
    case Op::kConnectRequest:
    case Op::kConnectAccept: fail_attempt(pending(session, command).vi, result); break;
    case Op::kPeerWait:
      vis_[pending(session, command).vi].command = kNone;
      finish(session, command, result);
      break;
    default: finish(session, command, result); break;
  }
}

void Stack::command_timeout(std::uint32_t session, std::uint32_t command) {
  const state::Pending& under_way = pending(session, command);
  switch (under_way.op) {
    case Op::kConnectWait: cancel_command(session, command, vip::kTimeout); break;
    case Op::kHostByName:
    case Op::kHostByAddress:
    case Op::kDiscover: ask_names(session, command); break;
    case Op::kVerify: ask_about_claim(session, command); break;
    default: break;
  }
}

// ---------------------------------------------------------------------------- ptags

vip::Return Stack::create_ptag(std::uint32_t session, CommandBody& body) {
  const std::uint32_t i = ptags_.take();
  if (i == kNone) return vip::kErrorResource;
  state::Ptag& ptag = ptags_[i];
  ptag.session = session;
  ptag.generation = (ptag.generation + 1) & (~0u >> kHandleBits);
  ptag.users = 0;
  body.handle = make_handle(i, ptag.generation);
  return vip::kSuccess;
}

state::Ptag* Stack::find_ptag(std::uint32_t session, std::uint32_t handle) const {
  const std::uint32_t i = (handle & kHandleMask) - 1;
  if (i >= ptags_.fresh()) return nullptr;
  auto& ptag = const_cast<state::Ptag&>(ptags_[i]);
  const bool valid = ptag.session == session && make_handle(i, ptag.generation) == handle;
  return valid ? &ptag : nullptr;
}

vip::Return Stack::destroy_ptag(std::uint32_t session, const CommandBody& body) {
  state::Ptag* ptag = find_ptag(session, body.handle);
  if (ptag == nullptr) return vip::kInvalidParameter;
  if (ptag->users != 0) return vip::kErrorResource;
  ptag->session = kNone;
  ptags_.give(ptags_.index(*ptag));
  return vip::kSuccess;
}

void Stack::hold_ptag(std::uint32_t session, std::uint32_t handle, int change) {
  if (handle == 0) return;
  if (state::Ptag* ptag = find_ptag(session, handle)) {
    ptag->users += static_cast<std::uint32_t>(change);
  }
}

// ---------------------------------------------------------------------------- memory

vip::Return Stack::register_memory(std::uint32_t program, CommandBody& body) {
  const std::uint32_t session = programs_[program].session;
  const layout::MemoryAttributes& memory = body.memory;
  if (memory.address == 0 || memory.length == 0 || memory.address + memory.length < memory.address) {
    return vip::kInvalidParameter;
  }
  if (memory.ptag != 0 && find_ptag(session, memory.ptag) == nullptr) return vip::kInvalidPtag;
  state::Session& owner = sessions_[session];
  if (memory.length > limits_.session_bytes - owner.registered_bytes) return vip::kErrorResource;
  if (!charge_region(session, memory.length)) return vip::kErrorResource;
  const std::uint32_t i = regions_.take();
  if (i == kNone) {
    discharge_region(session, memory.length);
    return vip::kErrorResource;
  }
  state::Region& region = regions_[i];
  region.generation = static_cast<std::uint16_t>((region.generation + 1) & (~0u >> kHandleBits));
  region.handle = make_handle(i, region.generation);
  region.program = program;
  region.forks = views_[session].header().forks.load(std::memory_order_relaxed);
  region.address = memory.address;
  region.length = memory.length;
  region.ptag = memory.ptag;
  region.enable_write = memory.enable_write != 0;
  region.enable_read = memory.enable_read != 0;
  hold_ptag(session, region.ptag, +1);
  ++owner.regions;
  owner.registered_bytes += region.length;
  body.handle = region.handle;
  return vip::kSuccess;
}

bool Stack::charge_region(std::uint32_t session, std::uint64_t bytes) {
  if (!environment_.charge(session, Charged::kRegions, 1)) return false;
  if (environment_.charge(session, Charged::kBytes, static_cast<std::int64_t>(bytes))) return true;
  environment_.charge(session, Charged::kRegions, -1);
  return false;
}

void Stack::discharge_region(std::uint32_t session, std::uint64_t bytes) {
  environment_.charge(session, Charged::kRegions, -1);
  environment_.charge(session, Charged::kBytes, -static_cast<std::int64_t>(bytes));
}

// Whether the program has a copy of what this region was when it was registered. Numbers wrap around
// after 2^32 forks of one session.
KEEPS_REGISTERS bool Stack::inherits(std::uint32_t program, const state::Region& region) const {
  std::uint32_t forks = ~0u;
  for (std::uint32_t i = 0; i < kMostAncestors; ++i) {
    const state::Program& heir = programs_[program];
    if (heir.parent == kNone) return false;
    forks = heir.forks < forks ? heir.forks : forks;
    program = heir.parent;
    if (program == region.program) return region.forks < forks;
  }
  return false;
}

// One that the program has registered or inherited.
state::Region* Stack::find_region(std::uint32_t program, std::uint32_t handle) const {
  const std::uint32_t i = (handle & kHandleMask) - 1;
  if (i >= regions_.fresh()) return nullptr;
  auto& region = const_cast<state::Region&>(regions_[i]);
  if (region.handle != handle) [[unlikely]] return nullptr;
  if (region.program != program && !inherits(program, region)) [[unlikely]] return nullptr;
  return &region;
}

state::Region* Stack::own_region(std::uint32_t program, const CommandBody& body) const {
  state::Region* const region = find_region(program, body.handle);
  const bool right =
      region != nullptr && region->program == program && region->address == body.memory.address;
  return right ? region : nullptr;
}

void Stack::free_region(state::Region& region) {
  const std::uint32_t session = programs_[region.program].session;
  hold_ptag(session, region.ptag, -1);
  state::Session& owner = sessions_[session];
  --owner.regions;
  owner.registered_bytes -= region.length;
  discharge_region(session, region.length);
  region.handle = 0;
  regions_.give(regions_.index(region));
}

vip::Return Stack::deregister_memory(std::uint32_t program, const CommandBody& body) {
  state::Region* region = own_region(program, body);
  if (region == nullptr) return vip::kInvalidParameter;
  free_region(*region);
  return vip::kSuccess;
}

vip::Return Stack::query_memory(std::uint32_t program, CommandBody& body) const {
  const state::Region* region = find_region(program, body.handle);
  if (region == nullptr || region->address != body.memory.address) return vip::kInvalidParameter;
  body.memory = {region->address,      region->length,      region->ptag,
                 region->enable_write, region->enable_read, 0};
  return vip::kSuccess;
}

vip::Return Stack::set_memory(std::uint32_t program, const CommandBody& body) {
  const std::uint32_t session = programs_[program].session;
  state::Region* region = own_region(program, body);
  if (region == nullptr) return vip::kInvalidParameter;
  const std::uint32_t ptag = body.memory.ptag;
  if (ptag != 0 && find_ptag(session, ptag) == nullptr) return vip::kInvalidPtag;
  hold_ptag(session, ptag, +1);
  hold_ptag(session, region->ptag, -1);
  region->ptag = ptag;
  region->enable_write = body.memory.enable_write != 0;
  region->enable_read = body.memory.enable_read != 0;
  return vip::kSuccess;
}

// Whether a descriptor of this VI may use [address, address + length) under a memory handle. The
// null tag on either side goes with every tag of the same session.
bool Stack::span_allowed(const Vi& vi, std::uint64_t address, std::uint32_t handle,
                         std::uint64_t length) const {
  const state::Region* region = find_region(vi.program, handle);
  if (region == nullptr) return false;
  if (region->ptag != vi.ptag && region->ptag != 0 && vi.ptag != 0) return false;
  return address >= region->address && length <= region->length &&
         address - region->address <= region->length - length;
}

// Whether the peer of this VI may write to, or read from, a region of ours.
bool Stack::rdma_allowed(const Vi& vi, std::uint64_t address, std::uint32_t handle,
                         std::uint64_t length, bool write) const {
  const state::Region* region = find_region(vi.program, handle);
  if (region == nullptr) return false;
  const bool enabled = write ? vi.enable_write && region->enable_write
                             : vi.enable_read && region->enable_read;
  return enabled && span_allowed(vi, address, handle, length);
}

// ---------------------------------------------------------------------------- VIs

vip::Return Stack::check_attributes(std::uint32_t session,
                                    const layout::ViAttributes& attributes) const {
  const std::uint32_t level = attributes.reliability;
  if (level != vip::kUnreliable && level != vip::kReliableDelivery &&
      level != vip::kReliableReception) {
    return vip::kInvalidReliabilityLevel;
  }
  if (attributes.max_transfer > limits_.max_transfer) return vip::kInvalidMtu;
  if (attributes.ptag != 0 && find_ptag(session, attributes.ptag) == nullptr) {
    return vip::kInvalidPtag;
  }
  if (attributes.enable_read && level == vip::kUnreliable) return vip::kInvalidRdmaRead;
  return vip::kSuccess;
}

vip::Return Stack::create_vi(std::uint32_t program, CommandBody& body) {
  const std::uint32_t session = programs_[program].session;
  const vip::Return judged = check_attributes(session, body.vi_attributes);
  if (judged != vip::kSuccess) return judged;
  for (const std::uint32_t cq : {body.send_cq, body.receive_cq}) {
    if (cq == 0) continue;
    const state::Cq* const its = find_cq(session, cq - 1, 0);
    if (its == nullptr || its->program != program) return vip::kInvalidParameter;
  }
  if (!environment_.charge(session, Charged::kVis, 1)) return vip::kErrorResource;
  const std::uint32_t i = vis_.take();
  if (i == kNone) {
    environment_.charge(session, Charged::kVis, -1);
    return vip::kErrorResource;
  }
  const std::uint32_t generation = vis_[i].generation + 1;
  Vi& vi = vis_[i];
  Vi blank{};
  // The to-do lists may still name the VI that was here before.
  blank.listed = vi.listed;
  blank.ready_next = vi.ready_next;
  blank.ack_next = vi.ack_next;
  vi = blank;
  vi.session = session;
  vi.program = program;
  vi.generation = generation;
  vi.ptag = body.vi_attributes.ptag;
  vi.max_transfer = body.vi_attributes.max_transfer;
  vi.reliability = static_cast<std::uint16_t>(body.vi_attributes.reliability);
  vi.enable_write = body.vi_attributes.enable_write != 0;
  vi.enable_read = body.vi_attributes.enable_read != 0;
  vi.peer = kNone;
  vi.command = kNone;
  for (state::WorkQueue* queue : {&vi.send, &vi.receive}) {
    const std::uint32_t cq = queue == &vi.send ? body.send_cq : body.receive_cq;
    queue->cq = cq == 0 ? kNone : cq - 1;
    queue->backlog_next = state::kNotListed;
    if (queue->cq != kNone) ++cqs_[queue->cq].users;
  }
  reset_transfer(i);
  hold_ptag(session, vi.ptag, +1);
  ++sessions_[session].vis;
  layout::ViStatus& status = views_[session].vi(i).status;
  status.error.store(0, std::memory_order_relaxed);
  status.generation.store(generation, std::memory_order_relaxed);
  set_state(i, vip::kIdle);
  body.vi = i;
  body.generation = generation;
  return vip::kSuccess;
}

vip::Return Stack::set_vi(std::uint32_t session, const CommandBody& body) {
  Vi* vi = find_vi(session, body.vi, body.generation);
  if (vi == nullptr) return vip::kInvalidParameter;
  if (vi->state != vip::kIdle) return vip::kInvalidState;
  const vip::Return judged = check_attributes(session, body.vi_attributes);
  if (judged != vip::kSuccess) return judged;
  hold_ptag(session, body.vi_attributes.ptag, +1);
  hold_ptag(session, vi->ptag, -1);
  vi->ptag = body.vi_attributes.ptag;
  vi->max_transfer = body.vi_attributes.max_transfer;
  vi->reliability = static_cast<std::uint16_t>(body.vi_attributes.reliability);
  vi->enable_write = body.vi_attributes.enable_write != 0;
  vi->enable_read = body.vi_attributes.enable_read != 0;
  return vip::kSuccess;
}

vip::Return Stack::destroy_vi(std::uint32_t session, const CommandBody& body) {
  const Vi* vi = find_vi(session, body.vi, body.generation);
  if (vi == nullptr) return vip::kInvalidParameter;
  if (vi->state != vip::kIdle) return vip::kInvalidState;
  free_vi(body.vi);
  return vip::kSuccess;
}

void Stack::free_vi(ViIndex i) {
  Vi& vi = vis_[i];
  leave_backlog(i, false);
  leave_backlog(i, true);
  for (const state::WorkQueue* queue : {&vi.send, &vi.receive}) {
    if (queue->cq != kNone) --cqs_[queue->cq].users;
  }
  layout::Vi& shared = view(vi).vi(i);
  shared.status.generation.store(vi.generation + 1, std::memory_order_release);
  wake_later(vi.program, shared.send.sleepers);
  wake_later(vi.program, shared.receive.sleepers);
  hold_ptag(vi.session, vi.ptag, -1);
  --sessions_[vi.session].vis;
  environment_.charge(vi.session, Charged::kVis, -1);
  ++vi.generation;
  vi.session = kNone;
  vis_.give(i);
}

// A generation of 0 means whichever.
Vi* Stack::find_vi(std::uint32_t session, std::uint32_t i, std::uint32_t generation) const {
  if (i >= vis_.fresh()) return nullptr;
  auto& vi = const_cast<Vi&>(vis_[i]);
  const bool right = generation == 0 || vi.generation == generation;
  return vi.session == session && right ? &vi : nullptr;
}

layout::ViAttributes Stack::attributes_of(const Vi& vi) {
  return {vi.reliability, vi.max_transfer, vi.ptag, vi.enable_write, vi.enable_read};
}

void Stack::set_state(ViIndex i, vip::State to) {
  Vi& vi = vis_[i];
  const int change = (to == vip::kConnected) - (vi.state == vip::kConnected);
  root_->connected += static_cast<std::uint32_t>(change);
  if (change != 0 && vi.reliability == vip::kUnreliable) share_standing_credit(change);
  vi.state = to;
  view(vi).vi(i).status.state.store(to, std::memory_order_release);
}

// ---------------------------------------------------------------------------- CQs

vip::Return Stack::create_cq(std::uint32_t program, CommandBody& body) {
  const std::uint32_t session = programs_[program].session;
  if (body.entries == 0) return vip::kInvalidParameter;
  if (body.entries > limits_.cq_entries) return vip::kErrorResource;
  const std::uint32_t i = cqs_.take();
  if (i == kNone) return vip::kErrorResource;
  const std::uint32_t generation = cqs_[i].generation + 1;
  cqs_[i] = {session, program, generation, body.entries, 0, 0, kNone, kNone, kNone};
  ++sessions_[session].cqs;
  layout::Cq& shared = views_[session].cq(i);
  shared.consumed.store(0, std::memory_order_relaxed);
  shared.starved.store(0, std::memory_order_relaxed);
  shared.generation.store(generation, std::memory_order_release);
  body.handle = i;
  body.generation = generation;
  return vip::kSuccess;
}

// The ring is as large as it can be from the start, so resizing only changes what was asked for.
vip::Return Stack::resize_cq(std::uint32_t session, const CommandBody& body) {
  state::Cq* cq = find_cq(session, body.handle, body.generation);
  if (cq == nullptr || body.entries == 0) return vip::kInvalidParameter;
  if (body.entries > limits_.cq_entries) return vip::kErrorResource;
  cq->entries = body.entries;
  return vip::kSuccess;
}

vip::Return Stack::destroy_cq(std::uint32_t session, const CommandBody& body) {
  const state::Cq* cq = find_cq(session, body.handle, body.generation);
  if (cq == nullptr) return vip::kInvalidParameter;
  if (cq->users != 0) return vip::kErrorResource;
  free_cq(body.handle);
  return vip::kSuccess;
}

void Stack::free_cq(std::uint32_t i) {
  state::Cq& cq = cqs_[i];
  layout::Cq& shared = views_[cq.session].cq(i);
  shared.generation.store(cq.generation + 1, std::memory_order_release);
  wake_later(cq.program, shared.sleepers);
  --sessions_[cq.session].cqs;
  ++cq.generation;
  cq.session = kNone;
  cqs_.give(i);
}

state::Cq* Stack::find_cq(std::uint32_t session, std::uint32_t i, std::uint32_t generation) const {
  if (i >= cqs_.fresh()) return nullptr;
  auto& cq = const_cast<state::Cq&>(cqs_[i]);
  const bool right = generation == 0 || cq.generation == generation;
  return cq.session == session && right ? &cq : nullptr;
}

}  // namespace viaduct
