// Bytes through every call that moves them: the results, and that the bytes are the right ones.
#include <sys/uio.h>

#include <cstring>

#include "calls.h"

namespace semantics {
namespace {

constexpr char kText[] = "The quick brown fox jumps over the lazy dog";
constexpr std::size_t kSize = sizeof kText - 1;

// Cases in which the client sends and the server shows what has come.
void show(Case& t, int socket, std::size_t n) { t.data("came", read_exactly(socket, n)); }

CASE(io, send_and_recv, kEach) {
  Fd s = t.pair();
  char to[kSize];
  if (t.client()) {
    t.note("send", send(s, kText, kSize, 0));
    t.note("recv", recv(s, to, kSize, MSG_WAITALL));
    t.data("came", {to, kSize});
  } else {
    t.note("recv", recv(s, to, kSize, MSG_WAITALL));
    t.data("came", {to, kSize});
    t.note("send", send(s, to, kSize, 0));
  }
}

CASE(io, write_and_read, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    t.note("write", write(s, kText, kSize));
    show(t, s, kSize);
  } else {
    show(t, s, kSize);
    t.note("write", write(s, kText, kSize));
  }
}

CASE(io, sendto_and_recvfrom, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    t.note("sendto", sendto(s, kText, kSize, 0, nullptr, 0));
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, kSize);
    char to[100];
    sockaddr_storage from{};
    socklen_t size = sizeof from;
    t.note("recvfrom", recvfrom(s, to, sizeof to, 0, reinterpret_cast<sockaddr*>(&from), &size));
    t.data("came", {to, kSize});
    t.note("size of the address", size);  // a stream has none to give
  }
}

CASE(io, sendto_ignores_the_address_of_a_connected_stream, kCold | kWarm) {
  Fd s = t.pair();
  if (t.client()) {
    sockaddr_in elsewhere{};
    elsewhere.sin_family = AF_INET;
    elsewhere.sin_port = htons(9);
    elsewhere.sin_addr.s_addr = htonl(0x0a4d00fe);
    t.note("sendto",
           sendto(s, "addressed", 9, 0, reinterpret_cast<sockaddr*>(&elsewhere), sizeof elsewhere));
  } else {
    show(t, s, 9);
  }
}

CASE(io, writev_gathers, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    char a[] = "one ", b[] = "two ", c[] = "three";
    const iovec parts[] = {{a, 4}, {b, 0}, {b, 4}, {nullptr, 0}, {c, 5}};
    t.note("writev", writev(s, parts, 5));
  } else {
    show(t, s, 13);
  }
}

CASE(io, readv_scatters, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "onetwothree");
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, 11);
    char a[3], b[3], c[20];
    const iovec parts[] = {{a, 3}, {nullptr, 0}, {b, 3}, {c, sizeof c}};
    t.note("readv", readv(s, parts, 4));
    t.data("first", {a, 3});
    t.data("second", {b, 3});
    t.data("third", {c, 5});
  }
}

CASE(io, long_vectors, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::size_t kParts = 1024, kPart = 97;
  if (t.client()) {
    std::string bytes = pattern.bytes(0, kParts * kPart);
    std::vector<iovec> parts;
    for (std::size_t i = 0; i < kParts; ++i) parts.push_back({&bytes[i * kPart], kPart});
    std::size_t at = 0;
    while (at < kParts) {
      const ssize_t n = must(writev(s, &parts[at], static_cast<int>(kParts - at)), "writev");
      at += static_cast<std::size_t>(n) / kPart;
      if (const std::size_t rest = static_cast<std::size_t>(n) % kPart; rest != 0) {
        send_all(s, {static_cast<char*>(parts[at].iov_base) + rest, kPart - rest});
        ++at;
      }
    }
    t.note("too many parts: writev", writev(s, parts.data(), 1025));
  } else {
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kParts * kPart, 5000)));
    const std::vector<iovec> parts(1025);
    t.note("too many parts: readv", readv(s, parts.data(), 1025));
  }
}

