// Program: a list of socket calls of several processes at two ends, which a seed determines.
//
// Each operation stands by itself: one that makes no sense where it comes (its process waits, its descriptor is not
// open) is left out when the program runs. So a program stays one when operations are removed.
#ifndef SOVIA_MODEL_PROGRAM_H
#define SOVIA_MODEL_PROGRAM_H

#include <cstdint>
#include <string>
#include <vector>

namespace model {

constexpr int kFirstChild = 4;   // processes 0 and 2 are at end 0, 1 and 3 at end 1; children follow
constexpr int kProcesses = 8;
constexpr int kSlots = 6;        // of descriptors, in each process
constexpr int kConnections = 3;  // at most; connection c is in slot c of processes 0 and 1 at first

enum class Op : std::uint8_t {
  kSend, kReceive, kShutdown, kClose, kDup, kDup2, kFork, kExit, kPass,
  kEpollAdd, kEpollModify, kEpollDelete, kEpollWait,
  kPoll, kPollWait, kSelect, kUnread, kLinger, kTimeLimit, kNonblocking, kError,
  kSignal, kRestart, kStop, kContinue, kKill, kSettle,
};

const char* name_of(Op op);

struct Operation {
  Op op{};
  int process = 0;
  int slot = 0;
  int other = 0;   // a slot, a process, a value: the operation's own
  int flags = 0;   // of send() and recv(), or events of epoll
  int style = 0;   // Style
  std::uint32_t size = 0;
};

std::string text_of(const Operation& operation);

// How far a connection is on its way to a lane when the program begins.
enum class Warmth : std::uint8_t { kCold, kRising, kWarm };

struct Program {
  std::uint64_t seed = 0;
  int connections = 1;
  Warmth warmth[kConnections] = {};
  bool no_delay[kConnections] = {};
  std::vector<Operation> operations;
};

struct Kinds {
  bool kills = true;   // processes may be killed
};

Program generate(std::uint64_t seed, const Kinds& kinds);

}  // namespace model

#endif
