/* loadgen: load like that of a disk, blocks that are written and read, and how fast it goes.
 *
 *   on one host:    loadgen -S                     keeps the blocks
 *   on the other:   loadgen SERVER                 writes and reads them, and looks at what it gets
 *   anywhere:       loadgen -L                     lists the NICs
 *
 * Both sides must be given the same -w, -r, -b and -q: workers (threads, each with a connection),
 * rounds (connections, one after the other), bytes of a block, requests under way. -n is the number
 * of requests of a round, -d the device (default: the first that is found).
 *
 * Habits of its family: the library is loaded by name at run time and each function looked up, NICs
 * are found by trying names until one fails, also those in environment variables, a failed connect
 * is simply repeated whatever the reason, both queues of a VI share a completion queue, the end of
 * a connection is learnt by asking for the VI's state, queues are drained past the completion
 * queue, which is destroyed with entries in it.
 */
#define _XOPEN_SOURCE 500
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <vipl.h>

#define RETRY_MSEC 200
#define MAX_TRIES 150
#define MAX_WORKERS 32
#define MAX_QUEUE 256
#define BLOCKS 64 /* of each worker */
#define FOREVER 0xFFFFFFFFu

/* ------------------------------------------------------------------ the library */

static const char *const names[] = {"VipOpenNic",
                                    "VipCloseNic",
                                    "VipQueryNic",
                                    "VipCreatePtag",
                                    "VipDestroyPtag",
                                    "VipRegisterMem",
                                    "VipDeregisterMem",
                                    "VipQueryMem",
                                    "VipSetMemAttributes",
                                    "VipCreateVi",
                                    "VipDestroyVi",
                                    "VipQueryVi",
                                    "VipSetViAttributes",
                                    "VipConnectWait",
                                    "VipConnectAccept",
                                    "VipConnectReject",
                                    "VipConnectRequest",
                                    "VipDisconnect",
                                    "VipConnectPeerRequest",
                                    "VipConnectPeerDone",
                                    "VipConnectPeerWait",
                                    "VipPostSend",
                                    "VipPostRecv",
                                    "VipSendDone",
                                    "VipRecvDone",
                                    "VipSendWait",
                                    "VipRecvWait",
                                    "VipSendNotify",
                                    "VipRecvNotify",
                                    "VipCreateCQ",
                                    "VipDestroyCQ",
                                    "VipResizeCQ",
                                    "VipCQDone",
                                    "VipCQWait",
                                    "VipCQNotify",
                                    "VipNSInit",
                                    "VipNSGetHostByName",
                                    "VipNSGetHostByAddr",
                                    "VipNSShutdown",
                                    "VipErrorCallback",
                                    "VipQuerySystemManagementInfo"};
#define NAMES ((int)(sizeof(names) / sizeof(names[0])))

static void *entry[NAMES];

typedef VIP_RETURN open_nic_fn(const VIP_CHAR *, VIP_NIC_HANDLE *);
typedef VIP_RETURN handle_fn(
    VIP_PVOID); /* CloseNic, DestroyVi, DestroyCQ, Disconnect, NSShutdown */
typedef VIP_RETURN query_nic_fn(VIP_NIC_HANDLE, VIP_NIC_ATTRIBUTES *);
typedef VIP_RETURN create_ptag_fn(VIP_NIC_HANDLE, VIP_PROTECTION_HANDLE *);
typedef VIP_RETURN destroy_ptag_fn(VIP_NIC_HANDLE, VIP_PROTECTION_HANDLE);
typedef VIP_RETURN register_fn(VIP_NIC_HANDLE, VIP_PVOID, VIP_ULONG, VIP_MEM_ATTRIBUTES *,
                               VIP_MEM_HANDLE *);
typedef VIP_RETURN deregister_fn(VIP_NIC_HANDLE, VIP_PVOID, VIP_MEM_HANDLE);
typedef VIP_RETURN create_vi_fn(VIP_NIC_HANDLE, VIP_VI_ATTRIBUTES *, VIP_CQ_HANDLE, VIP_CQ_HANDLE,
                                VIP_VI_HANDLE *);
