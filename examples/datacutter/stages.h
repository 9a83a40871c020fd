/* The stages of the pipeline. */
#ifndef VIADUCT_EXAMPLES_DATACUTTER_STAGES_H
#define VIADUCT_EXAMPLES_DATACUTTER_STAGES_H

#include <stdint.h>

enum scheduling { ROUND_ROBIN, DEMAND_DRIVEN };

struct source_options {
  const char *filters[64]; /* HOST:PORT */
  unsigned count;
  enum scheduling scheduling;
  uint32_t blocks;
  uint32_t bytes;  /* of a block */
  uint32_t window; /* blocks that a filter may have and not have done */
};

struct filter_options {
  const char *port;
  const char *sink;   /* HOST:PORT */
  double cost;        /* of a byte, in ns */
  double slow;        /* a slow block costs so many times as much */
  unsigned slow_part; /* of 100 blocks, so many are slow */
};

struct sink_options {
  const char *port;
  unsigned filters;
};

/* They return the exit status. */
int run_source(const struct source_options *options);
int run_filter(const struct filter_options *options);
int run_sink(const struct sink_options *options);

#endif
