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

template <class Platform>
void Commands<Platform>::run_command(std::uint32_t session, std::uint32_t command) {
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

  if (begin(session, command, body)) return;
  const vip::Return result = execute(session, program, body);
  command_slots_.finish(session, command, result, body);
}

// Begins a command that the part carrying it out finishes itself, mostly later. False: the command is none of these.
template <class Platform>
bool Commands<Platform>::begin(std::uint32_t session, std::uint32_t command, CommandBody& body) {
  switch (body.op) {
    case Op::kConnectWait: return connections_.connect_wait(session, command, body), true;
    case Op::kConnectAccept: return connections_.connect_accept(session, command, body), true;
    case Op::kConnectRequest: return connections_.connect_request(session, command, body), true;
    case Op::kPeerWait: return connections_.peer_wait(session, command, body), true;
    case Op::kHostByName: return name_service_.host_by_name(session, command, body), true;
    case Op::kHostByAddress: return name_service_.host_by_address(session, command, body), true;
    case Op::kDiscover: return name_service_.discover(session, command, body), true;
    case Op::kVerify: return claim_table_.verify(session, command, body), true;
    default: return false;
  }
}

// Executes any other command, which is over at once; the answer is in `body`.
template <class Platform>
vip::Return Commands<Platform>::execute(std::uint32_t session, std::uint32_t program, CommandBody& body) {
  switch (body.op) {
    case Op::kCreatePtag: return memory_table_.create_ptag(session, body);
    case Op::kDestroyPtag: return memory_table_.destroy_ptag(session, body);
    case Op::kRegisterMemory: return memory_table_.register_memory(program, body);
    case Op::kDeregisterMemory: return memory_table_.deregister_memory(program, body);
    case Op::kQueryMemory: return memory_table_.query_memory(program, body);
    case Op::kSetMemory: return memory_table_.set_memory(program, body);
    case Op::kCreateVi: return virtual_interfaces_.create_vi(program, body);
    case Op::kDestroyVi: return virtual_interfaces_.destroy_vi(session, body);
    case Op::kSetVi: return virtual_interfaces_.set_vi(session, body);
    case Op::kCreateCq: return completions_.create_cq(program, body);
    case Op::kDestroyCq: return completions_.destroy_cq(session, body);
    case Op::kResizeCq: return completions_.resize_cq(session, body);
    case Op::kConnectReject: return connections_.connect_reject(session, body);
    case Op::kDisconnect: return connections_.disconnect(session, body);
    case Op::kPeerRequest: return connections_.peer_request(session, body);
    case Op::kPeerDone: return connections_.peer_done(session, body);
    case Op::kDiscovered: return name_service_.discovered(session, body);
    case Op::kClaim: return claim_table_.claim(session, body);
    case Op::kUnclaim: return claim_table_.unclaim(session, body);
    case Op::kTakeVi: return processes_.take_vi(program, body);
    case Op::kCancel:
      if (body.handle >= layout::kCommands || command_slots_.pending(session, body.handle).op == Op::kNone) break;
      cancel_command(session, body.handle, vip::kTimeout);
      return vip::kSuccess;
    default: break;
  }
  return vip::kInvalidParameter;
}

// Ends a command that is under way, undoing what it had begun.
template <class Platform>
void Commands<Platform>::cancel_command(std::uint32_t session, std::uint32_t command,
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

template <class Platform>
void Commands<Platform>::command_timeout(std::uint32_t session, std::uint32_t command) {
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

// Cancels the program's commands and frees the slots that it had taken for commands.
template <class Platform>
void Commands<Platform>::drop_commands(std::uint32_t program) {
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
