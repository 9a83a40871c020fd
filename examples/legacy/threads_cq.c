/* threads_cq: several processes sort numbers together, each of them owns a range.
 *
 *   on every host:  threads_cq JOB RANK HOST0 HOST1 ... [-k KEYS] [-b NICBASE]
 *
 * JOB is any short word, the same everywhere; RANK counts from 0 and HOSTi is where process i runs;
 * a host may appear more than once. Each process draws KEYS numbers, sends each to its owner, and
 * sorts what it gets. Beneath is a message layer: a connection is made when something is first
 * sent, a thread waits for connections, a thread waits for completions, and the completion queue
 * grows with every connection. Habits of its family: Control and Data without any macro,
 * descriptors in steps of 64 bytes with a free list in Next, addresses of 6 bytes of which those of
 * the own host are left as they are, the name service started for every connection, user data of
 * VIs, tables of texts indexed by all kinds of codes, a list of closed VIs for late errors, the
 * connection thread killed in the middle of its wait and the queue destroyed under the other
 * thread's feet.
 */
#define _XOPEN_SOURCE 500
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <vipl.h>

#define MAX_RANKS 16
#define ADDR_LEN 6
#define ADDR_ROOM 40
#define WAIT_MSEC 10000
#define CQ_FIRST 64
#define CQ_GROWTH 32
#define WINDOW 32 /* messages of a connection that may be under way */
#define CREDIT_BATCH 16
#define CREDIT_RECEIVES 4
#define SEND_SLOTS 8
#define STEP 64 /* from a descriptor to its data */
#define PAYLOAD 8192
#define SLOT_BYTES (STEP + STEP + PAYLOAD) /* descriptor, head, data */
#define KEY_RANGE 1000000

enum { MSG_KEYS, MSG_END, MSG_RESULT, MSG_DONE, MSG_BYE, MSG_EXIT, MSG_KINDS };

static const char *const return_text[] = {
    "success",       "not done",         "invalid parameter", "out of resources", "timeout",
    "rejected",      "bad reliability",  "bad MTU",           "bad QoS",          "bad tag",
    "bad RDMA read", "descriptor error", "bad state",         "name service",     "no match",
    "not reachable", "not supported"};
static const char *const error_text[] = {"post",
                                         "connection lost",
                                         "receive queue empty",
                                         "VI overrun",
                                         "RDMA write protection",
                                         "RDMA data",
                                         "RDMA abort",
                                         "RDMA read",
                                         "completion protection",
                                         "RDMA transport",
                                         "catastrophic"};
static const char *const resource_text[] = {"NIC", "VI", "CQ", "descriptor"};
static const char *const status_text[] = {"done",    "format",    "protection", "length", "partial",
                                          "flushed", "transport", "RDMA",       "remote"};

typedef struct {
  int from;
  int kind;
  int bytes;
  int number; /* of the message on its connection, from 0 */
} head_type;

/* One connection: messages one way, credits the other way. */
typedef struct conn {
  VIP_VI_HANDLE vi;
  struct conn *next;
  pthread_mutex_t lock;
  pthread_cond_t more;
  int outgoing;
  int peer;
  int credits; /* outgoing: messages that may be sent; else: credits to be given back */
  int number;  /* of the next message */
  char *slab;  /* slots */
  VIP_MEM_HANDLE mem;
  VIP_DESCRIPTOR *free_list;
} conn_type;

static VIP_VI_ATTRIBUTES vi_default = {
    VIP_SERVICE_RELIABLE_DELIVERY, 32768, NULL, NULL, VIP_FALSE, VIP_FALSE};

static VIP_NIC_HANDLE nic;
static VIP_CQ_HANDLE cq;
static VIP_ULONG cq_size = CQ_FIRST;
static VIP_PROTECTION_HANDLE const no_tag = NULL;
static int rank, nranks, nkeys = 100000;
static const char *job;
static char *hosts[MAX_RANKS];
static conn_type *outgoing[MAX_RANKS];

static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_mutex_t work_lock = PTHREAD_MUTEX_INITIALIZER; /* completions and closing */
static conn_type *all_conns;
static VIP_VI_HANDLE closed[4 * MAX_RANKS];
static int nclosed;
static unsigned long events, late_events;

