/* stream: one host sends many messages to another, as fast as they go through.
 *
 *   on host a:  stream
 *   on host b:  stream a
 *
 * Plain C, vipl.h and libc. One completion queue for both work queues, blocking, and the other
 * spelling of a descriptor's members (Control, Data).
 *
 * VIA has no flow control: a message that finds no receive posted breaks a reliable connection. So
 * the sender begins with a credit for each receive that the receiver posts before the connection is
 * made, and the receiver returns a message without data, whose immediate data says how many more
 * receives it has posted since.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vipl.h>

#define DEVICE "nic0"
#define SERVER_DISCRIMINATOR 0x5354524d
#define CLIENT_DISCRIMINATOR 0x53545243
#define ADDRESS_BYTES 40
#define CREDITS 64       /* receives that the receiver has posted at first */
#define RETURN_AFTER 16  /* credits are returned by so many */
#define CREDIT_RECEIVES (CREDITS / RETURN_AFTER + 1)
#define WAIT_MSEC 10000

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attr;
static VIP_MEM_HANDLE mem;
static VIP_CQ_HANDLE cq;
static VIP_VI_HANDLE vi;
static unsigned long size = 32768, count = 20000;

static VIP_DESCRIPTOR *receives, *sends;
static char *receive_data, *send_data;

static void check(VIP_RETURN code, const char *call) {
  if (code == VIP_SUCCESS) return;
  fprintf(stderr, "stream: %s returned %d\n", call, (int)code);
  exit(1);
}

/* Memory for so many receives and sends of so many bytes, in one region: descriptors, then data. */
static void set_up(int receive_count, size_t receive_bytes, int send_count, size_t send_bytes) {
  VIP_VI_ATTRIBUTES vi_attr;
  size_t descriptors = ((size_t)receive_count + (size_t)send_count) * sizeof(VIP_DESCRIPTOR);
  size_t bytes = descriptors + (size_t)receive_count * receive_bytes + (size_t)send_count * send_bytes;
  char *memory;
  int i;

  if (VipOpenNic(DEVICE, &nic) != VIP_SUCCESS) {
    fprintf(stderr, "stream: can't open %s (is viad running? VIADUCT_DEBUG=1 tells more)\n", DEVICE);
    exit(1);
  }
  check(VipQueryNic(nic, &nic_attr), "VipQueryNic");
  if (size > nic_attr.MaxTransferSize) {
    fprintf(stderr, "stream: at most %lu bytes\n", nic_attr.MaxTransferSize);
    exit(1);
  }
  memory = aligned_alloc(VIP_DESCRIPTOR_ALIGNMENT, (bytes + 63) / 64 * 64);
  if (memory == NULL) {
    perror("stream");
    exit(1);
  }
  memset(memory, 0, bytes);
  check(VipRegisterMem(nic, memory, bytes, NULL, &mem), "VipRegisterMem");
  receives = (VIP_DESCRIPTOR *)memory;
  sends = receives + receive_count;
  receive_data = memory + descriptors;
  send_data = receive_data + (size_t)receive_count * receive_bytes;

  check(VipCreateCQ(nic, (VIP_ULONG)(receive_count + send_count), &cq), "VipCreateCQ");
  memset(&vi_attr, 0, sizeof vi_attr);
  vi_attr.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  vi_attr.MaxTransferSize = nic_attr.MaxTransferSize;
  check(VipCreateVi(nic, &vi_attr, cq, cq, &vi), "VipCreateVi");

  for (i = 0; i < receive_count; ++i) {
    receives[i].Data[0].Data.Address = receive_data + (size_t)i * receive_bytes;
    receives[i].Data[0].Handle = mem;
    receives[i].Data[0].Length = (VIP_UINT32)receive_bytes;
  }
  for (i = 0; i < send_count; ++i) {
    sends[i].Data[0].Data.Address = send_data + (size_t)i * send_bytes;
    sends[i].Data[0].Handle = mem;
    sends[i].Data[0].Length = (VIP_UINT32)send_bytes;
  }
}

