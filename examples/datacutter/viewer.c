/* The viewer: the last stage of a chain. It asks the repository for the whole image or for some blocks of it, waits
 * until they have come through the filters, and looks at every byte. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/datacutter/stages.h"
#include "examples/datacutter/wire.h"

struct times {
  uint32_t count;
  double sum; /* us */
};

static void add(struct times *t, double us) {
  ++t->count;
  t->sum += us;
}

static void report(const char *name, const struct times *t) {
  if (t->count != 0) printf("%s: %u queries, %.1f us\n", name, t->count, t->sum / t->count);
}

/* The image as the filters make it. */
static unsigned char *make_image(const struct viewer_options *o) {
  unsigned char *image = malloc(o->image);
  uint32_t i;

  if (image == NULL) fail("memory");
  make_block(image, 0, o->image);
  if (o->filters % 2 == 1) {
    for (i = 0; i < o->image; ++i) image[i] = FILTERED(image[i]);
  }
  return image;
}

static void receive_answer(int s, const unsigned char *image, unsigned char *block, uint32_t count, uint32_t bytes) {
  uint32_t i;

  for (i = 0; i < count; ++i) {
    const struct header header = receive_header(s);
    if (header.number != i || header.bytes != bytes) {
      fprintf(stderr, "pipeline: block %u in place of %u\n", header.number, i);
      exit(1);
    }
    receive_all(s, block, bytes);
    if (memcmp(block, image + (size_t)i * bytes, bytes) != 0) {
      fprintf(stderr, "pipeline: block %u is wrong\n", i);
      exit(1);
    }
  }
}

/* The parts of the whole are spread evenly over the queries. */
static int is_whole(const struct viewer_options *o, uint32_t query) {
  return (query + 1) * o->whole_part / 100 != query * o->whole_part / 100;
}

int run_viewer(const struct viewer_options *o) {
  unsigned char *block = malloc(o->bytes);
  unsigned char *image = make_image(o);
  const int listener = listen_on(o->port);
  const uint32_t whole = o->image / o->bytes;
  struct times all = {0, 0}, partial = {0, 0}, complete = {0, 0};
  uint32_t query;
  int repository, filter;

  if (block == NULL) fail("memory");
  repository = connect_to(o->repository);
  filter = accept_from(listener);
  receive_number(filter);
  /* The first one is not counted: connections begin with it. */
  for (query = 0; query <= o->queries; ++query) {
    const int of_all = query > 0 && is_whole(o, query - 1);
    const uint32_t count = of_all || o->blocks > whole ? whole : o->blocks;
    const double start = now_us();
    double took;

    send_header(repository, count, o->bytes);
    receive_answer(filter, image, block, count, o->bytes);
    took = now_us() - start;
    if (query == 0) continue;
    add(&all, took);
    add(of_all ? &complete : &partial, took);
  }
  send_header(repository, END, 0);
  report("partial", &partial);
  report("complete", &complete);
  report("all", &all);
  free(block);
  free(image);
  return 0;
}
