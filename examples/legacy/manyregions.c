/* manyregions: tasks on several hosts send each other records in pieces, over unreliable VIs.
 *
 *   on every host:  manyregions RANK HOST0 HOST1 ... [-n RECORDS] [-d DEVICE]
 *
 * RANK counts from 0 and HOSTi is where process i runs; a host may appear more than once. Every process sends every
 * other one RECORDS records, each gathered from as many pieces of memory as it has fields. Lost records are sent
 * again. Habits of its family: tasks at user level that poll, all in one thread; a region for every descriptor and for
 * every field, hundreds of them, registered without attributes; descriptors with more segments than the type has; one
 * completion queue with few entries for many VIs; connections that are asked for once, for ever; receives that go back
 * with only their lengths set anew; queues that are not drained at the end.
 */
#define _XOPEN_SOURCE 500
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>
#include <vipl.h>

#define DEVICE "/dev/via_eth0"
#define MAX_NODES 16
#define CQ_ENTRIES 16
#define RECEIVES \
  9 /* for each peer: WINDOW records, WINDOW acknowledgements, and the first message */
#define WINDOW 4
#define RECV_PIECES 3
#define FIELD_BYTES 61 /* fields are 0 to this long, and lie anywhere */
#define MAX_FIELDS 64
#define TRANSFER 32000
#define AGAIN_USEC 100000L
#define SILENCE_USEC 20000000L

#define ROUND_UP(n) (((n) + VIP_DESCRIPTOR_ALIGNMENT - 1) & ~(size_t)(VIP_DESCRIPTOR_ALIGNMENT - 1))
/* Room for a descriptor with a address segments and d data segments. */
#define DESC_BYTES(a, d) ROUND_UP(sizeof(VIP_DESCRIPTOR) + (size_t)(a)*16 + (size_t)(d)*16)

enum kind { RECORD = 0x52, LAST = 0x4c, ACK = 0x41 };

struct head {
  int kind;
  int from;
  unsigned number; /* of the record, from 1 */
  unsigned heard;  /* all records up to here have come */
  unsigned bytes;  /* of the fields */
  unsigned sum;
};

/* A descriptor in memory that it shares with nothing else, and the region of that memory. */
struct desc {
  VIP_DESCRIPTOR *vip;
  VIP_MEM_HANDLE mem;
  int busy;
};

/* Memory of any size and alignment, and its region. */
struct field {
  struct iovec io;
  VIP_MEM_HANDLE mem;
};

struct outgoing {
  struct desc desc;
  struct field head;
  struct field field[MAX_FIELDS];
  int nfields;
  unsigned number;
};

struct incoming {
  struct desc desc;
  struct field piece[RECV_PIECES];
};

struct peer {
  VIP_VI_HANDLE vi;
  struct incoming in[RECEIVES];
  int next_in;
  struct outgoing out[WINDOW]; /* records that are not acknowledged */
  struct outgoing ack[WINDOW];
  int next_ack;
  unsigned sent, acked, heard; /* numbers of records */
  long sent_at;                /* when something last went or moved on */
  int said_last, gone;
};

typedef int task_fn(int arg);
struct task {
  task_fn *run;
  int arg;
  int done;
};

static VIP_NIC_HANDLE nic;
static VIP_PROTECTION_HANDLE ptag;
static VIP_CQ_HANDLE cq;
static VIP_NIC_ATTRIBUTES attr;
static int me, nnodes, max_fields;
static unsigned records = 200;
static unsigned long regions, resent, dropped;
static struct peer peers[MAX_NODES];
static struct task tasks[MAX_NODES + 2];
static int ntasks;
static char **host;

/* The first message to each peer: no data, no segments. */
static VIP_DESCRIPTOR empty[MAX_NODES] __attribute__((aligned(VIP_DESCRIPTOR_ALIGNMENT)));
static VIP_MEM_HANDLE empty_mem;