/* Counts of received messages, for the main thread. */
static pthread_mutex_t state_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t state_cond = PTHREAD_COND_INITIALIZER;
static int seen[MSG_KINDS];
static int job_over;
static int *keys;
static unsigned long nowned, owned_room, result_count, result_sum;

/* ------------------------------------------------------------------ saying what went wrong */

static const char *code_name(VIP_RETURN code) {
  if (code <= VIP_ERROR_NOT_SUPPORTED) return return_text[code];
  return "?";
}

static void die(const char *what) {
  fprintf(stderr, "threads_cq %d: %s\n", rank, what);
  fflush(stderr);
  _exit(1);
}

static void check(VIP_RETURN code, const char *call) {
  if (code == VIP_SUCCESS) return;
  fprintf(stderr, "threads_cq %d: %s: %s\n", rank, call, code_name(code));
  fflush(stderr);
  _exit(1);
}

static void print_status(VIP_DESCRIPTOR *desc) {
  int bit;

  fprintf(stderr, "threads_cq %d: status 0x%x:", rank, (unsigned)desc->Control.Status);
  if (!(desc->Control.Status & VIP_STATUS_DONE)) fprintf(stderr, " NOT DONE");
  for (bit = 0; bit < 9; ++bit) {
    if (desc->Control.Status & (1u << bit)) fprintf(stderr, " %s", status_text[bit]);
  }
  fprintf(stderr, "\n");
}

/* Errors of VIs that we have closed ourselves, and of processes that leave after the job. */
static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error) {
  int i, late;

  if (context != (VIP_PVOID)&nic) die("a foreign context");
  pthread_mutex_lock(&state_lock);
  late = job_over;
  pthread_mutex_unlock(&state_lock);
  pthread_mutex_lock(&list_lock);
  for (i = 0; i < nclosed; ++i) {
    if (error->ResourceCode == VIP_RESOURCE_VI && closed[i] == error->ViHandle) late = 1;
  }
  if (late) ++late_events;
  pthread_mutex_unlock(&list_lock);
  if (late && error->ErrorCode == VIP_ERROR_CONN_LOST) return;
  fprintf(stderr, "threads_cq %d: error: %s of %s\n", rank, error_text[error->ErrorCode],
          resource_text[error->ResourceCode]);
  fflush(stderr);
  _exit(1);
}

/* ------------------------------------------------------------------ connections */

static VIP_DESCRIPTOR *slot(conn_type *conn, int i) {
  return (VIP_DESCRIPTOR *)(void *)(conn->slab + (size_t)i * SLOT_BYTES);
}

static void post_receive(conn_type *conn, VIP_DESCRIPTOR *desc, int bytes) {
  desc->Control.Control = VIP_CONTROL_OP_SENDRECV;
  desc->Control.SegCount = (VIP_UINT16)(bytes > 0 ? 1 : 0);
  desc->Control.Length = (VIP_UINT32)bytes;
  desc->Data[0].Data.Address = (char *)desc + STEP;
  desc->Data[0].Handle = conn->mem;
  desc->Data[0].Length = (VIP_UINT32)bytes;
  check(VipPostRecv(conn->vi, desc, conn->mem), "VipPostRecv");
}

static void give_back(conn_type *conn, VIP_DESCRIPTOR *desc) {
  desc->Control.Next.Address = conn->free_list;
  conn->free_list = desc;
}

/* A VI with everything posted, in the list, and room for its completions in the CQ. */
static conn_type *make_conn(int is_outgoing, int peer) {
  conn_type *conn = (conn_type *)malloc(sizeof(conn_type));
  int receives = is_outgoing ? CREDIT_RECEIVES : WINDOW;
  int sends = is_outgoing ? SEND_SLOTS : 4, i;
  size_t bytes = (size_t)(receives + sends) * SLOT_BYTES;
  char *memory = (char *)malloc(bytes + STEP);

  if (conn == NULL || memory == NULL) die("no memory");
  memset(conn, 0, sizeof(*conn));
  conn->slab = memory + STEP - (size_t)memory % STEP;
  memset(conn->slab, 0, bytes);
  pthread_mutex_init(&conn->lock, NULL);
  pthread_cond_init(&conn->more, NULL);
  conn->outgoing = is_outgoing;
  conn->peer = peer;
  conn->credits = is_outgoing ? WINDOW : 0;
  check(VipRegisterMem(nic, conn->slab, bytes, NULL, &conn->mem), "VipRegisterMem");
  vi_default.Ptag = no_tag;
  check(VipCreateVi(nic, &vi_default, NULL, cq, &conn->vi), "VipCreateVi");
  for (i = 0; i < receives; ++i)
    post_receive(conn, slot(conn, i), is_outgoing ? 0 : STEP + PAYLOAD);
  for (i = receives; i < receives + sends; ++i) give_back(conn, slot(conn, i));

  pthread_mutex_lock(&list_lock);
  conn->next = all_conns;
  all_conns = conn;
  cq_size += CQ_GROWTH;
  check(VipResizeCQ(cq, cq_size), "VipResizeCQ");
  pthread_mutex_unlock(&list_lock);
  return conn;
}

