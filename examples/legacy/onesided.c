/* onesided: a small one-sided communication library, and a matrix that is transposed with it.
 *
 *   on every host:  onesided RANK HOST0 HOST1 ... [-n ORDER] [-r ROUNDS] [-d DEVICE] [-p]
 *
 * RANK counts from 0 and HOSTi is where process i runs; a host may appear more than once. -p makes
 * the connections symmetrically (VipConnectPeer...), else one side waits and the other asks.
 *
 * Each process shows the others a block of memory. They write it by RDMA; for everything else they
 * send a request to the server thread that lives beside the main thread of each process, and the
 * answer is an RDMA write for whose last word the asker spins. Habits of its family: two handles of
 * one NIC, 0.95 member names, VIs without a protection tag that use memory with one, the same
 * memory registered twice, receives that are posted longer than their region is, discriminators
 * that are a double, no clean-up at the end.
 */
#define _XOPEN_SOURCE 500
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define VIPL095
#include <vipl.h>

#ifndef VIP_ERROR_NOT_SUPPORTED
#define VIP_ERROR_NOT_SUPPORTED -33333
#endif

#define DEVICE "/dev/clanvi0"
#define MAX_PROC 16
#define MAX_NAME 64
#define MAX_MOVE (64 * 1023) /* bytes of one descriptor */
#define MAX_ORDER 512
#define PACKET 4096       /* bytes of data in a request */
#define RECV_LENGTH 65536 /* what receives say that they have room for */
#define DEPTH 4           /* receives of one connection */
#define TICKETS 50
#define RETRY_USEC 10
#define TIMEOUT_MSEC 20000

enum { OP_GET, OP_ACCUMULATE, OP_TICKET, OP_FENCE };

typedef struct {
  int op;
  int from;
  int bytes; /* of the answer, or of the data that follow */
  VIP_MEM_HANDLE reply_handle;
  char *reply;   /* where the answer goes: bytes, then the stamp */
  char *address; /* what is asked for */
  long stamp;
  int apart; /* the stamp comes by a descriptor of its own */
  int unused;
} request_t;

typedef struct {
  VIP_DESCRIPTOR desc;
  request_t head;
  char data[PACKET];
  char pad[64 - (sizeof(request_t) + PACKET) % 64];
} packet_t;

/* A descriptor with a third segment behind its two. */
typedef struct {
  VIP_DESCRIPTOR desc;
  VIP_DESCRIPTOR_SEGMENT third;
  long stamp;
  char pad[64 - sizeof(VIP_DESCRIPTOR_SEGMENT) - sizeof(long)];
} reply_t;

typedef struct {
  VIP_MEM_HANDLE handle;
  int rank;
  char *address;
} hello_t;

typedef struct {
  VIP_NIC_HANDLE handle;
  VIP_PROTECTION_HANDLE ptag;
  VIP_NIC_ATTRIBUTES attr;
} nic_t;

/* The memory that the other processes may write. */
typedef struct {
  volatile long flag[MAX_PROC]; /* last barrier of each process */
  long ticket;
  long sum[MAX_ORDER];
  long cell[1]; /* rows of the matrix, then rows of the result */
} shared_t;

static nic_t ask_nic, serve_nic;
static VIP_CQ_HANDLE serve_cq;
static int me, nproc, peer_style;
static char host_name[MAX_PROC][MAX_NAME];
static VIP_VI_HANDLE ask_vi[MAX_PROC], serve_vi[MAX_PROC];
static hello_t hello[MAX_PROC]; /* what the others have said */

static char *ask_pool, *serve_pool;
static packet_t *ask_packet[MAX_PROC];   /* [0]: a put, [1]: a request, [2..]: receives */
static packet_t *serve_packet[MAX_PROC]; /* receives */
static reply_t *serve_reply[MAX_PROC];
static VIP_MEM_HANDLE ask_pool_mem, serve_pool_mem;

