/* pingpong: two hosts pass a message to and fro, the way programs of VIA's days did it.
 *
 *   on host a:  pingpong
 *   on host b:  pingpong a
 *
 * Plain C, vipl.h and libc. Polling, reliable delivery, descriptors in registered memory right before their data,
 * receives posted before the connection is made, the same discriminator on both sides, and a client that retries until
 * the server waits.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vipl.h>

#define DEVICE "nic0"
#define DISCRIMINATOR "pingpong"
#define DISCRIMINATOR_LEN 8
#define ADDRESS_BYTES 40 /* room for a host address and a discriminator */
#define RECEIVES 4
#define CONNECT_MSEC 5000

/* A descriptor and its data, as they lie in registered memory. */
struct message {
  VIP_DESCRIPTOR desc;
  char data[1];
};

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attr;
static VIP_PROTECTION_HANDLE ptag;
static VIP_MEM_HANDLE mem;
static VIP_VI_HANDLE vi;
static char *memory;
static size_t stride; /* from one message to the next */
static unsigned long size = 4, rounds = 10000;

static void check(VIP_RETURN code, const char *call) {
  if (code == VIP_SUCCESS) return;
  fprintf(stderr, "pingpong: %s returned %d\n", call, (int)code);
  exit(1);
}

/* Messages 0 .. RECEIVES-1 are for receiving, message RECEIVES is for sending. */
static struct message *message(int i) { return (struct message *)(memory + i * stride); }

static void set_up(void) {
  VIP_MEM_ATTRIBUTES mem_attr;
  VIP_VI_ATTRIBUTES vi_attr;
  size_t bytes;

  if (VipOpenNic(DEVICE, &nic) != VIP_SUCCESS) {
    fprintf(stderr, "pingpong: can't open %s (is viad running? VIADUCT_DEBUG=1 tells more)\n", DEVICE);
    exit(1);
  }
  check(VipQueryNic(nic, &nic_attr), "VipQueryNic");
  if (size > nic_attr.MaxTransferSize) {
    fprintf(stderr, "pingpong: at most %lu bytes\n", nic_attr.MaxTransferSize);
    exit(1);
  }
  check(VipCreatePtag(nic, &ptag), "VipCreatePtag");

  stride = (sizeof(VIP_DESCRIPTOR) + size + VIP_DESCRIPTOR_ALIGNMENT - 1) /
           VIP_DESCRIPTOR_ALIGNMENT * VIP_DESCRIPTOR_ALIGNMENT;
  bytes = (RECEIVES + 1) * stride;
  memory = aligned_alloc(VIP_DESCRIPTOR_ALIGNMENT, bytes);
  if (memory == NULL) {
    perror("pingpong");
    exit(1);
  }
  memset(memory, 0, bytes);
  memset(&mem_attr, 0, sizeof mem_attr);
  mem_attr.Ptag = ptag;
  check(VipRegisterMem(nic, memory, bytes, &mem_attr, &mem), "VipRegisterMem");

  memset(&vi_attr, 0, sizeof vi_attr);
  vi_attr.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  vi_attr.MaxTransferSize = nic_attr.MaxTransferSize;
  vi_attr.Ptag = ptag;
  check(VipCreateVi(nic, &vi_attr, NULL, NULL, &vi), "VipCreateVi");
}

static void prepare(struct message *m) {
  m->desc.CS.Control = VIP_CONTROL_OP_SENDRECV;
  m->desc.CS.SegCount = 1;
  m->desc.CS.Length = (VIP_UINT32)size;
  m->desc.CS.Status = 0;
  m->desc.DS[0].Local.Data.Address = m->data;
  m->desc.DS[0].Local.Handle = mem;
  m->desc.DS[0].Local.Length = (VIP_UINT32)size;
}

static void post_receive(struct message *m) {
  prepare(m);
  check(VipPostRecv(vi, &m->desc, mem), "VipPostRecv");
}

/* Spins until the oldest receive has completed. NULL when the other side has gone. */
static struct message *receive(void) {
  VIP_DESCRIPTOR *desc;
  VIP_RETURN code;

