#include "kagent/stack/commands.h"

#include <cstring>

namespace viaduct {

using layout::CommandBody;
using layout::Op;
using state::Vi;
using state::kNone;

namespace {

// Whether the command is about VI `body.vi`.
bool is_of_vi(Op op) {
  switch (op) {
    case Op::kDestroyVi:
    case Op::kSetVi:
    case Op::kConnectAccept:
    case Op::kConnectRequest:
    case Op::kDisconnect:
    case Op::kPeerRequest:
    case Op::kPeerDone:
    case Op::kPeerWait:
    case Op::kTakeVi: return true;
    default: return false;
  }
}

}  // namespace

template <class World>
void Commands<World>::run_command(std::uint32_t session, std::uint32_t command) {
  layout::Command& slot = views_[session].command(command);
  if (slot.state.load(std::memory_order_acquire) != layout::kSubmitted) return;
  if (command_slots_.pending(session, command).op != Op::kNone) return;
  budget_.charge(Budget::kCommand);
  CommandBody body;
  std::memcpy(&body, &slot.body, sizeof body);
  state::Pending& pending = command_slots_.pending(session, command);
  pending.asked = body.op;
  pending.asked_vi = is_of_vi(body.op) ? body.vi : kNone;
  pending.asked_at = now_;
  pending.program = kNone;
  body.name[sizeof body.name - 1] = '\0';
  if (body.local.discriminator_length > layout::kMaxDiscriminator ||
      body.remote.discriminator_length > layout::kMaxDiscriminator) {
    return command_slots_.finish(session, command, vip::kInvalidParameter);
  }
  const std::uint32_t program = processes_.program_of(session, body.member);
  if (program == kNone) return command_slots_.finish(session, command, vip::kInvalidParameter);
  pending.program = program;

  vip::Return result = vip::kInvalidParameter;
  switch (body.op) {
    case Op::kCreatePtag:
      result = memory_table_.create_ptag(session, body);
      break;
    case Op::kDestroyPtag:
      result = memory_table_.destroy_ptag(session, body);
      break;
    case Op::kRegisterMemory:
      result = memory_table_.register_memory(program, body);
      break;
    case Op::kDeregisterMemory:
      result = memory_table_.deregister_memory(program, body);
      break;
    case Op::kCreateVi:
      result = virtual_interfaces_.create_vi(program, body);
      break;
    case Op::kDestroyVi:
      result = virtual_interfaces_.destroy_vi(session, body);
      break;
    case Op::kCreateCq:
      result = completions_.create_cq(program, body);
      break;
    case Op::kDestroyCq:
      result = completions_.destroy_cq(session, body);
      break;
    case Op::kConnectWait:
      return connections_.connect_wait(session, command, body);
    case Op::kConnectAccept:
      return connections_.connect_accept(session, command, body);
    case Op::kConnectReject:
      result = connections_.connect_reject(session, body);
      break;
    case Op::kConnectRequest:
      return connections_.connect_request(session, command, body);
    case Op::kDisconnect:
      result = connections_.disconnect(session, body);
      break;
    case Op::kHostByName:
      return name_service_.host_by_name(session, command, body);
    case Op::kCancel:
      if (body.handle < layout::kCommands &&
          command_slots_.pending(session, body.handle).op != Op::kNone) {
        cancel_command(session, body.handle, vip::kTimeout);
        result = vip::kSuccess;
      }
      break;
    case Op::kQueryMemory:
      result = memory_table_.query_memory(program, body);
      break;
    case Op::kSetMemory:
      result = memory_table_.set_memory(program, body);
      break;
    case Op::kSetVi:
      result = virtual_interfaces_.set_vi(session, body);
      break;
    case Op::kResizeCq:
      result = completions_.resize_cq(session, body);
      break;
    case Op::kPeerRequest:
      result = connections_.peer_request(session, body);
      break;
    case Op::kPeerDone:
      result = connections_.peer_done(session, body);
      break;
    case Op::kPeerWait:
      return connections_.peer_wait(session, command, body);
    case Op::kHostByAddress:
      return name_service_.host_by_address(session, command, body);
    case Op::kDiscover:
      return name_service_.discover(session, command, body);
    case Op::kDiscovered:
      result = name_service_.discovered(session, body);
      break;
    case Op::kClaim:
      result = claim_table_.claim(session, body);
      break;
    case Op::kUnclaim:
      result = claim_table_.unclaim(session, body);
      break;
    case Op::kVerify:
      return claim_table_.verify(session, command, body);
    case Op::kTakeVi:
      result = processes_.take_vi(program, body);
      break;
    case Op::kNone: break;
  }
  command_slots_.finish(session, command, result, body);
}

// Ends a command that is under way, undoing what it had begun.
template <class World>
void Commands<World>::cancel_command(std::uint32_t session, std::uint32_t command,
                                     vip::Return result) {
  switch (command_slots_.pending(session, command).op) {
    case Op::kConnectWait:
      connections_.unlisten(session, command);
      command_slots_.finish(session, command, result);
      break;
    case Op::kConnectRequest:
    case Op::kConnectAccept:
      connections_.fail_attempt(command_slots_.pending(session, command).vi, result);
      break;
    case Op::kPeerWait:
      vis_[command_slots_.pending(session, command).vi].link.command = kNone;
      command_slots_.finish(session, command, result);
      break;
    default:
      command_slots_.finish(session, command, result);
      break;
  }
}

template <class World>
void Commands<World>::command_timeout(std::uint32_t session, std::uint32_t command) {
  const state::Pending& under_way = command_slots_.pending(session, command);
  switch (under_way.op) {
    case Op::kConnectWait: cancel_command(session, command, vip::kTimeout); break;
    case Op::kHostByName:
    case Op::kHostByAddress:
    case Op::kDiscover:
      name_service_.ask_names(session, command);
      break;
    case Op::kVerify:
      claim_table_.ask_about_claim(session, command);
      break;
    default: break;
  }
}

// The slots that it had taken for commands are free again.
template <class World>
void Commands<World>::drop_commands(std::uint32_t program) {
  const std::uint32_t session = programs_[program].session;
  const std::uint32_t owner = 1 + programs_[program].member;
  for (std::uint32_t c = 0; c < layout::kCommands; ++c) {
    if (command_slots_.pending(session, c).op != layout::Op::kNone &&
        command_slots_.pending(session, c).program == program) {
      cancel_command(session, c, vip::kErrorResource);
    }
    layout::Command& slot = views_[session].command(c);
    if (slot.owner.load() != owner) continue;
    slot.state.store(layout::kIdle);
    slot.owner.store(0);
  }
}

}  // namespace viaduct
