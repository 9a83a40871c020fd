/* rdma_stream: pictures go to a host that turns them into negatives and back again, by RDMA writes.
 *
 *   on one host:    rdma_stream -s CLIENTS
 *   on the others:  rdma_stream -c NUMBER SERVER [-f FRAMES]       NUMBER: 0, 1, ... CLIENTS - 1
 *
 *   -i INTERFACE   number of the Ethernet interface (default 0)
 *   -l             at the server: clients on this host will say that it is called localhost
 *   -b BYTES       of one write (default 16320); a picture is 300 writes
 *
 * All writes of a picture are posted at once. The last one has immediate data, the number of the
 * picture, and uses up a receive of the other side, which is how that side learns of it. Habits of
 * its family: device names made of interface numbers, functions called sem_wait and the like that
 * are not the system's, a server that takes its clients one after the other while the others ask
 * again and again, 5 seconds for an answer, the name service ended before the first connection, the
 * best reliability level by comparing numbers, two disconnects and no draining.
 */
#define _XOPEN_SOURCE 500
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <vipl.h>

#define PORT 7301
#define WRITES 300 /* descriptors posted at once */
#define RECEIVES 200
#define SLOTS 2 /* pictures of a client under way */
#define CQ_ENTRIES 1024
#define MAX_CLIENTS 16
#define CONNECT_TIMEOUT 5000

/* Semaphores of our own. */
#define SEM_MAGIC 0x5e3a
typedef struct {
  int magic;
  int count;
  pthread_mutex_t mutex;
  pthread_cond_t cond;
} sem_type;

int sem_open(sem_type *sem, int count);
int sem_op(sem_type *sem, int delta);
int sem_wait(sem_type *sem, int by);
int sem_close(sem_type *sem);
int post(sem_type *sem, int by);

/* The first message of each side. */
struct setup {
  void *address;
  VIP_MEM_HANDLE handle;
  int piece; /* bytes of one write */
  int slots;
  int frames;
};

/* One side of a connection. */
struct link {
  VIP_VI_HANDLE vi;
  VIP_DESCRIPTOR *writes; /* WRITES */
  VIP_DESCRIPTOR *receives;
  VIP_DESCRIPTOR *control; /* for the setup message */
  struct setup *mine, *theirs;
  char *in, *out; /* SLOTS pictures each; the server sends back from where it got */
  VIP_MEM_HANDLE desc_mem, in_mem, out_mem;
  int next_receive; /* the one to complete next */
  int frames;       /* that have come */
  int bye;
};

static VIP_NIC_HANDLE nic;
static VIP_PROTECTION_HANDLE ptag;
static VIP_CQ_HANDLE cq;
static VIP_NIC_ATTRIBUTES nic_attr;
static VIP_RELIABILITY_LEVEL level;
static int piece = 16384 - 64, frames = 20;
static sem_type free_slots;

static void fail(const char *what, int code) {
  fprintf(stderr, "rdma_stream: %s (%d)\n", what, code);
  exit(1);
}

static void check(VIP_RETURN code, const char *what) {
  if (code != VIP_SUCCESS) fail(what, (int)code);
}

/* ------------------------------------------------------------------ semaphores */

static void is_ours(sem_type *sem, int by) {
  if (sem == NULL || sem->magic != SEM_MAGIC || by < 0 || by > SLOTS)
    fail("a semaphore function was called by somebody else", by);
}

int sem_open(sem_type *sem, int count) {
  sem->magic = SEM_MAGIC;
  sem->count = count;
  pthread_mutex_init(&sem->mutex, NULL);
  pthread_cond_init(&sem->cond, NULL);
  return 0;
}

int sem_op(sem_type *sem, int delta) {
  pthread_mutex_lock(&sem->mutex);
  while (sem->count + delta < 0) pthread_cond_wait(&sem->cond, &sem->mutex);
  sem->count += delta;
  pthread_cond_broadcast(&sem->cond);
  pthread_mutex_unlock(&sem->mutex);
  return 0;
}

int sem_wait(sem_type *sem, int by) {
  is_ours(sem, by);
  return sem_op(sem, -by);
}

int post(sem_type *sem, int by) {
  is_ours(sem, by);
  return sem_op(sem, by);
}

int sem_close(sem_type *sem) {
  is_ours(sem, 0);
  sem->magic = 0;
  return 0;
}

