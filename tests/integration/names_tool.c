/* A program that exports functions with names that others have, too: of the system's functions that the library stands before,
   and words that any library may have inside. No one but the program may call them.

       names_tool serve PORT             sends back what comes, of one connection after the other
       names_tool call ADDRESS PORT MS   sends ten thousand questions, and verifies the answers; it rests for so many ms behind
                                         the tenth */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#define OWN_NAMES(X)                                                                                             \
  X(recv) X(select) X(poll) X(shutdown) X(dup) X(ioctl) X(signal) X(splice) X(fork) X(daemon) X(system) X(popen) \
  X(getpeername) X(accept4) X(sendmsg) X(recvmsg) X(epoll_ctl) X(epoll_wait) X(connect_to) X(state) X(poke)      \
  X(table) X(options) X(prepare) X(find) X(late) X(done) X(error_text)

/* The system's headers declare some of them otherwise. */
#define OWN_FUNCTION(name)                              \
  void own_##name(void) __asm__(#name);                 \
  void own_##name(void) {                               \
    printf("%s is called by someone else\n", #name);    \
    exit(3);                                            \
  }
OWN_NAMES(OWN_FUNCTION)

/* This one is used. */
static int sent;
void own_send(const char* text) __asm__("send");
void own_send(const char* text) { sent += text[0] == 'q'; }

int socket(int family, int type, int protocol);
int bind(int fd, const struct sockaddr* address, socklen_t length);
int listen(int fd, int backlog);
int accept(int fd, struct sockaddr* address, socklen_t* length);
int connect(int fd, const struct sockaddr* address, socklen_t length);

static int serve(int fd, const struct sockaddr_in* address) {
  static char data[65536];
  if (bind(fd, (const struct sockaddr*)address, sizeof *address) != 0 || listen(fd, 1) != 0) return 1;
  for (;;) {
    const int connection = accept(fd, NULL, NULL);
    ssize_t bytes;
    while ((bytes = read(connection, data, sizeof data)) > 0) {
      if (write(connection, data, (size_t)bytes) != bytes) return 1;
    }
    if (bytes != 0 || close(connection) != 0) return 1;
  }
}

enum { kQuestions = 10000 };

static int call(int fd, const struct sockaddr_in* address, int pause) {
  uint32_t question[2500], answer[2500];
  if (connect(fd, (const struct sockaddr*)address, sizeof *address) != 0) return 1;
  for (int i = 0; i < kQuestions; ++i) {
    if (i == 10) usleep(1000 * (unsigned)pause);
    for (int j = 0; j < 2500; ++j) question[j] = (uint32_t)random();
    if (write(fd, question, sizeof question) != sizeof question) return 1;
    own_send("question");
    size_t got = 0;
    while (got < sizeof answer) {
      const ssize_t bytes = read(fd, (char*)answer + got, sizeof answer - got);
      if (bytes <= 0) return 1;
      got += (size_t)bytes;
    }
    if (memcmp(question, answer, sizeof answer) != 0) return 1;
  }
  return sent == kQuestions && close(fd) == 0 ? 0 : 1;
}

int main(int count, char** arguments) {
  if (count != 3 && count != 5) return 2;
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(arguments[count == 3 ? 2 : 3]))};
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  if (count == 3) return serve(fd, &address);
  if (inet_pton(AF_INET, arguments[2], &address.sin_addr) != 1) return 2;
  return call(fd, &address, atoi(arguments[4]));
}
