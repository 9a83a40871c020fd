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
  // at_desk: for the agent, and not for the driver of the session's stack. In a hosted session
  // these are the same.
  Command(Session& session, layout::Op op, bool at_desk)
      : session_(session), view_(at_desk ? session.desk : session.view), at_desk_(at_desk) {
    body_.op = op;
  }
  Command(Session& session, layout::Op op) : Command(session, op, is_for_desk(op)) {}
  Command(const Command&) = delete;
  Command& operator=(const Command&) = delete;

  layout::CommandBody* operator->() { return &body_; }
  layout::CommandBody& body() { return body_; }

  // What the driver returned, or VIP_ERROR_RESOURCE if it is gone or no slot is free. While a
  // session is without an agent (reattach.h), what is for the agent waits for the next one.
  VIP_RETURN run();

  // The command is for this desk (Session::desk_number) and for no later one.
  void only_for(std::uint32_t desk) { once_ = true, wanted_ = desk; }

  // After run(): the driver is gone and has not answered.
  bool lost() const { return lost_; }

 private:
  // How long the answer may take, and so which slots the command may have.
  enum class Takes { kNoTime, kAWhile, kForEver };
  Takes takes() const;
  enum class Outcome { kAnswered, kNoSlot, kLost, kOtherDesk };
  Outcome ask();
  Outcome submit(std::uint32_t desk, std::uint32_t& slot);
  bool take_slot(std::uint32_t end, std::uint32_t& slot);
  bool wait_for_desk();
  std::uint32_t desk() const { return can_drift() ? session_.desk_number.load() : 0; }
  // This process's number in the family that shares `view_`: of the desk it is the only one.
  std::uint32_t member() const {
    return &view_ == &session_.view ? session_.member : session_.desk_member;
  }
  bool gone() const { return session_.over() || (at_desk_ && session_.desk_lost.load()); }
  bool can_drift() const { return at_desk_ && session_.driver != nullptr; }

  static bool is_for_desk(layout::Op op);
  Session::Awaited awaited() const;

  Session& session_;
  const layout::View& view_;
  bool at_desk_;
  layout::CommandBody body_{};
  bool lost_ = false;
  bool once_ = false;
  std::uint32_t wanted_ = 0;
};

// In ThreadRecord::command: the command is for the agent, at the desk ThreadRecord::command_desk.
inline constexpr std::uint32_t kAtDesk = 0x80000000;

}  // namespace viaduct::vipl

#endif
