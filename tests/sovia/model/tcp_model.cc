#include "tcp_model.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace model {
namespace {

bool possible(Arrival arrival) { return arrival != Arrival::kNo; }
bool sure(Arrival arrival) { return arrival == Arrival::kComing || arrival == Arrival::kHere; }
bool here(Arrival arrival) { return arrival == Arrival::kHere; }

std::string number(std::uint64_t n) { return std::to_string(n); }

unsigned bit_of(int error) { return error == ECONNRESET ? kConnectionReset : error == EPIPE ? kBrokenPipe : 0; }

bool only_errors(const End& end) { return here(end.reset) && (end.errors & kNone) == 0; }

}  // namespace

// ---------------------------------------------------------------- receiving

Ends Connection::receive_ends(int which, const Receive& call) const {
  const End& end = ends_[which];
  if (!call.waits || call.limited || (call.file && call.size == 0)) return Ends::kNow;
  const std::uint64_t wanted = call.all ? std::max(call.size, 1u) : 1;
  if (call.peek && wanted > kRoom) return Ends::kPerhaps;
  if (end.shut_read || sure(end.fin) || sure(end.reset)) return Ends::kNow;
  if (end.in.sent >= end.in.read + wanted) return Ends::kNow;
  return possible(end.fin) || possible(end.reset) || end.in.most() >= wanted ? Ends::kPerhaps : Ends::kNotYet;
}

std::string Connection::receive(int which, const Receive& call, const Answer& answer) {
  End& end = ends_[which];
  if (answer.result < 0) return not_received(end, call, answer.error);
  if (answer.result > 0) return received(end, call, answer);
  return ended(end, call);
}

std::string Connection::received(End& end, const Receive& call, const Answer& answer) {
  const auto n = static_cast<std::uint64_t>(answer.result);
  Incoming& in = end.in;
  if (n > call.size) return "more bytes than were asked for";
  if (n > in.most()) return "more bytes than were sent: " + number(in.most());
  std::uint64_t floor = std::min<std::uint64_t>(call.size, in.least());
  const bool may_end = end.shut_read || possible(end.fin) || possible(end.reset) || call.interrupted || call.limited;
  if (call.all && call.waits && !may_end) floor = call.size;
  if (n < floor) return "fewer bytes than were there: " + number(floor);
  if (answer.wrong > 0) return "wrong bytes from offset " + number(in.read + n - answer.wrong) + " on";
  in.arrived = std::max(in.arrived, in.read + n);
  if (!call.peek) in.read += n;
  return {};
}

std::string Connection::ended(End& end, const Receive& call) {
  const Incoming& in = end.in;
  const bool over = possible(end.fin) || possible(end.reset) || end.shut_read;
  if (call.size == 0) {
    // Linux looks for nothing more when a call for no bytes is woken, whatever has woken it.
    return call.file || over || in.most() > 0 || call.waits ? "" : "0, although there is nothing to receive";
  }
  if (in.least() > 0) return "end of the stream, although bytes are there: " + number(in.least());
  if (end.shut_read && !only_errors(end)) return {};
  if (possible(end.fin) && in.sent == in.read) {
    if (!end.shut_read && !possible(end.reset)) end.fin = Arrival::kHere;
    return {};
  }
  if (only_errors(end)) return "end of the stream, where a reset is to be told";
  if (possible(end.reset) && end.error_taken) return {};
  return over ? "end of the stream before " + number(in.sent - in.read) + " bytes" : "end of the stream without an end";
}

std::string Connection::not_received(End& end, const Receive& call, int error) {
  const Incoming& in = end.in;
  if (error == EINTR && call.interrupted) return {};
  if (in.least() > 0 && (call.size > 0 || error != EAGAIN)) return "bytes are there: " + number(in.least());
  if (error == EAGAIN) {
    if (call.waits && !call.limited) return "the call is one that waits";
    return here(end.fin) || end.shut_read || here(end.reset) ? "the end is there" : "";
  }
  if ((bit_of(error) & end.errors) == 0 || !possible(end.reset)) return "no such error can be";
  if (here(end.fin)) return "the end of the stream comes before an error";
  take_error(end);
  return {};
}

// ---------------------------------------------------------------- sending

