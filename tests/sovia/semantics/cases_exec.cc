// exec and its kin: a connection that goes on in another program (helper.h); and SCM_RIGHTS, by
// which one goes to another process.
#include <fcntl.h>
#include <spawn.h>
#include <sys/un.h>
#include <sys/wait.h>

#include <cstring>

#include "calls.h"

namespace semantics {
namespace {

// Runs this program as a helper, in place of the calling process.
int exec_helper(const std::vector<std::string>& arguments) {
  const std::string program = own_program();
  std::vector<std::string> all = {program, "--helper"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  std::vector<char*> pointers;
  for (std::string& each : all) pointers.push_back(each.data());
  pointers.push_back(nullptr);
  execv(program.c_str(), pointers.data());
  return 127;
}

// The client's part with a helper that answers in capitals.
void ask(Case& t, int s, bool to_the_end) {
  send_all(s, "make this large\n");
  if (to_the_end) shutdown(s, SHUT_WR);
  t.data("answer", read_exactly(s, 16));
  if (to_the_end) {
    std::string how;
    t.data("rest", read_to_end(s, &how));
    t.say(how);
  }
}

CASE(exec, as_descriptors_0_1_and_2, kEach | kAlone) {
  // As inetd starts a server.
  Fd s = t.pair();
  if (t.client()) return ask(t, s, true);
  const pid_t child = fork_child([&] {
    for (const int fd : {0, 1, 2}) dup2(s, fd);
    s.close();
    return exec_helper({"upper", "0", "1"});
  });
  s.close();
  t.say(wait_child(child));
}

CASE(exec, by_stdio, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) return ask(t, s, false);
  const pid_t child = fork_child([&] {
    for (const int fd : {0, 1}) dup2(s, fd);
    return exec_helper({"stdio"});
  });
  t.say(wait_child(child));
}

CASE(exec, with_a_high_descriptor, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) return ask(t, s, true);
  const pid_t child = fork_child([&] {
    const int high = fcntl(s, F_DUPFD, 300);
    return exec_helper({"upper", std::to_string(high), std::to_string(high)});
  });
  s.close();
  t.say(wait_child(child));
}

CASE(exec, with_bytes_unread, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "make this large\n");
    t.meet();
    t.data("answer", read_exactly(s, 16));
    return;
  }
  t.meet();
  wait_for_bytes(s, 16);
  const pid_t child = fork_child([&] {
    for (const int fd : {0, 1}) dup2(s, fd);
    return exec_helper({"line", "0", "1"});
  });
  t.say(wait_child(child));
}

CASE(exec, with_bytes_half_read, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "parentmake this large\n");
    t.data("answer", read_exactly(s, 16));
    return;
  }
  t.data("parent", read_exactly(s, 6));
  const pid_t child = fork_child([&] {
    const std::string fd = std::to_string(s);
    return exec_helper({"line", fd, fd});
  });
  t.say(wait_child(child));
}

CASE(exec, of_the_process_itself, kEach | kAlone) {
  // No fork between: the process that holds the connection becomes the helper.
  if (t.client()) {
    Fd s = t.pair();
    return ask(t, s, true);
  }
  t.say(wait_child(fork_child([&] {
    const int s = t.pair().release();
    const std::string fd = std::to_string(s);
    return exec_helper({"upper", fd, fd});
  })));
}

CASE(exec, failed, kEach | kAlone) {
  Fd s = t.pair();
  t.note("execl", execl("/nowhere/to/be/found", "found", nullptr));
  send_all(s, "goes on");
  t.data("came", read_exactly(s, 7));
}

CASE(exec, closes_on_exec, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    std::string how;
    t.data("came", read_to_end(s, &how));
    t.say(how);
    return;
  }
  must(fcntl(s, F_SETFD, FD_CLOEXEC), "F_SETFD");
  const pid_t child = fork_child([&] { return exec_helper({"name", std::to_string(s)}); });
  t.say(wait_child(child));
  send_all(s, "the parent has it");
}

CASE(exec, streams_from_the_new_program, kEach | kAlone) {
  Fd s = t.pair();
  constexpr std::uint64_t kBytes = 2'000'000;
  if (t.client()) {
    t.note("right up to", static_cast<long>(receive_pattern(s, Pattern(1), 0, kBytes, 9001)));
    std::string how;
    t.data("rest", read_to_end(s, &how));
    t.say(how);
  } else {
    const pid_t child = fork_child([&] {
      return exec_helper({"stream", std::to_string(s), std::to_string(kBytes)});
    });
    s.close();
    t.say(wait_child(child));
  }
}

CASE(exec, parent_goes_on_afterwards, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    ask(t, s, false);
    t.data("parent", read_exactly(s, 6));
    send_all(s, "to the parent");
    return;
  }
  const std::string fd = std::to_string(s);
  t.say(wait_child(fork_child([&] { return exec_helper({"line", fd, fd}); })));
  send_all(s, "parent");
  t.data("came", read_exactly(s, 13));
}

