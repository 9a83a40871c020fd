/* Typical MPI calls: point to point of all lengths, collectives, one-sided; with the argument
 * "threads" several threads in place of one-sided, which Open MPI's osc/pt2pt does not do together; with
 * "forever" all to all until it is ended, with "all" once; with "nothing" only the beginning and the end; with "both" long messages both
 * ways at once. */
#include <mpi.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

static void check(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "rank %d: %s is wrong\n", rank, what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static unsigned char pattern(int from, int to, long i) {
  return (unsigned char)(from * 31 + to * 7 + i + (i >> 9));
}

static void fill(unsigned char *data, int from, int to, long bytes) {
  long i;
  for (i = 0; i < bytes; ++i) data[i] = pattern(from, to, i);
}

static int filled(const unsigned char *data, int from, int to, long bytes) {
  long i;
  for (i = 0; i < bytes; ++i) {
    if (data[i] != pattern(from, to, i)) return 0;
  }
  return 1;
}

/* Each process sends to the next one. */
static void ring(void) {
  static const long lengths[] = {0, 1, 100, 1000, 16000, 16500, 100000, 140000, 3000000};
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  size_t k;
  for (k = 0; k < sizeof lengths / sizeof *lengths; ++k) {
    const long bytes = lengths[k];
    unsigned char *out = malloc((size_t)bytes + 1), *in = calloc(1, (size_t)bytes + 1);
    fill(out, rank, next, bytes);
    MPI_Sendrecv(out, (int)bytes, MPI_BYTE, next, 5, in, (int)bytes, MPI_BYTE, before, 5,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    check(filled(in, before, rank, bytes), "a message of the ring");
    free(out);
    free(in);
  }
}

/* Many messages without a posted receive. */
static void flood(void) {
  enum { kMany = 1000 };
  int i, got;
  if (rank == 0) {
    for (i = 0; i < kMany * (ranks - 1); ++i) {
      MPI_Status status;
      MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, 6, MPI_COMM_WORLD, &status);
      check(got / kMany == status.MPI_SOURCE, "a message of the flood");
    }
  } else {
    for (i = 0; i < kMany; ++i) {
      got = rank * kMany + i;
      MPI_Send(&got, 1, MPI_INT, 0, 6, MPI_COMM_WORLD);
    }
  }
}

static void all_to_all(int bytes) {
  unsigned char *out = malloc((size_t)bytes * (size_t)ranks);
  unsigned char *in = calloc((size_t)ranks, (size_t)bytes);
  int i;
  for (i = 0; i < ranks; ++i) fill(out + (long)i * bytes, rank, i, bytes);
  MPI_Alltoall(out, bytes, MPI_BYTE, in, bytes, MPI_BYTE, MPI_COMM_WORLD);
  for (i = 0; i < ranks; ++i) {
    check(filled(in + (long)i * bytes, i, rank, bytes), "a part of the all-to-all");
  }
  free(out);
  free(in);
}

static void one_sided(void) {
  int *window_memory, got = 0, value = rank + 1000, one = 1;
  MPI_Win window;
  MPI_Win_allocate(2 * sizeof(int), sizeof(int), MPI_INFO_NULL, MPI_COMM_WORLD, &window_memory,
                   &window);
  window_memory[0] = window_memory[1] = 0;
  MPI_Win_fence(0, window);
  MPI_Put(&value, 1, MPI_INT, (rank + 1) % ranks, 0, 1, MPI_INT, window);
  MPI_Accumulate(&one, 1, MPI_INT, 0, 1, 1, MPI_INT, MPI_SUM, window);
  MPI_Win_fence(0, window);
  check(window_memory[0] == (rank + ranks - 1) % ranks + 1000, "what was put");
  MPI_Get(&got, 1, MPI_INT, 0, 1, 1, MPI_INT, window);
  MPI_Win_fence(0, window);
  check(got == ranks, "what was summed up");
  MPI_Win_free(&window);
}

static void *talk(void *argument) {
  const int tag = 100 + *(int *)argument;
  const int next = (rank + 1) % ranks, before = (rank + ranks - 1) % ranks;
  int i, got;
  for (i = 0; i < 200; ++i) {
    const int value = tag * 1000 + i;
    MPI_Sendrecv(&value, 1, MPI_INT, next, tag, &got, 1, MPI_INT, before, tag, MPI_COMM_WORLD,
                 MPI_STATUS_IGNORE);
    check(got == value, "a message of a thread");
  }
  return NULL;
}

static void threads(void) {
  pthread_t thread[3];
  int number[3], i;
  for (i = 0; i < 3; ++i) {
    number[i] = i;
    pthread_create(&thread[i], NULL, talk, &number[i]);
  }
  for (i = 0; i < 3; ++i) pthread_join(thread[i], NULL);
}

/* Windows of long messages, to a partner and from it at once. */
static void both_ways(void) {
  enum { kWindow = 64, kRounds = 3 };
  static const long lengths[] = {512 << 10, 1 << 20, 2 << 20, 4 << 20};
  const int partner = rank ^ 1;
  const long most = lengths[3];
  unsigned char *out = malloc((size_t)most), *in = malloc((size_t)(kWindow * most));
  MPI_Request requests[2 * kWindow];
  size_t k;
  int i, round;
  if (partner >= ranks) return;
  fill(out, rank, partner, most);
  for (k = 0; k < sizeof lengths / sizeof *lengths; ++k) {
    const long bytes = lengths[k];
    for (round = 0; round < kRounds; ++round) {
      memset(in, 0, (size_t)(kWindow * bytes));
      for (i = 0; i < kWindow; ++i) {
        MPI_Irecv(in + i * bytes, (int)bytes, MPI_BYTE, partner, i, MPI_COMM_WORLD, &requests[i]);
      }
      for (i = 0; i < kWindow; ++i) {
        MPI_Isend(out, (int)bytes, MPI_BYTE, partner, i, MPI_COMM_WORLD, &requests[kWindow + i]);
      }
      MPI_Waitall(2 * kWindow, requests, MPI_STATUSES_IGNORE);
      for (i = 0; i < kWindow; ++i) {
        check(filled(in + i * bytes, partner, rank, bytes), "a message of those both ways");
      }
    }
    if (rank == 0) fprintf(stderr, "%ld bytes both ways\n", bytes);
  }
  free(out);
  free(in);
}

int main(int argc, char **argv) {
  const int multiple = argc > 1 && strcmp(argv[1], "threads") == 0;
  int provided, sum = 0;
  MPI_Init_thread(&argc, &argv, multiple ? MPI_THREAD_MULTIPLE : MPI_THREAD_SINGLE, &provided);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc > 1 && strcmp(argv[1], "nothing") == 0) {
    MPI_Finalize();
    return 0;
  }
  if (argc > 1 && strcmp(argv[1], "both") == 0) {
    both_ways();
    MPI_Finalize();
    return 0;
  }
  if (argc > 1 && strcmp(argv[1], "all") == 0) {
    all_to_all(16500);
    MPI_Finalize();
    return 0;
  }
  if (argc > 1 && strcmp(argv[1], "forever") == 0) {
    all_to_all(1000);
    if (rank == 0) puts("running");
    fflush(stdout);
    for (;;) all_to_all(1000);
  }
  ring();
  flood();
  all_to_all(64);
  all_to_all(65536);
  if (multiple) {
    check(provided == MPI_THREAD_MULTIPLE, "the level of threads");
    threads();
  } else {
    one_sided();
  }
  MPI_Allreduce(&rank, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  check(sum == ranks * (ranks - 1) / 2, "the sum of all");
  MPI_Finalize();
  if (rank == 0) printf("%d ranks: all is right\n", ranks);
  return 0;
}
