// A control operation: one question to the driver through a command slot, and its answer.
//
//     Command command(session, layout::Op::kCreateVi);
//     command->entries = ...;                 fill in what the operation needs
//     VIP_RETURN result = command.run();      waits for the answer
//     ... = command->handle;                  read what it brings
#ifndef VIADUCT_VIPL_SESSION_COMMAND_H
#define VIADUCT_VIPL_SESSION_COMMAND_H

#include "vipl/session/session.h"

namespace viaduct::vipl {

class Command {
 public:
  // for_agent: the command is for the agent, and not for the driver of the session's stack. In a hosted session these
  // are the same.
  Command(Session& session, layout::Op op, bool for_agent)
      : session_(session), view_(for_agent ? session.control_session : session.view), for_agent_(for_agent) {
    body_.op = op;
  }
  Command(Session& session, layout::Op op) : Command(session, op, is_for_control_session(op)) {}
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  layout::CommandBody* operator->() { return &body_; }
  layout::CommandBody& body() { return body_; }

  // Returns the driver's answer, or VIP_ERROR_RESOURCE if it is gone or no slot is free. While a
  // session is without an agent (reattach.h), commands for the agent wait for the next one.
  VIP_RETURN run();

  // Makes the command fail in any control session (Session::control_epoch) but this one.
  void only_for(std::uint32_t control_session) { one_session_only_ = true, wanted_session_ = control_session; }

  // To be asked after run(): whether the driver is gone and has not answered.
  bool lost() const { return lost_; }

 private:
  // How long the answer may take, and so which slots the command may have.
  enum class Takes { kNoTime, kAWhile, kForEver };
  Takes takes() const;
  enum class Outcome { kAnswered, kNoSlot, kLost, kOtherControlSession };
  Outcome ask();
  Outcome submit(std::uint32_t control_session, std::uint32_t& slot);
  bool take_slot(std::uint32_t end, std::uint32_t& slot);
  bool wait_for_control_session();
  std::uint32_t control_session() const { return can_drift() ? session_.control_epoch.load() : 0; }
  // This process's number in the family that shares `view_`; the control session has no other process.
  std::uint32_t member() const {
    return &view_ == &session_.view ? session_.member : session_.control_member;
  }
  bool gone() const { return session_.over() || (for_agent_ && session_.control_lost.load()); }
  bool can_drift() const { return for_agent_ && session_.driver != nullptr; }

  static bool is_for_control_session(layout::Op op);
  Session::Awaited awaited() const;

  Session& session_;
  const layout::View& view_;
  bool for_agent_;
  layout::CommandBody body_{};
  bool lost_ = false;
  bool one_session_only_ = false;
  std::uint32_t wanted_session_ = 0;
};

// In ThreadRecord::command: the command is for the agent, in control session ThreadRecord::command_epoch.
inline constexpr std::uint32_t kForAgent = 0x80000000;

}  // namespace viaduct::vipl

#endif