#define VIP(call)                                                                                  \
  do {                                                                                             \
    VIP_RETURN vip_code = (call);                                                                  \
    if (vip_code != VIP_SUCCESS) {                                                                 \
      fprintf(stderr, "manyregions %d: line %d: %s returned %d\n", me, __LINE__, #call, vip_code); \
      exit(1);                                                                                     \
    }                                                                                              \
  } while (0)

static void bad(const char *what, unsigned long number) {
  fprintf(stderr, "manyregions %d: %s: %lu\n", me, what, number);
  exit(1);
}

/* A message without a posted receive is lost, and sent again. */
static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error) {
  (void)context;
  switch (error->ErrorCode) {
    case VIP_ERROR_RECVQ_EMPTY:
      return;
    case VIP_ERROR_CONN_LOST:
      if (error->ResourceCode == VIP_RESOURCE_VI) return; /* the tasks see it themselves */
      break;
    default:
      break;
  }
  fprintf(stderr, "manyregions %d: error %d\n", me, (int)error->ErrorCode);
  _exit(1);
}

static long usec(void) {
  struct timeval t;

  gettimeofday(&t, NULL);
  return t.tv_sec * 1000000L + t.tv_usec;
}

/* ------------------------------------------------------------------ regions */

static VIP_MEM_HANDLE enroll(void *address, size_t bytes) {
  VIP_MEM_HANDLE mem;

  VIP(VipRegisterMem(nic, address, bytes, NULL, &mem));
  ++regions;
  return mem;
}

static void make_desc(struct desc *desc, int segments) {
  size_t bytes = DESC_BYTES(0, segments);
  char *p = (char *)malloc(bytes + VIP_DESCRIPTOR_ALIGNMENT);

  if (p == NULL) bad("no memory", bytes);
  p = (char *)ROUND_UP((size_t)p);
  memset(p, 0, bytes);
  desc->vip = (VIP_DESCRIPTOR *)p;
  desc->mem = enroll(p, bytes);
  desc->busy = 0;
}

/* `bytes` bytes that begin at any address. */
static void make_field(struct field *field, size_t bytes) {
  char *p = (char *)malloc(bytes + 8);

  if (p == NULL) bad("no memory", bytes);
  field->io.iov_base = p + rand() % 8;
  field->io.iov_len = bytes;
  field->mem = enroll(field->io.iov_base, bytes);
}

/* The data segments of a descriptor from a list of fields; some lie behind the end of the type. */
static size_t set_segments(VIP_DESCRIPTOR *vip, int first, struct field *field, int count) {
  VIP_DATA_SEGMENT *segment = &vip->Data[0];
  size_t sum = 0;
  int i;

  for (i = 0; i < count; ++i) {
    segment[first + i].Data.Address = field[i].io.iov_base;
    segment[first + i].Handle = field[i].mem;
    segment[first + i].Length = (VIP_UINT32)field[i].io.iov_len;
    sum += field[i].io.iov_len;
  }
  return sum;
}

/* ------------------------------------------------------------------ sending */

static void post_out(struct peer *peer, struct outgoing *out, int kind) {
  VIP_DESCRIPTOR *vip = out->desc.vip;
  struct head *head = (struct head *)out->head.io.iov_base;
  struct head copy;
  size_t sum;
  int i;
  size_t j;

  memset(&copy, 0, sizeof(copy));
  copy.kind = kind;
  copy.from = me;
  copy.number = out->number;
  copy.heard = peer->heard;
  for (i = 0; i < out->nfields; ++i) {
    for (j = 0; j < out->field[i].io.iov_len; ++j)
      copy.sum = copy.sum * 31 + ((unsigned char *)out->field[i].io.iov_base)[j];
    copy.bytes += (unsigned)out->field[i].io.iov_len;
  }
  memcpy(head, &copy, sizeof(copy)); /* it lies anywhere */
  sum = set_segments(vip, 0, &out->head, 1);
  sum += set_segments(vip, 1, out->field, out->nfields);
  vip->Control.Control = VIP_CONTROL_OP_SENDRECV;
  vip->Control.SegCount = (VIP_UINT16)(1 + out->nfields);
  vip->Control.Length = (VIP_UINT32)sum;
  out->desc.busy = 1;
  VIP(VipPostSend(peer->vi, vip, out->desc.mem));
}