typedef VIP_RETURN query_vi_fn(VIP_VI_HANDLE, VIP_VI_STATE *, VIP_VI_ATTRIBUTES *, VIP_BOOLEAN *,
                               VIP_BOOLEAN *);
typedef VIP_RETURN wait_fn(VIP_NIC_HANDLE, VIP_NET_ADDRESS *, VIP_ULONG, VIP_NET_ADDRESS *,
                           VIP_VI_ATTRIBUTES *, VIP_CONN_HANDLE *);
typedef VIP_RETURN accept_fn(VIP_CONN_HANDLE, VIP_VI_HANDLE);
typedef VIP_RETURN request_fn(VIP_VI_HANDLE, VIP_NET_ADDRESS *, VIP_NET_ADDRESS *, VIP_ULONG,
                              VIP_VI_ATTRIBUTES *);
typedef VIP_RETURN post_fn(VIP_VI_HANDLE, VIP_DESCRIPTOR *, VIP_MEM_HANDLE);
typedef VIP_RETURN done_fn(VIP_VI_HANDLE, VIP_DESCRIPTOR **);
typedef VIP_RETURN create_cq_fn(VIP_NIC_HANDLE, VIP_ULONG, VIP_CQ_HANDLE *);
typedef VIP_RETURN cq_done_fn(VIP_CQ_HANDLE, VIP_VI_HANDLE *, VIP_BOOLEAN *);
typedef VIP_RETURN cq_wait_fn(VIP_CQ_HANDLE, VIP_ULONG, VIP_VI_HANDLE *, VIP_BOOLEAN *);
typedef VIP_RETURN ns_init_fn(VIP_NIC_HANDLE, VIP_PVOID);
typedef VIP_RETURN ns_name_fn(VIP_NIC_HANDLE, VIP_CHAR *, VIP_NET_ADDRESS *, VIP_ULONG);

static struct {
  open_nic_fn *open_nic;
  handle_fn *close_nic, *destroy_vi, *destroy_cq, *disconnect, *ns_shutdown;
  query_nic_fn *query_nic;
  create_ptag_fn *create_ptag;
  destroy_ptag_fn *destroy_ptag;
  register_fn *register_mem;
  deregister_fn *deregister_mem;
  create_vi_fn *create_vi;
  query_vi_fn *query_vi;
  wait_fn *connect_wait;
  accept_fn *connect_accept;
  request_fn *connect_request;
  post_fn *post_send, *post_recv;
  done_fn *send_done, *recv_done;
  create_cq_fn *create_cq;
  cq_done_fn *cq_done;
  cq_wait_fn *cq_wait;
  ns_init_fn *ns_init;
  ns_name_fn *ns_name;
} vip;

static void die(const char *what, int code) {
  fprintf(stderr, "loadgen: %s (%d)\n", what, code);
  exit(1);
}

static void check(VIP_RETURN code, const char *what) {
  if (code != VIP_SUCCESS) die(what, (int)code);
}

/* Puts a function's address into a pointer to a function: the sizes are the same, C89 has no cast.
 */
static void find(const char *name, void *pointer) {
  int i;

  for (i = 0; i < NAMES; ++i) {
    if (strcmp(names[i], name) == 0) {
      memcpy(pointer, &entry[i], sizeof(entry[i]));
      return;
    }
  }
  die(name, 0);
}

