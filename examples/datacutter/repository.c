/* The repository: has an image, and sends the blocks that the viewer asks for through the filters. */
#include <stdio.h>
#include <stdlib.h>

#include "examples/datacutter/stages.h"
#include "examples/datacutter/wire.h"

static void answer(int filter, const unsigned char *image, const struct header *query) {
  const uint32_t in_image = query->bytes != 0 ? MOST_BYTES / query->bytes : 0;
  uint32_t i;

  if (query->number > in_image) {
    fprintf(stderr, "pipeline: a query for more than the image\n");
    exit(1);
  }
  for (i = 0; i < query->number; ++i) send_block(filter, i, image + (size_t)i * query->bytes, query->bytes);
}

int run_repository(const struct repository_options *o) {
  unsigned char *image = malloc(MOST_BYTES);
  const int listener = listen_on(o->port);
  int viewer, filter;

  if (image == NULL) fail("memory");
  make_block(image, 0, MOST_BYTES);
  printf("waiting\n");
  fflush(stdout);
  viewer = accept_from(listener);
  filter = connect_to(o->filter);
  send_number(filter, SILENT);
  for (;;) {
    const struct header query = receive_header(viewer);
    if (query.number == END) break;
    answer(filter, image, &query);
  }
  send_header(filter, END, 0);
  free(image);
  return 0;
}
