/* Two ranks: for each size the median of the one-way time (half of a round trip), and the rate at which
 * messages arrive when 16 are under way. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kWindow = 16, kRounds = 7 };

static int rank;

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *values, int count) {
  qsort(values, (size_t)count, sizeof *values, by_size);
  return values[count / 2];
}

static double one_way_us(char *data, int bytes, int count) {
  double *times = malloc((size_t)count * sizeof *times), result;
  int i;
  for (i = -count / 10; i < count; ++i) {
    const double begin = MPI_Wtime();
    if (rank == 0) MPI_Send(data, bytes, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(data, bytes, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(data, bytes, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
    if (i >= 0) times[i] = (MPI_Wtime() - begin) * 1e6 / 2;
  }
  result = median(times, count);
  free(times);
  return result;
}

static double mbit_s(char *data, int bytes, int count) {
  double rates[kRounds];
  int round, i, k;
  for (round = 0; round < kRounds; ++round) {
    const double begin = MPI_Wtime();
    for (i = 0; i < count; ++i) {
      MPI_Request requests[kWindow];
      for (k = 0; k < kWindow; ++k) {
        char *at = data + (size_t)k * (size_t)bytes;
        if (rank == 0) {
          MPI_Isend(at, bytes, MPI_BYTE, 1, 2, MPI_COMM_WORLD, &requests[k]);
        } else {
          MPI_Irecv(at, bytes, MPI_BYTE, 0, 2, MPI_COMM_WORLD, &requests[k]);
        }
      }
      MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
    }
    /* The last has arrived. */
    if (rank == 0) MPI_Recv(data, 1, MPI_BYTE, 1, 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank == 1) MPI_Send(data, 1, MPI_BYTE, 0, 3, MPI_COMM_WORLD);
    rates[round] = 8e-6 * bytes * kWindow * count / (MPI_Wtime() - begin);
  }
  return median(rates, kRounds);
}

int main(int argc, char **argv) {
  int i, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks != 2 || argc < 2) {
    if (rank == 0) fprintf(stderr, "usage: mpi_pingpong SIZE... (two ranks)\n");
    MPI_Finalize();
    return 2;
  }
  for (i = 1; i < argc; ++i) {
    const int bytes = atoi(argv[i]);
    char *data = calloc(kWindow, (size_t)bytes + 1);
    const int count = bytes < 10000 ? 5000 : bytes < 200000 ? 1000 : 100;
    const double us = one_way_us(data, bytes, count);
    const double rate = mbit_s(data, bytes, bytes < 10000 ? 100 : bytes < 200000 ? 30 : 4);
    if (rank == 0) printf("%d %.2f %.0f\n", bytes, us, rate);
    free(data);
  }
  MPI_Finalize();
  return 0;
}
