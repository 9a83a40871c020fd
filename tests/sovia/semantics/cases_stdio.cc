// stdio on a connection, and the calls that move bytes between a connection and a file or a pipe.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/sendfile.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "calls.h"

namespace semantics {
namespace {

struct Close {
  void operator()(FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<FILE, Close>;

File open_stdio(Fd& s, const char* mode) {
  File file(fdopen(s, mode));
  if (file == nullptr) throw CaseFails("fdopen");
  s.release();
  return file;
}

std::string line_of(FILE* file) {
  char text[4096];
  return std::fgets(text, sizeof text, file) != nullptr ? text : "nothing";
}

CASE(stdio, lines, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    const File out = open_stdio(s, "w");
    for (int i = 0; i < 5; ++i) std::fprintf(out.get(), "line %d of %s\n", i, "five");
    t.note("fflush", std::fflush(out.get()));
  } else {
    const File in = open_stdio(s, "r");
    for (int i = 0; i < 6; ++i) t.data("line", line_of(in.get()));
    t.note("feof", std::feof(in.get()) != 0 ? 1 : 0);
    t.note("ferror", std::ferror(in.get()));
  }
}

CASE(stdio, dialogue, kEach) {
  // Two streams, as programs that speak a protocol of lines have them.
  Fd s = t.pair();
  Fd copy(must(dup(s), "dup"));
  const File in = open_stdio(s, "r"), out = open_stdio(copy, "w");
  for (int i = 0; i < 10; ++i) {
    if (t.client()) {
      std::fprintf(out.get(), "COMMAND %d\r\n", i);
      std::fflush(out.get());
      t.data("answer", line_of(in.get()));
    } else {
      const std::string command = line_of(in.get());
      std::fprintf(out.get(), "200 %s", command.c_str());
      std::fflush(out.get());
    }
  }
}

CASE(stdio, blocks, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::size_t kBytes = 700'000;
  if (t.client()) {
    const File out = open_stdio(s, "w");
    const std::string bytes = pattern.bytes(0, kBytes);
    t.note("fwrite", static_cast<long>(std::fwrite(bytes.data(), 1, kBytes, out.get())));
  } else {
    const File in = open_stdio(s, "r");
    std::string bytes(kBytes + 10, '\0');
    const std::size_t n = std::fread(bytes.data(), 1, bytes.size(), in.get());
    t.note("fread", static_cast<long>(n));
    t.say(pattern.matches(0, {bytes.data(), n}) ? "right" : "wrong");
  }
}

CASE(stdio, both_ways_on_one_stream, kEach) {
  Fd s = t.pair();
  const File file = open_stdio(s, "r+");
  std::setvbuf(file.get(), nullptr, _IONBF, 0);
  for (int i = 0; i < 3; ++i) {
    if (t.client()) {
      std::fprintf(file.get(), "ask %d\n", i);
      t.data("line", line_of(file.get()));
    } else {
      const std::string line = line_of(file.get());
      std::fputs(line.c_str(), file.get());
    }
  }
}

CASE(stdio, buffering, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    const File out = open_stdio(s, "w");
    t.note("setvbuf", std::setvbuf(out.get(), nullptr, _IOLBF, 1000));
    std::fputs("held back until ", out.get());
    t.meet();
    t.meet();
    std::fputs("the line is complete\n", out.get());
    t.meet();
  } else {
    t.meet();
    pause_ms(10);
    t.say(poll_bits(ready_now(s, POLLIN)));
    t.meet();
    t.data("came", read_exactly(s, 37));
    t.meet();
  }
}

CASE(stdio, characters_and_ungetc, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    const File out = open_stdio(s, "w");
    for (const char c : std::string("abc")) std::putc(c, out.get());
  } else {
    const File in = open_stdio(s, "r");
    const int first = std::getc(in.get());
    t.note("ungetc", std::ungetc(first, in.get()));
    for (int i = 0; i < 4; ++i) t.note("getc", std::getc(in.get()) + 1);
  }
}

CASE(stdio, getline_of_any_length, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    const File out = open_stdio(s, "w");
    for (const std::size_t n : {0u, 1u, 200u, 5000u, 100'000u}) {
      std::fprintf(out.get(), "%s\n", std::string(n, 'l').c_str());
    }
  } else {
    const File in = open_stdio(s, "r");
    char* line = nullptr;
    std::size_t room = 0;
    ssize_t n;
    while ((n = getline(&line, &room, in.get())) > 0) t.note("getline", n);
    t.note("getline", n == -1 && std::feof(in.get()) ? 0 : 1);
    std::free(line);
  }
}

CASE(stdio, scanf_reads_numbers, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    const File out = open_stdio(s, "w");
    std::fputs("12 34\nword 5.5\n", out.get());
  } else {
    const File in = open_stdio(s, "r");
    int x = 0, y = 0;
    char word[10] = "";
    double z = 0;
    t.note("fscanf", std::fscanf(in.get(), "%d %d %9s %lf", &x, &y, word, &z));
    t.say(std::to_string(x + y) + " " + word + " " + std::to_string(z));
  }
}

