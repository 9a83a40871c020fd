// The part of Execution about readiness, and points at which all that was sent has come.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "execute.h"

namespace model {
namespace {

constexpr std::uint32_t kAlways = POLLHUP | POLLERR;
constexpr std::uint32_t kAll = POLLIN | POLLOUT | POLLRDHUP;

std::string bits(std::uint32_t events) {
  char text[16];
  std::snprintf(text, sizeof text, "%#x", events);
  return text;
}

}  // namespace

bool Execution::somebody_is_stopped() const {
  return std::any_of(processes_.begin(), processes_.end(), [](const Process& one) { return one.stopped; });
}

void Execution::check_mask(int end, std::uint32_t wanted, std::uint32_t got, const char* what) {
  const Mask mask = connection(end).mask(end % 2);
  wanted |= kAlways;
  must_be((mask.must & wanted & ~got) == 0, std::string(what) + " tells " + bits(got) + ", without " +
                                                bits(mask.must & wanted & ~got));
  must_be((got & ~(mask.may & wanted)) == 0, std::string(what) + " tells " + bits(got) + ", of which there is no " +
                                                 bits(got & ~(mask.may & wanted)));
}

void Execution::look(const Operation& operation, Descriptor descriptor) {
  const int end = descriptor.end;
  if (operation.op == Op::kUnread) {
    const Reply reply = call(operation.process, {.call = Call::kUnread, .fd = descriptor.fd});
    expect_success(reply);
    if (is_receiving(end)) return;
    const std::string complaint = connection(end).unread(end % 2, static_cast<int>(reply.events));
    must_be(complaint.empty(), "FIONREAD tells " + std::to_string(static_cast<int>(reply.events)) + ": " + complaint);
    return;
  }
  const bool poll = operation.op == Op::kPoll;
  const Reply reply = call(operation.process, {.call = poll ? Call::kPoll : Call::kSelect, .fd = descriptor.fd,
                                               .events = kAll});
  expect_success(reply);
  if (is_receiving(end)) return;
  if (poll) return check_mask(end, kAll, reply.events, "poll");
  Mask mask = connection(end).mask(end % 2);
  // select() tells of a hangup as readable, and of an error as both.
  for (std::uint32_t* one : {&mask.must, &mask.may}) {
    if ((*one & POLLHUP) != 0) *one |= POLLIN;
    if ((*one & POLLERR) != 0) *one |= POLLIN | POLLOUT;
    *one &= POLLIN | POLLOUT;
  }
  must_be((mask.must & ~reply.events) == 0, "select tells too little: " + bits(reply.events));
  must_be((reply.events & ~mask.may) == 0, "select tells too much: " + bits(reply.events));
}

// ---------------------------------------------------------------- epoll

void Execution::epoll(const Operation& operation, Descriptor descriptor) {
  Process& one = process(operation.process);
  if (one.set == nullptr) {
    if (operation.op != Op::kEpollAdd) return;
    const Reply made = call(operation.process, {.call = Call::kEpollMake});
    expect_success(made);
    check_fd(operation.process, made.fd);
    one.set = std::make_shared<EpollSet>();
    one.set_fd = made.fd;
  }
  const auto at = std::find_if(one.set->begin(), one.set->end(), [&](const Registration& registration) {
    return registration.end == descriptor.end && registration.fd == descriptor.fd;
  });
  const bool is_there = at != one.set->end();
  const int how = operation.op == Op::kEpollAdd      ? EPOLL_CTL_ADD
                  : operation.op == Op::kEpollModify ? EPOLL_CTL_MOD
                                                     : EPOLL_CTL_DEL;
  Request request{.call = Call::kEpollChange, .fd = descriptor.fd, .other = one.set_fd, .flags = how};
  request.events = static_cast<std::uint32_t>(operation.flags);
  request.offset = static_cast<std::uint64_t>(descriptor.end) << 32 | static_cast<std::uint32_t>(descriptor.fd);
  const Reply reply = call(operation.process, request);
  row(reply);
  const int right = how == EPOLL_CTL_ADD ? (is_there ? EEXIST : 0) : (is_there ? 0 : ENOENT);
  must_be((reply.result < 0 ? reply.error : 0) == right,
          std::string("epoll_ctl: ") + std::strerror(reply.error) + " in place of " + std::strerror(right));
  if (right != 0) return;
  if (how == EPOLL_CTL_DEL) {
    one.set->erase(at);
    return;
  }
  Registration& registration = is_there ? *at : one.set->emplace_back();
  registration = {.end = descriptor.end, .fd = descriptor.fd, .events = request.events};
  registration.edge = true;
}

void Execution::told(Registration& registration, std::uint32_t events) {
  const End& model = model_of(registration.end);
  must_be(registration.armed, "epoll_wait tells of a registration that is to be told of once");
  const Mask mask = connection(registration.end).mask(registration.end % 2);
  const std::uint32_t wanted = (registration.events & (EPOLLIN | EPOLLOUT | EPOLLRDHUP)) | kAlways;
  must_be((events & ~(mask.may & wanted)) == 0, "epoll_wait tells " + bits(events) + ", of which there is no " +
                                                    bits(events & ~(mask.may & wanted)));
  must_be((mask.must & wanted & ~events) == 0, "epoll_wait tells " + bits(events) + ", without " +
                                                   bits(mask.must & wanted & ~events));
  registration.edge = false;
  registration.seen = model.in.sent + model.in.pending;
  registration.seen_fin = model.fin != Arrival::kNo;
  registration.seen_reset = model.reset != Arrival::kNo;
  if ((registration.events & EPOLLONESHOT) != 0) registration.armed = false;
}

void Execution::epoll_wait(int which) {
  Process& one = process(which);
  if (one.set == nullptr) return;
  ++outcome_.operations;
  const Reply reply = call(which, {.call = Call::kEpollWait, .fd = one.set_fd});
  must_be(reply.result >= 0, std::string("epoll_wait: ") + std::strerror(reply.error));
  if (reply.result == 1) {
    const auto at = std::find_if(one.set->begin(), one.set->end(), [&](const Registration& registration) {
      return (static_cast<std::uint64_t>(registration.end) << 32 | static_cast<std::uint32_t>(registration.fd)) ==
             reply.wrong;
    });
    must_be(at != one.set->end(), "epoll_wait tells of a registration that is not there");
    if (!is_receiving(at->end)) told(*at, reply.events);
    return;
  }
  for (const Registration& registration : *one.set) {
    const std::uint32_t wanted = (registration.events & (EPOLLIN | EPOLLOUT | EPOLLRDHUP)) | kAlways;
    const bool must = registration.armed && ((registration.events & EPOLLET) == 0 || registration.edge) &&
                      (connection(registration.end).mask(registration.end % 2).must & wanted) != 0;
    must_be(!must || is_receiving(registration.end),
            "epoll_wait tells nothing, where " +
                bits(connection(registration.end).mask(registration.end % 2).must & wanted) + " is to be told of end " +
                std::to_string(registration.end));
  }
}

// What has surely come since an edge was told last is another edge; data is, to who waits for data.
void Execution::edges(int end) {
  const End& model = model_of(end);
  for (Process& one : processes_) {
    if (one.set == nullptr) continue;
    for (Registration& registration : *one.set) {
      if (registration.end != end) continue;
      registration.edge |= ((registration.events & EPOLLIN) != 0 && model.in.arrived > registration.seen) ||
                           (model.fin == Arrival::kHere && !registration.seen_fin) ||
                           (model.reset == Arrival::kHere && !registration.seen_reset);
    }
  }
}

// ---------------------------------------------------------------- settled points

void Execution::settle() {
  if (somebody_is_stopped()) return;
  for (int end = 0; end < 2 * program_.connections; ++end) settle_end(end);
  // A call that waits for what has come ends.
  for (int i = 0; i < kProcesses; ++i) {
    if (!process(i).waiting || process(i).waiting->operation.op != Op::kReceive) continue;
    const Waiting& waiting = *process(i).waiting;
    if (connection(waiting.end).receive_ends(waiting.end % 2, waiting.receive) != Ends::kNow) continue;
    const auto reply = hosts_.answer(i, limits_.patience_ms);
    must_be(reply.has_value(), "a call that waits does not end: " + text_of(waiting.operation));
    complete(i, *reply);
  }
}

void Execution::settle_end(int end) {
  const End& model = model_of(end);
  const int which = holder(end);
  if (which < 0 || connection(end).settled(end % 2) || is_receiving(end)) return;
  if (model.in.pending > 0 || model.in.corked || model.in.most() > kRoom) return;
  if (model.fin == Arrival::kMay || model.reset == Arrival::kMay) return;
  Request request{.call = Call::kSettle, .fd = fd_of(which, end), .limit_ms = limits_.patience_ms / 2};
  request.size = static_cast<std::uint32_t>(model.in.cut ? model.in.least() : model.in.sent - model.in.read);
  if (model.fin == Arrival::kComing) request.events |= POLLRDHUP | POLLIN;
  if (model.reset == Arrival::kComing) {
    request.events |= POLLHUP | ((model.errors & kNone) == 0 ? POLLERR : 0);
  }
  const Reply reply = call(which, request);
  must_be(reply.result == 1, "what was sent does not come: " + std::to_string(reply.wrong) + " of " +
                                 std::to_string(request.size) + " bytes, poll tells " + bits(reply.events) + ", not " +
                                 bits(request.events));
  connection(end).settle(end % 2);
  edges(end);
  check_mask(end, kAll, reply.events, "poll at a settled point");
}

}  // namespace model
