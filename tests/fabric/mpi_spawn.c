/* Worlds of MPI that meet: MPI_Comm_spawn, and MPI_Comm_connect to what has MPI_Comm_accept. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "%s is wrong\n", what);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

/* All of one side send to all of the other, 100,000 bytes each. */
static void exchange(MPI_Comm other, int parent) {
  enum { kBytes = 100000 };
  int rank, far, i;
  MPI_Comm_rank(other, &rank);
  MPI_Comm_remote_size(other, &far);
  for (i = 0; i < far; ++i) {
    unsigned char *out = malloc(kBytes), *in = calloc(1, kBytes);
    memset(out, 1 + parent * 100 + rank, kBytes);
    MPI_Sendrecv(out, kBytes, MPI_BYTE, i, 3, in, kBytes, MPI_BYTE, i, 3, other, MPI_STATUS_IGNORE);
    check(in[0] == 1 + !parent * 100 + i && in[kBytes - 1] == in[0], "a message between worlds");
    free(out);
    free(in);
  }
}

int main(int argc, char **argv) {
  MPI_Comm parent, other;
  int rank;
  char port[MPI_MAX_PORT_NAME] = "";
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_get_parent(&parent);
  if (parent == MPI_COMM_NULL) {
    int errors[2];
    MPI_Comm_spawn(argv[0], MPI_ARGV_NULL, 2, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other, errors);
    exchange(other, 1);
    if (rank == 0) {
      MPI_Open_port(MPI_INFO_NULL, port);
      MPI_Send(port, sizeof port, MPI_CHAR, 0, 4, other);
    }
    MPI_Comm_disconnect(&other);
    MPI_Comm_accept(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
    exchange(other, 1);
    if (rank == 0) MPI_Close_port(port);
    MPI_Comm_disconnect(&other);
    if (rank == 0) printf("worlds met twice\n");
  } else {
    exchange(parent, 0);
    if (rank == 0) MPI_Recv(port, sizeof port, MPI_CHAR, 0, 4, parent, MPI_STATUS_IGNORE);
    MPI_Bcast(port, sizeof port, MPI_CHAR, 0, MPI_COMM_WORLD);
    MPI_Comm_disconnect(&parent);
    MPI_Comm_connect(port, MPI_INFO_NULL, 0, MPI_COMM_WORLD, &other);
    exchange(other, 0);
    MPI_Comm_disconnect(&other);
  }
  MPI_Finalize();
  return 0;
}