static void load_library(void) {
  static const char *const files[] = {"vipl.so", "libvipl.so", "libvipl.so.1"};
  void *library = NULL;
  int i;

  for (i = 0; i < 3 && library == NULL; ++i) library = dlopen(files[i], RTLD_NOW);
  if (library == NULL) {
    fprintf(stderr, "loadgen: %s\n", dlerror());
    exit(1);
  }
  for (i = 0; i < NAMES; ++i) {
    entry[i] = dlsym(library, names[i]);
    if (entry[i] == NULL) {
      fprintf(stderr, "loadgen: the library has no %s\n", names[i]);
      exit(1);
    }
  }
  find("VipOpenNic", &vip.open_nic);
  find("VipCloseNic", &vip.close_nic);
  find("VipQueryNic", &vip.query_nic);
  find("VipCreatePtag", &vip.create_ptag);
  find("VipDestroyPtag", &vip.destroy_ptag);
  find("VipRegisterMem", &vip.register_mem);
  find("VipDeregisterMem", &vip.deregister_mem);
  find("VipCreateVi", &vip.create_vi);
  find("VipDestroyVi", &vip.destroy_vi);
  find("VipQueryVi", &vip.query_vi);
  find("VipConnectWait", &vip.connect_wait);
  find("VipConnectAccept", &vip.connect_accept);
  find("VipConnectRequest", &vip.connect_request);
  find("VipDisconnect", &vip.disconnect);
  find("VipPostSend", &vip.post_send);
  find("VipPostRecv", &vip.post_recv);
  find("VipSendDone", &vip.send_done);
  find("VipRecvDone", &vip.recv_done);
  find("VipCreateCQ", &vip.create_cq);
  find("VipDestroyCQ", &vip.destroy_cq);
  find("VipCQDone", &vip.cq_done);
  find("VipCQWait", &vip.cq_wait);
  find("VipNSInit", &vip.ns_init);
  find("VipNSGetHostByName", &vip.ns_name);
  find("VipNSShutdown", &vip.ns_shutdown);
}

/* ------------------------------------------------------------------ NICs */

static int open_name(const char *name, VIP_NIC_HANDLE *nic) {
  const char *other;

  *nic = NULL;
  if (vip.open_nic(name, nic) == VIP_SUCCESS) return 1;
  other = getenv(name);
  return other != NULL && vip.open_nic(other, nic) == VIP_SUCCESS;
}

/* All NICs that have a name of one of the usual forms, the first of them left open. */
static int probe(VIP_NIC_HANDLE *first, int list) {
  static const char *const forms[] = {"nic%d", "VINIC%d", "\\\\.\\VI%d"};
  char name[64];
  VIP_NIC_HANDLE nic;
  VIP_NIC_ATTRIBUTES attr;
  int form, i, found = 0;

  for (form = 0; form < 3; ++form) {
    for (i = form == 2 ? 1 : 0;; ++i) {
      sprintf(name, forms[form], i);
      if (!open_name(name, &nic)) break;
      if (i > 100) die("there is no end to the NICs", i);
      check(vip.query_nic(nic, &attr), "VipQueryNic");
      if (list) printf("%-10s %.63s, %lu bytes at a time\n", name, attr.Name, attr.MaxTransferSize);
      if (found++ == 0 && first != NULL)
        *first = nic;
      else
        check(vip.close_nic(nic), "VipCloseNic");
    }
  }
  if (found == 0 && open_name("VINIC", &nic)) {
    found = 1;
    if (first != NULL)
      *first = nic;
    else
      check(vip.close_nic(nic), "VipCloseNic");
  }
  return found;
}

/* ------------------------------------------------------------------ workers */

enum { OP_WRITE = 1, OP_READ = 2 };

typedef struct {
  VIP_UINT32 op;
  VIP_UINT32 block;
  VIP_UINT32 number;
  VIP_UINT32 bytes; /* that follow */
} header_t;

typedef union {
  VIP_NET_ADDRESS a;
  char room[sizeof(VIP_NET_ADDRESS) + 16 + 4];
} address_t;

