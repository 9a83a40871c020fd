/* rpc_calls: the time of remote procedure calls by TI-RPC over TCP, without rpcbind.
 *
 *     rpc_calls serve PORT
 *     rpc_calls ADDRESS PORT BYTES CALLS    prints the microseconds of a call with an argument of so many bytes */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rpc/rpc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { kProgram = 0x20000077, kVersion = 1, kTake = 1, kMost = 1 << 20, kWarmUp = 20, kBuffer = 65536 };

struct bytes {
  char *data;
  u_int size;
};

static bool_t xdr_take(XDR *xdrs, struct bytes *taken) { return xdr_bytes(xdrs, &taken->data, &taken->size, kMost); }

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static struct sockaddr_in address_of(const char *host, const char *port) {
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((in_port_t)atoi(port))};
  if (inet_pton(AF_INET, host, &address.sin_addr) != 1) fail(host);
  return address;
}

static void dispatch(struct svc_req *request, SVCXPRT *transport) {
  struct bytes taken = {NULL, 0};
  u_int size;
  if (request->rq_proc == NULLPROC) {
    svc_sendreply(transport, (xdrproc_t)xdr_void, NULL);
    return;
  }
  if (!svc_getargs(transport, (xdrproc_t)xdr_take, (char *)&taken)) {
    svcerr_decode(transport);
    return;
  }
  size = taken.size;
  svc_sendreply(transport, (xdrproc_t)xdr_u_int, (char *)&size);
  svc_freeargs(transport, (xdrproc_t)xdr_take, (char *)&taken);
}

static void serve(const char *port) {
  const struct sockaddr_in address = address_of("0.0.0.0", port);
  const int on = 1, listener = socket(AF_INET, SOCK_STREAM, 0);
  SVCXPRT *transport;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (bind(listener, (const struct sockaddr *)&address, sizeof address) != 0 || listen(listener, 16) != 0) fail("listen");
  transport = svc_vc_create(listener, kBuffer, kBuffer);
  if (transport == NULL || !svc_reg(transport, kProgram, kVersion, dispatch, NULL)) fail("svc_vc_create");
  svc_run();
}

static void call(CLIENT *client, struct bytes *argument) {
  const struct timeval limit = {10, 0};
  u_int size = 0;
  if (clnt_call(client, kTake, (xdrproc_t)xdr_take, (caddr_t)argument, (xdrproc_t)xdr_u_int, (caddr_t)&size, limit) !=
      RPC_SUCCESS) {
    clnt_perror(client, "rpc_calls");
    exit(1);
  }
  if (size != argument->size) {
    fprintf(stderr, "rpc_calls: %u bytes have come, not %u\n", size, argument->size);
    exit(1);
  }
}

static double microseconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1e6 + now.tv_nsec / 1e3;
}

static void call_many(const char *host, const char *port, u_int size, int calls) {
  struct sockaddr_in address = address_of(host, port);
  struct netbuf server = {sizeof address, sizeof address, &address};
  struct bytes argument = {calloc(size ? size : 1, 1), size};
  const int on = 1, connection = socket(AF_INET, SOCK_STREAM, 0);
  CLIENT *client;
  double begin;
  if (connect(connection, (struct sockaddr *)&address, sizeof address) != 0) fail("connect");
  setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  client = clnt_vc_create(connection, &server, kProgram, kVersion, kBuffer, kBuffer);
  if (client == NULL) {
    clnt_pcreateerror("rpc_calls");
    exit(1);
  }
  for (int i = 0; i < kWarmUp; ++i) call(client, &argument);
  begin = microseconds();
  for (int i = 0; i < calls; ++i) call(client, &argument);
  printf("%.3f\n", (microseconds() - begin) / calls);
  clnt_destroy(client);
  free(argument.data);
}

int main(int argc, char **argv) {
  if (argc == 3 && strcmp(argv[1], "serve") == 0) {
    serve(argv[2]);
    return 1;
  }
  if (argc != 5) {
    fprintf(stderr, "usage: rpc_calls serve PORT\n       rpc_calls ADDRESS PORT BYTES CALLS\n");
    return 2;
  }
  call_many(argv[1], argv[2], (u_int)atoi(argv[3]), atoi(argv[4]));
  return 0;
}