static shared_t *shared;
static unsigned long shared_bytes;
static VIP_MEM_HANDLE shared_mem, shared_source_mem, shared_reply_mem;
static char *answer;
static VIP_MEM_HANDLE answer_mem;
static long next_stamp = 1;
static unsigned long puts_done, gets_done;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int finished; /* from here on any peer may leave */
static pthread_mutex_t ready_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t ready_cond = PTHREAD_COND_INITIALIZER;
static int ready;

static void die(const char *what, int code) {
  fprintf(stderr, "onesided %d: %s: %d\n", me, what, code);
  fflush(stderr);
  _exit(1);
}

static void check(VIP_RETURN code, const char *what) {
  if (code != VIP_SUCCESS) die(what, (int)code);
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error) {
  int over;

  pthread_mutex_lock(&lock);
  over = finished;
  pthread_mutex_unlock(&lock);
  if (over) return;
  fprintf(stderr, "onesided %d: error %d of resource %d on the %s side\n", me,
          (int)error->ErrorCode, (int)error->ResourceCode, (char *)context);
  _exit(1);
}

/* ------------------------------------------------------------------ memory and NICs */

static char *aligned(unsigned long bytes) {
  char *p = (char *)malloc(bytes + VIP_DESCRIPTOR_ALIGNMENT);

  if (p == NULL) die("no memory", 0);
  bzero(p, bytes + VIP_DESCRIPTOR_ALIGNMENT);
  return p + (VIP_DESCRIPTOR_ALIGNMENT - (unsigned long)p % VIP_DESCRIPTOR_ALIGNMENT);
}

static void open_nic(nic_t *nic, const char *device, char *side) {
  VIP_RETURN code = VipOpenNic(device, &nic->handle);

  if (code != VIP_SUCCESS) {
    fprintf(stderr, "onesided %d: %s can't be opened: %d\n", me, device, (int)code);
    exit(1);
  }
  check(VipErrorCallback(nic->handle, side, on_error), "VipErrorCallback");
  check(VipQueryNic(nic->handle, &nic->attr), "VipQueryNic");
  check(VipCreatePtag(nic->handle, &nic->ptag), "VipCreatePtag");
  if (nic->attr.MaxTransferSize < MAX_MOVE) die("MaxTransferSize", (int)nic->attr.MaxTransferSize);
}

static VIP_MEM_HANDLE pin(nic_t *nic, void *address, unsigned long bytes, int writable) {
  VIP_MEM_ATTRIBUTES attr;
  VIP_MEM_HANDLE handle = 0;

  bzero(&attr, sizeof(attr));
  attr.Ptag = nic->ptag;
  attr.EnableRdmaWrite = writable ? VIP_TRUE : VIP_FALSE;
  check(VipRegisterMem(nic->handle, address, bytes, &attr, &handle), "VipRegisterMem");
  if (handle == 0) die("null memory handle", 0);
  return handle;
}

static void make_vi(nic_t *nic, VIP_CQ_HANDLE cq, VIP_VI_HANDLE *vi) {
  VIP_VI_ATTRIBUTES attr;

  bzero(&attr, sizeof(attr)); /* no tag */
  attr.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  attr.MaxTransferSize = nic->attr.MaxTransferSize;
  attr.EnableRdmaWrite = VIP_TRUE;
  check(VipCreateVi(nic->handle, &attr, NULL, cq, vi), "VipCreateVi");
}

static void post_receive(VIP_VI_HANDLE vi, packet_t *packet, VIP_MEM_HANDLE mem) {
  packet->desc.CS.Control = VIP_CONTROL_OP_SENDRECV;
  packet->desc.CS.SegCount = 1;
  packet->desc.CS.Length = RECV_LENGTH; /* far beyond the end of the pool for the last ones */
  packet->desc.CS.Status = 0;
  packet->desc.DS[0].Local.Data.Address = &packet->head;
  packet->desc.DS[0].Local.Handle = mem;
  packet->desc.DS[0].Local.Length = RECV_LENGTH;
  check(VipPostRecv(vi, &packet->desc, mem), "VipPostRecv");
}