/* ------------------------------------------------------------------ set-up */

static void open_interface(int number, const char *server) {
  char device[64];

  if (server != NULL && strcmp(server, "localhost") == 0)
    strcpy(device, "/etc/via_lo");
  else
#ifdef GIGANET
    sprintf(device, "/dev/clanvi%d", number);
#else
    sprintf(device, "/dev/via_eth%d", number);
#endif
  if (VipOpenNic(device, &nic) != VIP_SUCCESS) {
    fprintf(stderr, "rdma_stream: can't open %s\n", device);
    exit(1);
  }
  check(VipQueryNic(nic, &nic_attr), "VipQueryNic");
  check(VipCreatePtag(nic, &ptag), "VipCreatePtag");
  check(VipCreateCQ(nic, CQ_ENTRIES, &cq), "VipCreateCQ");
  if (nic_attr.ReliabilityLevelSupport >= VIP_SERVICE_RELIABLE_RECEPTION)
    level = VIP_SERVICE_RELIABLE_RECEPTION;
  else if (nic_attr.ReliabilityLevelSupport >= VIP_SERVICE_RELIABLE_DELIVERY)
    level = VIP_SERVICE_RELIABLE_DELIVERY;
  else
    level = VIP_SERVICE_UNRELIABLE;
}

static void *get_memory(size_t bytes, int writable, VIP_MEM_HANDLE *handle) {
  VIP_MEM_ATTRIBUTES attr;
  char *p = (char *)malloc(bytes + 63);

  if (p == NULL) fail("no memory", (int)bytes);
  p += 63 - ((size_t)p + 63) % 64;
  memset(p, 0, bytes);
  attr.Ptag = ptag;
  attr.EnableRdmaWrite = writable;
  attr.EnableRdmaRead = VIP_FALSE;
  check(VipRegisterMem(nic, p, bytes, &attr, handle), "VipRegisterMem");
  return p;
}

static void post_receive(struct link *link, VIP_DESCRIPTOR *desc) {
  desc->CS.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
  desc->CS.Length = 0;
  desc->CS.SegCount = 0;
  desc->CS.ImmediateData = 0xffffffff;
  check(VipPostRecv(link->vi, desc, link->desc_mem), "VipPostRecv");
}

/* The setup message comes first and is the only one with data. */
static void post_first_receive(struct link *link) {
  VIP_DESCRIPTOR *desc = link->control;

  desc->CS.Control = VIP_CONTROL_IMMEDIATE;
  desc->CS.SegCount = 1;
  desc->CS.Length = sizeof(struct setup);
  desc->DS[0].Local.Data.Address = link->theirs;
  desc->DS[0].Local.Handle = link->desc_mem;
  desc->DS[0].Local.Length = sizeof(struct setup);
  check(VipPostRecv(link->vi, desc, link->desc_mem), "VipPostRecv (setup)");
}

static void make_link(struct link *link, int with_out) {
  VIP_VI_ATTRIBUTES attr;
  size_t picture = (size_t)piece * WRITES;
  VIP_DESCRIPTOR *desc;
  int i, max = (int)nic_attr.MaxTransferSize; /* an int, as ever */

  if (max <= 0 || piece > max) fail("MaxTransferSize", max);
  memset(link, 0, sizeof(*link));
  memset(&attr, 0, sizeof(attr));
  attr.ReliabilityLevel = level;
  attr.MaxTransferSize = nic_attr.MaxTransferSize;
  attr.Ptag = ptag;
  attr.EnableRdmaWrite = VIP_TRUE;
  check(VipCreateVi(nic, &attr, NULL, cq, &link->vi), "VipCreateVi");

  desc = (VIP_DESCRIPTOR *)get_memory((WRITES + RECEIVES + 1 + 2) * sizeof(VIP_DESCRIPTOR),
                                      VIP_FALSE, &link->desc_mem);
  link->writes = desc;
  link->receives = desc + WRITES;
  link->control = desc + WRITES + RECEIVES;
  link->mine = (struct setup *)(link->control + 1); /* data right behind the descriptors */
  link->theirs = (struct setup *)(link->control + 2);
  link->in = (char *)get_memory(picture * SLOTS, VIP_TRUE, &link->in_mem);
  link->out = link->in;
  link->out_mem = link->in_mem;
  if (with_out) link->out = (char *)get_memory(picture * SLOTS, VIP_FALSE, &link->out_mem);

  post_first_receive(link);
  for (i = 0; i < RECEIVES; ++i) post_receive(link, link->receives + i);
}