Ends Connection::send_ends(int which, const Send& call) const {
  const End& end = ends_[which];
  if (!call.waits || end.shut_write || here(end.reset)) return Ends::kNow;
  return ends_[1 - which].in.most() + call.size <= kRoom ? Ends::kNow : Ends::kPerhaps;
}

std::string Connection::send(int which, const Send& call, const Answer& answer) {
  const bool raised = answer.pipe_signals > 0;
  if (raised != (answer.result < 0 && answer.error == EPIPE && !call.silent)) {
    return raised ? "a SIGPIPE that should not be" : "a SIGPIPE is missing";
  }
  return answer.result < 0 ? not_sent(which, call, answer) : sent(which, call, answer.result);
}

std::string Connection::sent(int which, const Send& call, long result) {
  End& end = ends_[which];
  End& peer = ends_[1 - which];
  const auto n = static_cast<std::uint64_t>(result);
  const bool over = end.shut_write || possible(end.reset) || peer.closed || (peer.shut_read && peer.shut_write);
  if (call.vector && call.size == 0) return {};
  if (call.was_shut || (here(end.reset) && call.size <= kRoom)) return "success, although the direction is closed";
  if (n > call.size) return "more than was to be sent";
  if (n < call.size && !over && !call.interrupted) {
    if (n == 0) return "0 bytes of more";
    if (call.waits) return "a part of a call that waits";
    if (peer.in.most() + call.size <= kRoom) return "a part, although there is room";
  }
  peer.in.sent += n;
  peer.in.corked = call.more || (peer.in.corked && n == 0);
  if (n == 0 || here(end.reset)) return {};
  if (peer.closed) {
    // Bytes that cross the end of a lane are dropped, and the next ones are answered with a reset. A settled point shows
    // that the end has come, unless it came with a shutdown before.
    reset_comes(end, here(end.fin) && !peer.closed_shut ? Arrival::kComing : Arrival::kMay);
  } else if (peer.shut_read && peer.shut_write) {
    // Bytes for which the peer has no room stay here, and no reset answers them. A call that has waited may have sent them
    // before.
    const Arrival how = peer.in.most() > kRoom || !call.peer_was_shut ? Arrival::kMay : Arrival::kComing;
    peer.in.cut = true;
    reset_comes(end, how);
    reset_comes(peer, how);
  }
  return {};
}

std::string Connection::not_sent(int which, const Send& call, const Answer& answer) {
  End& end = ends_[which];
  if (answer.error == EINTR && call.interrupted && call.waits) return {};
  if (answer.error == EAGAIN) {
    if (call.waits) return "the call is one that waits";
    if (end.shut_write || here(end.reset)) return "the direction is closed";
    return ends_[1 - which].in.most() + call.size <= kRoom ? "there is room" : "";
  }
  const bool closed = end.shut_write || possible(end.reset);
  if (answer.error == EPIPE) {
    if (!closed) return "the direction is open";
    if (only_errors(end) && (end.errors & kBrokenPipe) == 0) return "a reset is to be told first";
    if ((end.errors & kBrokenPipe) != 0 && (end.errors & kNone) == 0) take_error(end);
    return {};
  }
  if ((bit_of(answer.error) & end.errors) == 0 || !possible(end.reset)) return "no such error can be";
  take_error(end);
  return {};
}

// ---------------------------------------------------------------- ends and resets

void Connection::reset_comes(End& end, Arrival how) {
  if (sure(end.reset) || end.closed) return;
  const unsigned errors = here(end.fin) ? kBrokenPipe : possible(end.fin) ? kBrokenPipe | kConnectionReset : kConnectionReset;
  end.errors = how == Arrival::kMay ? end.errors | errors : errors;
  if (end.error_taken) end.errors |= kNone;
  // A connection that both ends have ended is over: a reset finds no socket of it.
  end.reset = end.shut_write && possible(end.fin) ? Arrival::kMay : how;
  if (end.reset == Arrival::kMay) end.errors |= kNone;
}

void Connection::take_error(End& end) {
  end.reset = Arrival::kHere;
  end.errors = kNone;
  end.error_taken = true;
}