static void make_pools(void) {
  unsigned long bytes = (unsigned long)nproc * (2 + DEPTH) * sizeof(packet_t);
  int p, i;

  ask_pool = aligned(bytes);
  ask_pool_mem = pin(&ask_nic, ask_pool, bytes, 0);
  bytes = (unsigned long)nproc * (DEPTH * sizeof(packet_t) + 2 * sizeof(reply_t));
  serve_pool = aligned(bytes);
  serve_pool_mem = pin(&serve_nic, serve_pool, bytes, 0);
  for (p = 0; p < nproc; ++p) {
    ask_packet[p] = (packet_t *)ask_pool + p * (2 + DEPTH);
    serve_reply[p] = (reply_t *)serve_pool + p * 2;
    serve_packet[p] = (packet_t *)((reply_t *)serve_pool + nproc * 2) + p * DEPTH;
    if (p == me) continue;
    make_vi(&ask_nic, NULL, &ask_vi[p]);
    make_vi(&serve_nic, serve_cq, &serve_vi[p]);
    for (i = 0; i < DEPTH; ++i) {
      post_receive(ask_vi[p], ask_packet[p] + 2 + i, ask_pool_mem);
      post_receive(serve_vi[p], serve_packet[p] + i, serve_pool_mem);
    }
  }
}

/* ------------------------------------------------------------------ connections */

static void set_address(VIP_NET_ADDRESS *address, double number) {
  address->DiscriminatorLen = sizeof(double);
  memcpy(address->HostAddress + address->HostAddressLen, &number, sizeof(double));
}

static void local_address(nic_t *nic, VIP_NET_ADDRESS *address, double number) {
  address->HostAddressLen = nic->attr.NicAddressLen;
  memcpy(address->HostAddress, nic->attr.LocalNicAddress, nic->attr.NicAddressLen);
  set_address(address, number);
}

/* The connection of asker `from` with server `to`; both its ends use this number. */
static double number_of(int from, int to) { return from * 1000.0 + to + 0.5; }

static void look_up(nic_t *nic, int rank, VIP_NET_ADDRESS *address) {
  char name[MAX_NAME], *dot;

  strcpy(name, host_name[rank]);
  dot = strchr(name, '.');
  if (dot != NULL) *dot = '\0'; /* the name service wants short names */
  check(VipNSGetHostByName(nic->handle, name, address, 0), "VipNSGetHostByName");
}

static void check_peer(VIP_VI_ATTRIBUTES *attr) {
  if (!attr->EnableRdmaWrite) die("the peer allows no RDMA writes", 0);
}

static void wait_done(VIP_VI_HANDLE vi, VIP_DESCRIPTOR *expected) {
  VIP_DESCRIPTOR *desc;
  VIP_RETURN code;

  while ((code = VipSendDone(vi, &desc)) == VIP_NOT_DONE) continue;
  check(code, "VipSendDone");
  if (desc != expected) die("another descriptor than the one posted came back", 0);
  if ((desc->CS.Status & VIP_STATUS_ERROR_MASK) != 0) die("status", (int)desc->CS.Status);
}

/* Tells an asker where this process's memory is. */
static void say_hello(int to) {
  reply_t *reply = serve_reply[to];
  hello_t *mine = (hello_t *)&reply->third; /* its third segment is not in use now */

  mine->handle = shared_mem;
  mine->rank = me;
  mine->address = (char *)shared;
  reply->desc.CS.Control = VIP_CONTROL_OP_SENDRECV;
  reply->desc.CS.SegCount = 1;
  reply->desc.CS.Length = sizeof(hello_t);
  reply->desc.DS[0].Local.Data.Address = mine;
  reply->desc.DS[0].Local.Handle = serve_pool_mem;
  reply->desc.DS[0].Local.Length = sizeof(hello_t);
  check(VipPostSend(serve_vi[to], &reply->desc, serve_pool_mem), "VipPostSend (hello)");
  wait_done(serve_vi[to], &reply->desc);
}

