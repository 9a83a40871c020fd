#include "execute.h"

#include <arpa/inet.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <netinet/tcp.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace model {
namespace {

constexpr int kRisingRounds = 5;
constexpr int kWhole = 1 << 20;

}  // namespace

Outcome Execution::run() {
  try {
    hosts_.start();
    connect_all();
    for (std::size_t i = 0; i < program_.operations.size(); ++i) {
      if (!limits_.kept.empty() && !limits_.kept[i]) continue;
      outcome_.operation = static_cast<int>(i);
      step(program_.operations[i]);
    }
    outcome_.operation = static_cast<int>(program_.operations.size());
    finish();
  } catch (const Wrong& wrong) {
    outcome_.wrong = wrong.text;
  } catch (const HostFails& fails) {
    outcome_.wrong = fails.what();
    outcome_.hosts_failed = true;
  }
  // Processes that may wait in a call, or that have descriptors of a program that went wrong, are of no more use.
  if (!outcome_.wrong.empty()) {
    for (int i = 0; i < kProcesses; ++i) {
      if (hosts_.lives(i)) hosts_.kill(i);
    }
  }
  return std::move(outcome_);
}

void Execution::must_be(bool right, const std::string& text) {
  if (!right) throw Wrong{text};
}

void Execution::check(const std::string& complaint) { must_be(complaint.empty(), complaint); }

Reply Execution::call(int which, const Request& request) {
  hosts_.ask(which, request);
  const auto reply = hosts_.answer(which, limits_.patience_ms);
  must_be(reply.has_value(), "a call that does not wait does not come back");
  return *reply;
}

// A thread of the library may have the lowest free number for a moment, as one of the program's own may.
void Execution::check_fd(int which, int fd) {
  must_be(fd >= lowest_fd(which), "a new descriptor is " + std::to_string(fd) + ", which is not free");
  outcome_.higher_numbers += fd > lowest_fd(which);
}

void Execution::expect_success(const Reply& reply) {
  row(reply);
  must_be(reply.result >= 0, std::string("an error: ") + std::strerror(reply.error));
}

void Execution::row(const Reply& reply) {
  const bool settled = std::all_of(connections_.begin(), connections_.end(),
                                   [](const Connection& connection) { return connection.settled(); });
  std::string text = std::to_string(reply.result);
  if (reply.result < 0) text = ::strerrorname_np(reply.error) != nullptr ? ::strerrorname_np(reply.error) : "?";
  outcome_.rows.push_back({outcome_.operation, settled, std::move(text)});
}

int Execution::fd_of(int which, int end) const {
  for (const Descriptor& descriptor : process(which).slots) {
    if (descriptor.end == end) return descriptor.fd;
  }
  return -1;
}

int Execution::holder(int end) const {
  for (int i = 0; i < kProcesses; ++i) {
    if (hosts_.lives(i) && !process(i).stopped && !process(i).waiting && fd_of(i, end) >= 0) return i;
  }
  return -1;
}

bool Execution::is_receiving(int end) const {
  return std::any_of(processes_.begin(), processes_.end(), [&](const Process& one) {
    return one.waiting && one.waiting->end == end && one.waiting->operation.op == Op::kReceive;
  });
}

bool Execution::is_sending(int end) const {
  return std::any_of(processes_.begin(), processes_.end(), [&](const Process& one) {
    return one.waiting && one.waiting->end == end && one.waiting->operation.op == Op::kSend;
  });
}

// ---------------------------------------------------------------- the beginning

