/* pipeline: data goes from a source through several copies of a filter to a sink, in plain sockets, as in
 * DataCutter, the framework of one of the papers on sockets over VIA. README.md tells how it is run.
 *
 *                      +-> filter 0 --+
 *   source -- blocks --+-> filter 1 --+-> sink
 *             <- done -+-> filter 2 --+
 *
 * or through a chain of filters, as a viewer asks for them:
 *
 *   repository -- blocks --> filter --> filter --> viewer -- queries --> repository
 */
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "examples/datacutter/stages.h"
#include "examples/datacutter/wire.h"

static const char usage[] =
    "usage: pipeline source [OPTION...] HOST:PORT...   the filters\n"
    "       pipeline filter [OPTION...] --sink HOST:PORT\n"
    "       pipeline sink [OPTION...]\n"
    "       pipeline repository [OPTION...] HOST:PORT      the first filter\n"
    "       pipeline viewer [OPTION...] --repository HOST:PORT\n"
    "\n"
    "source:\n"
    "  --scheduling rr|dd  round-robin: to all filters in turn; demand-driven: to the one that has\n"
    "                      the fewest blocks not done yet (default dd)\n"
    "  --blocks N          how many (default 10000)\n"
    "  --size BYTES        of a block, 1 to 16777216 (default 16384)\n"
    "  --window N          blocks that a filter may have and not have done (default 4)\n"
    "filter:\n"
    "  --port PORT         where it waits for the source (default 7900)\n"
    "  --sink HOST:PORT    where what it makes goes\n"
    "  --cost NS           time for a byte (default 18)\n"
    "  --slow FACTOR       a slow block takes so many times as long (default 1)\n"
    "  --slow-part PERCENT blocks that are slow (default 100)\n"
    "  --yields            other programs get the processor meanwhile: for hosts that share one\n"
    "sink:\n"
    "  --port PORT         where it waits for the filters (default 7901)\n"
    "  --filters N         how many (default 1)\n"
    "repository:\n"
    "  --port PORT         where it waits for the viewer (default 7902)\n"
    "viewer:\n"
    "  --port PORT         where it waits for the last filter (default 7901)\n"
    "  --filters N         how many there are, one behind the other (default 1)\n"
    "  --image BYTES       the whole, up to 16777216 (default)\n"
    "  --size BYTES        of a block\n"
    "  --blocks N          of a partial query (default 1)\n"
    "  --queries N         how many (default 100)\n"
    "  --whole PERCENT     queries for the whole image (default 0)\n";

static void misuse(const char *what) {
  fprintf(stderr, "pipeline: %s\n%s", what, usage);
  exit(2);
}

static double number_of(const char *text, double least, double most) {
  char *end;
  const double out = strtod(text, &end);

  if (end == text || *end != '\0' || !(out >= least && out <= most)) {
    fprintf(stderr, "pipeline: %s is not from %.0f to %.0f\n", text, least, most);
    exit(2);
  }
  return out;
}

enum option_code { SCHEDULING = 1, BLOCKS, SIZE, WINDOW, PORT, SINK, COST, SLOW, SLOW_PART, FILTERS, YIELDS, REPOSITORY,
                   IMAGE, QUERIES, WHOLE, HELP };

static const struct option long_options[] = {
    {"scheduling", required_argument, NULL, SCHEDULING},
    {"blocks", required_argument, NULL, BLOCKS},
    {"size", required_argument, NULL, SIZE},
    {"window", required_argument, NULL, WINDOW},
    {"port", required_argument, NULL, PORT},
    {"sink", required_argument, NULL, SINK},
    {"cost", required_argument, NULL, COST},
    {"slow", required_argument, NULL, SLOW},
    {"slow-part", required_argument, NULL, SLOW_PART},
    {"filters", required_argument, NULL, FILTERS},
    {"yields", no_argument, NULL, YIELDS},
    {"repository", required_argument, NULL, REPOSITORY},
    {"image", required_argument, NULL, IMAGE},
    {"queries", required_argument, NULL, QUERIES},
    {"whole", required_argument, NULL, WHOLE},
    {"help", no_argument, NULL, HELP},
    {NULL, 0, NULL, 0}};

static struct source_options source = {{NULL}, 0, DEMAND_DRIVEN, 10000, 16384, 4};
static struct filter_options filter = {"7900", NULL, 18, 1, 100, 0};
static struct sink_options sink = {"7901", 1};
static struct repository_options repository = {"7902", NULL};
static struct viewer_options viewer = {"7901", NULL, 1, MOST_BYTES, 16384, 1, 100, 0};

static enum scheduling scheduling_of(const char *name) {
  if (strcmp(name, "rr") != 0 && strcmp(name, "dd") != 0) misuse("--scheduling is rr or dd");
  return strcmp(name, "rr") == 0 ? ROUND_ROBIN : DEMAND_DRIVEN;
}

static void take_option(int code, const char *value) {
  switch (code) {
    case SCHEDULING: source.scheduling = scheduling_of(value); break;
    case BLOCKS: source.blocks = viewer.blocks = (uint32_t)number_of(value, 1, 1e8); break;
    case SIZE: source.bytes = viewer.bytes = (uint32_t)number_of(value, 1, MOST_BYTES); break;
    case WINDOW: source.window = (uint32_t)number_of(value, 1, 1024); break;
    case PORT: filter.port = sink.port = repository.port = viewer.port = value; break;
    case SINK: filter.sink = value; break;
    case COST: filter.cost = number_of(value, 0, 1e6); break;
    case SLOW: filter.slow = number_of(value, 1, 1e6); break;
    case SLOW_PART: filter.slow_part = (unsigned)number_of(value, 0, 100); break;
    case FILTERS: sink.filters = viewer.filters = (unsigned)number_of(value, 1, MOST_FILTERS); break;
    case YIELDS: filter.yields = 1; break;
    case REPOSITORY: viewer.repository = value; break;
    case IMAGE: viewer.image = (uint32_t)number_of(value, 1, MOST_BYTES); break;
    case QUERIES: viewer.queries = (uint32_t)number_of(value, 1, 1e6); break;
    case WHOLE: viewer.whole_part = (unsigned)number_of(value, 0, 100); break;
    case HELP: fputs(usage, stdout); exit(0);
    default: misuse("an option is wrong");
  }
}

int main(int argc, char **argv) {
  int code;

  while ((code = getopt_long(argc, argv, "", long_options, NULL)) != -1) take_option(code, optarg);
  errno = 0;
  if (optind == argc) misuse("source, filter, sink, repository or viewer?");
  if (strcmp(argv[optind], "sink") == 0) return run_sink(&sink);
  if (strcmp(argv[optind], "filter") == 0) {
    if (filter.sink == NULL) misuse("--sink is missing");
    return run_filter(&filter);
  }
  if (strcmp(argv[optind], "repository") == 0) {
    if (optind + 1 >= argc) misuse("no filter");
    repository.filter = argv[optind + 1];
    return run_repository(&repository);
  }
  if (strcmp(argv[optind], "viewer") == 0) {
    if (viewer.repository == NULL) misuse("--repository is missing");
    if (viewer.bytes > viewer.image) misuse("a block is longer than the image");
    return run_viewer(&viewer);
  }
  if (strcmp(argv[optind], "source") != 0) misuse("source, filter, sink, repository or viewer?");
  for (++optind; optind < argc && source.count < MOST_FILTERS; ++optind) {
    source.filters[source.count++] = argv[optind];
  }
  if (source.count == 0) misuse("no filters");
  return run_source(&source);
}
