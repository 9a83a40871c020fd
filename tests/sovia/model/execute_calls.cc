// The part of Execution that does operations.
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "execute.h"

namespace model {
namespace {

constexpr int kPerhapsMs = 2;  // for a call that may end or wait

std::uint32_t pattern_of(int sending_end) { return static_cast<std::uint32_t>(sending_end); }

Answer answer_of(const Reply& reply) { return {reply.result, reply.error, reply.pipe_signals, reply.wrong}; }

}  // namespace

// ---------------------------------------------------------------- data

void Execution::data(const Operation& operation, Descriptor descriptor) {
  const int end = descriptor.end;
  const End& model = model_of(end);
  Waiting waiting{.operation = operation, .index = outcome_.operation, .end = end, .receive = {}, .send = {}};
  Request request{.call = Call::kReceive, .style = static_cast<Style>(operation.style), .fd = descriptor.fd};
  request.flags = operation.flags;
  request.size = std::min(operation.size, limits_.most_bytes);
  const bool waits = !model.nonblocking && (operation.flags & MSG_DONTWAIT) == 0;
  const bool file = operation.style == 1 || operation.style == 2;
  if (operation.op == Op::kPollWait) {
    request = {.call = Call::kPoll, .fd = descriptor.fd, .events = POLLIN | POLLRDHUP, .limit_ms = -1};
    return begin(waiting, request, connection(end).mask(end % 2).must & (POLLIN | POLLRDHUP | POLLHUP | POLLERR)
                                       ? Ends::kNow : Ends::kPerhaps);
  }
  if (operation.op == Op::kReceive) {
    if (is_receiving(end)) return;
    waiting.receive = {.size = request.size, .peek = (operation.flags & MSG_PEEK) != 0,
                       .all = (operation.flags & MSG_WAITALL) != 0, .waits = waits,
                       .drops = (operation.flags & MSG_TRUNC) != 0, .file = file, .limited = model.limit_ms > 0};
    request.pattern = pattern_of(end ^ 1);
    request.offset = model.in.read;
    const Ends ends = connection(end).receive_ends(end % 2, waiting.receive);
    return begin(waiting, request, ends == Ends::kNow && somebody_is_stopped() ? Ends::kPerhaps : ends);
  }
  if (is_sending(end)) return;
  request.call = Call::kSend;
  request.pattern = pattern_of(end);
  const End& peer = model_of(end ^ 1);
  request.offset = peer.in.sent;
  waiting.send = {.size = request.size, .waits = waits,
                  .silent = !file && (operation.flags & MSG_NOSIGNAL) != 0,
                  .more = (operation.flags & MSG_MORE) != 0, .vector = operation.style == 2, .was_shut = model.shut_write,
                  .peer_was_shut = peer.shut_read && peer.shut_write};
  begin(waiting, request, connection(end).send_ends(end % 2, waiting.send));
}

void Execution::begin(const Waiting& waiting, const Request& request, Ends ends) {
  const int which = waiting.operation.process;
  hosts_.ask(which, request);
  process(which).waiting = waiting;
  if (waiting.operation.op == Op::kSend) model_of(waiting.end ^ 1).in.pending += waiting.send.size;
  if (ends == Ends::kNotYet) return;
  const auto reply = hosts_.answer(which, ends == Ends::kNow ? limits_.patience_ms : kPerhapsMs);
  must_be(reply || ends != Ends::kNow, "the call does not end");
  if (reply) complete(which, *reply);
}

void Execution::complete(int which, const Reply& reply) {
  Waiting waiting = *process(which).waiting;
  process(which).waiting.reset();
  Connection& connection = this->connection(waiting.end);
  const int side = waiting.end % 2;
  const int now = std::exchange(outcome_.operation, waiting.index);
  const Answer answer = answer_of(reply);
  std::string complaint;
  row(reply);
  const bool is_of_nothing = waiting.operation.op == Op::kReceive && waiting.receive.size == 0;
  // How much a send of more than there is room for gets to a closed end depends on when the reset comes.
  const bool is_cut = waiting.operation.op == Op::kSend && waiting.send.size > kRoom && connection.end(1 - side).closed;
  // Another process may have set the mode before this one has entered the kernel, or has entered it again.
  const bool says_again = reply.result < 0 && reply.error == EAGAIN;
  if (says_again && model_of(waiting.end).nonblocking) waiting.receive.waits = waiting.send.waits = false;
  if (waiting.receive.interrupted || is_of_nothing || is_cut) outcome_.rows.back().settled = false;
  if (waiting.operation.op == Op::kSend) {
    connection.end(1 - side).in.pending -= waiting.send.size;
    complaint = connection.send(side, waiting.send, answer);
    edges(waiting.end);
    edges(waiting.end ^ 1);
  } else if (waiting.operation.op == Op::kReceive) {
    complaint = connection.receive(side, waiting.receive, answer);
  } else if (reply.result < 0) {
    complaint = reply.error == EINTR && waiting.receive.interrupted ? "" : "poll fails";
  } else {
    const std::uint32_t may = (waiting.seen | connection.mask(side).may) & (POLLIN | POLLRDHUP | POLLHUP | POLLERR);
    complaint = reply.events != 0 && (reply.events & ~may) == 0 ? "" : "poll tells of what is not there";
  }
  if (!complaint.empty()) {
    const std::string error = reply.result < 0 ? std::string(" (") + std::strerror(reply.error) + ")" : "";
    throw Wrong{"the answer is " + std::to_string(reply.result) + error + ": " + complaint};
  }
  outcome_.operation = now;
}

// ---------------------------------------------------------------- ends

void Execution::shutdown(const Operation& operation, Descriptor descriptor) {
  if (operation.other != SHUT_RD && is_sending(descriptor.end)) return;
  Request request{.call = Call::kShutdown, .fd = descriptor.fd, .other = operation.other};
  const Reply reply = call(operation.process, request);
  check(connection(descriptor.end).shutdown(descriptor.end % 2, operation.other, answer_of(reply)));
  edges(descriptor.end);
  edges(descriptor.end ^ 1);
}

void Execution::drop(Descriptor descriptor, bool killed) {
  if (--model_of(descriptor.end).references > 0) return;
  connection(descriptor.end).close(descriptor.end % 2, killed);
  edges(descriptor.end ^ 1);
  for (Process& one : processes_) {
    if (one.set == nullptr) continue;
    std::erase_if(*one.set, [&](const Registration& registration) { return registration.end == descriptor.end; });
  }
}

void Execution::close_slot(int which, int slot, bool killed) {
  Descriptor& descriptor = process(which).slots[static_cast<std::size_t>(slot)];
  const Descriptor closed = std::exchange(descriptor, Descriptor{});
  if (!killed) {
    const Reply reply = call(which, {.call = Call::kClose, .fd = closed.fd});
    expect_success(reply);
    const std::uint64_t sent = model_of(closed.end ^ 1).in.sent;
    const std::uint64_t before = kernel_before_[static_cast<std::size_t>(closed.end)];
    outcome_.past_kernel += model_of(closed.end).references == 1 && sent > 0 && reply.kernel_bytes - before < sent;
  }
  drop(closed, killed);
}

void Execution::leave(int which, bool killed) {
  if (process(which).waiting) {
    // Bytes of a send that was under way may come, or not.
    process(which).waiting.reset();
  }
  process(which).stopped = false;
  process(which).set.reset();
  for (Descriptor& descriptor : process(which).slots) {
    if (descriptor.end >= 0) drop(std::exchange(descriptor, Descriptor{}), killed);
  }
}

// ---------------------------------------------------------------- descriptors

int Execution::lowest_fd(int which) const {
  for (int fd = hosts_.lowest(which);; ++fd) {
    if (fd == process(which).set_fd) continue;
    const auto& slots = process(which).slots;
    if (std::none_of(slots.begin(), slots.end(), [&](const Descriptor& one) { return one.fd == fd; })) return fd;
  }
}

void Execution::copy(const Operation& operation, Descriptor descriptor) {
  Process& one = process(operation.process);
  Descriptor& to = one.slots[static_cast<std::size_t>(operation.other)];
  const bool replaces = operation.op == Op::kDup2;
  if (replaces != (to.end >= 0)) return;
  const Reply reply = call(operation.process, {.call = replaces ? Call::kDup2 : Call::kDup, .fd = descriptor.fd,
                                               .other = to.fd});
  expect_success(reply);
  if (!replaces) check_fd(operation.process, reply.fd);
  ++model_of(descriptor.end).references;
  const Descriptor replaced = std::exchange(to, {descriptor.end, reply.fd});
  if (replaces) drop(replaced, false);
}

void Execution::fork(const Operation& operation) {
  const int child = operation.other;
  if (hosts_.lives(child)) return;
  ++outcome_.operations;
  hosts_.ask(operation.process, {.call = Call::kFork, .other = child});
  const auto reply = hosts_.answer(operation.process, limits_.patience_ms);
  must_be(reply && reply->result > 0, "fork does not return");
  hosts_.adopt(child, operation.process);
  process(child) = process(operation.process);
  for (const Descriptor& descriptor : process(child).slots) {
    if (descriptor.end >= 0) ++model_of(descriptor.end).references;
  }
}

void Execution::pass(const Operation& operation, Descriptor descriptor) {
  const int to = operation.other;
  if (to == operation.process || !hosts_.lives(to) || process(to).waiting || process(to).stopped) return;
  auto& slots = process(to).slots;
  const auto free = std::find_if(slots.begin(), slots.end(), [](const Descriptor& one) { return one.end < 0; });
  if (free == slots.end()) return;
  expect_success(call(operation.process, {.call = Call::kPass, .fd = descriptor.fd, .other = to}));
  const Reply reply = call(to, {.call = Call::kTake});
  expect_success(reply);
  check_fd(to, reply.fd);
  ++model_of(descriptor.end).references;
  *free = {descriptor.end, reply.fd};
}

void Execution::option(const Operation& operation, Descriptor descriptor) {
  End& model = model_of(descriptor.end);
  Request request{.call = Call::kOption, .fd = descriptor.fd, .flags = operation.other};
  if (operation.op == Op::kLinger) {
    request.other = SO_LINGER;
    request.flags = operation.other != 0 ? 0 : -1;
    model.linger_zero = operation.other != 0;
  } else if (operation.op == Op::kTimeLimit) {
    request.other = SO_RCVTIMEO;
    model.limit_ms = operation.other;
  } else if (operation.op == Op::kNonblocking) {
    request.call = Call::kNonblocking;
    model.nonblocking = operation.other != 0;
  } else {
    request.call = Call::kError;
  }
  const Reply reply = call(operation.process, request);
  expect_success(reply);
  if (operation.op != Op::kError) return;
  const std::string complaint = connection(descriptor.end).error(descriptor.end % 2, static_cast<int>(reply.events));
  must_be(complaint.empty(), std::string("SO_ERROR is ") + std::strerror(static_cast<int>(reply.events)) + ": " + complaint);
}

// ---------------------------------------------------------------- signals

void Execution::signal(const Operation& operation) {
  ++outcome_.operations;
  if (operation.op == Op::kSignal) return interrupt(operation.process);
  Waiting& waiting = *process(operation.process).waiting;
  // poll() is interrupted by any handler, and so are a call with a time limit and one that has moved a part.
  const bool ends = waiting.operation.op != Op::kReceive || waiting.receive.limited || waiting.receive.all;
  waiting.receive.interrupted = waiting.send.interrupted = ends;
  hosts_.signal(operation.process, SIGUSR2);
}

// The signal may come before the process has entered its call; then it is sent again.
void Execution::interrupt(int which) {
  Waiting& waiting = *process(which).waiting;
  waiting.receive.interrupted = waiting.send.interrupted = true;
  int patience = limits_.patience_ms;
  for (int pause = 1; patience > 0; patience -= pause, pause = std::min(2 * pause, 50)) {
    hosts_.signal(which, SIGUSR1);
    if (const auto reply = hosts_.answer(which, pause)) return complete(which, *reply);
  }
  throw Wrong{"a signal does not end the call " + text_of(waiting.operation)};
}

}  // namespace model
