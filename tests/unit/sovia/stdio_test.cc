// stdio on sockets, and what else moves data without send and recv.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "sovia/socket/table.h"
#include "sovia/sovia.h"
#include "tests/unit/sovia/connection.h"

namespace viaduct::sovia {
namespace {

using test::Connection;

TEST_F(Connection, StreamsReadAndWrite) {
  FILE* const stream = sovia_fdopen(near_, "r+b");
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(sovia_fileno(stream), near_);
  EXPECT_EQ(sovia_fileno_unlocked(stream), near_);
  EXPECT_EQ(fprintf(stream, "%s %d\n", "line", 1), 7);
  EXPECT_EQ(fflush(stream), 0);
  EXPECT_EQ(receive(7), "line 1\n");
  ASSERT_EQ(sovia_send(far_, "answer\nrest", 11, 0), 11);
  char line[20];
  ASSERT_NE(fgets(line, sizeof line, stream), nullptr);
  EXPECT_STREQ(line, "answer\n");
  EXPECT_EQ(fgetc(stream), 'r');
  sovia_shutdown(far_, SHUT_WR);
  EXPECT_EQ(fread(line, 1, sizeof line, stream), 3u);
  EXPECT_TRUE(feof(stream));
  EXPECT_FALSE(ferror(stream));
  const int fd = near_;
  near_ = -1;
  EXPECT_EQ(sovia_fclose(stream), 0);
  EXPECT_FALSE(table::find(fd));
  EXPECT_EQ(fcntl(fd, F_GETFD), -1);
}

TEST_F(Connection, StreamsWriteWhatIsLeftWhenTheyAreClosed) {
  FILE* const stream = sovia_fdopen(near_, "w");
  ASSERT_NE(stream, nullptr);
  const std::string text(20000, 'x');
  EXPECT_EQ(fwrite(text.data(), 1, text.size(), stream), text.size());
  near_ = -1;
  EXPECT_EQ(sovia_fclose(stream), 0);
  EXPECT_EQ(receive(30000), text);
}

TEST_F(Connection, StreamsCanNotSeek) {
  FILE* const stream = sovia_fdopen(near_, "r+");
  ASSERT_NE(stream, nullptr);
  errno = 0;
  EXPECT_EQ(fseek(stream, 0, SEEK_SET), -1);
  EXPECT_EQ(errno, ESPIPE);
  EXPECT_EQ(ftell(stream), -1);
  near_ = -1;
  sovia_fclose(stream);
}

TEST_F(Connection, StreamsNeedAMode) {
  EXPECT_EQ(sovia_fdopen(near_, "x"), nullptr);
  EXPECT_EQ(errno, EINVAL);
  EXPECT_EQ(sovia_fdopen(near_, ""), nullptr);
  EXPECT_EQ(sovia_fdopen(-1, "r"), nullptr);
  EXPECT_EQ(errno, EBADF);
}

TEST_F(Connection, StreamsGoAwayByFreopen) {
  FILE* stream = sovia_fdopen(near_, "r+");
  ASSERT_NE(stream, nullptr);
  fputs("bye", stream);
  const int fd = near_;
  near_ = -1;
  stream = sovia_freopen("/dev/null", "w", stream);
  ASSERT_NE(stream, nullptr);
  EXPECT_EQ(receive(10), "bye");
  EXPECT_FALSE(table::find(fd));
  fclose(stream);
}

TEST_F(Connection, DprintfWritesAll) {
  EXPECT_EQ(sovia_dprintf(near_, "%0100d", 7), 100);
  EXPECT_EQ(receive(100), std::string(99, '0') + "7");
}

TEST_F(Connection, SendfileMovesOffsets) {
  char name[] = "/tmp/sovia-test-XXXXXX";
  const int file = mkstemp(name);
  ASSERT_GE(file, 0);
  unlink(name);
  const std::string text = "0123456789";
  ASSERT_EQ(write(file, text.data(), text.size()), 10);
  off_t offset = 2;
  EXPECT_EQ(sovia_sendfile(near_, file, &offset, 3), 3);
  EXPECT_EQ(offset, 5);
  EXPECT_EQ(lseek(file, 0, SEEK_CUR), 10);
  lseek(file, 6, SEEK_SET);
  EXPECT_EQ(sovia_sendfile(near_, file, nullptr, 100), 4);
  EXPECT_EQ(lseek(file, 0, SEEK_CUR), 10);
  EXPECT_EQ(sovia_sendfile(near_, file, nullptr, 100), 0);
  EXPECT_EQ(receive(7), "2346789");
  EXPECT_EQ(sovia_sendfile(near_, 987, nullptr, 1), -1);
  EXPECT_EQ(errno, EBADF);
  close(file);
}

TEST_F(Connection, PassedSocketsAreLeftToTheKernel) {
  int pair[2];
  ASSERT_EQ(sovia_socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  char byte = 'x';
  iovec piece = {&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  cmsghdr* const part = CMSG_FIRSTHDR(&message);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &near_, sizeof near_);
  ASSERT_EQ(sovia_sendmsg(pair[0], &message, 0), 1);
  EXPECT_EQ(sovia_route(near_), 1);
  ASSERT_EQ(sovia_recvmsg(pair[1], &message, 0), 1);
  int received = -1;
  std::memcpy(&received, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof received);
  EXPECT_EQ(sovia_route(received), 1);
  EXPECT_EQ(sovia_write(received, "by the copy", 11), 11);
  EXPECT_EQ(receive(11), "by the copy");
  for (const int fd : {pair[0], pair[1], received}) sovia_close(fd);
}

TEST_F(Connection, ChildrenHaveItToo) {
  const pid_t child = sovia_fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sovia_write(near_, "child", 5);
    sovia__exit(3);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 3);
  EXPECT_EQ(receive(5), "child");
  sovia_write(near_, "parent", 6);
  EXPECT_EQ(receive(6), "parent");
}

TEST_F(Connection, ProgramsInheritIt) {
  const pid_t child = sovia_vfork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    sovia_dup2(near_, 1);
    sovia_execlp("echo", "echo", "from echo", static_cast<char*>(nullptr));
    sovia__exit(127);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_EQ(receive(10), "from echo\n");
}

TEST_F(Connection, ExecThatFailsLeavesItUsable) {
  char* const none[] = {nullptr};
  EXPECT_EQ(sovia_execve("/nonexistent", none, none), -1);
  EXPECT_EQ(errno, ENOENT);
  EXPECT_EQ(sovia_write(near_, "still", 5), 5);
  EXPECT_EQ(receive(5), "still");
}

TEST(Routes, AreToldOfTcpSocketsAlone) {
  const int fd = sovia_socket(AF_UNIX, SOCK_STREAM, 0);
  EXPECT_EQ(sovia_route(fd), -1);
  EXPECT_EQ(errno, ENOTSOCK);
  sovia_close(fd);
  EXPECT_EQ(sovia_route(fd), -1);
  EXPECT_EQ(errno, EBADF);
}

}  // namespace
}  // namespace viaduct::sovia