typedef struct {
  int index;
  pthread_t thread;
  VIP_VI_HANDLE vi;
  VIP_CQ_HANDLE cq;
  VIP_PROTECTION_HANDLE ptag;
  VIP_MEM_HANDLE mem;
  char *memory; /* queue receives, then queue sends */
  int idle[MAX_QUEUE], nidle;
  char *disk; /* at the server */
  VIP_UINT32 version[BLOCKS];
  VIP_UINT32 busy[BLOCKS]; /* number of the request, + 1 */
  VIP_UINT32 pending_version[BLOCKS];
  double started[BLOCKS];
  unsigned long requests, retries, bytes;
  double latency, worst, seconds;
} worker_t;

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attr;
static worker_t workers[MAX_WORKERS];
static int nworkers = 2, rounds = 2, queue = 8;
static unsigned long requests = 2000, block_bytes = 4096;
static size_t stride;
static char *server_name;

static double now(void) {
  struct timeval t;

  gettimeofday(&t, NULL);
  return (double)t.tv_sec + (double)t.tv_usec / 1e6;
}

static VIP_DESCRIPTOR *buffer(worker_t *w, int i) {
  return (VIP_DESCRIPTOR *)(void *)(w->memory + (size_t)i * stride);
}

static header_t *header(VIP_DESCRIPTOR *desc) { return (header_t *)(desc + 1); }

static char *data(VIP_DESCRIPTOR *desc) { return (char *)(header(desc) + 1); }

static void prepare(worker_t *w, VIP_DESCRIPTOR *desc, unsigned long bytes) {
  desc->CS.Control = VIP_CONTROL_OP_SENDRECV & VIP_CONTROL_IMMEDIATE;
  desc->CS.SegCount = 1;
  desc->CS.Length = (VIP_UINT32)bytes;
  desc->DS[0].Local.Data.Address = header(desc);
  desc->DS[0].Local.Handle = w->mem;
  desc->DS[0].Local.Length = (VIP_UINT32)bytes;
}

static void post_receive(worker_t *w, VIP_DESCRIPTOR *desc) {
  prepare(w, desc, sizeof(header_t) + block_bytes);
  desc->CS.ImmediateData = 0; /* and it must still be 0 when something has come */
  check(vip.post_recv(w->vi, desc, w->mem), "VipPostRecv");
}

static void make_vi(worker_t *w) {
  VIP_VI_ATTRIBUTES attr;
  int i;

  memset(&attr, 0, sizeof(attr));
  attr.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  attr.MaxTransferSize = nic_attr.MaxTransferSize;
  attr.Ptag = w->ptag;
  check(vip.create_cq(nic, (VIP_ULONG)(2 * queue), &w->cq), "VipCreateCQ");
  check(vip.create_vi(nic, &attr, w->cq, w->cq, &w->vi), "VipCreateVi");
  for (i = 0; i < queue; ++i) post_receive(w, buffer(w, i));
  w->nidle = 0;
  for (i = queue; i < 2 * queue; ++i) w->idle[w->nidle++] = i;
}

/* Takes back everything without a look at the CQ, and destroys that last. */
static void drop_vi(worker_t *w) {
  VIP_DESCRIPTOR *desc;
  VIP_RETURN code;

  check(vip.disconnect(w->vi), "VipDisconnect");
  do {
    code = vip.recv_done(w->vi, &desc);
  } while (code == VIP_SUCCESS || (code == VIP_DESCRIPTOR_ERROR && desc != NULL));
  do {
    code = vip.send_done(w->vi, &desc);
  } while (code == VIP_SUCCESS || (code == VIP_DESCRIPTOR_ERROR && desc != NULL));
  check(vip.destroy_vi(w->vi), "VipDestroyVi");
  check(vip.destroy_cq(w->cq), "VipDestroyCQ");
}

/* Destroys the VI of a failed attempt, first by a slip that has been there for years. */
static void drop_after_failure(worker_t *w) {
  if (vip.destroy_vi((VIP_VI_HANDLE)&w->vi) == VIP_SUCCESS) die("an address passed for a VI", 0);
  drop_vi(w);
}

