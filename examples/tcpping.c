/* tcpping: viaping's measurements over kernel TCP, for comparison.
 *
 *   on host a:  tcpping --server
 *   on host b:  tcpping 10.77.0.1 --size 4 --count 10000 --wait poll
 *
 *   on host a:  tcpping --server --hang-up
 *   on host b:  tcpping 10.77.0.1 --connections --count 10000
 *
 * poll: both sides ask the socket again and again (MSG_DONTWAIT); block: both sides sleep in recv(). Messages go back
 * and forth first, until the connection has its final transport. The result tells how much the host's IP carried
 * meanwhile, both ways: nothing where another transport carries the messages. The client first sends its request
 * (struct wish); the server serves each client in a process of its own. With --hang-up it does nothing but accept and
 * close. --nagle leaves TCP_NODELAY off, so that small messages are combined.
 */
#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define MAX_SIZE (1u << 20)
#define WARM_UP 1000
#define WARM_UP_US 1e6                /* at most, while IP carries them */
#define SLICE_US 50000.0
enum { WARMING = 1, MEASURING = 0 }; /* the first byte of a message */

/* In network byte order on the wire. */
struct wish {
  uint32_t size, count, bandwidth, poll;
};

static struct wish wish = {0, 10000, 0, 1};
static int nagle;
static char buffer[MAX_SIZE];

static void fail(const char *what) {
  fprintf(stderr, "tcpping: %s: %s\n", what, errno != 0 ? strerror(errno) : "connection closed");
  exit(1);
}

static double now_us(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

/* 1: all received; 0: the other side closed the connection in between; -1: error. */
static int receive_all(int s, void *to, size_t bytes, int flags) {
  char *at = to;

  while (bytes > 0) {
    ssize_t n = recv(s, at, bytes, flags);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) continue;
    if (n <= 0) return n == 0 ? 0 : -1;
    at += n;
    bytes -= (size_t)n;
  }
  return 1;
}

static void send_all(int s, const void *from, size_t bytes) {
  const char *at = from;

  while (bytes > 0) {
    ssize_t n = send(s, at, bytes, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail("send");
    at += n;
    bytes -= (size_t)n;
  }
}

/* The sum of two counters of a protocol in this network namespace; 0 if the system does not tell. */
static double counted(const char *path, const char *protocol, const char *one, const char *other) {
  static char names[16384], values[16384];
  FILE *file = fopen(path, "r");
  double sum = 0;

  if (file == NULL) return 0;
  while (fgets(names, sizeof names, file) != NULL && fgets(values, sizeof values, file) != NULL) {
    char *name_at, *value_at;
    char *name = strtok_r(names, " \n", &name_at), *value = strtok_r(values, " \n", &value_at);
    if (name == NULL || strcmp(name, protocol) != 0) continue;
    while (name != NULL && value != NULL) {
      if (strcmp(name, one) == 0 || strcmp(name, other) == 0) sum += strtod(value, NULL);
      name = strtok_r(NULL, " \n", &name_at);
      value = strtok_r(NULL, " \n", &value_at);
    }
  }
  fclose(file);
  return sum;
}

/* The kernel's traffic from and to this host. It carries VIA's trains, too, by UDP. */
struct carried {
  double ip_bytes, tcp_segments;
};

static struct carried carried(void) {
  struct carried c;
  c.ip_bytes = counted("/proc/net/netstat", "IpExt:", "InOctets", "OutOctets");
  c.tcp_segments = counted("/proc/net/snmp", "Tcp:", "InSegs", "OutSegs");
  return c;
}

/* The bytes that TCP has carried since then, at most. */
static double tcp_bytes_since(const struct carried *before, int s) {
  const struct carried now = carried();
  const double ip_bytes = now.ip_bytes - before->ip_bytes;
  int mss = 1448;
  socklen_t length = sizeof mss;
  double by_segments;

  getsockopt(s, IPPROTO_TCP, TCP_MAXSEG, &mss, &length);
  by_segments = (now.tcp_segments - before->tcp_segments) * (mss + 60);
  return by_segments < ip_bytes ? by_segments : ip_bytes;
}

static void no_delay(int s) {
  int one = 1;

  if (nagle) return;
  if (setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0) fail("TCP_NODELAY");
}

/* ------------------------------------------------------------------------- server */

static void serve(int s) {
  struct wish w;
  int flags;
  uint32_t i;

  no_delay(s);
  if (receive_all(s, &w, sizeof w, 0) != 1) return;
  w.size = ntohl(w.size);
  w.count = ntohl(w.count);
  if (w.size == 0 || w.size > MAX_SIZE) return;
  flags = w.poll != 0 ? MSG_DONTWAIT : 0;
  if (w.bandwidth == 0) {
    while (receive_all(s, buffer, w.size, flags) == 1) send_all(s, buffer, w.size);
  } else {
    double start = 0, us = 0;
    for (i = 0; i < w.count; ++i) {
      if (receive_all(s, buffer, w.size, flags) != 1) return;
      if (i == 0 && buffer[0] == WARMING) {
        send_all(s, buffer, w.size);
        --i;
        continue;
      }
      if (i == 0) start = now_us();
    }
    us = now_us() - start;
    send_all(s, &us, sizeof us);
  }
}

static int run_server(const char *port, int hang_up) {
  struct addrinfo hints, *all, *a;
  int s = -1, error, one = 1;

  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  error = getaddrinfo(NULL, port, &hints, &all);
  if (error != 0) {
    fprintf(stderr, "tcpping: port %s: %s\n", port, gai_strerror(error));
    return 1;
  }
  for (a = all; a != NULL && s < 0; a = a->ai_next)
    s = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
  if (s < 0) fail("socket");
  setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(s, all->ai_addr, all->ai_addrlen) != 0 || listen(s, 16) != 0) fail(port);
  freeaddrinfo(all);
  signal(SIGCHLD, SIG_IGN);
  for (;;) {
    int client = accept(s, NULL, NULL);
    pid_t child;
    if (client < 0 && (errno == EINTR || errno == ECONNABORTED)) continue;
    if (client < 0) fail("accept");
    if (hang_up) {
      close(client);
      continue;
    }
    child = fork();
    if (child < 0) fail("fork");
    if (child == 0) {
      close(s);
      serve(client);
      _exit(0);
    }
    close(client);
  }
}