/* "JOB-RANK", both for the one that asks and the one that waits. */
static void set_name(VIP_NET_ADDRESS *address, int of) {
  char name[64];

  sprintf(name, "%.10s-%d", job, of);
  address->DiscriminatorLen = (VIP_UINT16)strlen(name);
  memcpy(address->HostAddress + ADDR_LEN, name, strlen(name));
}

static conn_type *connect_to(int peer) {
  VIP_UINT32 local_room[ADDR_ROOM / 4], remote_room[ADDR_ROOM / 4];
  VIP_NET_ADDRESS *local = (VIP_NET_ADDRESS *)local_room;
  VIP_NET_ADDRESS *remote = (VIP_NET_ADDRESS *)remote_room;
  VIP_VI_ATTRIBUTES theirs;
  conn_type *conn = make_conn(1, peer);

  check(VipNSInit(nic, NULL), "VipNSInit");
  check(VipNSGetHostByName(nic, hosts[peer], remote, 0), "VipNSGetHostByName");
  if (remote->HostAddressLen != ADDR_LEN) die("host addresses are not of 6 bytes");
  set_name(remote, peer);
  local->HostAddressLen = ADDR_LEN; /* the bytes stay as they are */
  set_name(local, peer);
  check(VipConnectRequest(conn->vi, local, remote, WAIT_MSEC, &theirs), "VipConnectRequest");
  VipSetUserData(conn->vi, conn);
  printf("threads_cq %d: connected to %d\n", rank, peer);
  fflush(stdout);
  return conn;
}

/* The connection thread. It never ends by itself. */
static void *accept_all(void *unused) {
  VIP_UINT32 local_room[ADDR_ROOM / 4], remote_room[ADDR_ROOM / 4];
  VIP_NET_ADDRESS *local = (VIP_NET_ADDRESS *)local_room;
  VIP_NET_ADDRESS *remote = (VIP_NET_ADDRESS *)remote_room;
  VIP_VI_ATTRIBUTES theirs;
  VIP_CONN_HANDLE request;
  VIP_RETURN code;
  conn_type *conn;
  int old;

  (void)unused;
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, &old);
  for (;;) {
    conn = make_conn(0, -1);
    local->HostAddressLen = ADDR_LEN;
    set_name(local, rank);
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
    code = VipConnectWait(nic, local, VIP_INFINITE, remote, &theirs, &request);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
    check(code, "VipConnectWait");
    if (remote->HostAddressLen != ADDR_LEN || remote->DiscriminatorLen != local->DiscriminatorLen)
      die("the asker's address");
    check(VipConnectAccept(request, conn->vi), "VipConnectAccept");
    VipSetUserData(conn->vi, conn); /* completions may have come before this */
  }
  return NULL;
}

/* ------------------------------------------------------------------ completions */

static conn_type *conn_of(VIP_VI_HANDLE vi) {
  conn_type *conn = (conn_type *)VipGetUserData(vi);

  if (conn != NULL) {
    if (conn->vi != vi) die("user data of another VI");
    return conn;
  }
  pthread_mutex_lock(&list_lock);
  for (conn = all_conns; conn != NULL && conn->vi != vi; conn = conn->next) continue;
  pthread_mutex_unlock(&list_lock);
  if (conn == NULL) die("the CQ names an unknown VI");
  return conn;
}

static int is_closed(VIP_VI_HANDLE vi) {
  int i, found = 0;

  pthread_mutex_lock(&list_lock);
  for (i = 0; i < nclosed; ++i) {
    if (closed[i] == vi) found = 1;
  }
  pthread_mutex_unlock(&list_lock);
  return found;
}