static int connected(worker_t *w) {
  VIP_VI_ATTRIBUTES attr;
  VIP_VI_STATE state;
  VIP_BOOLEAN send_empty, recv_empty;

  check(vip.query_vi(w->vi, &state, &attr, &send_empty, &recv_empty), "VipQueryVi");
  return state == VIP_STATE_CONNECTED;
}

static void set_address(VIP_NET_ADDRESS *address, int index) {
  unsigned char key[4];

  key[0] = 'L';
  key[1] = 'G';
  key[2] = 0;
  key[3] = (unsigned char)index;
  address->DiscriminatorLen = 4;
  memcpy(address->HostAddress + address->HostAddressLen, key, 4);
}

static void local_address(address_t *address, int index) {
  address->a.HostAddressLen = nic_attr.NicAddressLen;
  memcpy(address->a.HostAddress, nic_attr.LocalNicAddress, nic_attr.NicAddressLen);
  set_address(&address->a, index);
}

/* Something of the CQ, and its descriptor, which must be there. NULL: nothing at the moment. */
static VIP_DESCRIPTOR *next(worker_t *w, VIP_ULONG timeout, VIP_BOOLEAN *is_recv) {
  VIP_DESCRIPTOR *desc = NULL;
  VIP_VI_HANDLE vi = NULL;
  VIP_RETURN code;

  code =
      timeout == 0 ? vip.cq_done(w->cq, &vi, is_recv) : vip.cq_wait(w->cq, timeout, &vi, is_recv);
  if (code == VIP_NOT_DONE || code == VIP_TIMEOUT) return NULL;
  check(code, "VipCQDone");
  if (vi != w->vi) die("the CQ names another VI", w->index);
  code = *is_recv == VIP_TRUE ? vip.recv_done(vi, &desc) : vip.send_done(vi, &desc);
  if (code == VIP_DESCRIPTOR_ERROR && desc != NULL) {
    if ((desc->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR) == 0) die("status", (int)desc->CS.Status);
    return NULL;
  }
  check(code, "VipRecvDone after VipCQDone");
  if (*is_recv != VIP_TRUE) {
    if (buffer(w, (int)desc->CS.ImmediateData) != desc)
      die("ImmediateData of a send was changed", 0);
    w->idle[w->nidle++] = (int)desc->CS.ImmediateData;
  } else if (desc->CS.ImmediateData != 0) {
    die("ImmediateData of a receive was changed", (int)desc->CS.ImmediateData);
  }
  return desc;
}

/* A free send buffer, waiting if need be; NULL: the connection is over. */
static VIP_DESCRIPTOR *free_buffer(worker_t *w) {
  VIP_DESCRIPTOR *desc;
  VIP_RETURN code;

  while (w->nidle == 0) {
    while ((code = vip.send_done(w->vi, &desc)) == VIP_NOT_DONE) continue;
    if (code != VIP_SUCCESS) return NULL;
    w->idle[w->nidle++] = (int)desc->CS.ImmediateData; /* its entry in the CQ stays there */
  }
  return buffer(w, w->idle[--w->nidle]);
}

static void send_buffer(worker_t *w, VIP_DESCRIPTOR *desc) {
  prepare(w, desc, sizeof(header_t) + header(desc)->bytes);
  desc->CS.ImmediateData = (VIP_UINT32)(((char *)desc - w->memory) / (long)stride);
  check(vip.post_send(w->vi, desc, w->mem), "VipPostSend");
}

/* ------------------------------------------------------------------ the server */

static void wait_for_client(worker_t *w) {
  address_t local, remote;
  VIP_VI_ATTRIBUTES attr;
  VIP_CONN_HANDLE conn;
  VIP_RETURN code;

  local_address(&local, w->index);
  for (;;) {
    code = vip.connect_wait(nic, &local.a, RETRY_MSEC, &remote.a, &attr, &conn);
    if (code == VIP_SUCCESS) code = vip.connect_accept(conn, w->vi);
    if (code == VIP_SUCCESS) return;
    if (code != VIP_TIMEOUT && code != VIP_ERROR_RESOURCE) check(code, "VipConnectWait or Accept");
    ++w->retries;
  }
}