CASE(stdio, dprintf_writes, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    t.note("dprintf", dprintf(s, "%s %05d\n", "number", 42));
  } else {
    t.data("came", read_exactly(s, 13));
  }
}

CASE(stdio, fileno_and_read_mixed, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "line\n");
    t.data("seen", read_exactly(s, 4));
    send_all(s, "raw bytes");
  } else {
    const int number = s;
    const File in = open_stdio(s, "r");
    t.note("fileno", fileno(in.get()) - number);
    t.data("line", line_of(in.get()));
    send_all(fileno(in.get()), "seen");
    t.data("read", read_exactly(fileno(in.get()), 9));
  }
}

CASE(stdio, fclose_closes_the_connection, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    File out = open_stdio(s, "w");
    std::fputs("flushed by fclose", out.get());
    t.note("fclose", std::fclose(out.release()));
  } else {
    std::string how;
    t.data("came", read_to_end(s, &how));
    t.say(how);
  }
}

CASE(stdio, write_error_after_the_end, kEach) {
  Fd s = t.pair();
  shutdown(s, SHUT_WR);
  const Counted pipes(SIGPIPE);
  const File out = open_stdio(s, "w");
  std::fputs("too late", out.get());
  t.note("fflush", std::fflush(out.get()));
  t.note("ferror", std::ferror(out.get()) != 0 ? 1 : 0);
  t.note("SIGPIPE", Counted::seen());
  t.meet();
}

CASE(stdio, inherited_buffer_of_a_child, kEach | kAlone) {
  Fd s = t.pair();
  if (t.client()) {
    const File out = open_stdio(s, "w");
    std::fputs("in the buffer of both ", out.get());
    // The child's copy of the buffer goes out too, as stdio has it everywhere.
    const pid_t child = fork_child([&] { return std::fflush(out.get()); });
    t.say(wait_child(child));
  } else {
    std::string how;
    t.data("came", read_to_end(s, &how));
    t.say(how);
  }
}

// ---------------------------------------------------------------- files and pipes

Fd file_of(const std::string& bytes) {
  Fd file(must(memfd_create("file", 0), "memfd_create"));
  must(write(file, bytes.data(), bytes.size()), "write");
  must(lseek(file, 0, SEEK_SET), "lseek");
  return file;
}