static int is_over(void) {
  int over;

  pthread_mutex_lock(&state_lock);
  over = job_over;
  pthread_mutex_unlock(&state_lock);
  return over;
}

static void take_keys(const char *data, int bytes) {
  unsigned long n = (unsigned long)bytes / sizeof(int);

  pthread_mutex_lock(&state_lock);
  if (nowned + n > owned_room) {
    owned_room = (nowned + n) * 2;
    keys = (int *)realloc(keys, owned_room * sizeof(int));
    if (keys == NULL) die("no memory");
  }
  memcpy(keys + nowned, data, (size_t)bytes);
  nowned += n;
  pthread_mutex_unlock(&state_lock);
}

static void take_message(const head_type *head, const char *data) {
  unsigned long part[2];

  if (head->kind < 0 || head->kind >= MSG_KINDS) die("an unknown kind of message");
  if (head->kind == MSG_KEYS) {
    take_keys(data, head->bytes);
    return;
  }
  pthread_mutex_lock(&state_lock);
  ++seen[head->kind];
  if (head->kind == MSG_RESULT) {
    memcpy(part, data, sizeof(part));
    result_count += part[0];
    result_sum += part[1];
  }
  if (head->kind == MSG_DONE) job_over = 1;
  pthread_cond_broadcast(&state_cond);
  pthread_mutex_unlock(&state_lock);
}

/* A message without data; the number in it says how many more may be sent. */
static void send_credits(conn_type *conn) {
  VIP_DESCRIPTOR *desc;

  while (VipSendDone(conn->vi, &desc), desc != NULL) give_back(conn, desc);
  while (conn->free_list == NULL) {
    check(VipSendWait(conn->vi, WAIT_MSEC, &desc), "VipSendWait (credits)");
    give_back(conn, desc);
  }
  desc = conn->free_list;
  conn->free_list = (VIP_DESCRIPTOR *)desc->Control.Next.Address;
  desc->Control.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
  desc->Control.SegCount = 0;
  desc->Control.Length = 0;
  desc->Control.ImmediateData = (VIP_UINT32)conn->credits;
  check(VipPostSend(conn->vi, desc, conn->mem), "VipPostSend (credits)");
  conn->credits = 0;
}

static void completed(conn_type *conn, VIP_DESCRIPTOR *desc) {
  head_type head;
  char *data = (char *)desc + STEP;

  if (conn->outgoing) {
    pthread_mutex_lock(&conn->lock);
    conn->credits += (int)desc->Control.ImmediateData;
    pthread_cond_signal(&conn->more);
    pthread_mutex_unlock(&conn->lock);
    post_receive(conn, desc, 0);
    return;
  }
  memcpy(&head, data, sizeof(head));
  if (desc->Control.Length != (VIP_UINT32)(STEP + head.bytes)) die("length of a message");
  if (conn->peer < 0) conn->peer = head.from;
  if (conn->peer != head.from) die("a message from somebody else");
  if (head.number != conn->number++) die("messages out of order");
  take_message(&head, data + STEP);
  post_receive(conn, desc, STEP + PAYLOAD);
  if (++conn->credits >= CREDIT_BATCH) send_credits(conn);
}

/* All that a VI has; later entries for it may then find nothing. */
static void take_all(conn_type *conn) {
  VIP_DESCRIPTOR *desc;
  VIP_RETURN code;

  for (;;) {
    code = VipRecvDone(conn->vi, &desc);
    if (desc == NULL) return;
    if (code == VIP_SUCCESS) {
      completed(conn, desc);
    } else if (!is_over()) {
      print_status(desc);
      die("a receive went wrong");
    }
  }
}

/* The completion thread. */
static void *complete_all(void *unused) {
  VIP_VI_HANDLE vi;
  VIP_BOOLEAN is_recv;
  VIP_RETURN code;

  (void)unused;
  for (;;) {
    code = VipCQWait(cq, VIP_INFINITE, &vi, &is_recv);
    if (code == VIP_TIMEOUT) continue;
    if (code != VIP_SUCCESS) break; /* the queue is no more */
    ++events;
    if (is_recv != VIP_TRUE) die("a send queue in the CQ");
    pthread_mutex_lock(&work_lock);
    if (!is_closed(vi)) take_all(conn_of(vi));
    pthread_mutex_unlock(&work_lock);
  }
  if (!is_over()) check(code, "VipCQWait");
  return NULL;
}

/* ------------------------------------------------------------------ messages */

