/* The sink: takes what the filters made, in whatever order it comes, and looks at every byte. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "examples/datacutter/stages.h"
#include "examples/datacutter/wire.h"

struct input {
  pthread_t thread;
  int s;
  uint32_t filter, blocks;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static unsigned char *seen; /* by the block's number; as long as the highest one that came asks for */
static uint32_t room, expected, twice, wrong;

static void note(uint32_t number, int right) {
  pthread_mutex_lock(&lock);
  while (number >= room) {
    const uint32_t more = room == 0 ? 1024 : 2 * room;
    seen = realloc(seen, more);
    if (seen == NULL) fail("memory");
    for (; room < more; ++room) seen[room] = 0;
  }
  twice += seen[number];
  seen[number] = 1;
  wrong += !right;
  pthread_mutex_unlock(&lock);
}

static int is_right(const unsigned char *is, unsigned char *should, const struct header *header) {
  uint32_t i;

  make_block(should, header->number, header->bytes);
  for (i = 0; i < header->bytes; ++i) {
    if (is[i] != FILTERED(should[i])) return 0;
  }
  return 1;
}

static void *take(void *context) {
  struct input *in = context;
  unsigned char *is = malloc(MOST_BYTES), *should = malloc(MOST_BYTES);

  if (is == NULL || should == NULL) fail("memory");
  in->filter = receive_number(in->s);
  for (;;) {
    const struct header header = receive_header(in->s);
    if (header.number == END) {
      pthread_mutex_lock(&lock);
      expected = header.bytes;
      pthread_mutex_unlock(&lock);
      break;
    }
    receive_all(in->s, is, header.bytes);
    note(header.number, is_right(is, should, &header));
    ++in->blocks;
  }
  free(is);
  free(should);
  return NULL;
}

int run_sink(const struct sink_options *o) {
  struct input *inputs = calloc(o->filters, sizeof *inputs);
  const int listener = listen_on(o->port);
  uint32_t number, missing = 0;
  unsigned i;

  if (inputs == NULL) fail("memory");
  printf("waiting\n");
  fflush(stdout);
  for (i = 0; i < o->filters; ++i) {
    inputs[i].s = accept_from(listener);
    if (pthread_create(&inputs[i].thread, NULL, take, &inputs[i]) != 0) fail("thread");
  }
  for (i = 0; i < o->filters; ++i) pthread_join(inputs[i].thread, NULL);
  for (number = 0; number < expected; ++number) missing += number >= room || !seen[number];
  for (i = 0; i < o->filters; ++i) {
    printf("from filter %u: %u blocks\n", inputs[i].filter, inputs[i].blocks);
  }
  printf("%u blocks: %u missing, %u twice, %u wrong\n", expected, missing, twice, wrong);
  free(inputs);
  return missing != 0 || twice != 0 || wrong != 0;
}