void Execution::connect_all() {
  for (int c = 0; c < program_.connections; ++c) {
    Request request{.call = Call::kConnect, .other = hosts_.place().port};
    request.events = ::inet_addr(hosts_.place().address.c_str());
    const Reply called = hosts_.call(0, request);
    if (called.result != 0) throw HostFails(std::string("connect: ") + std::strerror(called.error));
    const Reply accepted = hosts_.call(1, {.call = Call::kAccept, .fd = hosts_.listener()});
    if (accepted.result < 0) throw HostFails(std::string("accept: ") + std::strerror(accepted.error));
    check_fd(0, called.fd);
    check_fd(1, accepted.fd);
    process(0).slots[static_cast<std::size_t>(c)] = {2 * c, called.fd};
    process(1).slots[static_cast<std::size_t>(c)] = {2 * c + 1, accepted.fd};
    for (int which = 0; which < 2; ++which) {
      model_of(2 * c + which).references = 1;
      if (!program_.no_delay[c]) continue;
      Request no_delay{.call = Call::kOption, .fd = which == 0 ? called.fd : accepted.fd, .other = TCP_NODELAY, .flags = 1};
      expect_success(call(which, no_delay));
    }
    warm_up(c);
  }
}

void Execution::warm_up(int c) {
  ++outcome_.connections;
  if (program_.warmth[c] == Warmth::kCold) return;
  const bool rising = program_.warmth[c] == Warmth::kRising;
  Request request{.call = Call::kWarm, .limit_ms = rising || !hosts_.place().lanes ? 0 : limits_.warm_ms};
  request.size = kRisingRounds;
  for (int which = 0; which < 2; ++which) {
    request.flags = which == 0;
    request.fd = process(which).slots[static_cast<std::size_t>(c)].fd;
    hosts_.ask(which, request);
  }
  for (int which = 0; which < 2; ++which) {
    const auto reply = hosts_.answer(which, limits_.patience_ms);
    must_be(reply && reply->result >= 0, "the warm-up does not end");
    kernel_before_[static_cast<std::size_t>(2 * c + which)] = reply->kernel_bytes;
    if (which == 0) outcome_.warm += !rising && reply->result == 1;
  }
}

// ---------------------------------------------------------------- the course

// Calls that waited and have ended.
void Execution::collect() {
  // All of them, before an answer tells what one of them has taken.
  for (int i = 0; i < kProcesses; ++i) {
    if (!process(i).waiting) continue;
    Waiting& waiting = *process(i).waiting;
    waiting.seen |= connection(waiting.end).mask(waiting.end % 2).may;
  }
  for (int i = 0; i < kProcesses; ++i) {
    if (!process(i).waiting) continue;
    if (const auto reply = hosts_.answer(i, 0)) complete(i, *reply);
  }
}

void Execution::step(const Operation& operation) {
  collect();
  if (operation.op == Op::kSettle) return settle();
  Process& one = process(operation.process);
  if (!hosts_.lives(operation.process)) return;
  if (operation.op == Op::kContinue || operation.op == Op::kKill || operation.op == Op::kStop) return perform(operation);
  if (one.stopped) return;
  const bool for_waiting = operation.op == Op::kSignal || operation.op == Op::kRestart;
  if (for_waiting != one.waiting.has_value()) return;
  perform(operation);
}

void Execution::perform(const Operation& operation) {
  const Descriptor descriptor = process(operation.process).slots[static_cast<std::size_t>(operation.slot)];
  const int which = operation.process;
  switch (operation.op) {
    case Op::kFork: fork(operation); return;
    case Op::kExit:
      if (which < kFirstChild) return;
      ++outcome_.operations;
      hosts_.ask(which, {.call = Call::kExit});
      hosts_.release(which);
      return leave(which, false);
    case Op::kKill:
      ++outcome_.operations;
      hosts_.kill(which);
      return leave(which, true);
    case Op::kStop:
      // A send that has moved a part ends when its process goes on.
      if (process(which).waiting) {
        process(which).waiting->receive.interrupted = process(which).waiting->send.interrupted = true;
      }
      hosts_.signal(which, SIGSTOP);
      process(which).stopped = true;
      return;
    case Op::kContinue:
      hosts_.signal(which, SIGCONT);
      process(which).stopped = false;
      return;
    case Op::kSignal:
    case Op::kRestart: return signal(operation);
    case Op::kEpollWait: return epoll_wait(which);
    default: break;
  }
  if (descriptor.end < 0) return;
  ++outcome_.operations;
  switch (operation.op) {
    case Op::kSend:
    case Op::kReceive:
    case Op::kPollWait: return data(operation, descriptor);
    case Op::kShutdown: return shutdown(operation, descriptor);
    case Op::kClose: return close_slot(which, operation.slot, false);
    case Op::kDup:
    case Op::kDup2: return copy(operation, descriptor);
    case Op::kPass: return pass(operation, descriptor);
    case Op::kEpollAdd:
    case Op::kEpollModify:
    case Op::kEpollDelete: return epoll(operation, descriptor);
    case Op::kPoll:
    case Op::kSelect:
    case Op::kUnread: return look(operation, descriptor);
    default: return option(operation, descriptor);
  }
}