static void hear_hello(int from) {
  VIP_DESCRIPTOR *desc;
  VIP_RETURN code;
  packet_t *packet;

  while ((code = VipRecvDone(ask_vi[from], &desc)) == VIP_NOT_DONE) continue;
  check(code, "VipRecvDone (hello)");
  packet = (packet_t *)desc;
  if (packet != ask_packet[from] + 2) die("hello came in another receive", 0);
  if (desc->CS.Length != sizeof(hello_t)) die("length of hello", (int)desc->CS.Length);
  memcpy(&hello[from], &packet->head, sizeof(hello_t));
  if (hello[from].rank != from || hello[from].handle == 0) die("wrong hello", hello[from].rank);
}

static void serve_connections(void) {
  double local_room[5], remote_room[5]; /* 40 bytes each */
  VIP_NET_ADDRESS *local = (VIP_NET_ADDRESS *)local_room;
  VIP_NET_ADDRESS *remote = (VIP_NET_ADDRESS *)remote_room;
  VIP_VI_ATTRIBUTES attr;
  VIP_CONN_HANDLE conn;
  double number;
  int p;

  for (p = 0; p < nproc; ++p) {
    if (p == me) continue;
    if (peer_style) {
      check(VipConnectPeerWait(serve_vi[p], &attr), "VipConnectPeerWait (server)");
    } else {
      bzero(local_room, sizeof(local_room));
      bzero(remote_room, sizeof(remote_room));
      local_address(&serve_nic, local, number_of(p, me));
      check(VipConnectWait(serve_nic.handle, local, VIP_INFINITE, remote, &attr, &conn),
            "VipConnectWait");
      memcpy(&number, remote->HostAddress + remote->HostAddressLen, sizeof(double));
      if (remote->DiscriminatorLen != sizeof(double) || number != number_of(p, me))
        die("somebody else was let in", p);
      check(VipConnectAccept(conn, serve_vi[p]), "VipConnectAccept");
    }
    check_peer(&attr);
    say_hello(p);
  }
}

static void ask_connections(void) {
  double local_room[5], remote_room[5];
  VIP_NET_ADDRESS *local = (VIP_NET_ADDRESS *)local_room;
  VIP_NET_ADDRESS *remote = (VIP_NET_ADDRESS *)remote_room;
  VIP_VI_ATTRIBUTES attr;
  VIP_RETURN code;
  int p;

  for (p = 0; p < nproc; ++p) {
    if (p == me) continue;
    if (peer_style) {
      check(VipConnectPeerWait(ask_vi[p], &attr), "VipConnectPeerWait");
    } else {
      bzero(local_room, sizeof(local_room));
      bzero(remote_room, sizeof(remote_room));
      local_address(&ask_nic, local, number_of(me, p));
      look_up(&ask_nic, p, remote);
      set_address(remote, number_of(me, p));
      for (;;) {
        code = VipConnectRequest(ask_vi[p], local, remote, TIMEOUT_MSEC, &attr);
        if (code != VIP_NO_MATCH) break;
        usleep(RETRY_USEC);
      }
      check(code, "VipConnectRequest");
    }
    check_peer(&attr);
    hear_hello(p);
  }
}

/* Starts all symmetric connections; the numbers of the two ends differ by a million. */
static void start_peers(void) {
  double local_room[5], remote_room[5];
  VIP_NET_ADDRESS *local = (VIP_NET_ADDRESS *)local_room;
  VIP_NET_ADDRESS *remote = (VIP_NET_ADDRESS *)remote_room;
  int p;

  for (p = 0; p < nproc; ++p) {
    if (p == me) continue;
    bzero(local_room, sizeof(local_room));
    bzero(remote_room, sizeof(remote_room));
    local_address(&ask_nic, local, number_of(me, p));
    look_up(&ask_nic, p, remote);
    set_address(remote, 1e6 + number_of(me, p));
    check(VipConnectPeerRequest(ask_vi[p], local, remote, VIP_INFINITE), "VipConnectPeerRequest");
    local_address(&serve_nic, local, 1e6 + number_of(p, me));
    set_address(remote, number_of(p, me));
    check(VipConnectPeerRequest(serve_vi[p], local, remote, VIP_INFINITE),
          "VipConnectPeerRequest (server)");
  }
}

/* ------------------------------------------------------------------ the server thread */

