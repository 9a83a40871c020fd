#include "examples/datacutter/wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

void fail(const char *what) {
  fprintf(stderr, "pipeline: %s: %s\n", what, errno != 0 ? strerror(errno) : "connection closed");
  exit(1);
}

double now_us(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* Blocks are whole messages: none waits for the next one. */
static int without_delay(int s) {
  int one = 1;

  if (setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) fail("TCP_NODELAY");
  return s;
}

static int try_to_connect(const struct addrinfo *to) {
  int s;

  for (; to != NULL; to = to->ai_next) {
    s = socket(to->ai_family, to->ai_socktype, to->ai_protocol);
    if (s < 0) continue;
    if (connect(s, to->ai_addr, to->ai_addrlen) == 0) return s;
    close(s);
  }
  return -1;
}

int connect_to(const char *host_and_port) {
  struct addrinfo hints, *found;
  const double until = now_us() + 10e6;
  char host[256];
  const char *colon = strrchr(host_and_port, ':');
  int s;

  if (colon == NULL || (size_t)(colon - host_and_port) >= sizeof host) {
    fprintf(stderr, "pipeline: %s is not of the form HOST:PORT\n", host_and_port);
    exit(2);
  }
  memcpy(host, host_and_port, (size_t)(colon - host_and_port));
  host[colon - host_and_port] = '\0';
  memset(&hints, 0, sizeof hints);
  hints.ai_socktype = SOCK_STREAM;
  if (getaddrinfo(host, colon + 1, &hints, &found) != 0) {
    fprintf(stderr, "pipeline: there is no host %s\n", host);
    exit(1);
  }
  /* The next stage may be about to start. */
  while ((s = try_to_connect(found)) < 0) {
    if (now_us() >= until) fail(host_and_port);
    usleep(50000);
  }
  freeaddrinfo(found);
  return without_delay(s);
}

int listen_on(const char *port) {
  struct addrinfo hints, *found;
  int s, one = 1;

  memset(&hints, 0, sizeof hints);
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_family = AF_INET;
  hints.ai_flags = AI_PASSIVE;
  if (getaddrinfo(NULL, port, &hints, &found) != 0) {
    fprintf(stderr, "pipeline: %s is no port\n", port);
    exit(2);
  }
  s = socket(found->ai_family, found->ai_socktype, found->ai_protocol);
  if (s < 0 || setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
      bind(s, found->ai_addr, found->ai_addrlen) != 0 || listen(s, MOST_FILTERS) != 0) {
    fail("listening");
  }
  freeaddrinfo(found);
  return s;
}

int accept_from(int listener) {
  int s = accept(listener, NULL, NULL);

  if (s < 0) fail("accept");
  return without_delay(s);
}

void send_all(int s, const void *from, size_t bytes) {
  const char *at = from;

  while (bytes > 0) {
    ssize_t n = send(s, at, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("send");
    at += n;
    bytes -= (size_t)n;
  }
}

void receive_all(int s, void *to, size_t bytes) {
  char *at = to;

  while (bytes > 0) {
    ssize_t n = recv(s, at, bytes, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) errno = 0;
    if (n <= 0) fail("receive");
    at += n;
    bytes -= (size_t)n;
  }
}

void send_header(int s, uint32_t number, uint32_t bytes) {
  const struct header header = {htonl(number), htonl(bytes)};

  send_all(s, &header, sizeof header);
}

void send_block(int s, uint32_t number, const void *bytes, uint32_t count) {
  struct header header = {htonl(number), htonl(count)};
  struct iovec parts[2] = {{&header, sizeof header}, {(void *)(uintptr_t)bytes, count}};
  struct msghdr message;
  ssize_t n;

  memset(&message, 0, sizeof message);
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  do {
    n = sendmsg(s, &message, MSG_NOSIGNAL);
  } while (n < 0 && errno == EINTR);
  if (n < 0) fail("send");
  if ((size_t)n < sizeof header) {
    send_all(s, (const char *)&header + n, sizeof header - (size_t)n);
    n = sizeof header;
  }
  send_all(s, (const char *)bytes + (n - (ssize_t)sizeof header), count + sizeof header - (size_t)n);
}

void send_number(int s, uint32_t number) {
  number = htonl(number);
  send_all(s, &number, sizeof number);
}

struct header receive_header(int s) {
  struct header header;

  receive_all(s, &header, sizeof header);
  header.number = ntohl(header.number);
  header.bytes = ntohl(header.bytes);
  if (header.number != END && header.bytes > MOST_BYTES) {
    fprintf(stderr, "pipeline: block %u is too long\n", header.number);
    exit(1);
  }
  return header;
}

uint32_t receive_number(int s) {
  uint32_t number;

  receive_all(s, &number, sizeof number);
  return ntohl(number);
}

void make_block(unsigned char *to, uint32_t number, uint32_t bytes) {
  uint32_t state = number * 2654435761u + 1;
  uint32_t i;

  for (i = 0; i < bytes; ++i) {
    state = state * 1664525u + 1013904223u;
    to[i] = (unsigned char)(state >> 24);
  }
}