// ---------------------------------------------------------------- the end

void Execution::continue_all() {
  for (int i = 0; i < kProcesses; ++i) {
    if (!process(i).stopped) continue;
    hosts_.signal(i, SIGCONT);
    process(i).stopped = false;
  }
}

void Execution::finish() {
  continue_all();
  collect();
  drain(false);
  end_waiting_calls();
  drain(false);
  for (int end = 0; end < 2 * program_.connections; ++end) {
    const int which = holder(end);
    if (which < 0 || model_of(end).shut_write) continue;
    shutdown({.op = Op::kShutdown, .process = which, .other = SHUT_WR}, {end, fd_of(which, end)});
  }
  drain(true);
  close_all();
}

// A call that waits for something that will not come is interrupted; the others have time.
void Execution::end_waiting_calls() {
  for (int i = 0; i < kProcesses; ++i) {
    if (process(i).waiting) interrupt(i);
  }
}

void Execution::drain(bool to_end) {
  for (bool more = true; more;) {
    more = false;
    collect();
    for (int end = 0; end < 2 * program_.connections; ++end) more |= drain_end(end, to_end);
  }
}

// Reads one piece, of all that is to come; false when there is nothing more.
bool Execution::drain_end(int end, bool to_end) {
  const End& model = model_of(end);
  const int which = holder(end);
  if (which < 0 || is_receiving(end) || (model.shut_read && model.in.least() == 0 && !to_end)) return false;
  const bool is_sure = model.in.sent > model.in.read && !model.in.cut && !model.shut_read;
  const bool may_be = model.in.pending > 0;
  const bool ends = to_end && model.fin != Arrival::kNo;
  const bool over = to_end && (model.reset != Arrival::kNo || model.shut_read);
  if (!is_sure && !may_be && !ends && !over) return false;
  Request poll{.call = Call::kPoll, .fd = fd_of(which, end), .events = POLLIN};
  poll.limit_ms = is_sure || (ends && model.fin == Arrival::kComing) ? limits_.patience_ms / 2 : may_be ? 20 : 0;
  const Reply ready = call(which, poll);
  if (ready.result == 0 && is_sure) throw Wrong{"bytes that were sent do not come"};
  if (ready.result == 0 && ends && model.fin == Arrival::kComing) throw Wrong{"the end of the stream does not come"};
  const std::uint64_t before = model.in.read;
  Operation receive{.op = Op::kReceive, .process = which, .flags = MSG_DONTWAIT, .size = kWhole};
  data(receive, {end, fd_of(which, end)});
  collect();
  return model.in.read > before;
}

void Execution::close_all() {
  for (int i = kFirstChild; i < kProcesses; ++i) {
    if (!hosts_.lives(i)) continue;
    hosts_.ask(i, {.call = Call::kExit});
    hosts_.release(i);
  }
  for (int i = 0; i < kFirstChild; ++i) {
    if (!hosts_.lives(i)) continue;
    if (process(i).set != nullptr) expect_success(call(i, {.call = Call::kClose, .fd = process(i).set_fd}));
    for (int slot = 0; slot < kSlots; ++slot) {
      if (process(i).slots[static_cast<std::size_t>(slot)].end >= 0) close_slot(i, slot, false);
    }
  }
}

}  // namespace model