std::string Connection::shutdown(int which, int how, const Answer& answer) {
  End& end = ends_[which];
  End& peer = ends_[1 - which];
  const bool over = here(end.reset);
  const bool may_be_over = possible(end.reset) || (end.shut_write && possible(end.fin));
  if (answer.result < 0 && (answer.error != ENOTCONN || !may_be_over)) return "no such error can be";
  if (how != SHUT_WR) end.shut_read = true;
  if (how != SHUT_RD && !end.shut_write) {
    end.shut_write = true;
    if (!over) peer.fin = possible(end.reset) ? Arrival::kMay : Arrival::kComing;
  }
  if (end.shut_read && end.shut_write && end.in.most() > end.in.least() && !over) {
    end.in.cut = true;
    reset_comes(end, Arrival::kMay);
    reset_comes(peer, Arrival::kMay);
  }
  return {};
}

std::string Connection::error(int which, int value) {
  End& end = ends_[which];
  if (value == 0) return (end.errors & kNone) != 0 || !here(end.reset) ? "" : "an error is to be told";
  if ((bit_of(value) & end.errors) == 0 || !possible(end.reset)) return "no such error can be";
  take_error(end);
  return {};
}

void Connection::close(int which, bool killed) {
  End& end = ends_[which];
  End& peer = ends_[1 - which];
  Incoming& out = peer.in;
  end.closed = true;
  end.killed = killed;
  if (here(end.reset) || peer.closed) return;
  const bool may_be_unread = end.in.most() > 0;
  // Bytes on their way cross the end of a lane.
  const bool unread = end.in.arrived > end.in.read && !end.in.cut;
  const bool aborts = end.linger_zero && !(end.shut_write && possible(end.fin));
  const bool was_shut = end.shut_write;
  end.closed_shut = was_shut;
  end.shut_write = true;
  if (killed) {
    // sovia(7): bytes may be lost, which a reset tells of, and unread ones may be told of by the end of the stream.
    out.cut = true;
    if (!here(peer.fin)) peer.fin = was_shut ? peer.fin : Arrival::kMay;
    reset_comes(peer, Arrival::kMay);
    return;
  }
  if (aborts || may_be_unread || possible(end.reset)) {
    out.cut = true;
    const bool only_reset = aborts || end.in.least() > 0;
    if (!was_shut && !only_reset) peer.fin = Arrival::kMay;
    reset_comes(peer, (aborts || unread) && !possible(end.reset) ? Arrival::kComing : Arrival::kMay);
    return;
  }
  if (!was_shut) peer.fin = Arrival::kComing;
}

// ---------------------------------------------------------------- readiness

std::string Connection::unread(int which, int value) const {
  const Incoming& in = ends_[which].in;
  const auto n = static_cast<std::uint64_t>(value);
  if (value < 0 || n > in.most()) return "more bytes than were sent: " + number(in.most());
  return n < in.least() ? "fewer bytes than are there: " + number(in.least()) : "";
}

Mask Connection::mask(int which) const {
  const End& end = ends_[which];
  const Incoming& out = ends_[1 - which].in;
  const bool over = here(end.reset), may_be_over = possible(end.reset);
  const bool read_ended = here(end.fin) || end.shut_read || over;
  const bool read_may_end = possible(end.fin) || end.shut_read || may_be_over;
  Mask mask;
  const auto set = [&](std::uint32_t bits, bool must, bool may) {
    if (must) mask.must |= bits;
    if (must || may) mask.may |= bits;
  };
  set(POLLIN | POLLRDNORM, read_ended || end.in.least() > 0, read_may_end || end.in.most() > 0);
  set(POLLRDHUP, read_ended, read_may_end);
  set(POLLOUT | POLLWRNORM, end.shut_write || over || out.most() <= kRoom / 2, true);
  set(POLLHUP, over || (read_ended && end.shut_write), may_be_over || (read_may_end && end.shut_write));
  set(POLLERR, only_errors(end), may_be_over && end.errors != kNone);
  return mask;
}

bool Connection::settled(int which) const {
  const End& end = ends_[which];
  const auto is_point = [](Arrival arrival) { return arrival == Arrival::kNo || arrival == Arrival::kHere; };
  return end.closed || (end.in.pending == 0 && end.in.arrived >= end.in.sent && is_point(end.fin) && is_point(end.reset));
}

void Connection::settle(int which) {
  End& end = ends_[which];
  if (!end.in.cut) end.in.arrived = std::max(end.in.arrived, end.in.sent);
  if (end.fin == Arrival::kComing) end.fin = Arrival::kHere;
  if (end.reset == Arrival::kComing) end.reset = Arrival::kHere;
}

}  // namespace model
