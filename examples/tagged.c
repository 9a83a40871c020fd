/* tagged: a buffer that another host writes to and reads from, without a call of this program's on the data.
 *
 *   on host a:  tagged
 *   on host b:  tagged a
 *
 * Plain C, sovia.h and libc. The server hands the tag of its buffer over in a message; the client puts a line there,
 * gets it back, and tells how long that took at first, over TCP maybe, and later, when the connection has a lane.
 */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <sovia.h>

#define PORT "5001"
#define LINE 256
#define ROUNDS 20000
#define TOLD_AFTER 2000 /* rounds */

static void check(int good, const char *call) {
  if (good) return;
  perror(call);
  exit(1);
}

static double now_us(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* A socket that keeps the boundaries of messages: tagged buffers need one. */
static int message_socket(void) {
  const int on = 1;
  const int s = sovia_socket(AF_INET, SOCK_SEQPACKET, IPPROTO_TCP);

  check(s >= 0, "socket");
  check(setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0, "SO_REUSEADDR");
  return s;
}

static struct addrinfo *address_of(const char *host) {
  struct addrinfo hints, *found;

  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = host == NULL ? AI_PASSIVE : 0;
  if (getaddrinfo(host, PORT, &hints, &found) != 0) {
    fprintf(stderr, "tagged: %s is not known\n", host);
    exit(1);
  }
  return found;
}

static void serve(void) {
  static char lines[16][LINE];
  struct addrinfo *const address = address_of(NULL);
  const int listener = message_socket();
  struct sovia_tag tag;
  char answer;
  int s;

  check(sovia_bind(listener, address->ai_addr, address->ai_addrlen) == 0, "bind");
  check(sovia_listen(listener, 1) == 0, "listen");
  s = sovia_accept(listener, NULL, NULL);
  check(s >= 0, "accept");
  check(sovia_tag(s, lines, sizeof lines, SOVIA_TAG_PUT | SOVIA_TAG_GET, &tag) == 0, "tag");
  check(sovia_send(s, &tag, sizeof tag, 0) == sizeof tag, "send");
  /* The library serves the client while this waits for the end. */
  while (sovia_recv(s, &answer, 1, 0) > 0) continue;
  printf("the last line is: %s\n", lines[3]);
  sovia_close(s);
  sovia_close(listener);
}

static void round_trip(int s, const struct sovia_tag *tag, int number) {
  const size_t third = 3 * LINE;
  char line[LINE] = "", got[LINE];

  snprintf(line, sizeof line, "line %d", number);
  check(sovia_put(s, tag, third, line, sizeof line) == 0, "put");
  check(sovia_done(s, -1) == 0, "put");
  check(sovia_get(s, tag, third, got, sizeof got) == 0, "get");
  check(sovia_done(s, -1) == 0, "get");
  check(memcmp(line, got, sizeof line) == 0, "what was put is not what was got");
}

static void call(const char *host) {
  struct addrinfo *const address = address_of(host);
  const int s = message_socket();
  struct sovia_tag tag;
  double since;
  int i;

  check(sovia_connect(s, address->ai_addr, address->ai_addrlen) == 0, "connect");
  check(sovia_recv(s, &tag, sizeof tag, 0) == sizeof tag, "the tag");
  since = now_us();
  for (i = 1; i <= ROUNDS; ++i) {
    round_trip(s, &tag, i);
    if (i % TOLD_AFTER != 0) continue;
    printf("a put and a get of %d bytes: %.1f us\n", LINE, (now_us() - since) / TOLD_AFTER);
    since = now_us();
  }
  sovia_close(s);
}

int main(int argc, char **argv) {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    fprintf(stderr, "usage: tagged [HOST]\n");
    return 2;
  }
  if (argc == 2) {
    call(argv[1]);
  } else {
    serve();
  }
  return 0;
}