static void post_receive(VIP_DESCRIPTOR *d) {
  d->Control.Control = VIP_CONTROL_OP_SENDRECV;
  d->Control.SegCount = 1;
  d->Control.Length = d->Data[0].Length;
  d->Control.Status = 0;
  check(VipPostRecv(vi, d, mem), "VipPostRecv");
}

static void post_send(VIP_DESCRIPTOR *d, VIP_UINT16 segments, VIP_UINT32 immediate) {
  d->Control.Control = VIP_CONTROL_OP_SENDRECV | VIP_CONTROL_IMMEDIATE;
  d->Control.SegCount = segments;
  d->Control.Length = segments == 0 ? 0 : d->Data[0].Length;
  d->Control.ImmediateData = immediate;
  d->Control.Status = 0;
  check(VipPostSend(vi, d, mem), "VipPostSend");
}

/* Waits for the next completion of either queue. NULL when the other side has gone. */
static VIP_DESCRIPTOR *next(VIP_BOOLEAN *is_receive) {
  VIP_DESCRIPTOR *d;
  VIP_VI_HANDLE which;
  VIP_RETURN code;

  check(VipCQWait(cq, WAIT_MSEC, &which, is_receive), "VipCQWait");
  code = *is_receive == VIP_TRUE ? VipRecvDone(which, &d) : VipSendDone(which, &d);
  if (code == VIP_DESCRIPTOR_ERROR && d != NULL &&
      (d->Control.Status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0)
    return NULL;
  check(code, *is_receive == VIP_TRUE ? "VipRecvDone" : "VipSendDone");
  return d;
}

static double now(void) {
  struct timespec t;

  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void fill_address(VIP_NET_ADDRESS *address, const void *host, VIP_UINT32 discriminator) {
  address->HostAddressLen = nic_attr.NicAddressLen;
  if (host != NULL) memcpy(address->HostAddress, host, nic_attr.NicAddressLen);
  address->DiscriminatorLen = sizeof discriminator;
  memcpy(address->HostAddress + address->HostAddressLen, &discriminator, sizeof discriminator);
}

/* Message n is filled with the byte n % 251, and n is its immediate data. */
static void verify(const VIP_DESCRIPTOR *d, unsigned long n) {
  const char *data = d->Data[0].Data.Address;
  VIP_UINT32 i;

  if (d->Control.ImmediateData != (VIP_UINT32)n) {
    fprintf(stderr, "stream: message %u came instead of %lu\n", (unsigned)d->Control.ImmediateData, n);
    exit(1);
  }
  for (i = 0; i < d->Control.Length; ++i) {
    if (data[i] != (char)(n % 251)) {
      fprintf(stderr, "stream: message %lu: byte %u is wrong\n", n, (unsigned)i);
      exit(1);
    }
  }
}

static void serve(VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote) {
  VIP_VI_ATTRIBUTES remote_attr;
  VIP_CONN_HANDLE conn;
  VIP_BOOLEAN is_receive;
  VIP_DESCRIPTOR *d;
  unsigned long n = 0;
  double bytes = 0, start = 0, seconds = 0;
  int i, next_send = 0, sends_free = CREDIT_RECEIVES, owed = 0, at_end = 0;

  for (i = 0; i < CREDITS; ++i) post_receive(&receives[i]);
  fill_address(local, nic_attr.LocalNicAddress, SERVER_DISCRIMINATOR);
  check(VipConnectWait(nic, local, VIP_INFINITE, remote, &remote_attr, &conn), "VipConnectWait");
  check(VipConnectAccept(conn, vi), "VipConnectAccept");

  while ((d = next(&is_receive)) != NULL) {
    if (is_receive != VIP_TRUE) {
      ++sends_free;
    } else {
      verify(d, n);
      if (d->Control.Length == 0) {
        at_end = 1;
      } else {
        if (n == 0) start = now();
        bytes += d->Control.Length;
        seconds = now() - start;
        ++n;
      }
      post_receive(d);
      ++owed;
    }
    if ((owed >= RETURN_AFTER || (at_end && owed > 0)) && sends_free > 0) {
      post_send(&sends[next_send], 0, (VIP_UINT32)owed);
      next_send = (next_send + 1) % CREDIT_RECEIVES;
      --sends_free;
      owed = 0;
    }
  }
  if (!at_end) {
    fprintf(stderr, "stream: the sender has gone after %lu messages\n", n);
    exit(1);
  }
  printf("stream: received %lu messages, %.0f bytes", n, bytes);
  if (n > 1) printf(", %.1f Mb/s", bytes * 8 / 1e6 / seconds);
  printf("\n");
}

static void ask(char *host, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote) {
  VIP_VI_ATTRIBUTES remote_attr;
  VIP_BOOLEAN is_receive;
  VIP_DESCRIPTOR *d;
  VIP_RETURN code;
  unsigned long n = 0, credits = CREDITS, sends_free = CREDITS;
  double start, seconds;
  int i;

  check(VipNSInit(nic, NULL), "VipNSInit");
  if (VipNSGetHostByName(nic, host, remote, 0) != VIP_SUCCESS) {
    fprintf(stderr, "stream: the host %s is not known\n", host);
    exit(1);
  }
  VipNSShutdown(nic);
  fill_address(remote, NULL, SERVER_DISCRIMINATOR);
  fill_address(local, nic_attr.LocalNicAddress, CLIENT_DISCRIMINATOR);
  for (i = 0; i < CREDIT_RECEIVES; ++i) post_receive(&receives[i]);
  code = VipConnectRequest(vi, local, remote, WAIT_MSEC, &remote_attr);
  if (code == VIP_NO_MATCH) {
    fprintf(stderr, "stream: no stream waits on %s\n", host);
    exit(1);
  }
  check(code, "VipConnectRequest");

  /* Message number `count` has no data and says that all have been sent. When its credit is back
   * everything has been received. */
  start = now();
  while (n <= count || credits < CREDITS) {
    while (n <= count && credits > 0 && sends_free > 0) {
      VIP_DESCRIPTOR *s = &sends[n % CREDITS];
      if (n < count) memset(s->Data[0].Data.Address, (int)(n % 251), size);
      post_send(s, n < count, (VIP_UINT32)n);
      ++n;
      --credits;
      --sends_free;
    }
    d = next(&is_receive);
    if (d == NULL) {
      fprintf(stderr, "stream: the connection is lost after %lu messages\n", n);
      exit(1);
    }
    if (is_receive == VIP_TRUE) {
      credits += d->Control.ImmediateData;
      post_receive(d);
    } else {
      ++sends_free;
    }
  }
  seconds = now() - start;
  printf("stream: sent %lu messages of %lu bytes, %.1f Mb/s\n", count, size,
         (double)count * (double)size * 8 / 1e6 / seconds);
}

static void usage(void) {
  fprintf(stderr,
          "usage: stream                                waits for one client\n"
          "       stream HOST [-s BYTES] [-n COUNT]     default: 20000 messages of 32768 bytes\n"
          "A message has 65536 bytes at most.\n");
  exit(2);
}

static unsigned long number(const char *text, unsigned long least, unsigned long most) {
  char *end;
  unsigned long n;

  if (text == NULL) usage();
  n = strtoul(text, &end, 10);
  if (end == text || *end != '\0' || *text == '-' || n < least || n > most) usage();
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
      size = number(argv[++i], 1, 65536);
    else if (strcmp(argv[i], "-n") == 0)
      count = number(argv[++i], 1, 1000000000);
    else if (argv[i][0] == '-' || host != NULL)
      usage();
    else
      host = argv[i];
  }

  memset(local_room, 0, sizeof local_room);
  memset(remote_room, 0, sizeof remote_room);
  if (host == NULL) {
    size = 32768;
    set_up(CREDITS, 65536, CREDIT_RECEIVES, 0);
    serve(local, remote);
  } else {
    set_up(CREDIT_RECEIVES, 64, CREDITS, size);
    ask(host, local, remote);
  }

  /* Destroying the VI drops all that its queues still hold; closing the NIC frees the rest. */
  check(VipDisconnect(vi), "VipDisconnect");
  check(VipDestroyVi(vi), "VipDestroyVi");
  check(VipDestroyCQ(cq), "VipDestroyCQ");
  check(VipCloseNic(nic), "VipCloseNic");
  return 0;
}