/* Takes back what has been sent. Whatever comes back must be something that was given. */
static void reap(struct peer *peer) {
  VIP_DESCRIPTOR *vip;
  VIP_RETURN code;
  int i;

  for (;;) {
    code = VipSendDone(peer->vi, &vip);
    if (code == VIP_NOT_DONE || vip == NULL) return;
    if (code == VIP_DESCRIPTOR_ERROR &&
        (vip->Control.Status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0) {
      peer->gone = 1;
    } else if (code != VIP_SUCCESS) {
      bad("VipSendDone, status", vip->Control.Status);
    }
    if (vip == &empty[peer - peers]) continue;
    for (i = 0; i < WINDOW; ++i) {
      if (peer->out[i].desc.vip == vip) {
        peer->out[i].desc.busy = 0;
        break;
      }
      if (peer->ack[i].desc.vip == vip) {
        peer->ack[i].desc.busy = 0;
        break;
      }
    }
    if (i == WINDOW) bad("an unknown descriptor", (unsigned long)vip);
  }
}

static int finished_with(struct peer *peer) {
  return peer->gone || (peer->acked == records + 1 && peer->said_last);
}

/* A task: sends the records for one peer, the LAST after them, and again what is overdue. */
static int send_records(int node) {
  struct peer *peer = &peers[node];
  struct outgoing *out;
  unsigned n, i;
  int f;
  long now = usec();

  reap(peer);
  if (peer->gone && (peer->heard != records + 1 || peer->sent != records + 1))
    bad("it has gone away too early", (unsigned long)node);
  if (finished_with(peer)) return 1;
  while (peer->sent < records + 1 && peer->sent - peer->acked < WINDOW) {
    out = &peer->out[(peer->sent + 1) % WINDOW];
    if (out->desc.busy) return 0;
    out->number = ++peer->sent;
    out->nfields = out->number == records + 1 ? 0 : (int)(out->number * 7 % (unsigned)max_fields);
    for (f = 0; f < out->nfields; ++f) {
      /* The region stays as it is; less and less of it is used. */
      out->field[f].io.iov_len = (out->number * 13 + (unsigned)f * 5) % (FIELD_BYTES + 1);
      memset(out->field[f].io.iov_base, (int)(out->number + (unsigned)f), out->field[f].io.iov_len);
    }
    post_out(peer, out, out->number == records + 1 ? LAST : RECORD);
    peer->sent_at = now;
  }
  if (peer->sent != peer->acked && now - peer->sent_at > AGAIN_USEC) {
    for (n = peer->acked + 1; n <= peer->sent; ++n) {
      i = n % WINDOW;
      if (peer->out[i].desc.busy) break;
      post_out(peer, &peer->out[i], n == records + 1 ? LAST : RECORD);
      ++resent;
    }
    peer->sent_at = now;
  }
  return 0;
}

/* ------------------------------------------------------------------ receiving */

static void first_post(struct peer *peer, struct incoming *in) {
  VIP_DESCRIPTOR *vip = in->desc.vip;
  size_t sum = set_segments(vip, 0, in->piece, RECV_PIECES);

  vip->Control.Control = VIP_CONTROL_OP_SENDRECV;
  vip->Control.SegCount = RECV_PIECES;
  vip->Control.Length = (VIP_UINT32)(sum - 17); /* less than the segments hold */
  VIP(VipPostRecv(peer->vi, vip, in->desc.mem));
}

/* Only the lengths are set; the status of last time is still there. */
static void post_again(struct peer *peer, struct incoming *in) {
  VIP_DESCRIPTOR *vip = in->desc.vip;
  int i;

  for (i = 0; i < RECV_PIECES; ++i) {
    if ((&vip->Data[0])[i].Data.Address != in->piece[i].io.iov_base ||
        (&vip->Data[0])[i].Handle != in->piece[i].mem)
      bad("a segment was changed", (unsigned long)i);
  }
  vip->Control.Length = TRANSFER;
  vip->Data[0].Length = (VIP_UINT32)in->piece[0].io.iov_len;
  VIP(VipPostRecv(peer->vi, vip, in->desc.mem));
}

/* The pieces of a message, put together. */
static size_t collect(struct incoming *in, unsigned char *to) {
  size_t left = in->desc.vip->Control.Length, bytes = left, n;
  int i;

  for (i = 0; i < RECV_PIECES && left > 0; ++i) {
    n = in->piece[i].io.iov_len < left ? in->piece[i].io.iov_len : left;
    memcpy(to, in->piece[i].io.iov_base, n);
    to += n;
    left -= n;
  }
  return bytes;
}

static void check_record(struct head *head, unsigned char *data) {
  unsigned sum = 0, f, i, fields = head->number * 7 % (unsigned)max_fields, length;
  unsigned char *p = data;

  for (i = 0; i < head->bytes; ++i) sum = sum * 31 + data[i];
  if (sum != head->sum) bad("a wrong sum in record", head->number);
  for (f = 0; f < fields; ++f) {
    length = (head->number * 13 + f * 5) % (FIELD_BYTES + 1);
    for (i = 0; i < length; ++i) {
      if (*p++ != (unsigned char)(head->number + f)) bad("a wrong field in record", head->number);
    }
  }
  if ((unsigned)(p - data) != head->bytes) bad("wrong length of record", head->number);
}

static void take_message(int node, struct incoming *in) {
  static unsigned char whole[TRANSFER];
  struct peer *peer = &peers[node];
  struct outgoing *ack;
  struct head head;
  size_t bytes = collect(in, whole);

  post_again(peer, in);
  if (bytes == 0) return;
  if (bytes < sizeof(head)) bad("a short message", bytes);
  memcpy(&head, whole, sizeof(head));
  if (head.from != node || bytes != sizeof(head) + head.bytes) bad("a bad head", bytes);
  if (head.heard > peer->acked) {
    if (head.heard > peer->sent) bad("something is acknowledged that was not sent", head.heard);
    peer->acked = head.heard;
    peer->sent_at = usec();
  }
  if (head.kind == ACK) return;
  if (head.number == peer->heard + 1) {
    if (head.kind == RECORD)
      check_record(&head, whole + sizeof(head));
    else if (head.kind == LAST)
      peer->said_last = 1;
    else
      bad("an unknown kind", (unsigned long)head.kind);
    peer->heard = head.number;
  } else {
    ++dropped;
  }
  ack = &peer->ack[peer->next_ack];
  reap(peer);
  if (ack->desc.busy || peer->gone) return; /* a later one will do, or the peer asks again */
  peer->next_ack = (peer->next_ack + 1) % WINDOW;
  post_out(peer, ack, ACK);
}

static int node_of(VIP_VI_HANDLE vi) {
  int i;

  for (i = 0; i < nnodes; ++i) {
    if (i != me && peers[i].vi == vi) return i;
  }
  bad("the CQ names an unknown VI", (unsigned long)vi);
  return -1;
}

/* A task: takes the completion queue's entries. Each announced descriptor must be there at once. */
static int receive(int unused) {
  VIP_VI_HANDLE vi;
  VIP_BOOLEAN is_recv;
  VIP_DESCRIPTOR *vip;
  VIP_RETURN code;
  struct peer *peer;
  int node, i;

  (void)unused;
  for (i = 0; i < CQ_ENTRIES; ++i) {
    code = VipCQDone(cq, &vi, &is_recv);
    if (code == VIP_NOT_DONE) break;
    if (code != VIP_SUCCESS) bad("VipCQDone", (unsigned long)code);
    if (is_recv != VIP_TRUE) bad("a send queue in the CQ", (unsigned long)is_recv);
    node = node_of(vi);
    peer = &peers[node];
    code = VipRecvDone(vi, &vip);
    if (code == VIP_DESCRIPTOR_ERROR && vip != NULL &&
        (vip->Control.Status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0) {
      peer->gone = 1;
      continue;
    }
    if (code != VIP_SUCCESS) bad("VipRecvDone after VipCQDone", (unsigned long)code);
    if (vip != peer->in[peer->next_in].desc.vip) bad("receives out of order", (unsigned long)node);
    peer->next_in = (peer->next_in + 1) % RECEIVES;
    take_message(node, &peer->in[(peer->next_in + RECEIVES - 1) % RECEIVES]);
  }
  return 0;
}

/* A task: ends the program when nothing moves any more. */
static int watch(int unused) {
  static unsigned long last_state = 0;
  static long last_change = 0;
  unsigned long state = 0;
  long now = usec();
  int i;

  (void)unused;
  for (i = 0; i < nnodes; ++i) state += peers[i].heard + peers[i].acked + (unsigned)peers[i].gone;
  if (state != last_state || last_change == 0) {
    last_state = state;
    last_change = now;
  }
  if (now - last_change > SILENCE_USEC) bad("nothing moves any more; events so far", state);
  return 0;
}

static void add_task(task_fn *run, int arg) {
  tasks[ntasks].run = run;
  tasks[ntasks].arg = arg;
  tasks[ntasks++].done = 0;
}

static void run_tasks(int senders) {
  int i, left = senders;

  while (left > 0) {
    for (i = 0; i < ntasks; ++i) {
      if (tasks[i].done || !tasks[i].run(tasks[i].arg)) continue;
      tasks[i].done = 1;
      --left;
    }
    sched_yield();
  }
}

/* ------------------------------------------------------------------ set-up */

static void make_out(struct outgoing *out, int fields) {
  int i;

  make_desc(&out->desc, 1 + fields);
  make_field(&out->head, sizeof(struct head));
  for (i = 0; i < fields; ++i) make_field(&out->field[i], FIELD_BYTES);
  out->nfields = 0;
  out->number = 0;
}

static void make_peer(struct peer *peer) {
  static const size_t pieces[RECV_PIECES] = {24, 1, TRANSFER};
  VIP_VI_ATTRIBUTES vi_attr;
  int i, j;

  memset(&vi_attr, 0, sizeof(vi_attr));
  vi_attr.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
  vi_attr.MaxTransferSize = TRANSFER;
  vi_attr.Ptag = ptag;
  vi_attr.EnableRdmaWrite = 2; /* any truth will do */
  VIP(VipCreateVi(nic, &vi_attr, NULL, cq, &peer->vi));
  for (i = 0; i < RECEIVES; ++i) {
    make_desc(&peer->in[i].desc, RECV_PIECES);
    for (j = 0; j < RECV_PIECES; ++j) make_field(&peer->in[i].piece[j], pieces[j]);
    first_post(peer, &peer->in[i]);
  }
  for (i = 0; i < WINDOW; ++i) {
    make_out(&peer->out[i], max_fields);
    make_out(&peer->ack[i], 0);
  }
}

/* Four bytes: the ranks of the waiting process and of the one that it waits for. */
static void set_key(VIP_NET_ADDRESS *address, int waiter, int asker) {
  unsigned char key[4];

  key[0] = 'M';
  key[1] = (unsigned char)waiter;
  key[2] = (unsigned char)asker;
  key[3] = 'R';
  memcpy(address->HostAddress + address->HostAddressLen, key, sizeof(key));
}

static VIP_NET_ADDRESS *blank(void) {
  size_t bytes = sizeof(VIP_NET_ADDRESS) + attr.NicAddressLen + attr.MaxDiscriminatorLen;
  VIP_NET_ADDRESS *address = (VIP_NET_ADDRESS *)malloc(bytes);

  if (address == NULL) bad("no memory", bytes);
  memset(address, 0, bytes);
  return address;
}

static void connect_peer(int node) {
  VIP_NET_ADDRESS *local = blank(), *remote = blank();
  VIP_VI_ATTRIBUTES theirs;
  VIP_CONN_HANDLE conn;
  unsigned char *key;

  local->HostAddressLen = attr.NicAddressLen;
  local->DiscriminatorLen = 4;
  memcpy(local->HostAddress, attr.LocalNicAddress, attr.NicAddressLen);
  if (node > me) {
    set_key(local, me, node);
    VIP(VipConnectWait(nic, local, VIP_INFINITE, remote, &theirs, &conn));
    key = remote->HostAddress + remote->HostAddressLen;
    if (remote->DiscriminatorLen != 4 || key[1] != node || key[2] != me)
      bad("another peer than the one waited for", key[1]);
    VIP(VipConnectAccept(conn, peers[node].vi));
  } else {
    remote->HostAddressLen = 0;
    remote->DiscriminatorLen = 4; /* set before; it must survive */
    VIP(VipNSGetHostByName(nic, host[node], remote, 0));
    set_key(local, me, node); /* differs from the key asked for */
    set_key(remote, node, me);
    if (remote->DiscriminatorLen != 4) bad("DiscriminatorLen", remote->DiscriminatorLen);
    VIP(VipConnectRequest(peers[node].vi, local, remote, VIP_INFINITE, &theirs));
  }
  if (theirs.ReliabilityLevel != VIP_SERVICE_UNRELIABLE || theirs.MaxTransferSize != TRANSFER)
    bad("attributes of the peer", theirs.MaxTransferSize);
  empty[node].Control.Control = VIP_CONTROL_OP_SENDRECV;
  empty[node].Control.SegCount = 0;
  empty[node].Control.Length = 0;
  VIP(VipPostSend(peers[node].vi, &empty[node], empty_mem));
  peers[node].sent_at = usec();
  free(local);
  free(remote);
}

static void usage(void) {
  fprintf(stderr, "usage: manyregions RANK HOST0 HOST1 ... [-n RECORDS] [-d DEVICE]\n");
  exit(2);
}

int main(int argc, char **argv) {
  static char *names[MAX_NODES];
  const char *device = DEVICE;
  int i, seen = 0;

  for (i = 1; i < argc; ++i) {
    if (argv[i][0] == '-' && i + 1 < argc) {
      if (argv[i][1] == 'n')
        records = (unsigned)atoi(argv[++i]);
      else if (argv[i][1] == 'd')
        device = argv[++i];
      else
        usage();
    } else if (!seen) {
      me = atoi(argv[i]);
      seen = 1;
    } else {
      if (nnodes == MAX_NODES) usage();
      names[nnodes++] = argv[i];
    }
  }
  if (nnodes < 2 || me < 0 || me >= nnodes) usage();
  host = names;
  srand((unsigned)me + 1);

  if (VipOpenNic(device, &nic) != VIP_SUCCESS) {
    fprintf(stderr, "manyregions %d: can't open %s\n", me, device);
    exit(1);
  }
  VIP(VipQueryNic(nic, &attr));
  VIP(VipErrorCallback(nic, NULL, on_error));
  VIP(VipCreatePtag(nic, &ptag));
  VIP(VipCreateCQ(nic, CQ_ENTRIES, &cq));
  VIP(VipNSInit(nic, NULL));
  max_fields = (int)attr.MaxSegmentsPerDesc - 1;
  if (max_fields > MAX_FIELDS) max_fields = MAX_FIELDS;
  if (max_fields < 1) bad("MaxSegmentsPerDesc", attr.MaxSegmentsPerDesc);

  empty_mem = enroll(empty, sizeof(empty));
  for (i = 0; i < nnodes; ++i) {
    if (i != me) make_peer(&peers[i]);
  }
  for (i = 0; i < nnodes; ++i) {
    if (i != me) connect_peer(i);
  }
  printf("manyregions %d: connected\n", me);
  fflush(stdout);
  for (i = 0; i < nnodes; ++i) {
    if (i != me) add_task(send_records, i);
  }
  add_task(receive, 0);
  add_task(watch, 0);
  run_tasks(nnodes - 1);

  for (i = 0; i < nnodes; ++i) {
    if (i == me) continue;
    VIP(VipDisconnect(peers[i].vi));
    VIP(VipDisconnect(peers[i].vi));
    VIP(VipDestroyVi(peers[i].vi));
  }
  VIP(VipDestroyCQ(cq));
  VIP(VipNSShutdown(nic));
  VIP(VipCloseNic(nic));
  printf(
      "manyregions %d: %u records to each of %d peers, %lu regions, up to %d segments; "
      "%lu sent again, %lu came twice\n",
      me, records, nnodes - 1, regions, max_fields + 1, resent, dropped);
  return 0;
}