static int rank_of(VIP_VI_HANDLE vi) {
  int p;

  for (p = 0; p < nproc; ++p) {
    if (p != me && serve_vi[p] == vi) return p;
  }
  die("the CQ names an unknown VI", 0);
  return -1;
}

/* RDMA: `bytes` from `data` to the asker, with the stamp right behind or by a second write. */
static void answer_request(int to, request_t *head, void *data, int bytes, VIP_MEM_HANDLE mem) {
  reply_t *reply = serve_reply[to], *flag = serve_reply[to] + 1;
  VIP_DESCRIPTOR *desc = &reply->desc;
  int together = bytes > 0 && !head->apart;

  if (bytes > 0) {
    desc->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
    desc->CS.SegCount = (VIP_UINT16)(together ? 3 : 2);
    desc->CS.Length = (VIP_UINT32)(together ? bytes + (int)sizeof(long) : bytes);
    desc->CS.Status = 0;
    desc->DS[0].Remote.Data.Address = head->reply;
    desc->DS[0].Remote.Handle = head->reply_handle;
    desc->DS[1].Local.Data.Address = data;
    desc->DS[1].Local.Handle = mem;
    desc->DS[1].Local.Length = (VIP_UINT32)bytes;
    reply->stamp = head->stamp;
    reply->third.Local.Data.Address = &reply->stamp;
    reply->third.Local.Handle = serve_pool_mem;
    reply->third.Local.Length = sizeof(long);
    check(VipPostSend(serve_vi[to], desc, serve_pool_mem), "VipPostSend (answer)");
  }
  if (!together) {
    flag->desc.CS.Control = VIP_CONTROL_OP_RDMAWRITE;
    flag->desc.CS.SegCount = 2;
    flag->desc.CS.Length = sizeof(long);
    flag->desc.CS.Status = 0;
    flag->desc.DS[0].Remote.Data.Address = head->reply + bytes;
    flag->desc.DS[0].Remote.Handle = head->reply_handle;
    flag->stamp = head->stamp;
    flag->desc.DS[1].Local.Data.Address = &flag->stamp;
    flag->desc.DS[1].Local.Handle = serve_pool_mem;
    flag->desc.DS[1].Local.Length = sizeof(long);
    check(VipPostSend(serve_vi[to], &flag->desc, serve_pool_mem), "VipPostSend (stamp)");
  }
  if (bytes > 0) wait_done(serve_vi[to], desc);
  if (!together) wait_done(serve_vi[to], &flag->desc);
}

static void serve_request(int from, packet_t *packet) {
  request_t head = packet->head;
  long *ticket = (long *)packet->data, *target = (long *)head.address, *source;
  int i;

  if (head.from != from) die("a request of somebody else", head.from);
  switch (head.op) {
    case OP_GET:
      post_receive(serve_vi[from], packet, serve_pool_mem);
      answer_request(from, &head, head.address, head.bytes, shared_reply_mem);
      break;
    case OP_ACCUMULATE:
      source = (long *)packet->data;
      pthread_mutex_lock(&lock);
      for (i = 0; i < head.bytes / (int)sizeof(long); ++i) target[i] += source[i];
      pthread_mutex_unlock(&lock);
      post_receive(serve_vi[from], packet, serve_pool_mem);
      answer_request(from, &head, NULL, 0, 0);
      break;
    case OP_TICKET:
      pthread_mutex_lock(&lock);
      *ticket = (*target)++;
      pthread_mutex_unlock(&lock);
      answer_request(from, &head, ticket, sizeof(long), serve_pool_mem);
      post_receive(serve_vi[from], packet, serve_pool_mem);
      break;
    case OP_FENCE:
      post_receive(serve_vi[from], packet, serve_pool_mem);
      answer_request(from, &head, NULL, 0, 0);
      break;
    default:
      die("an unknown request", head.op);
  }
}

