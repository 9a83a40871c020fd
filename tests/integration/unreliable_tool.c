/* unreliable_tool: compares messages of Unreliable Delivery with what was sent, and counts those that are lost.
 *
 *   on host a:  unreliable_tool
 *   on host b:  unreliable_tool HOST COUNT
 *
 * The messages go over one VI. Behind each WINDOW of them a mark goes over another, reliable one, and is answered:
 * frames of one port do not overtake each other, so a message that has not come before the mark is lost. Never are
 * more in flight than the receiver has descriptors for, however slow it is: messages are lost only below.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <vipl.h>

#define WINDOW 48u
#define RECEIVES 64u
#define BYTES 4096u /* of a message, at most: three frames */
#define DATA 0x55444154u
#define MARKS 0x554d524bu
#define ADDRESS_BYTES 40
#define WAIT_MSEC 60000
#define END 0xffffffffu /* a mark */

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attr;
static VIP_MEM_HANDLE mem;
static VIP_VI_HANDLE data, marks;
static VIP_DESCRIPTOR *descriptors; /* RECEIVES for messages or as many sends, then two for marks: received and sent */
static unsigned char *buffers;

static void check(VIP_RETURN code, const char *call) {
  if (code == VIP_SUCCESS) return;
  fprintf(stderr, "unreliable_tool: %s returned %d\n", call, (int)code);
  exit(1);
}

static VIP_UINT32 length_of(unsigned long n) { return 1 + (VIP_UINT32)(n * 7919 % (BYTES - 1)); }

static unsigned char byte_of(unsigned long n, unsigned long i) { return (unsigned char)(n * 131 + i * 7 + (i >> 8)); }

static VIP_VI_HANDLE vi_of(VIP_RELIABILITY_LEVEL level) {
  VIP_VI_ATTRIBUTES attributes;
  VIP_VI_HANDLE vi;

  memset(&attributes, 0, sizeof attributes);
  attributes.ReliabilityLevel = level;
  attributes.MaxTransferSize = BYTES;
  check(VipCreateVi(nic, &attributes, NULL, NULL, &vi), "VipCreateVi");
  return vi;
}

static void set_up(void) {
  size_t bytes = (RECEIVES + 2) * sizeof(VIP_DESCRIPTOR) + RECEIVES * BYTES;
  char device[] = "nic0";

  check(VipOpenNic(device, &nic), "VipOpenNic");
  check(VipQueryNic(nic, &nic_attr), "VipQueryNic");
  descriptors = aligned_alloc(VIP_DESCRIPTOR_ALIGNMENT, (bytes + 63) / 64 * 64);
  if (descriptors == NULL) {
    perror("unreliable_tool");
    exit(1);
  }
  memset(descriptors, 0, bytes);
  buffers = (unsigned char *)(descriptors + RECEIVES + 2);
  check(VipRegisterMem(nic, descriptors, bytes, NULL, &mem), "VipRegisterMem");
  data = vi_of(VIP_SERVICE_UNRELIABLE);
  marks = vi_of(VIP_SERVICE_RELIABLE_DELIVERY);
}

/* The descriptor of message n, or of the receive of that number, with a buffer of its own. */
static VIP_DESCRIPTOR *message(unsigned long n, VIP_UINT32 length) {
  VIP_DESCRIPTOR *d = &descriptors[n % RECEIVES];

  memset(d, 0, sizeof *d);
  d->Control.Control = VIP_CONTROL_OP_SENDRECV;
  d->Control.SegCount = 1;
  d->Control.Length = length;
  d->Data[0].Data.Address = buffers + n % RECEIVES * BYTES;
  d->Data[0].Handle = mem;
  d->Data[0].Length = length;
  return d;
}

/* That of a mark: 0 for the received one, 1 for the sent one. */
static VIP_DESCRIPTOR *mark(unsigned which) {
  VIP_DESCRIPTOR *d = &descriptors[RECEIVES + which];

  memset(d, 0, sizeof *d);
  d->Control.Control = VIP_CONTROL_OP_SENDRECV;
  return d;
}

static void await_mark(VIP_UINT32 *number) {
  VIP_DESCRIPTOR *d;

  check(VipRecvWait(marks, WAIT_MSEC, &d), "VipRecvWait");
  *number = d->Control.ImmediateData;
  check(VipPostRecv(marks, mark(0), mem), "VipPostRecv");
}

static void send_mark(VIP_UINT32 number) {
  VIP_DESCRIPTOR *d = mark(1);

  d->Control.Control |= VIP_CONTROL_IMMEDIATE;
  d->Control.ImmediateData = number;
  check(VipPostSend(marks, d, mem), "VipPostSend");
  check(VipSendWait(marks, WAIT_MSEC, &d), "VipSendWait");
}

static void fill_address(VIP_NET_ADDRESS *address, const void *host, VIP_UINT32 discriminator) {
  address->HostAddressLen = nic_attr.NicAddressLen;
  if (host != NULL) memcpy(address->HostAddress, host, nic_attr.NicAddressLen);
  address->DiscriminatorLen = sizeof discriminator;
  memcpy(address->HostAddress + address->HostAddressLen, &discriminator, sizeof discriminator);
}