CASE(io, sendmsg_and_recvmsg, kEach) {
  Fd s = t.pair();
  char a[6] = "alpha", b[5] = "beta";
  iovec parts[] = {{a, 5}, {b, 4}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  if (t.client()) {
    t.note("sendmsg", sendmsg(s, &message, 0));
  } else {
    std::memset(a, '-', sizeof a);
    std::memset(b, '-', sizeof b);
    sockaddr_storage from{};
    message.msg_name = &from;
    message.msg_namelen = sizeof from;
    char control[64];
    message.msg_control = control;
    message.msg_controllen = sizeof control;
    t.note("recvmsg", recvmsg(s, &message, MSG_WAITALL));
    t.data("first", {a, 5});
    t.data("second", {b, 4});
    t.note("msg_namelen", message.msg_namelen);
    t.note("msg_controllen", static_cast<long>(message.msg_controllen));
    t.note("msg_flags", message.msg_flags);
  }
}

CASE(io, sendmmsg_and_recvmmsg, kEach) {
  Fd s = t.pair();
  char words[3][6] = {"first", "secon", "third"};
  iovec parts[3];
  mmsghdr messages[3] = {};
  for (int i = 0; i < 3; ++i) {
    parts[i] = {words[i], 5};
    messages[i].msg_hdr.msg_iov = &parts[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
  if (t.client()) {
    t.note("sendmmsg", sendmmsg(s, messages, 3, 0));
    for (const mmsghdr& message : messages) t.note("length", message.msg_len);
    t.meet();
  } else {
    t.meet();
    std::memset(words, '-', sizeof words);
    t.note("recvmmsg", recvmmsg(s, messages, 3, MSG_WAITALL, nullptr));
    for (int i = 0; i < 3; ++i) {
      t.note("length", messages[i].msg_len);
      t.data("came", {words[i], 5});
    }
  }
}

CASE(io, recvmmsg_takes_what_is_there, kCold | kWarm) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "abcdef");
    t.meet();
  } else {
    t.meet();
    wait_for_bytes(s, 6);
    char words[3][4];
    iovec parts[3];
    mmsghdr messages[3] = {};
    for (int i = 0; i < 3; ++i) {
      parts[i] = {words[i], 4};
      messages[i].msg_hdr.msg_iov = &parts[i];
      messages[i].msg_hdr.msg_iovlen = 1;
    }
    t.note("recvmmsg", recvmmsg(s, messages, 3, MSG_DONTWAIT, nullptr));
    t.note("first", messages[0].msg_len);
    t.note("second", messages[1].msg_len);
    t.note("recvmmsg again", recvmmsg(s, messages, 3, MSG_DONTWAIT, nullptr));
  }
  t.meet();
}

CASE(io, length_zero, kEach) {
  Fd s = t.pair();
  char to[4];
  if (t.client()) {
    t.note("send 0", send(s, "x", 0, 0));
    t.note("write 0", write(s, "x", 0));
    t.note("writev 0", writev(s, nullptr, 0));
    t.meet();
    send_all(s, "data");
    t.meet();
  } else {
    t.note("read 0 of nothing", read(s, to, 0));
    t.note("recv 0 of nothing", recv(s, to, 0, MSG_DONTWAIT));
    t.meet();
    t.meet();
    wait_for_bytes(s, 4);
    t.note("recv 0 of something", recv(s, to, 0, 0));
    t.note("readv 0", readv(s, nullptr, 0));
    show(t, s, 4);
  }
}