static void *server(void *unused) {
  VIP_DESCRIPTOR *desc;
  VIP_VI_HANDLE vi;
  VIP_BOOLEAN is_recv;
  VIP_RETURN code;
  int from, over;

  (void)unused;
  serve_connections();
  pthread_mutex_lock(&ready_lock);
  ready = 1;
  pthread_cond_signal(&ready_cond);
  pthread_mutex_unlock(&ready_lock);
  for (;;) {
    check(VipCQWait(serve_cq, VIP_INFINITE, &vi, &is_recv), "VipCQWait");
    if (is_recv != VIP_TRUE) die("the CQ names a send queue", is_recv);
    from = rank_of(vi);
    code = VipRecvDone(vi, &desc);
    if (code != VIP_SUCCESS) {
      pthread_mutex_lock(&lock);
      over = finished;
      pthread_mutex_unlock(&lock);
      if (over && code == VIP_DESCRIPTOR_ERROR && desc != NULL) continue; /* it has left */
      die("VipRecvDone after VipCQWait", (int)code);
    }
    serve_request(from, (packet_t *)desc);
  }
  return NULL;
}

/* ------------------------------------------------------------------ the library */

/* Spins until the last word of an answer is there. */
static void spin(volatile long *word, long value) {
  unsigned long n = 0;

  while (*word != value) {
    if (++n % 1000 == 0) sched_yield();
  }
}

/* Sends a request and waits for its answer. */
static void ask(int to, int op, void *address, void *data, int bytes) {
  packet_t *packet = ask_packet[to] + 1;
  int sent = (int)sizeof(request_t), back = op == OP_ACCUMULATE || op == OP_FENCE ? 0 : bytes;
  volatile long *stamp = (volatile long *)(answer + back);

  packet->head.op = op;
  packet->head.from = me;
  packet->head.bytes = bytes;
  packet->head.reply_handle = answer_mem;
  packet->head.reply = answer;
  packet->head.address = (char *)address;
  packet->head.stamp = next_stamp++;
  packet->head.apart = (int)(next_stamp & 1);
  if (op == OP_ACCUMULATE) {
    memcpy(packet->data, data, (size_t)bytes);
    sent += bytes;
  }
  *stamp = 0;
  packet->desc.CS.Control = VIP_CONTROL_OP_SENDRECV;
  packet->desc.CS.SegCount = 1;
  packet->desc.CS.Length = (VIP_UINT32)sent;
  packet->desc.DS[0].Local.Data.Address = &packet->head;
  packet->desc.DS[0].Local.Handle = ask_pool_mem;
  packet->desc.DS[0].Local.Length = (VIP_UINT32)sent;
  check(VipPostSend(ask_vi[to], &packet->desc, ask_pool_mem), "VipPostSend (request)");
  wait_done(ask_vi[to], &packet->desc);
  spin(stamp, packet->head.stamp);
  if (back > 0 && data != NULL) memcpy(data, answer, (size_t)back);
}

static void put(int to, void *remote, void *local, int bytes) {
  VIP_DESCRIPTOR *desc = &ask_packet[to]->desc;

  if (to == me) {
    memcpy((char *)shared + ((char *)remote - hello[me].address), local, (size_t)bytes);
    return;
  }
  desc->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
  desc->CS.SegCount = 2;
  desc->CS.Length = (VIP_UINT32)bytes;
  desc->DS[0].Remote.Data.Address = remote;
  desc->DS[0].Remote.Handle = hello[to].handle;
  desc->DS[1].Local.Data.Address = local;
  desc->DS[1].Local.Handle = shared_source_mem;
  desc->DS[1].Local.Length = (VIP_UINT32)bytes;
  check(VipPostSend(ask_vi[to], desc, ask_pool_mem), "VipPostSend (put)");
  wait_done(ask_vi[to], desc);
  ++puts_done;
}

static void get(int from, void *local, void *remote, unsigned long bytes) {
  unsigned long done, part;

  for (done = 0; done < bytes; done += part) {
    part = bytes - done;
    if (part > MAX_MOVE - sizeof(long)) part = MAX_MOVE - sizeof(long);
    ask(from, OP_GET, (char *)remote + done, (char *)local + done, (int)part);
    ++gets_done;
  }
}

static long take_ticket(int from, void *remote) {
  long ticket;

  if (from != me) {
    ask(from, OP_TICKET, remote, &ticket, sizeof(long));
    return ticket;
  }
  pthread_mutex_lock(&lock);
  ticket = (*(long *)remote)++;
  pthread_mutex_unlock(&lock);
  return ticket;
}

