#include "program.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cstdio>
#include <iterator>

namespace model {
namespace {

constexpr const char* kNames[] = {
    "send", "receive", "shutdown", "close", "dup", "dup2", "fork", "exit", "pass",
    "epoll_add", "epoll_modify", "epoll_delete", "epoll_wait",
    "poll", "poll_wait", "select", "unread", "linger", "time_limit", "nonblocking", "so_error",
    "signal", "signal_restart", "stop", "continue", "kill", "settle"};

struct Bit {
  int value;
  const char* name;
};
constexpr Bit kDataFlags[] = {{MSG_DONTWAIT, "DONTWAIT"}, {MSG_MORE, "MORE"},       {MSG_NOSIGNAL, "NOSIGNAL"},
                              {MSG_PEEK, "PEEK"},         {MSG_WAITALL, "WAITALL"}, {MSG_TRUNC, "TRUNC"}};
constexpr const char* kSendStyles[] = {"send", "write", "writev", "sendmsg"};
constexpr const char* kReceiveStyles[] = {"recv", "read", "readv", "recvmsg"};

std::string data_text(const Operation& o) {
  std::string text = (o.op == Op::kSend ? kSendStyles : kReceiveStyles)[o.style];
  text += " " + std::to_string(o.size);
  for (const Bit& bit : kDataFlags) {
    if ((o.flags & bit.value) != 0) text += std::string(" ") + bit.name;
  }
  return text;
}

}  // namespace

const char* name_of(Op op) { return kNames[static_cast<int>(op)]; }

std::string text_of(const Operation& o) {
  char head[32];
  std::snprintf(head, sizeof head, "p%d.%d ", o.process, o.slot);
  if (o.op == Op::kSend || o.op == Op::kReceive) return head + data_text(o);
  std::string text = std::string(head) + name_of(o.op) + " " + std::to_string(o.other);
  if (o.flags != 0) {
    char bits[32];
    std::snprintf(bits, sizeof bits, " events %x", static_cast<unsigned>(o.flags));
    text += bits;
  }
  return text;
}

}  // namespace model
