/* A filter: makes something of each block and hands it on. It is as slow as it is told to be. */
#include <stdio.h>
#include <stdlib.h>

#include "examples/datacutter/stages.h"
#include "examples/datacutter/wire.h"

/* Which blocks are slow is the same in each run. */
static int is_slow(const struct filter_options *o, uint32_t number) {
  return (number * 2654435761u >> 16) % 100 < o->slow_part;
}

static void compute(const struct filter_options *o, uint32_t number, unsigned char *block,
                    uint32_t bytes) {
  const double cost = o->cost * bytes / 1e3 * (is_slow(o, number) ? o->slow : 1);
  const double until = now_us() + cost;
  uint32_t i;

  for (i = 0; i < bytes; ++i) block[i] = FILTERED(block[i]);
  while (now_us() < until) {
  }
}

int run_filter(const struct filter_options *o) {
  unsigned char *block = malloc(MOST_BYTES);
  const int listener = listen_on(o->port);
  int source, sink;

  if (block == NULL) fail("memory");
  printf("waiting\n");
  fflush(stdout);
  source = accept_from(listener);
  sink = connect_to(o->sink);
  send_number(sink, receive_number(source));
  for (;;) {
    const struct header header = receive_header(source);
    if (header.number == END) {
      send_header(sink, END, header.bytes);
      break;
    }
    receive_all(source, block, header.bytes);
    compute(o, header.number, block, header.bytes);
    send_header(sink, header.number, header.bytes);
    send_all(sink, block, header.bytes);
    send_number(source, header.number);
  }
  free(block);
  return 0;
}