static void accumulate(int to, long *remote, long *local, int count) {
  int i, part, most = PACKET / (int)sizeof(long);

  if (to == me) {
    pthread_mutex_lock(&lock);
    for (i = 0; i < count; ++i) remote[i] += local[i];
    pthread_mutex_unlock(&lock);
    return;
  }
  for (i = 0; i < count; i += part) {
    part = count - i < most ? count - i : most;
    ask(to, OP_ACCUMULATE, remote + i, local + i, part * (int)sizeof(long));
  }
}

/* All that this process has written is in place everywhere. */
static void fence(void) {
  int p;

  for (p = 0; p < nproc; ++p) {
    if (p != me) ask(p, OP_FENCE, NULL, NULL, 0);
  }
}

static void barrier(void) {
  static long count = 0;
  int p;

  fence();
  shared->flag[me] = ++count;
  for (p = 0; p < nproc; ++p) {
    if (p != me)
      put(p, (void *)&((shared_t *)hello[p].address)->flag[me], (void *)&shared->flag[me],
          sizeof(long));
  }
  for (p = 0; p < nproc; ++p) {
    unsigned long n = 0;

    while (shared->flag[p] < count) {
      if (++n % 1000 == 0) sched_yield();
    }
  }
}

/* ------------------------------------------------------------------ the program */

static long value(long i, long j) { return i * 100003 + j * 7 + 1; }

static void transpose(int order) {
  long rows = order / nproc, first = me * rows, i, j;
  long *matrix = shared->cell, *result = matrix + rows * order, *copy;
  shared_t *there;
  int p;

  for (i = 0; i < rows; ++i) {
    for (j = 0; j < order; ++j) matrix[i * order + j] = value(first + i, j);
  }
  barrier();
  for (i = 0; i < rows; ++i) {
    for (j = 0; j < order; ++j) {
      p = (int)(j / rows);
      there = (shared_t *)hello[p].address;
      put(p, there->cell + rows * order + (j % rows) * order + first + i, matrix + i * order + j,
          sizeof(long));
    }
  }
  barrier();
  for (i = 0; i < rows; ++i) {
    for (j = 0; j < order; ++j) {
      if (result[i * order + j] != value(j, first + i))
        die("a wrong element", (int)(i * order + j));
    }
  }

  /* Reads every process's result, and puts every process's rows back where they come from. */
  copy = (long *)malloc((size_t)(rows * order) * sizeof(long));
  if (copy == NULL) die("no memory", 0);
  for (p = 0; p < nproc; ++p) {
    if (p == me) continue;
    there = (shared_t *)hello[p].address;
    get(p, copy, there->cell + rows * order, (unsigned long)(rows * order) * sizeof(long));
    for (i = 0; i < rows; ++i) {
      for (j = 0; j < order; ++j) {
        if (copy[i * order + j] != value(j, p * rows + i)) die("a wrong element was got", p);
      }
    }
  }
  free(copy);
  barrier();

  /* The whole block of the next process by writes that are as long as they may be. */
  p = (me + 1) % nproc;
  there = (shared_t *)hello[p].address;
  for (i = 0; i < rows * order; i += j) {
    j = rows * order - i;
    if (j > (long)(MAX_MOVE / sizeof(long))) j = MAX_MOVE / sizeof(long);
    put(p, there->cell + rows * order + i, matrix + i, (int)j * (int)sizeof(long));
  }
  barrier();
  first = (me + nproc - 1) % nproc * rows;
  for (i = 0; i < rows; ++i) {
    for (j = 0; j < order; ++j) {
      if (result[i * order + j] != value(first + i, j)) die("a wrong block", (int)i);
    }
  }
}