/* ------------------------------------------------------------------ transfers */

/* Takes the oldest completed receive of a link that the CQ has announced; NULL: it has left. */
static VIP_DESCRIPTOR *take_receive(struct link *link) {
  VIP_DESCRIPTOR *desc;
  VIP_RETURN code;

  while ((code = VipRecvDone(link->vi, &desc)) == VIP_NOT_DONE) continue;
  if (code == VIP_SUCCESS) return desc;
  if (code == VIP_DESCRIPTOR_ERROR && desc != NULL &&
      (desc->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0)
    return NULL;
  fail("VipRecvDone", (int)code);
  return NULL;
}

/* The number of a picture that has come to this link; -1: the other side has left. */
static int take_picture(struct link *link) {
  VIP_DESCRIPTOR *desc = take_receive(link);
  int number;

  if (desc == NULL) return -1;
  if (desc != link->receives + link->next_receive) fail("receives out of order", desc == NULL);
  link->next_receive = (link->next_receive + 1) % RECEIVES;
  if ((desc->CS.Status & VIP_STATUS_OP_MASK) != VIP_STATUS_OP_REMOTE_RDMA_WRITE)
    fail("not the end of a write", (int)desc->CS.Status);
  number = (int)desc->CS.ImmediateData;
  if (number != link->frames) fail("another picture than the next one", number);
  ++link->frames;
  post_receive(link, desc);
  return number;
}

static void await_writes(struct link *link, VIP_DESCRIPTOR *first, int count) {
  VIP_DESCRIPTOR *desc;
  VIP_RETURN code;
  int i;

  for (i = 0; i < count; ++i) {
    code = VipSendWait(link->vi, VIP_INFINITE, &desc);
    if (code == VIP_DESCRIPTOR_ERROR && desc != NULL)
      fail("status of a write", (int)desc->CS.Status);
    check(code, "VipSendWait");
    if (desc != first + i) fail("writes out of order", i);
  }
}

/* Writes a picture to the same slot at the other side and waits until all writes are done. */
static void write_picture(struct link *link, int number) {
  size_t offset = (size_t)(number % SLOTS) * (size_t)piece * WRITES;
  VIP_DESCRIPTOR *desc = link->writes;
  int i;

  for (i = 0; i < WRITES; ++i, ++desc, offset += (size_t)piece) {
    desc->CS.Control = VIP_CONTROL_OP_RDMAWRITE;
    if (i == WRITES - 1) {
      desc->CS.Control |= VIP_CONTROL_IMMEDIATE;
      desc->CS.ImmediateData = (VIP_UINT32)number;
    }
    desc->CS.SegCount = 2;
    desc->CS.Length = (VIP_UINT32)piece;
    desc->CS.Reserved = 0;
    desc->DS[0].Remote.Data.Address = (char *)link->theirs->address + offset;
    desc->DS[0].Remote.Handle = link->theirs->handle;
    desc->DS[1].Local.Data.Address = link->out + offset;
    desc->DS[1].Local.Handle = link->out_mem;
    desc->DS[1].Local.Length = (VIP_UINT32)piece;
    check(VipPostSend(link->vi, desc, link->desc_mem), "VipPostSend");
  }
  await_writes(link, link->writes, WRITES);
}

static void send_setup(struct link *link) {
  VIP_DESCRIPTOR *desc = link->writes;

  link->mine->address = link->in;
  link->mine->handle = link->in_mem;
  link->mine->piece = piece;
  link->mine->slots = SLOTS;
  link->mine->frames = frames;
  desc->CS.Control = VIP_CONTROL_OP_SENDRECV;
  desc->CS.SegCount = 1;
  desc->CS.Length = sizeof(struct setup);
  desc->DS[0].Local.Data.Address = link->mine;
  desc->DS[0].Local.Handle = link->desc_mem;
  desc->DS[0].Local.Length = sizeof(struct setup);
  check(VipPostSend(link->vi, desc, link->desc_mem), "VipPostSend (setup)");
  await_writes(link, desc, 1);
}

static void take_setup(struct link *link) {
  VIP_DESCRIPTOR *desc = take_receive(link);

  if (desc == NULL) fail("the other side has left at once", 0);
  if (desc != link->control) fail("setup in the wrong receive", 0);
  if (desc->CS.Length != sizeof(struct setup)) fail("length of setup", (int)desc->CS.Length);
  if (link->theirs->piece != piece || link->theirs->slots != SLOTS)
    fail("the other side was started with another -b", link->theirs->piece);
}

static void set_port(VIP_NET_ADDRESS *address, int a, int b, int c) {
  int key[3];

  key[0] = a;
  key[1] = b;
  key[2] = c;
  address->DiscriminatorLen = sizeof(key);
  memcpy(address->HostAddress + address->HostAddressLen, key, sizeof(key));
}

static VIP_NET_ADDRESS *make_address(void) {
  VIP_NET_ADDRESS *address = (VIP_NET_ADDRESS *)malloc(sizeof(VIP_NET_ADDRESS) + 6 + 12);

  if (address == NULL) fail("no memory", 0);
  address->HostAddressLen = nic_attr.NicAddressLen;
  memcpy(address->HostAddress, nic_attr.LocalNicAddress, nic_attr.NicAddressLen);
  return address;
}

/* ------------------------------------------------------------------ the server */

static struct link clients[MAX_CLIENTS];

static void negative(struct link *link, int number) {
  size_t picture = (size_t)piece * WRITES, i;
  unsigned char *p = (unsigned char *)link->in + (size_t)(number % SLOTS) * picture;

  for (i = 0; i < picture; ++i) p[i] = (unsigned char)~p[i];
}

static struct link *who(VIP_VI_HANDLE vi, int count) {
  int i;

  for (i = 0; i < count; ++i) {
    if (clients[i].vi == vi) return &clients[i];
  }
  fail("the CQ names an unknown VI", 0);
  return NULL;
}

static void serve(int count) {
  VIP_NET_ADDRESS *local = make_address(), *remote = make_address();
  VIP_VI_ATTRIBUTES attr;
  VIP_CONN_HANDLE conn;
  VIP_VI_HANDLE vi;
  VIP_BOOLEAN is_recv;
  struct link *link;
  int i, left = count, number, total = 0;

  for (i = 0; i < count; ++i) {
    make_link(&clients[i], 0);
    set_port(local, PORT, i, 0);
    check(VipConnectWait(nic, local, VIP_INFINITE, remote, &attr, &conn), "VipConnectWait");
    if (attr.ReliabilityLevel != level) fail("reliability level", attr.ReliabilityLevel);
    check(VipConnectAccept(conn, clients[i].vi), "VipConnectAccept");
    send_setup(&clients[i]);
  }
  free(local);
  free(remote);
  while (left > 0) {
    check(VipCQWait(cq, VIP_INFINITE, &vi, &is_recv), "VipCQWait");
    if (is_recv != VIP_TRUE) fail("a send queue in the CQ", is_recv);
    link = who(vi, count);
    if (link->bye) { /* one of the many receives that it did not use */
      take_receive(link);
      continue;
    }
    if (link->theirs->frames == 0) {
      take_setup(link);
      continue;
    }
    number = take_picture(link);
    if (number < 0) {
      if (link->frames != link->theirs->frames) fail("a client left early", link->frames);
      link->bye = 1;
      --left;
      continue;
    }
    negative(link, number);
    write_picture(link, number);
    ++total;
  }
  for (i = 0; i < count; ++i) {
    VipDisconnect(clients[i].vi);
    VipDisconnect(clients[i].vi);
    VipDestroyVi(clients[i].vi);
  }
  VipDestroyCQ(cq);
  VipCloseNic(nic);
  printf("rdma_stream: %d pictures of %d bytes turned into negatives\n", total, piece * WRITES);
}

/* ------------------------------------------------------------------ a client */

static struct link to_server;

static unsigned char colour(int number, size_t i) {
  return (unsigned char)(number * 41 + (int)(i % 251) + (int)(i / 65536));
}

/* Paints pictures and writes them to the server, as far as slots are free. */
static void *paint(void *unused) {
  size_t picture = (size_t)piece * WRITES, i;
  unsigned char *p;
  int number;

  (void)unused;
  for (number = 0; number < frames; ++number) {
    sem_wait(&free_slots, 1);
    p = (unsigned char *)to_server.out + (size_t)(number % SLOTS) * picture;
    for (i = 0; i < picture; ++i) p[i] = colour(number, i);
    write_picture(&to_server, number);
  }
  return NULL;
}

static void look_at(int number) {
  size_t picture = (size_t)piece * WRITES, i;
  unsigned char *p = (unsigned char *)to_server.in + (size_t)(number % SLOTS) * picture;

  for (i = 0; i < picture; ++i) {
    if (p[i] != (unsigned char)~colour(number, i)) fail("a wrong pixel in picture", number);
  }
}

static void ask(int client, char *server) {
  VIP_NET_ADDRESS *local, *remote;
  VIP_VI_ATTRIBUTES attr;
  VIP_VI_HANDLE vi;
  VIP_BOOLEAN is_recv;
  VIP_RETURN code;
  pthread_t painter;
  int i, number;

  local = make_address();
  remote = make_address();
  remote->DiscriminatorLen = 0xbeef; /* whatever malloc left there */
  check(VipNSInit(nic, NULL), "VipNSInit");
  check(VipNSGetHostByName(nic, server, remote, 0), "VipNSGetHostByName");
  check(VipNSShutdown(nic), "VipNSShutdown");
  set_port(local, PORT, client, 1);
  set_port(remote, PORT, client, 0);

  make_link(&to_server, 1);
  do {
    code = VipConnectRequest(to_server.vi, local, remote, CONNECT_TIMEOUT, &attr);
  } while (code == VIP_NO_MATCH);
  check(code, "VipConnectRequest");
  if (!attr.EnableRdmaWrite) fail("the server allows no RDMA writes", 0);
  send_setup(&to_server);
  check(VipCQWait(cq, VIP_INFINITE, &vi, &is_recv), "VipCQWait (setup)");
  take_setup(&to_server);
  printf("rdma_stream: client %d: connected\n", client);
  fflush(stdout);

  sem_open(&free_slots, SLOTS);
  if (pthread_create(&painter, NULL, paint, NULL) != 0) fail("pthread_create", 0);
  for (i = 0; i < frames; ++i) {
    check(VipCQWait(cq, VIP_INFINITE, &vi, &is_recv), "VipCQWait");
    number = take_picture(&to_server);
    if (number < 0) fail("the server has left", i);
    look_at(number);
    post(&free_slots, 1);
  }
  pthread_join(painter, NULL);
  free(local);
  free(remote);
  sem_close(&free_slots);
  VipDisconnect(to_server.vi);
  VipDisconnect(to_server.vi);
  VipDestroyVi(to_server.vi);
  VipCloseNic(nic);
  printf("rdma_stream: client %d: %d pictures of %d bytes\n", client, frames, piece * WRITES);
}

static void usage(void) {
  fprintf(stderr,
          "usage: rdma_stream -s CLIENTS [-l] [-i INTERFACE] [-b BYTES]\n"
          "       rdma_stream -c NUMBER SERVER [-f FRAMES] [-i INTERFACE] [-b BYTES]\n");
  exit(2);
}

int main(int argc, char **argv) {
  int count = 0, client = -1, interface = 0, i;
  char *server = NULL, *lo = NULL;

  for (i = 1; i < argc; ++i) {
    if (argv[i][0] != '-') {
      server = argv[i];
    } else if (strcmp(argv[i], "-l") == 0) {
      lo = (char *)"localhost";
    } else {
      if (i + 1 == argc) usage();
      switch (argv[i][1]) {
        case 's':
          count = atoi(argv[++i]);
          break;
        case 'c':
          client = atoi(argv[++i]);
          break;
        case 'i':
          interface = atoi(argv[++i]);
          break;
        case 'b':
          piece = atoi(argv[++i]);
          break;
        case 'f':
          frames = atoi(argv[++i]);
          break;
        default:
          usage();
      }
    }
  }
  if (count > MAX_CLIENTS || frames < 1 || piece < 1 || piece > 1000000) usage();
  if (count > 0 && client < 0 && server == NULL) {
    open_interface(interface, lo);
    serve(count);
  } else if (count == 0 && client >= 0 && server != NULL) {
    open_interface(interface, server);
    ask(client, server);
  } else {
    usage();
  }
  return 0;
}