  while ((code = VipRecvDone(vi, &desc)) == VIP_NOT_DONE) continue;
  if (code == VIP_DESCRIPTOR_ERROR && desc != NULL &&
      (desc->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0)
    return NULL;
  check(code, "VipRecvDone");
  return (struct message *)desc;
}

static void send_message(void) {
  struct message *m = message(RECEIVES);

  prepare(m);
  check(VipPostSend(vi, &m->desc, mem), "VipPostSend");
}

static void await_sent(void) {
  VIP_DESCRIPTOR *desc;
  VIP_RETURN code;

  while ((code = VipSendDone(vi, &desc)) == VIP_NOT_DONE) continue;
  check(code, "VipSendDone");
}

static void fill(char *data, unsigned long round) {
  unsigned long i;

  for (i = 0; i < size; ++i) data[i] = (char)(round * 31 + i);
}

static void verify(struct message *m, unsigned long round) {
  unsigned long i;

  if (m->desc.CS.Length != size) {
    fprintf(stderr, "pingpong: %u bytes came instead of %lu\n", (unsigned)m->desc.CS.Length, size);
    exit(1);
  }
  for (i = 0; i < size; ++i) {
    if (m->data[i] != (char)(round * 31 + i)) {
      fprintf(stderr, "pingpong: round %lu: byte %lu is wrong\n", round, i);
      exit(1);
    }
  }
}

static void set_discriminator(VIP_NET_ADDRESS *address) {
  address->DiscriminatorLen = DISCRIMINATOR_LEN;
  memcpy(address->HostAddress + address->HostAddressLen, DISCRIMINATOR, DISCRIMINATOR_LEN);
}

static void set_local(VIP_NET_ADDRESS *local) {
  local->HostAddressLen = nic_attr.NicAddressLen;
  memcpy(local->HostAddress, nic_attr.LocalNicAddress, nic_attr.NicAddressLen);
  set_discriminator(local);
}

static void serve(VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote) {
  VIP_VI_ATTRIBUTES remote_attr;
  VIP_CONN_HANDLE conn;
  struct message *m;
  unsigned long round;

  check(VipConnectWait(nic, local, VIP_INFINITE, remote, &remote_attr, &conn), "VipConnectWait");
  check(VipConnectAccept(conn, vi), "VipConnectAccept");
  for (round = 0; (m = receive()) != NULL; ++round) {
    verify(m, round);
    memcpy(message(RECEIVES)->data, m->data, size);
    if (round > 0) await_sent();
    send_message();
    post_receive(m);
  }
  printf("pingpong: answered %lu messages of %lu bytes\n", round, size);
}

static double now(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void ask(char *host, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote) {
  VIP_VI_ATTRIBUTES remote_attr;
  VIP_RETURN code;
  struct message *m;
  unsigned long round;
  double start;
  int tries = 0;

  check(VipNSInit(nic, NULL), "VipNSInit");
  code = VipNSGetHostByName(nic, host, remote, 0);
  if (code != VIP_SUCCESS) {
    fprintf(stderr, "pingpong: the host %s is not known\n", host);
    exit(1);
  }
  VipNSShutdown(nic);
  set_discriminator(remote);
  do {
    code = VipConnectRequest(vi, local, remote, CONNECT_MSEC, &remote_attr);
  } while (code == VIP_NO_MATCH && ++tries < 5);
  check(code, "VipConnectRequest");

  start = now();
  for (round = 0; round < rounds; ++round) {
    fill(message(RECEIVES)->data, round);
    send_message();
    m = receive();
    if (m == NULL) {
      fprintf(stderr, "pingpong: the connection is lost\n");
      exit(1);
    }
    verify(m, round);
    post_receive(m);
    await_sent();
  }
  printf("pingpong: %lu rounds of %lu bytes, %.2f us one way\n", rounds, size,
         (now() - start) / (double)rounds / 2);
}

static void usage(void) {
  fprintf(stderr,
          "usage: pingpong [-s BYTES]                      waits for one client\n"
          "       pingpong HOST [-s BYTES] [-n ROUNDS]     default: 4 bytes, 10000 rounds\n"
          "Both sides must be given the same number of bytes.\n");
  exit(2);
}

static unsigned long number(const char *text, unsigned long least) {
  char *end;
  unsigned long n;

  if (text == NULL) usage();
  n = strtoul(text, &end, 10);
  if (end == text || *end != '\0' || *text == '-' || n < least || n > 1000000000) usage();
  return n;
}

int main(int argc, char **argv) {
  VIP_UINT16 local_room[ADDRESS_BYTES / 2], remote_room[ADDRESS_BYTES / 2];
  VIP_NET_ADDRESS *local = (VIP_NET_ADDRESS *)local_room;
  VIP_NET_ADDRESS *remote = (VIP_NET_ADDRESS *)remote_room;
  char *host = NULL;
  int i;

  for (i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "-s") == 0)
      size = number(argv[++i], 0);
    else if (strcmp(argv[i], "-n") == 0)
      rounds = number(argv[++i], 1);
    else if (argv[i][0] == '-' || host != NULL)
      usage();
    else
      host = argv[i];
  }

  set_up();
  for (i = 0; i < RECEIVES; ++i) post_receive(message(i));
  memset(local_room, 0, sizeof local_room);
  memset(remote_room, 0, sizeof remote_room);
  set_local(local);
  if (host == NULL)
    serve(local, remote);
  else
    ask(host, local, remote);

  check(VipDisconnect(vi), "VipDisconnect");
  check(VipDestroyVi(vi), "VipDestroyVi");
  check(VipDeregisterMem(nic, memory, mem), "VipDeregisterMem");
  check(VipDestroyPtag(nic, ptag), "VipDestroyPtag");
  check(VipCloseNic(nic), "VipCloseNic");
  free(memory);
  return 0;
}