static void count_up(int order) {
  long *ones = (long *)malloc((size_t)order * sizeof(long)), last = -1, ticket, mine = 0;
  int p, i;

  if (ones == NULL) die("no memory", 0);
  for (i = 0; i < order; ++i) ones[i] = me + 1 + i;
  for (p = 0; p < nproc; ++p) {
    accumulate(p, (p == me ? shared : (shared_t *)hello[p].address)->sum, ones, order);
  }
  for (i = 0; i < TICKETS; ++i) {
    ticket = take_ticket(0, &((shared_t *)hello[0].address)->ticket);
    if (ticket <= last) die("tickets go backwards", (int)ticket);
    last = ticket;
    ++mine;
  }
  barrier();
  for (i = 0; i < order; ++i) {
    if (shared->sum[i] != (long)nproc * (nproc + 1) / 2 + (long)nproc * i) die("a wrong sum", i);
  }
  if (take_ticket(0, &((shared_t *)hello[0].address)->ticket) < mine * nproc)
    die("tickets are missing", (int)mine);
  free(ones);
  barrier();
}

static void usage(void) {
  fprintf(stderr, "usage: onesided RANK HOST0 HOST1 ... [-n ORDER] [-r ROUNDS] [-d DEVICE] [-p]\n");
  exit(2);
}

int main(int argc, char **argv) {
  const char *device = DEVICE;
  int order = 96, rounds = 1, i, seen = 0;
  pthread_t thread;

  for (i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "-p") == 0) {
      peer_style = 1;
    } else if (argv[i][0] == '-' && i + 1 < argc) {
      if (argv[i][1] == 'n')
        order = atoi(argv[++i]);
      else if (argv[i][1] == 'r')
        rounds = atoi(argv[++i]);
      else if (argv[i][1] == 'd')
        device = argv[++i];
      else
        usage();
    } else if (!seen) {
      me = atoi(argv[i]);
      seen = 1;
    } else {
      if (nproc == MAX_PROC || strlen(argv[i]) >= MAX_NAME) usage();
      strcpy(host_name[nproc++], argv[i]);
    }
  }
  if (nproc < 2 || me < 0 || me >= nproc || order < nproc || order > MAX_ORDER) usage();
  order -= order % nproc;

  open_nic(&serve_nic, device, (char *)"serving");
  open_nic(&ask_nic, device, (char *)"asking");
  if (serve_nic.handle == ask_nic.handle) die("one handle for two NICs", 0);
  check(VipNSInit(ask_nic.handle, NULL), "VipNSInit");
  check(VipCreateCQ(serve_nic.handle, (VIP_ULONG)(nproc * DEPTH), &serve_cq), "VipCreateCQ");

  shared_bytes = sizeof(shared_t) + (unsigned long)order * order / nproc * 2 * sizeof(long);
  shared = (shared_t *)malloc(shared_bytes);
  answer = (char *)malloc(MAX_MOVE);
  if (shared == NULL || answer == NULL) die("no memory", 0);
  bzero(shared, shared_bytes);
  bzero(answer, MAX_MOVE);
  shared_mem = pin(&serve_nic, shared, shared_bytes, 1);
  shared_reply_mem = pin(&serve_nic, shared, shared_bytes, 0);
  shared_source_mem = pin(&ask_nic, shared, shared_bytes, 0);
  answer_mem = pin(&ask_nic, answer, MAX_MOVE, 1);
  hello[me].handle = shared_mem;
  hello[me].rank = me;
  hello[me].address = (char *)shared;

  make_pools();
  if (peer_style) start_peers();
  if (pthread_create(&thread, NULL, server, NULL) != 0) die("pthread_create", 0);
  ask_connections();
  pthread_mutex_lock(&ready_lock);
  while (!ready) pthread_cond_wait(&ready_cond, &ready_lock);
  pthread_mutex_unlock(&ready_lock);
  check(VipNSShutdown(ask_nic.handle), "VipNSShutdown");

  printf("onesided %d: connected\n", me);
  fflush(stdout);

  for (i = 0; i < rounds; ++i) transpose(order);
  count_up(order);
  pthread_mutex_lock(&lock);
  finished = 1;
  pthread_mutex_unlock(&lock);
  barrier();
  printf("onesided %d: %d by %d elements transposed, %lu puts, %lu gets\n", me, order, order,
         puts_done, gets_done);
  return 0;
}
