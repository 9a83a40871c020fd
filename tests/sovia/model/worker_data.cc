// The part of Worker that moves data and asks for readiness.
#include <poll.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "../semantics/raw.h"
#include "worker.h"

namespace model {
namespace {

// Three pieces of a buffer, the second of which is empty.
void cut(char* buffer, std::size_t size, iovec (&pieces)[3]) {
  const std::size_t first = size / 3;
  pieces[0] = {buffer, first};
  pieces[1] = {buffer + first, 0};
  pieces[2] = {buffer + first, size - first};
}

msghdr message_of(iovec (&pieces)[3]) {
  msghdr message{};
  message.msg_iov = pieces;
  message.msg_iovlen = 3;
  return message;
}

long epoll_change(const Request& request) {
  epoll_event event{};
  event.events = request.events;
  event.data.u64 = request.offset;
  return ::epoll_ctl(request.other, request.flags, request.fd, &event);
}

long select_now(const Request& request, std::uint32_t& events) {
  fd_set readable, writable;
  FD_ZERO(&readable);
  FD_ZERO(&writable);
  FD_SET(request.fd, &readable);
  FD_SET(request.fd, &writable);
  timeval now{};
  const int n = ::select(request.fd + 1, &readable, &writable, nullptr, &now);
  events = (FD_ISSET(request.fd, &readable) ? POLLIN : 0) | (FD_ISSET(request.fd, &writable) ? POLLOUT : 0);
  return n;
}

}  // namespace

void Worker::send(const Request& request, Reply& reply) {
  pattern_.fill(buffer_.data(), request.pattern, request.offset, request.size);
  iovec pieces[3];
  cut(buffer_.data(), request.size, pieces);
  const msghdr message = message_of(pieces);
  switch (request.style) {
    case Style::kPlain: reply.result = ::send(request.fd, buffer_.data(), request.size, request.flags); break;
    case Style::kFile: reply.result = ::write(request.fd, buffer_.data(), request.size); break;
    case Style::kVector: reply.result = ::writev(request.fd, pieces, 3); break;
    case Style::kMessage: reply.result = ::sendmsg(request.fd, &message, request.flags); break;
  }
}

void Worker::receive(const Request& request, Reply& reply) {
  iovec pieces[3];
  cut(buffer_.data(), request.size, pieces);
  msghdr message = message_of(pieces);
  switch (request.style) {
    case Style::kPlain: reply.result = ::recv(request.fd, buffer_.data(), request.size, request.flags); break;
    case Style::kFile: reply.result = ::read(request.fd, buffer_.data(), request.size); break;
    case Style::kVector: reply.result = ::readv(request.fd, pieces, 3); break;
    case Style::kMessage: reply.result = ::recvmsg(request.fd, &message, request.flags); break;
  }
  if (reply.result > 0 && (request.flags & MSG_TRUNC) == 0) {
    const int error = errno;
    reply.wrong = pattern_.wrong(buffer_.data(), request.pattern, request.offset,
                                 static_cast<std::size_t>(reply.result));
    errno = error;
  }
}

void Worker::readiness(const Request& request, Reply& reply) {
  switch (request.call) {
    case Call::kEpollMake: reply.result = reply.fd = ::epoll_create1(0); break;
    case Call::kEpollChange: reply.result = epoll_change(request); break;
    case Call::kEpollWait: {
      epoll_event event{};
      // A registration that is told of again and again must not hide the others: the controller asks for one only.
      reply.result = ::epoll_wait(request.fd, &event, 1, request.limit_ms);
      reply.events = event.events;
      reply.wrong = event.data.u64;
      break;
    }
    case Call::kPoll: {
      pollfd one{request.fd, static_cast<short>(request.events), 0};
      reply.result = ::poll(&one, 1, request.limit_ms);
      reply.events = static_cast<std::uint32_t>(one.revents);
      break;
    }
    case Call::kSelect: reply.result = select_now(request, reply.events); break;
    default: {
      int unread = -1;
      reply.result = ::ioctl(request.fd, FIONREAD, &unread);
      reply.events = static_cast<std::uint32_t>(unread);
    }
  }
}

void Worker::settle(const Request& request, Reply& reply) {
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(request.limit_ms);
  for (int pause_us = 20;; pause_us = std::min(pause_us * 2, 1000)) {
    int unread = -1;
    ::ioctl(request.fd, FIONREAD, &unread);
    pollfd one{request.fd, POLLIN | POLLOUT | POLLRDHUP, 0};
    ::poll(&one, 1, 0);
    reply.events = static_cast<std::uint32_t>(one.revents);
    reply.wrong = static_cast<std::uint64_t>(unread);
    reply.result = unread >= static_cast<int>(request.size) && (reply.events & request.events) == request.events;
    if (reply.result != 0 || std::chrono::steady_clock::now() >= until) return;
    ::usleep(static_cast<useconds_t>(pause_us));
  }
}

}  // namespace model