static int answer(worker_t *w, VIP_DESCRIPTOR *desc) {
  header_t head = *header(desc);
  VIP_DESCRIPTOR *reply;

  if (desc->CS.Length != sizeof(header_t) + head.bytes || head.block >= BLOCKS)
    die("a bad request", (int)desc->CS.Length);
  if (head.op == OP_WRITE) memcpy(w->disk + head.block * block_bytes, data(desc), head.bytes);
  post_receive(w, desc);
  reply = free_buffer(w);
  if (reply == NULL) return 0;
  *header(reply) = head;
  header(reply)->bytes = 0;
  if (head.op == OP_READ) {
    header(reply)->bytes = (VIP_UINT32)block_bytes;
    memcpy(data(reply), w->disk + head.block * block_bytes, block_bytes);
  }
  send_buffer(w, reply);
  ++w->requests;
  return 1;
}

static void *server(void *argument) {
  worker_t *w = (worker_t *)argument;
  VIP_DESCRIPTOR *desc;
  VIP_BOOLEAN is_recv;
  int round, quiet;

  w->disk = (char *)calloc(BLOCKS, block_bytes);
  if (w->disk == NULL) die("no memory", 0);
  for (round = 0; round < rounds; ++round) {
    make_vi(w);
    wait_for_client(w);
    for (quiet = 0;;) {
      desc = next(w, quiet > 100 ? RETRY_MSEC : 0, &is_recv);
      if (desc == NULL) {
        ++quiet;
        if (!connected(w)) break;
        continue;
      }
      quiet = 0;
      if (is_recv == VIP_TRUE && !answer(w, desc)) break;
    }
    drop_vi(w);
  }
  free(w->disk);
  return NULL;
}

/* ------------------------------------------------------------------ the client */

static void connect_client(worker_t *w) {
  address_t local, remote;
  VIP_VI_ATTRIBUTES attr;
  VIP_RETURN code;
  int tries;

  local_address(&local, w->index);
  memset(&remote, 0, sizeof(remote));
  check(vip.ns_init(nic, NULL), "VipNSInit");
  check(vip.ns_name(nic, server_name, &remote.a, 0), "VipNSGetHostByName");
  set_address(&remote.a, w->index);
  for (tries = 1;; ++tries) {
    code = vip.connect_request(w->vi, &local.a, &remote.a, RETRY_MSEC, &attr);
    if (code == VIP_SUCCESS) return;
    if (tries == MAX_TRIES) check(code, "VipConnectRequest, many times");
    if (code != VIP_TIMEOUT && code != VIP_NO_MATCH && code != VIP_ERROR_RESOURCE &&
        code != VIP_REJECT)
      check(code, "VipConnectRequest");
    ++w->retries;
    if (tries % 5 == 0) {
      drop_after_failure(w);
      make_vi(w);
    }
  }
}

static VIP_UINT32 word(worker_t *w, VIP_UINT32 block, VIP_UINT32 version, unsigned long i) {
  if (version == 0) return 0; /* never written */
  return (VIP_UINT32)w->index * 7919u + block * 104729u + version * 31u +
         (VIP_UINT32)i * 2654435761u;
}

static void fill(worker_t *w, char *to, VIP_UINT32 block, VIP_UINT32 version) {
  unsigned long i;
  VIP_UINT32 value;

  for (i = 0; i < block_bytes / sizeof(value); ++i) {
    value = word(w, block, version, i);
    memcpy(to + i * sizeof(value), &value, sizeof(value));
  }
}

static void verify(worker_t *w, const char *from, VIP_UINT32 block, VIP_UINT32 version) {
  unsigned long i;
  VIP_UINT32 value;

  for (i = 0; i < block_bytes / sizeof(value); ++i) {
    memcpy(&value, from + i * sizeof(value), sizeof(value));
    if (value != word(w, block, version, i))
      die("a block is not what was written to it", (int)block);
  }
}