CASE(exec, posix_spawn, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) return ask(t, s, false);
  const std::string program = own_program();
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, s, 0);
  posix_spawn_file_actions_adddup2(&actions, s, 1);
  const char* const arguments[] = {program.c_str(), "--helper", "line", "0", "1", nullptr};
  pid_t child = -1;
  t.note("posix_spawn", posix_spawn(&child, program.c_str(), &actions, nullptr,
                                    const_cast<char* const*>(arguments), environ));
  posix_spawn_file_actions_destroy(&actions);
  t.say(wait_child(child));
}

CASE(exec, vfork, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) return ask(t, s, false);
  const std::string program = own_program(), fd = std::to_string(s);
  const char* const arguments[] = {program.c_str(), "--helper", "line",
                                   fd.c_str(),      fd.c_str(), nullptr};
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
  const pid_t child = vfork();
#pragma GCC diagnostic pop
  if (child == 0) {
    execv(program.c_str(), const_cast<char* const*>(arguments));
    _exit(127);
  }
  t.say(wait_child(child));
}

CASE(exec, system, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) return ask(t, s, false);
  const std::string fd = std::to_string(s);
  t.note("system", std::system((own_program() + " --helper line " + fd + " " + fd).c_str()));
}

CASE(exec, system_that_does_not_touch_it, kEach | kAlone) {
  Fd s = t.pair();
  for (int i = 0; i < 3; ++i) {
    t.note("system", std::system("exit 0"));
    send_all(s, "goes on");
    t.data("came", read_exactly(s, 7));
  }
}

CASE(exec, popen_reads, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "into the pipe\n");
    t.meet();
    return;
  }
  // The helper reads from the connection and writes to the pipe of popen().
  const std::string command = own_program() + " --helper line " + std::to_string(s) + " 1";
  FILE* const pipe = popen(command.c_str(), "r");
  char text[100] = "";
  if (std::fgets(text, sizeof text, pipe) != nullptr) t.data("came", text);
  t.note("pclose", pclose(pipe));
  t.meet();
}

CASE(exec, a_shell_writes_to_it, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    t.data("came", read_exactly(s, 17));
    return;
  }
  t.say(wait_child(fork_child([&] {
    dup2(s, 0);
    dup2(s, 1);
    return execl("/bin/sh", "sh", "-c", "echo from; echo another program | head -n 1 | cut -c 1-11",
                 nullptr);
  })));
}

// ---------------------------------------------------------------- SCM_RIGHTS

int send_descriptor(int channel, int fd) {
  char byte = 'd';
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof fd);
  std::memcpy(CMSG_DATA(header), &fd, sizeof fd);
  return must(sendmsg(channel, &message, 0), "SCM_RIGHTS");
}

Fd receive_descriptor(int channel) {
  char byte;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  must(recvmsg(channel, &message, 0), "SCM_RIGHTS");
  const cmsghdr* const header = CMSG_FIRSTHDR(&message);
  if (header == nullptr) throw CaseFails("no descriptor has come");
  int fd;
  std::memcpy(&fd, CMSG_DATA(header), sizeof fd);
  return Fd(fd);
}

struct Channel {
  Channel() {
    int both[2];
    must(socketpair(AF_UNIX, SOCK_STREAM, 0, both), "socketpair");
    parent = Fd(both[0]);
    child = Fd(both[1]);
  }
  Fd parent, child;
};

CASE(passing, to_a_process_that_answers, kEach | kAlone) {
  if (t.client()) {
    Fd s = t.pair();
    send_all(s, "question");
    t.data("answer", read_exactly(s, 6));
    std::string how;
    t.data("rest", read_to_end(s, &how));
    t.say(how);
    return;
  }
  Channel channel;
  // The child is there before the connection, so it can have it only by being passed.
  const pid_t child = fork_child([&] {
    channel.parent.close();
    const Fd s = receive_descriptor(channel.child);
    if (read_exactly(s, 8) != "question") return 1;
    send_all(s, "answer");
    return 0;
  });
  {
    Fd s = t.pair();
    send_descriptor(channel.parent, s);
  }
  t.say(wait_child(child));
}

CASE(passing, with_bytes_unread, kEach | kAlone) {
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 20'000;
  if (t.client()) {
    Fd s = t.pair();
    send_pattern(s, pattern, 0, kBytes, 1000);
    t.meet();
    t.data("answer", read_exactly(s, 2));
    return;
  }
  Channel channel;
  const pid_t child = fork_child([&] {
    channel.parent.close();
    const Fd s = receive_descriptor(channel.child);
    if (receive_pattern(s, pattern, 1000, kBytes, 777) != kBytes) return 1;
    send_all(s, "ok");
    return 0;
  });
  Fd s = t.pair();
  t.meet();
  wait_for_bytes(s, kBytes);
  t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, 1000, 333)));
  send_descriptor(channel.parent, s);
  s.close();
  t.say(wait_child(child));
}

