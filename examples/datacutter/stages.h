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
  int yields;         /* other programs get the processor meanwhile */
};

struct sink_options {
  const char *port;
  unsigned filters;
};

struct repository_options {
  const char *port;
  const char *filter; /* HOST:PORT */
};

struct viewer_options {
  const char *port;
  const char *repository; /* HOST:PORT */
  unsigned filters;       /* one behind the other */
  uint32_t image;         /* bytes */
  uint32_t bytes;         /* of a block */
  uint32_t blocks;        /* of a partial query */
  uint32_t queries;
  unsigned whole_part; /* of 100 queries, so many are for the whole image */
};

/* They return the exit status. */
int run_source(const struct source_options *options);
int run_filter(const struct filter_options *options);
int run_sink(const struct sink_options *options);
int run_repository(const struct repository_options *options);
int run_viewer(const struct viewer_options *options);

#endif
