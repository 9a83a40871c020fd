/* The source: makes blocks and hands them out to the filters, to all in turn, or to the one that has the
 * fewest not done yet. */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/datacutter/stages.h"
#include "examples/datacutter/wire.h"

struct filter {
  int s;
  uint32_t sent, done;
  double *sent_at; /* by the block's place in the window */
  double wait, longest;
};

static struct filter filters[MOST_FILTERS];

static void take_done(struct filter *f, uint32_t window) {
  const double waited = now_us() - f->sent_at[f->done % window];

  receive_number(f->s);
  ++f->done;
  f->wait += waited;
  if (waited > f->longest) f->longest = waited;
}

/* Takes what was done: all that is there, and if that is nothing and `wait` is set, waits for some. */
static void take_all_done(const struct source_options *o, int wait) {
  struct pollfd fds[MOST_FILTERS];
  unsigned i;

  for (i = 0; i < o->count; ++i) {
    fds[i].fd = filters[i].sent != filters[i].done ? filters[i].s : -1;
    fds[i].events = POLLIN;
  }
  while (poll(fds, o->count, wait ? -1 : 0) > 0) {
    wait = 0;
    for (i = 0; i < o->count; ++i) {
      if (fds[i].fd < 0 || fds[i].revents == 0) continue;
      take_done(&filters[i], o->window);
      if (filters[i].sent == filters[i].done) fds[i].fd = -1;
    }
  }
}

static struct filter *choose(const struct source_options *o, uint32_t number) {
  struct filter *best = &filters[number % o->count];
  unsigned i;

  if (o->scheduling == ROUND_ROBIN) return best;
  /* Among filters with equally few, take them in turn. */
  for (i = 1; i < o->count; ++i) {
    struct filter *other = &filters[(number + i) % o->count];
    if (other->sent - other->done < best->sent - best->done) best = other;
  }
  return best;
}

static void report(const struct source_options *o, double seconds) {
  unsigned i;

  printf("%s, %u blocks of %u bytes: %.3f s, %.1f MB/s\n",
         o->scheduling == ROUND_ROBIN ? "round-robin" : "demand-driven", o->blocks, o->bytes, seconds,
         (double)o->blocks * o->bytes / seconds / 1e6);
  for (i = 0; i < o->count; ++i) {
    const struct filter *f = &filters[i];
    printf("filter %u: %u blocks, done after %.0f us, at most %.0f us\n", i, f->done,
           f->done != 0 ? f->wait / f->done : 0, f->longest);
  }
}

int run_source(const struct source_options *o) {
  unsigned char *block = malloc(o->bytes);
  uint32_t number;
  double start;
  unsigned i;

  if (block == NULL) fail("memory");
  for (i = 0; i < o->count; ++i) {
    filters[i].sent_at = calloc(o->window, sizeof(double));
    if (filters[i].sent_at == NULL) fail("memory");
    filters[i].s = connect_to(o->filters[i]);
    send_number(filters[i].s, i);
  }
  start = now_us();
  for (number = 0; number < o->blocks; ++number) {
    struct filter *to;
    make_block(block, number, o->bytes);
    take_all_done(o, 0);
    to = choose(o, number);
    while (to->sent - to->done == o->window) {
      take_all_done(o, 1);
      to = choose(o, number);
    }
    to->sent_at[to->sent++ % o->window] = now_us();
    send_block(to->s, number, block, o->bytes);
  }
  for (i = 0; i < o->count; ++i) send_header(filters[i].s, END, o->blocks);
  for (i = 0; i < o->count; ++i) {
    while (filters[i].sent != filters[i].done) take_all_done(o, 1);
  }
  report(o, (now_us() - start) / 1e6);
  free(block);
  return 0;
}