CASE(passing, both_have_the_bytes_unread, kEach | kAlone) {
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 20'000, kChildsBytes = 4000;
  if (t.client()) {
    Fd s = t.pair();
    send_pattern(s, pattern, 0, kBytes, 1000);
    t.meet();
    t.data("answer", read_exactly(s, 2));
    return;
  }
  Channel channel;
  const pid_t child = fork_child([&] {
    channel.parent.close();
    const Fd s = receive_descriptor(channel.child);
    return receive_pattern(s, pattern, 0, kChildsBytes, 777) == kChildsBytes ? 0 : 1;
  });
  Fd s = t.pair();
  t.meet();
  wait_for_bytes(s, kBytes);
  send_descriptor(channel.parent, s);
  t.say(wait_child(child));
  t.note("right up to", static_cast<long>(receive_pattern(s, pattern, kChildsBytes, kBytes, 333)));
  send_all(s, "ok");
}

CASE(passing, of_a_reset_connection_has_the_bytes_unread, kCold | kWarm | kAlone) {
  if (t.client()) {
    const Fd s = t.pair();
    send_all(s, "before");
    t.meet();
    t.meet();
    wait_for(s, POLLRDHUP);
    t.note("send", send(s, "after", 5, 0));
    wait_for(s, POLLERR);
    t.meet();
    return;
  }
  Channel channel;
  const pid_t child = fork_child([&] {
    channel.parent.close();
    const Fd s = receive_descriptor(channel.child);
    return read_exactly(s, 6) == "before" ? 0 : 1;
  });
  Fd s = t.pair();
  t.meet();
  wait_for_bytes(s, 6);
  t.note("shutdown", shutdown(s, SHUT_RDWR));
  t.meet();
  wait_for(s, POLLERR);
  send_descriptor(channel.parent, s);
  t.say(wait_child(child));
  t.meet();
}

CASE(passing, there_and_back, kEach | kAlone) {
  if (t.client()) {
    Fd s = t.pair();
    for (const char* text : {"parent", "child.", "parent"}) {
      send_all(s, text);
      t.data("answer", read_exactly(s, 6));
    }
    return;
  }
  Channel channel;
  const pid_t child = fork_child([&] {
    channel.parent.close();
    Fd s = receive_descriptor(channel.child);
    send_all(s, read_exactly(s, 6));
    send_descriptor(channel.child, s);
    return 0;
  });
  Fd s = t.pair();
  send_all(s, read_exactly(s, 6));
  send_descriptor(channel.parent, s);
  s.close();
  s = receive_descriptor(channel.parent);
  send_all(s, read_exactly(s, 6));
  t.say(wait_child(child));
}

CASE(passing, and_keeping_it, kEach | kAlone) {
  if (t.client()) {
    Fd s = t.pair();
    t.data("came", read_exactly(s, 11));
    return;
  }
  Channel channel;
  Turn turn;
  const pid_t child = fork_child([&] {
    channel.parent.close();
    const Fd s = receive_descriptor(channel.child);
    send_all(s, "child ");
    turn.go();
    return 0;
  });
  Fd s = t.pair();
  send_descriptor(channel.parent, s);
  turn.wait();
  send_all(s, "mine.");
  t.say(wait_child(child));
}

// O_NONBLOCK belongs to the open file, which both processes have.
CASE(passing, a_mode_that_the_other_one_sets, kEach | kAlone) {
  if (t.client()) {
    Fd s = t.pair();
    t.data("came", read_exactly(s, 5));
    return;
  }
  Channel channel;
  Turn turn;
  const pid_t child = fork_child([&] {
    channel.parent.close();
    const Fd s = receive_descriptor(channel.child);
    fcntl(s, F_SETFL, fcntl(s, F_GETFL) | O_NONBLOCK);
    turn.go();
    return 0;
  });
  Fd s = t.pair();
  send_descriptor(channel.parent, s);
  turn.wait();
  char byte;
  t.note("recv", recv(s, &byte, 1, 0));
  send_all(s, "mine.");
  t.say(wait_child(child));
}

CASE(passing, to_oneself, kEach) {
  Fd s = t.pair();
  {
    Channel channel;
    send_descriptor(channel.parent, s);
    s.close();
    s = receive_descriptor(channel.child);
  }
  send_all(s, "by another number");
  t.data("came", read_exactly(s, 17));
}

CASE(passing, a_listener, kAlone) {
  if (t.client()) {
    Fd s = t.cold_pair();
    t.data("came", read_exactly(s, 5));
    return;
  }
  Channel channel;
  const pid_t child = fork_child([&] {
    channel.parent.close();
    const Fd listener = receive_descriptor(channel.child);
    const Fd s(must(accept(listener, nullptr, nullptr), "accept"));
    send_all(s, "child");
    return 0;
  });
  {
    const Fd listener = t.listen();
    send_descriptor(channel.parent, listener);
  }
  t.say(wait_child(child));
}

}  // namespace
}  // namespace semantics