/* ------------------------------------------------------------------------- client */

static int compare(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;

  return (x > y) - (x < y);
}

/* There and back once, in us. */
static double exchange(int s) {
  const double start = now_us();

  errno = 0;
  send_all(s, buffer, wish.size);
  if (receive_all(s, buffer, wish.size, wish.poll != 0 ? MSG_DONTWAIT : 0) != 1) fail("receive");
  return now_us() - start;
}

/* Until TCP has carried nothing for a while: another transport takes its time to take over. */
static void warm_up(int s) {
  const double begin = now_us();
  double start = begin, segments = carried().tcp_segments;
  uint32_t i;

  buffer[0] = WARMING;
  for (i = 0; i < WARM_UP || now_us() - begin < WARM_UP_US; ++i) {
    exchange(s);
    if (now_us() - start < SLICE_US) continue;
    if (i >= WARM_UP && carried().tcp_segments == segments) break;
    start = now_us();
    segments = carried().tcp_segments;
  }
  buffer[0] = MEASURING;
}

static void measure_latency(int s, int json) {
  float *samples = malloc(wish.count * sizeof *samples);
  struct carried before;
  double tcp_bytes;
  uint32_t i;

  if (samples == NULL) fail("memory");
  warm_up(s);
  before = carried();
  for (i = 0; i < wish.count; ++i) samples[i] = (float)(exchange(s) / 2);
  tcp_bytes = tcp_bytes_since(&before, s);
  qsort(samples, wish.count, sizeof *samples, compare);
#define AT(part) (double)samples[(size_t)((part) * (wish.count - 1) + 0.5)]
  printf(json ? "{\"size\":%u,\"count\":%u,\"one_way_us\":{\"min\":%.3f,\"median\":%.3f,\"p99\":%.3f,"
                "\"max\":%.3f},\"tcp_bytes\":%.0f}\n"
              : "%u bytes, %u messages, one way: min %.2f  median %.2f  p99 %.2f  max %.2f us"
                "; %.0f bytes by TCP\n",
         wish.size, wish.count, AT(0), AT(0.5), AT(0.99), AT(1), tcp_bytes);
#undef AT
  free(samples);
}

static void measure_bandwidth(int s, int json) {
  double us, rate, tcp_bytes;
  struct carried before;
  uint32_t i;

  warm_up(s);
  before = carried();
  errno = 0;
  for (i = 0; i < wish.count; ++i) send_all(s, buffer, wish.size);
  if (receive_all(s, &us, sizeof us, 0) != 1) fail("receive");
  tcp_bytes = tcp_bytes_since(&before, s);
  rate = (double)(wish.count - 1) / us * 1e6;
  printf(json ? "{\"size\":%u,\"count\":%u,\"mbit_s\":%.3f,\"messages_s\":%.1f,\"tcp_bytes\":%.0f}\n"
              : "%u bytes, %u messages, bandwidth: %.1f Mb/s, %.0f messages/s; %.0f bytes by TCP\n",
         wish.size, wish.count, rate * wish.size * 8 / 1e6, rate, tcp_bytes);
}