static void send_request(worker_t *w, VIP_UINT32 number, unsigned *seed) {
  VIP_DESCRIPTOR *desc = free_buffer(w);
  header_t *head;
  VIP_UINT32 block;

  if (desc == NULL) die("the connection is lost", w->index);
  *seed = *seed * 1103515245u + 12345u;
  block = (*seed >> 8) % BLOCKS;
  while (w->busy[block]) block = (block + 1) % BLOCKS;
  head = header(desc);
  head->op = (*seed >> 20) % 3 == 0 ? OP_WRITE : OP_READ;
  head->block = block;
  head->number = number;
  head->bytes = 0;
  w->busy[block] = number + 1;
  w->started[block] = now();
  if (head->op == OP_WRITE) {
    w->pending_version[block] = w->version[block] + 1;
    fill(w, data(desc), block, w->pending_version[block]);
    head->bytes = (VIP_UINT32)block_bytes;
  }
  send_buffer(w, desc);
}

static void take_reply(worker_t *w, VIP_DESCRIPTOR *desc) {
  header_t head = *header(desc);
  double took;

  if (desc->CS.Length != sizeof(header_t) + head.bytes || head.block >= BLOCKS ||
      w->busy[head.block] != head.number + 1)
    die("a bad reply", (int)desc->CS.Length);
  if (head.op == OP_WRITE) {
    w->version[head.block] = w->pending_version[head.block];
  } else {
    if (head.bytes != block_bytes) die("a short block", (int)head.bytes);
    verify(w, data(desc), head.block, w->version[head.block]);
  }
  w->busy[head.block] = 0;
  took = now() - w->started[head.block];
  w->latency += took;
  if (took > w->worst) w->worst = took;
  ++w->requests;
  w->bytes += block_bytes;
  post_receive(w, desc);
}

static void *client(void *argument) {
  worker_t *w = (worker_t *)argument;
  unsigned seed = (unsigned)w->index + 1;
  VIP_DESCRIPTOR *desc;
  VIP_BOOLEAN is_recv;
  VIP_UINT32 number;
  unsigned long sent, done;
  double start;
  int round;

  for (round = 0; round < rounds; ++round) {
    make_vi(w);
    connect_client(w);
    if (w->index == 0 && round == 0) {
      printf("loadgen: connected\n");
      fflush(stdout);
    }
    start = now();
    for (sent = done = 0, number = 0; done < requests;) {
      while (sent < requests && sent - done < (unsigned long)queue) {
        send_request(w, number++, &seed);
        ++sent;
      }
      desc = next(w, FOREVER, &is_recv);
      if (desc == NULL) die("the connection is lost", w->index);
      if (is_recv == VIP_TRUE) {
        take_reply(w, desc);
        ++done;
      }
    }
    w->seconds += now() - start;
    drop_vi(w);
  }
  return NULL;
}

/* ------------------------------------------------------------------ the program */

static void make_worker(worker_t *w, int index) {
  VIP_MEM_ATTRIBUTES attr;
  size_t bytes = 2 * (size_t)queue * stride;

  memset(w, 0, sizeof(*w));
  w->index = index;
  w->memory = (char *)malloc(bytes + VIP_DESCRIPTOR_ALIGNMENT);
  if (w->memory == NULL) die("no memory", 0);
  w->memory += VIP_DESCRIPTOR_ALIGNMENT - (size_t)w->memory % VIP_DESCRIPTOR_ALIGNMENT;
  memset(w->memory, 0, bytes);
  check(vip.create_ptag(nic, &w->ptag), "VipCreatePtag");
  memset(&attr, 0, sizeof(attr));
  attr.Ptag = w->ptag;
  check(vip.register_mem(nic, w->memory, bytes, &attr, &w->mem), "VipRegisterMem");
}