static void send_to(int peer, int kind, const void *data, int bytes) {
  VIP_DESCRIPTOR *desc;
  head_type head;
  conn_type *conn;
  VIP_RETURN code;

  head.from = rank;
  head.kind = kind;
  head.bytes = bytes;
  if (peer == rank) {
    take_message(&head, (const char *)data);
    return;
  }
  if (outgoing[peer] == NULL) outgoing[peer] = connect_to(peer);
  conn = outgoing[peer];
  pthread_mutex_lock(&conn->lock);
  while (conn->credits == 0) pthread_cond_wait(&conn->more, &conn->lock);
  --conn->credits;
  while (conn->free_list == NULL) {
    code = VipSendWait(conn->vi, WAIT_MSEC, &desc);
    if (code == VIP_DESCRIPTOR_ERROR && desc != NULL) print_status(desc);
    check(code, "VipSendWait");
    give_back(conn, desc);
  }
  desc = conn->free_list;
  conn->free_list = (VIP_DESCRIPTOR *)desc->Control.Next.Address;
  head.number = conn->number++;
  memcpy((char *)desc + STEP, &head, sizeof(head));
  if (bytes > 0) memcpy((char *)desc + STEP + STEP, data, (size_t)bytes);
  desc->Control.Control = VIP_CONTROL_OP_SENDRECV;
  desc->Control.SegCount = 1;
  desc->Control.Length = (VIP_UINT32)(STEP + bytes);
  desc->Data[0].Data.Address = (char *)desc + STEP;
  desc->Data[0].Handle = conn->mem;
  desc->Data[0].Length = (VIP_UINT32)(STEP + bytes);
  check(VipPostSend(conn->vi, desc, conn->mem), "VipPostSend");
  pthread_mutex_unlock(&conn->lock);
}

static void send_to_others(int kind) {
  int i;

  for (i = 1; i < nranks; ++i) send_to((rank + i) % nranks, kind, NULL, 0);
}

static void await(int kind, int count) {
  pthread_mutex_lock(&state_lock);
  while (seen[kind] < count) pthread_cond_wait(&state_cond, &state_lock);
  pthread_mutex_unlock(&state_lock);
}

/* All sends have left: then a VI may be closed. */
static void close_conn(conn_type *conn) {
  VIP_DESCRIPTOR *desc;
  VIP_RETURN code;

  while ((code = VipSendWait(conn->vi, WAIT_MSEC, &desc)) == VIP_SUCCESS) continue;
  if (desc == NULL && code != VIP_DESCRIPTOR_ERROR) check(code, "VipSendWait (last)");
  pthread_mutex_lock(&work_lock);
  pthread_mutex_lock(&list_lock);
  closed[nclosed++] = conn->vi;
  pthread_mutex_unlock(&list_lock);
  check(VipDisconnect(conn->vi), "VipDisconnect");
  do {
    VipRecvDone(conn->vi, &desc);
  } while (desc != NULL);
  check(VipDestroyVi(conn->vi), "VipDestroyVi");
  pthread_mutex_unlock(&work_lock);
}

/* ------------------------------------------------------------------ the program */

static int compare(const void *a, const void *b) {
  int x = *(const int *)a, y = *(const int *)b;

  return x < y ? -1 : x > y;
}

static int owner(int key) { return (int)((long)key * nranks / KEY_RANGE); }

static unsigned long sort_keys(void) {
  int *bucket[MAX_RANKS], fill[MAX_RANKS], i, to, key, most = PAYLOAD / (int)sizeof(int);
  unsigned long sum = 0, part[2], j;
  unsigned long seed = 12345 + (unsigned long)rank;

  for (i = 0; i < nranks; ++i) {
    bucket[i] = (int *)malloc(PAYLOAD);
    if (bucket[i] == NULL) die("no memory");
    fill[i] = 0;
  }
  for (i = 0; i < nkeys; ++i) {
    seed = (seed * 1103515245ul + 12345ul) & 0x7ffffffful;
    key = (int)((seed >> 4) % KEY_RANGE);
    sum += (unsigned long)key;
    to = owner(key);
    bucket[to][fill[to]++] = key;
    if (fill[to] == most) {
      send_to(to, MSG_KEYS, bucket[to], PAYLOAD);
      fill[to] = 0;
    }
  }
  for (i = 0; i < nranks; ++i) {
    if (fill[i] > 0) send_to(i, MSG_KEYS, bucket[i], fill[i] * (int)sizeof(int));
    free(bucket[i]);
  }
  send_to_others(MSG_END);
  await(MSG_END, nranks - 1);

  qsort(keys, nowned, sizeof(int), compare);
  part[0] = nowned;
  part[1] = 0;
  for (j = 0; j < nowned; ++j) {
    if (owner(keys[j]) != rank) die("a key of somebody else");
    if (j > 0 && keys[j] < keys[j - 1]) die("not sorted");
    part[1] += (unsigned long)keys[j];
  }
  send_to(0, MSG_RESULT, part, sizeof(part));
  return sum;
}