static void measure_connections(const struct addrinfo *a, int json) {
  const double start = now_us();
  double rate;
  uint32_t i;

  for (i = 0; i < wish.count; ++i) {
    char nothing;
    const int s = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
    if (s < 0) fail("socket");
    if (connect(s, a->ai_addr, a->ai_addrlen) != 0) fail("connect");
    if (recv(s, &nothing, 1, 0) != 0) fail("recv");
    close(s);
  }
  rate = wish.count / (now_us() - start) * 1e6;
  printf(json ? "{\"count\":%u,\"connections_s\":%.1f}\n" : "%u connections, %.0f a second\n",
         wish.count, rate);
}

static int run_client(const char *host, const char *port, int connections, int json) {
  struct addrinfo hints, *a;
  struct wish w;
  int s, error;

  memset(&hints, 0, sizeof hints);
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  error = getaddrinfo(host, port, &hints, &a);
  if (error != 0) {
    fprintf(stderr, "tcpping: %s: %s\n", host, gai_strerror(error));
    return 1;
  }
  if (connections) {
    measure_connections(a, json);
    freeaddrinfo(a);
    return 0;
  }
  s = socket(a->ai_family, a->ai_socktype, a->ai_protocol);
  if (s < 0 || connect(s, a->ai_addr, a->ai_addrlen) != 0) fail(host);
  freeaddrinfo(a);
  no_delay(s);
  w = wish;
  w.size = htonl(wish.size);
  w.count = htonl(wish.count);
  send_all(s, &w, sizeof w);
  if (wish.bandwidth != 0)
    measure_bandwidth(s, json);
  else
    measure_latency(s, json);
  close(s);
  return 0;
}

static void usage(void) {
  fprintf(stderr,
          "usage: tcpping --server [--hang-up] [--nagle] [--port N]\n"
          "       tcpping HOST [--size BYTES] [--count N] [--wait poll|block] [--bandwidth] [--nagle]\n"
          "               [--connections] [--json] [--port N]\n");
  exit(2);
}

static uint32_t number(const char *text, uint32_t least, uint32_t most) {
  char *end;
  unsigned long n = strtoul(text, &end, 10);

  if (end == text || *end != '\0' || *text == '-' || n < least || n > most) usage();
  return (uint32_t)n;
}

int main(int argc, char **argv) {
  enum { SERVER = 1, PORT, SIZE, COUNT, WAIT, BANDWIDTH, JSON, NAGLE, CONNECTIONS, HANG_UP };
  static const struct option options[] = {
      {"server", no_argument, NULL, SERVER},       {"port", required_argument, NULL, PORT},
      {"size", required_argument, NULL, SIZE},     {"count", required_argument, NULL, COUNT},
      {"wait", required_argument, NULL, WAIT},     {"bandwidth", no_argument, NULL, BANDWIDTH},
      {"json", no_argument, NULL, JSON},           {"nagle", no_argument, NULL, NAGLE},
      {"connections", no_argument, NULL, CONNECTIONS},
      {"hang-up", no_argument, NULL, HANG_UP},     {NULL, 0, NULL, 0},
  };
  const char *port = "7777";
  int server = 0, json = 0, connections = 0, hang_up = 0, c;

  while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
    switch (c) {
      case SERVER: server = 1; break;
      case PORT: port = optarg; break;
      case SIZE: wish.size = number(optarg, 1, MAX_SIZE); break;
      case COUNT: wish.count = number(optarg, 2, 100000000); break;
      case WAIT:
        if (strcmp(optarg, "poll") != 0 && strcmp(optarg, "block") != 0) usage();
        wish.poll = strcmp(optarg, "poll") == 0;
        break;
      case BANDWIDTH: wish.bandwidth = 1; break;
      case JSON: json = 1; break;
      case NAGLE: nagle = 1; break;
      case CONNECTIONS: connections = 1; break;
      case HANG_UP: hang_up = 1; break;
      default: usage();
    }
  }
  if (wish.size == 0) wish.size = wish.bandwidth != 0 ? 32768 : 4;
  if (server) {
    if (optind != argc) usage();
    return run_server(port, hang_up);
  }
  if (optind + 1 != argc) usage();
  return run_client(argv[optind], port, connections, json);
}