/* Compares what has come. */
static unsigned long received, wrong, disordered;
static void take_messages(void) {
  static unsigned long next; /* the least number that may come */
  VIP_DESCRIPTOR *d;

  while (VipRecvDone(data, &d) == VIP_SUCCESS) {
    const unsigned char *bytes = d->Data[0].Data.Address;
    unsigned long n = d->Control.ImmediateData, i;
    int same = d->Control.Length == length_of(n);

    for (i = 0; same && i < d->Control.Length; ++i) same = bytes[i] == byte_of(n, i);
    ++received;
    if (!same) ++wrong;
    if (n < next) ++disordered;
    next = n + 1;
    check(VipPostRecv(data, message((unsigned long)(d - descriptors), BYTES), mem), "VipPostRecv");
  }
}

static void accept_connection(VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote, VIP_UINT32 discriminator, VIP_VI_HANDLE vi) {
  VIP_VI_ATTRIBUTES theirs;
  VIP_CONN_HANDLE request;

  fill_address(local, nic_attr.LocalNicAddress, discriminator);
  check(VipConnectWait(nic, local, WAIT_MSEC, remote, &theirs, &request), "VipConnectWait");
  check(VipConnectAccept(request, vi), "VipConnectAccept");
}

static void serve(VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote) {
  VIP_UINT32 number = 0, last;
  unsigned long i;

  for (i = 0; i < RECEIVES; ++i) check(VipPostRecv(data, message(i, BYTES), mem), "VipPostRecv");
  check(VipPostRecv(marks, mark(0), mem), "VipPostRecv");
  accept_connection(local, remote, DATA, data);
  accept_connection(local, remote, MARKS, marks);
  do {
    last = number;
    await_mark(&number);
    take_messages();
    send_mark(number);
  } while (number != END);
  printf("sent %lu, received %lu, wrong %lu, disordered %lu\n", (unsigned long)last, received, wrong, disordered);
}

/* Until the receiver waits. */
static void ask_for_connection(VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote, VIP_UINT32 discriminator, VIP_VI_HANDLE vi) {
  const struct timespec pause = {0, 50000000};
  VIP_VI_ATTRIBUTES theirs;
  VIP_RETURN code;
  int tries = 0;

  fill_address(local, nic_attr.LocalNicAddress, discriminator + 1);
  fill_address(remote, NULL, discriminator);
  while ((code = VipConnectRequest(vi, local, remote, WAIT_MSEC, &theirs)) == VIP_NO_MATCH && ++tries < 600)
    nanosleep(&pause, NULL);
  check(code, "VipConnectRequest");
}

static void post_message(unsigned long n) {
  VIP_DESCRIPTOR *d = message(n, length_of(n));
  unsigned char *bytes = d->Data[0].Data.Address;
  unsigned long i;

  for (i = 0; i < d->Control.Length; ++i) bytes[i] = byte_of(n, i);
  d->Control.Control |= VIP_CONTROL_IMMEDIATE;
  d->Control.ImmediateData = (VIP_UINT32)n;
  check(VipPostSend(data, d, mem), "VipPostSend");
}

static void ask(char *host, unsigned long count, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote) {
  unsigned long n = 0, posted;
  VIP_UINT32 answer;
  VIP_DESCRIPTOR *d;

  check(VipNSInit(nic, NULL), "VipNSInit");
  check(VipNSGetHostByName(nic, host, remote, 0), "VipNSGetHostByName");
  VipNSShutdown(nic);
  check(VipPostRecv(marks, mark(0), mem), "VipPostRecv");
  ask_for_connection(local, remote, DATA, data);
  ask_for_connection(local, remote, MARKS, marks);
  while (n < count) {
    for (posted = 0; posted < WINDOW && n < count; ++posted) post_message(n++);
    for (; posted > 0; --posted) check(VipSendWait(data, WAIT_MSEC, &d), "VipSendWait");
    send_mark((VIP_UINT32)n);
    await_mark(&answer);
  }
  send_mark(END);
  await_mark(&answer);
}

int main(int argc, char **argv) {
  VIP_UINT16 local_room[ADDRESS_BYTES / 2], remote_room[ADDRESS_BYTES / 2];
  VIP_NET_ADDRESS *local = (VIP_NET_ADDRESS *)local_room;
  VIP_NET_ADDRESS *remote = (VIP_NET_ADDRESS *)remote_room;

  if (argc != 1 && argc != 3) {
    fprintf(stderr, "usage: unreliable_tool [HOST COUNT]\n");
    return 2;
  }
  memset(local_room, 0, sizeof local_room);
  memset(remote_room, 0, sizeof remote_room);
  set_up();
  if (argc == 1)
    serve(local, remote);
  else
    ask(argv[1], strtoul(argv[2], NULL, 10), local, remote);
  /* The VIs go with the NIC: a disconnection could come before the last answer of this end has arrived. */
  return 0;
}