CASE(io, many_sizes, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  std::uint64_t at = 0;
  for (const std::size_t size :
       {1u,     2u,     3u,     7u,     8u,     63u,    64u,     65u,
        511u,   1447u,  1448u,  1449u,  4095u,  4096u,  4097u,   16384u,
        32767u, 32768u, 32769u, 65535u, 65536u, 65537u, 100000u, 131073u}) {
    if (t.client()) {
      send_all(s, pattern.bytes(at, size));
      t.data("answer", read_exactly(s, 2));
    } else {
      const std::string came = read_exactly(s, size);
      t.note("size", static_cast<long>(came.size()));
      t.say(pattern.matches(at, came) ? "right" : "wrong");
      send_all(s, "ok");
    }
    at += size;
  }
}

CASE(io, one_byte_at_a_time, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::size_t kBytes = 3000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 1);
    t.note("back up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 1)));
  } else {
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, kBytes)));
    send_all(s, pattern.bytes(0, kBytes));
  }
}

CASE(io, many_small_sends_one_big_receive, kEach) {
  Fd s = t.pair();
  constexpr std::size_t kTimes = 2000;
  if (t.client()) {
    for (std::size_t i = 0; i < kTimes; ++i) send_all(s, kText);
  } else {
    std::string to(kTimes * kSize, '\0');
    t.note("recv", recv(s, to.data(), to.size(), MSG_WAITALL));
    t.data("came", to);
  }
}

CASE(io, one_big_send_many_small_receives, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::size_t kBytes = 200'000;
  if (t.client()) {
    t.note("send", send(s, pattern.bytes(0, kBytes).data(), kBytes, 0));
  } else {
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 13)));
  }
}

CASE(io, request_and_answer_with_a_header, kEach) {
  Fd s = t.pair();
  // Header and body in two sends: where Nagle's algorithm and delayed acknowledgements meet.
  for (int i = 0; i < 3; ++i) {
    const std::string body(100 + static_cast<std::size_t>(i), 'b');
    if (t.client()) {
      send_all(s, "HEAD");
      send_all(s, body);
      t.data("answer", read_exactly(s, 6));
    } else {
      t.data("header", read_exactly(s, 4));
      t.data("body", read_exactly(s, body.size()));
      send_all(s, "answer");
    }
  }
}

CASE(io, no_delay_request_and_answer, kEach) {
  Fd s = t.pair();
  set_option(s, IPPROTO_TCP, 1 /* TCP_NODELAY */, 1);
  for (int i = 0; i < 50; ++i) {
    if (t.client()) {
      send_all(s, "?");
      send_all(s, std::to_string(1000 + i));
      t.data("answer", read_exactly(s, 5));
    } else {
      const std::string request = read_exactly(s, 5);
      send_all(s, "!" + request.substr(1));
    }
  }
}

CASE(io, a_buffer_may_be_used_again_at_once, kEach) {
  Fd s = t.pair();
  constexpr std::size_t kBlock = 60'000;
  constexpr int kBlocks = 20;
  if (t.client()) {
    std::string block(kBlock, '\0');
    for (int i = 0; i < kBlocks; ++i) {
      std::memset(block.data(), 'a' + i, kBlock);
      send_all(s, block);
    }
    std::memset(block.data(), '!', kBlock);
  } else {
    pause_ms(20);
    for (int i = 0; i < kBlocks; ++i) {
      const std::string block = read_exactly(s, kBlock);
      t.say(block == std::string(kBlock, static_cast<char>('a' + i)) ? "right" : "wrong");
    }
  }
}

CASE(io, memory_that_is_freed_after_each_send, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::size_t kBlock = 150'000;
  constexpr std::uint64_t kBlocks = 12;
  // Large blocks are mmapped by malloc and unmapped by free: their addresses come again.
  if (t.client()) {
    for (std::uint64_t i = 0; i < kBlocks; ++i) send_all(s, pattern.bytes(i * kBlock, kBlock));
  } else {
    for (std::uint64_t i = 0; i < kBlocks; ++i) {
      t.say(pattern.matches(i * kBlock, read_exactly(s, kBlock)) ? "right" : "wrong");
    }
  }
}

}  // namespace
}  // namespace semantics
