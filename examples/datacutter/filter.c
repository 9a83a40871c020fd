/* A filter: makes something of each block and hands it on. It is as slow as it is told to be. */
#include <sched.h>
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
  /* A sleep would end too late: on virtual machines a timer takes longer than a small block. */
  while (now_us() < until) {
    if (o->yields) sched_yield();
  }
}

int run_filter(const struct filter_options *o) {
  unsigned char *block = malloc(MOST_BYTES);
  const int listener = listen_on(o->port);
  uint32_t hello;
  int source, sink;

  if (block == NULL) fail("memory");
  printf("waiting\n");
  fflush(stdout);
  source = accept_from(listener);
  sink = connect_to(o->sink);
  hello = receive_number(source);
  send_number(sink, hello);
  for (;;) {
    const struct header header = receive_header(source);
    if (header.number == END) {
      send_header(sink, END, header.bytes);
      break;
    }
    receive_all(source, block, header.bytes);
    compute(o, header.number, block, header.bytes);
    send_block(sink, header.number, block, header.bytes);
    if ((hello & SILENT) == 0) send_number(source, header.number);
  }
  free(block);
  return 0;
}