/* Keys drawn and received must agree in count and sum. Every process can draw all keys again. */
static void check_results(void) {
  unsigned long sum = 0, seed;
  int i, r;

  await(MSG_RESULT, nranks);
  for (r = 0; r < nranks; ++r) {
    seed = 12345 + (unsigned long)r;
    for (i = 0; i < nkeys; ++i) {
      seed = (seed * 1103515245ul + 12345ul) & 0x7ffffffful;
      sum += (seed >> 4) % KEY_RANGE;
    }
  }
  if (result_count != (unsigned long)nkeys * (unsigned long)nranks) die("keys were lost");
  if (result_sum != sum) die("keys were changed");
}

static void usage(void) {
  fprintf(stderr, "usage: threads_cq JOB RANK HOST0 HOST1 ... [-k KEYS] [-b NICBASE]\n");
  exit(2);
}

int main(int argc, char **argv) {
  const char *base = "nic";
  char device[64];
  pthread_t accepting, completing;
  conn_type *conn;
  void *result;
  int i, n = 0;

  for (i = 1; i < argc; ++i) {
    if (argv[i][0] == '-' && i + 1 < argc) {
      if (argv[i][1] == 'k')
        nkeys = atoi(argv[++i]);
      else if (argv[i][1] == 'b')
        base = argv[++i];
      else
        usage();
    } else if (n++ == 0) {
      job = argv[i];
    } else if (n == 2) {
      rank = atoi(argv[i]);
    } else {
      if (nranks == MAX_RANKS) usage();
      hosts[nranks++] = argv[i];
    }
  }
  if (nranks < 2 || rank < 0 || rank >= nranks || nkeys < 0 || strlen(base) > 32) usage();

  sprintf(device, "%s%d", base, 0);
  if (VipOpenNic(device, &nic) != VIP_SUCCESS && VipOpenNic(base, &nic) != VIP_SUCCESS)
    die("the NIC can't be opened");
  check(VipErrorCallback(nic, &nic, on_error), "VipErrorCallback");
  check(VipCreateCQ(nic, CQ_FIRST, &cq), "VipCreateCQ");
  if (pthread_create(&completing, NULL, complete_all, NULL) != 0) die("pthread_create");
  if (pthread_create(&accepting, NULL, accept_all, NULL) != 0) die("pthread_create");

  sort_keys();
  if (rank == 0) {
    check_results();
    pthread_mutex_lock(&state_lock);
    job_over = 1;
    pthread_mutex_unlock(&state_lock);
    send_to_others(MSG_DONE);
    await(MSG_BYE, nranks - 1);
    send_to_others(MSG_EXIT);
  } else {
    await(MSG_DONE, 1);
    send_to(0, MSG_BYE, NULL, 0);
    await(MSG_EXIT, 1);
  }

  pthread_cancel(accepting);
  pthread_join(accepting, &result);
  if (result != PTHREAD_CANCELED) die("the connection thread has ended by itself");
  for (conn = all_conns; conn != NULL; conn = conn->next) close_conn(conn);
  check(VipErrorCallback(nic, NULL, NULL), "VipErrorCallback (NULL)");
  check(VipDestroyCQ(cq), "VipDestroyCQ");
  pthread_join(completing, NULL);
  for (conn = all_conns; conn != NULL; conn = conn->next)
    check(VipDeregisterMem(nic, conn->slab, conn->mem), "VipDeregisterMem");
  check(VipCloseNic(nic), "VipCloseNic");
  printf("threads_cq %d: %lu of %lu keys are mine, CQ of %lu entries, %lu events\n", rank, nowned,
         (unsigned long)nkeys * (unsigned long)nranks, cq_size, events);
  return 0;
}