static void report(int is_server) {
  unsigned long done = 0, retries = 0, bytes = 0;
  double latency = 0, worst = 0, seconds = 0;
  int i;

  for (i = 0; i < nworkers; ++i) {
    done += workers[i].requests;
    retries += workers[i].retries;
    bytes += workers[i].bytes;
    latency += workers[i].latency;
    if (workers[i].worst > worst) worst = workers[i].worst;
    if (workers[i].seconds > seconds) seconds = workers[i].seconds;
  }
  if (done != requests * (unsigned long)(nworkers * rounds)) die("requests are missing", (int)done);
  if (is_server)
    printf("loadgen: answered %lu requests, %lu waits repeated\n", done, retries);
  else
    printf(
        "loadgen: %lu requests, %.0f a second, %.1f MB/s, %.0f us each, %.0f us at worst; "
        "%lu connects repeated\n",
        done, (double)done / seconds, (double)bytes / seconds / 1e6, latency / (double)done * 1e6,
        worst * 1e6, retries);
}

static void usage(void) {
  fprintf(stderr,
          "usage: loadgen -S|-L|SERVER [-d DEVICE] [-w WORKERS] [-r ROUNDS] [-q REQUESTS]\n"
          "               [-b BYTES] [-n NUMBER]\n");
  exit(2);
}

int main(int argc, char **argv) {
  const char *device = NULL;
  int is_server = 0, list = 0, i;

  for (i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "-S") == 0) {
      is_server = 1;
    } else if (strcmp(argv[i], "-L") == 0) {
      list = 1;
    } else if (argv[i][0] != '-') {
      server_name = argv[i];
    } else {
      if (i + 1 == argc) usage();
      switch (argv[i][1]) {
        case 'd':
          device = argv[++i];
          break;
        case 'w':
          nworkers = atoi(argv[++i]);
          break;
        case 'r':
          rounds = atoi(argv[++i]);
          break;
        case 'q':
          queue = atoi(argv[++i]);
          break;
        case 'b':
          block_bytes = strtoul(argv[++i], NULL, 10) / 4 * 4;
          break;
        case 'n':
          requests = strtoul(argv[++i], NULL, 10);
          break;
        default:
          usage();
      }
    }
  }
  if (list + is_server + (server_name != NULL) != 1 || nworkers < 1 || nworkers > MAX_WORKERS ||
      queue < 1 || queue > BLOCKS / 2 || rounds < 1 || requests < 1 || block_bytes < 4)
    usage();

  load_library();
  if (list) return probe(NULL, 1) > 0 ? 0 : 1;
  if (device != NULL) {
    if (!open_name(device, &nic)) die("the device can't be opened", 0);
  } else if (probe(&nic, 0) == 0) {
    die("there is no NIC", 0);
  }
  check(vip.query_nic(nic, &nic_attr), "VipQueryNic");
  if (block_bytes + sizeof(header_t) > nic_attr.MaxTransferSize) die("-b is too much", 0);
  stride =
      (sizeof(VIP_DESCRIPTOR) + sizeof(header_t) + block_bytes + VIP_DESCRIPTOR_ALIGNMENT - 1) /
      VIP_DESCRIPTOR_ALIGNMENT * VIP_DESCRIPTOR_ALIGNMENT;

  for (i = 0; i < nworkers; ++i) make_worker(&workers[i], i);
  for (i = 0; i < nworkers; ++i) {
    if (pthread_create(&workers[i].thread, NULL, is_server ? server : client, &workers[i]) != 0)
      die("pthread_create", i);
  }
  for (i = 0; i < nworkers; ++i) pthread_join(workers[i].thread, NULL);
  for (i = 0; i < nworkers; ++i) {
    check(vip.deregister_mem(nic, workers[i].memory, workers[i].mem), "VipDeregisterMem");
    check(vip.destroy_ptag(nic, workers[i].ptag), "VipDestroyPtag");
  }
  check(vip.ns_shutdown(nic), "VipNSShutdown");
  check(vip.close_nic(nic), "VipCloseNic");
  report(is_server);
  return 0;
}