CASE(files, sendfile_whole, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::size_t kBytes = 900'000;
  if (t.client()) {
    const Fd file = file_of(pattern.bytes(0, kBytes));
    std::size_t sent = 0;
    while (sent < kBytes) {
      const ssize_t n = sendfile(s, file, nullptr, kBytes - sent);
      if (n <= 0) break;
      sent += static_cast<std::size_t>(n);
    }
    t.note("sent", static_cast<long>(sent));
    t.note("position", lseek(file, 0, SEEK_CUR));
    t.note("at the end", sendfile(s, file, nullptr, 10));
  } else {
    t.note("right up to", static_cast<long>(receive_pattern(s, pattern, 0, kBytes, 30'011)));
  }
}

CASE(files, sendfile_from_an_offset, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    const Fd file = file_of("0123456789");
    off_t offset = 3;
    t.note("sendfile", sendfile(s, file, &offset, 4));
    t.note("offset", offset);
    t.note("position", lseek(file, 0, SEEK_CUR));
  } else {
    t.data("came", read_exactly(s, 4));
  }
}

CASE(files, sendfile_between_sends, kEach) {
  Fd s = t.pair();
  const std::string body(50'000, 'b');
  for (int i = 0; i < 3; ++i) {
    if (t.client()) {
      const Fd file = file_of(body);
      send(s, "HEADER", 6, MSG_MORE);
      for (std::size_t sent = 0; sent < body.size();) {
        sent += static_cast<std::size_t>(
            must(sendfile(s, file, nullptr, body.size() - sent), "sendfile"));
      }
      send_all(s, "TRAILER");
      t.data("answer", read_exactly(s, 2));
    } else {
      t.data("header", read_exactly(s, 6));
      t.data("body", read_exactly(s, body.size()));
      t.data("trailer", read_exactly(s, 7));
      send_all(s, "ok");
    }
  }
}

// Sends with sendfile() too, which an accelerated connection may carry in another way. The other end sees one stream.
void send_and_send_a_file(Case& t, int s) {
  const Fd file = file_of("file");
  send_all(s, "bytes and a ");
  t.note("sendfile", sendfile(s, file, nullptr, 4));
  t.meet();
}

CASE(files, sent_behind_bytes_are_received_with_them, kEach) {
  Fd s = t.pair();
  if (t.client()) return send_and_send_a_file(t, s);
  t.meet();
  wait_for_bytes(s, 16);
  char to[32];
  t.note("peek", recv(s, to, sizeof to, MSG_PEEK));
  t.data("seen", {to, 16});
  t.note("peek a part", recv(s, to, 14, MSG_PEEK));
  const ssize_t n = recv(s, to, sizeof to, 0);
  t.note("recv", n);
  t.data("came", {to, static_cast<std::size_t>(n > 0 ? n : 0)});
}

CASE(files, sent_behind_bytes_are_read_after_shutdown_of_reading, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_and_send_a_file(t, s);
    return t.meet();
  }
  t.meet();
  wait_for_bytes(s, 16);
  t.note("shutdown", shutdown(s, SHUT_RD));
  for (const char* what : {"first", "second", "third", "end"}) {
    char to[6];
    const ssize_t n = recv(s, to, sizeof to, 0);
    t.note(what, n);
    if (n > 0) t.data("came", {to, static_cast<std::size_t>(n)});
  }
  t.meet();
}

CASE(files, sendfile_errors, kEach) {
  Fd s = t.pair();
  const Fd file = file_of("x");
  t.note("from a socket", sendfile(s, s, nullptr, 1) < 0 ? 1 : 0);
  t.note("no file", sendfile(s, -1, nullptr, 1));
  shutdown(s, SHUT_WR);
  const Counted pipes(SIGPIPE);
  t.note("after the end", sendfile(s, file, nullptr, 1));
  t.note("SIGPIPE", Counted::seen());
  t.meet();
}

CASE(files, splice_from_a_pipe, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    int ends[2];
    must(pipe(ends), "pipe");
    const Fd in(ends[0]), out(ends[1]);
    must(write(out, "through the pipe", 16), "write");
    t.note("splice", splice(in, nullptr, s, nullptr, 16, 0));
  } else {
    t.data("came", read_exactly(s, 16));
  }
}

CASE(files, splice_to_a_pipe, kEach) {
  Fd s = t.pair();
  if (t.client()) {
    send_all(s, "into the pipe");
    t.meet();
  } else {
    int ends[2];
    must(pipe(ends), "pipe");
    const Fd in(ends[0]), out(ends[1]);
    wait_for_bytes(s, 13);
    t.note("splice", splice(s, nullptr, out, nullptr, 13, 0));
    t.data("came", read_exactly(in, 13));
    set_nonblocking(s);
    t.note("nothing there", splice(s, nullptr, out, nullptr, 1, SPLICE_F_NONBLOCK));
    t.meet();
  }
}

CASE(files, splice_of_a_stream, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 1'000'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 40'000);
    t.data("answer", read_exactly(s, 2));
  } else {
    int ends[2];
    must(pipe(ends), "pipe");
    const Fd in(ends[0]), out(ends[1]);
    std::uint64_t at = 0;
    while (at < kBytes) {
      const ssize_t n = splice(s, nullptr, out, nullptr, 30'000, SPLICE_F_MOVE);
      if (n <= 0) break;
      const std::string piece = read_exactly(in, static_cast<std::size_t>(n));
      if (!pattern.matches(at, piece)) break;
      at += piece.size();
    }
    t.note("right up to", static_cast<long>(at));
    send_all(s, "ok");
  }
}

CASE(files, connection_into_a_file, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::uint64_t kBytes = 1'200'000;
  if (t.client()) {
    send_pattern(s, pattern, 0, kBytes, 64'000);
    s.close();
  } else {
    const Fd file(must(memfd_create("file", 0), "memfd_create"));
    char piece[10'000];
    ssize_t n;
    while ((n = read(s, piece, sizeof piece)) > 0) {
      must(write(file, piece, static_cast<std::size_t>(n)), "write");
    }
    t.note("size", lseek(file, 0, SEEK_CUR));
    lseek(file, 0, SEEK_SET);
    t.say(pattern.matches(0, read_exactly(file, kBytes)) ? "right" : "wrong");
  }
}

CASE(files, mapped_memory_is_sent, kEach) {
  Fd s = t.pair();
  const Pattern pattern(t.settings().seed);
  constexpr std::size_t kBytes = 300'000;
  if (t.client()) {
    for (int i = 0; i < 4; ++i) {
      const Fd file = file_of(pattern.bytes(static_cast<std::uint64_t>(i), kBytes));
      void* const map = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, file, 0);
      send_all(s, {static_cast<const char*>(map), kBytes});
      munmap(map, kBytes);
    }
    read_exactly(s, 1);
  } else {
    for (std::uint64_t i = 0; i < 4; ++i) {
      t.note("right up to", static_cast<long>(receive_pattern(s, pattern, i, i + kBytes, 40'009)));
    }
    send_all(s, "k");
  }
}

CASE(files, fstat_says_socket, kCold | kWarm) {
  Fd s = t.pair();
  char path[64], target[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", static_cast<int>(s));
  const ssize_t n = readlink(path, target, sizeof target);
  t.say(std::string(target, n > 0 ? static_cast<std::size_t>(n) : 0).substr(0, 7));
  t.meet();
}

}  // namespace
}  // namespace semantics
