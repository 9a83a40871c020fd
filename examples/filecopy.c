/* filecopy: sends a file to another host.
 *
 *   on host a:  filecopy --receive FILE
 *   on host b:  filecopy a FILE
 *
 * Plain C, vipl.h and libc. Message n carries piece n of the file, with n as immediate data; a
 * message without data ends it. The receiver returns the number of pieces that it has written, which
 * is credit for as many more, and at last the number of bytes, which tells the sender that
 * everything is there. FILE appears under its name when it is complete.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <vipl.h>

#define DEVICE "nic0"
#define DISCRIMINATOR "filecopy"
#define DISCRIMINATOR_LEN 8
#define ADDRESS_BYTES 40
#define PIECE 32768
#define WINDOW 64
#define RETURN_AFTER 16
#define CREDITS (WINDOW / RETURN_AFTER + 2) /* credits on their way at once, the last included */
#define END 0xffffffffu
#define WAIT_MSEC 10000

struct credit {
  VIP_UINT64 bytes; /* written so far */
};

static VIP_NIC_HANDLE nic;
static VIP_NIC_ATTRIBUTES nic_attr;
static VIP_MEM_HANDLE mem;
static VIP_VI_HANDLE vi;
static VIP_DESCRIPTOR *piece_desc, *credit_desc; /* WINDOW + 1 and CREDITS of them */
static char *piece_data;
static struct credit *credit_data;
static char *unfinished; /* to be removed when the program fails */

static void fail(const char *what, const char *why) {
  fprintf(stderr, "filecopy: %s: %s\n", what, why);
  if (unfinished != NULL) unlink(unfinished);
  exit(1);
}

static void check(VIP_RETURN code, const char *call) {
  char why[32];

  if (code == VIP_SUCCESS) return;
  snprintf(why, sizeof why, "returned %d", (int)code);
  fail(call, why);
}

static void set_up(void) {
  VIP_VI_ATTRIBUTES vi_attr;
  size_t descriptors = (WINDOW + 1 + CREDITS) * sizeof(VIP_DESCRIPTOR);
  size_t pieces = (size_t)(WINDOW + 1) * PIECE;
  size_t bytes = (descriptors + pieces + CREDITS * sizeof(struct credit) + 63) / 64 * 64;
  char *memory = aligned_alloc(VIP_DESCRIPTOR_ALIGNMENT, bytes);
  int i;

  if (memory == NULL) fail("memory", strerror(errno));
  memset(memory, 0, bytes);
  if (VipOpenNic(DEVICE, &nic) != VIP_SUCCESS)
    fail(DEVICE, "can't be opened (is viad running? VIADUCT_DEBUG=1 tells more)");
  check(VipQueryNic(nic, &nic_attr), "VipQueryNic");
  check(VipRegisterMem(nic, memory, bytes, NULL, &mem), "VipRegisterMem");
  memset(&vi_attr, 0, sizeof vi_attr);
  vi_attr.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  vi_attr.MaxTransferSize = PIECE;
  check(VipCreateVi(nic, &vi_attr, NULL, NULL, &vi), "VipCreateVi");

  piece_desc = (VIP_DESCRIPTOR *)memory;
  credit_desc = piece_desc + WINDOW + 1;
  piece_data = memory + descriptors;
  credit_data = (struct credit *)(piece_data + pieces);
  for (i = 0; i < WINDOW + 1; ++i) {
    piece_desc[i].DS[0].Local.Data.Address = piece_data + (size_t)i * PIECE;
    piece_desc[i].DS[0].Local.Handle = mem;
  }
  for (i = 0; i < CREDITS; ++i) {
    credit_desc[i].DS[0].Local.Data.Address = &credit_data[i];
    credit_desc[i].DS[0].Local.Handle = mem;
  }
}

static void prepare(VIP_DESCRIPTOR *d, VIP_UINT32 length) {
  d->CS.SegCount = 1;
  d->CS.Control = VIP_CONTROL_OP_SENDRECV;
  d->CS.Length = length;
  d->CS.Status = 0;
  d->DS[0].Local.Length = length;
}

static void post_receive(VIP_DESCRIPTOR *d, VIP_UINT32 length) {
  prepare(d, length);
  check(VipPostRecv(vi, d, mem), "VipPostRecv");
}

static void post_send(VIP_DESCRIPTOR *d, VIP_UINT32 length, VIP_UINT32 immediate) {
  prepare(d, length);
  d->CS.Control |= VIP_CONTROL_IMMEDIATE;
  d->CS.ImmediateData = immediate;
  check(VipPostSend(vi, d, mem), "VipPostSend");
}

/* The oldest descriptor of a queue, once it has completed. NULL when the other side has gone. */
static VIP_DESCRIPTOR *await(VIP_RETURN (*wait)(VIP_VI_HANDLE, VIP_ULONG, VIP_DESCRIPTOR **)) {
  VIP_DESCRIPTOR *d;
  VIP_RETURN code = wait(vi, WAIT_MSEC, &d);

  if (code == VIP_TIMEOUT) fail("transfer", "the other side has said nothing for ten seconds");
  if (code == VIP_DESCRIPTOR_ERROR && d != NULL &&
      (d->CS.Status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0)
    return NULL;
  check(code, wait == VipRecvWait ? "VipRecvWait" : "VipSendWait");
  return d;
}

static void set_discriminator(VIP_NET_ADDRESS *address) {
  address->DiscriminatorLen = DISCRIMINATOR_LEN;
  memcpy(address->HostAddress + address->HostAddressLen, DISCRIMINATOR, DISCRIMINATOR_LEN);
}

static void write_all(int file, const char *name, const char *data, size_t length) {
  while (length > 0) {
    ssize_t n = write(file, data, length);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) fail(name, n < 0 ? strerror(errno) : "disk full");
    data += n;
    length -= (size_t)n;
  }
}

/* A whole piece, or what is left of the file. */
static size_t read_piece(int file, const char *name, char *data) {
  size_t length = 0;

  while (length < PIECE) {
    ssize_t n = read(file, data + length, PIECE - length);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(name, strerror(errno));
    if (n == 0) break;
    length += (size_t)n;
  }
  return length;
}

static void receive_file(const char *name, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote) {
  VIP_VI_ATTRIBUTES remote_attr;
  VIP_CONN_HANDLE conn;
  VIP_DESCRIPTOR *d;
  VIP_UINT64 bytes = 0;
  VIP_UINT32 n = 0, credits_sent = 0, credits_done = 0;
  size_t room = strlen(name) + sizeof ".part";
  char *part = malloc(room);
  int file, i;

  if (part == NULL) fail("memory", strerror(errno));
  snprintf(part, room, "%s.part", name);
  for (i = 0; i < WINDOW + 1; ++i) post_receive(&piece_desc[i], PIECE);
  check(VipConnectWait(nic, local, VIP_INFINITE, remote, &remote_attr, &conn), "VipConnectWait");
  file = open(part, O_WRONLY | O_CREAT | O_TRUNC, 0666);
  if (file < 0) fail(part, strerror(errno));
  unfinished = part;
  check(VipConnectAccept(conn, vi), "VipConnectAccept");
  for (;;) {
    VIP_UINT32 immediate;

    d = await(VipRecvWait);
    if (d == NULL) fail("transfer", "the sender has gone before the end of the file");
    immediate = d->CS.ImmediateData;
    if (immediate != END) {
      if (immediate != n) fail("transfer", "a piece is missing");
      write_all(file, part, d->DS[0].Local.Data.Address, d->CS.Length);
      bytes += d->CS.Length;
      ++n;
      post_receive(d, PIECE);
      if (n % RETURN_AFTER != 0) continue;
    } else if (close(file) != 0 || rename(part, name) != 0) {
      fail(name, strerror(errno));
    } else {
      unfinished = NULL;
    }
    if (credits_sent - credits_done == CREDITS) {
      if (await(VipSendWait) == NULL) fail("transfer", "the sender has gone");
      ++credits_done;
    }
    i = (int)(credits_sent++ % CREDITS);
    credit_data[i].bytes = bytes;
    post_send(&credit_desc[i], sizeof(struct credit), immediate == END ? END : n);
    if (immediate == END) break;
  }
  /* The last word has been received when the sender leaves. */
  while (await(VipRecvWait) != NULL) continue;
  printf("filecopy: received %s, %llu bytes\n", name, (unsigned long long)bytes);
  free(part);
}

static void send_file(char *host, const char *name, VIP_NET_ADDRESS *local, VIP_NET_ADDRESS *remote) {
  VIP_VI_ATTRIBUTES remote_attr;
  VIP_DESCRIPTOR *d;
  VIP_RETURN code;
  VIP_UINT64 bytes = 0;
  VIP_UINT32 n = 0, done = 0, written = 0;
  int file = open(name, O_RDONLY), i, at_end = 0;

  if (file < 0) fail(name, strerror(errno));
  check(VipNSInit(nic, NULL), "VipNSInit");
  if (VipNSGetHostByName(nic, host, remote, 0) != VIP_SUCCESS) fail(host, "no such host");
  VipNSShutdown(nic);
  set_discriminator(remote);
  for (i = 0; i < CREDITS; ++i) post_receive(&credit_desc[i], sizeof(struct credit));
  code = VipConnectRequest(vi, local, remote, WAIT_MSEC, &remote_attr);
  if (code == VIP_NO_MATCH) fail(host, "no filecopy waits there");
  if (code == VIP_TIMEOUT) fail(host, "does not answer");
  check(code, "VipConnectRequest");

  for (;;) {
    VIP_UINT32 immediate;

    while (!at_end && n - written < WINDOW && n - done < WINDOW) {
      VIP_DESCRIPTOR *piece = &piece_desc[n % WINDOW];
      size_t length = read_piece(file, name, piece->DS[0].Local.Data.Address);
      if (length == 0) {
        at_end = 1;
        post_send(&piece_desc[WINDOW], 0, END);
        break;
      }
      post_send(piece, (VIP_UINT32)length, n++);
      bytes += length;
    }
    while (VipSendDone(vi, &d) == VIP_SUCCESS) ++done;
    if (!at_end && n - written < WINDOW) {
      if (n - done == WINDOW) {
        if (await(VipSendWait) == NULL) fail("transfer", "the receiver has gone");
        ++done;
      }
      continue;
    }
    d = await(VipRecvWait);
    if (d == NULL) fail("transfer", "the receiver has gone before the end of the file");
    immediate = d->CS.ImmediateData;
    if (immediate == END) {
      const struct credit *last = d->DS[0].Local.Data.Address;
      if (d->CS.Length != sizeof *last || last->bytes != bytes)
        fail("transfer", "the receiver has not as many bytes as were sent");
      break;
    }
    written = immediate;
    post_receive(d, sizeof(struct credit));
  }
  close(file);
  printf("filecopy: sent %s, %llu bytes\n", name, (unsigned long long)bytes);
}

int main(int argc, char **argv) {
  VIP_UINT16 local_room[ADDRESS_BYTES / 2], remote_room[ADDRESS_BYTES / 2];
  VIP_NET_ADDRESS *local = (VIP_NET_ADDRESS *)local_room;
  VIP_NET_ADDRESS *remote = (VIP_NET_ADDRESS *)remote_room;

  if (argc != 3 || (argv[1][0] == '-' && strcmp(argv[1], "--receive") != 0)) {
    fprintf(stderr,
            "usage: filecopy --receive FILE     waits for one sender, writes FILE\n"
            "       filecopy HOST FILE          sends FILE\n");
    return 2;
  }
  set_up();
  memset(local_room, 0, sizeof local_room);
  memset(remote_room, 0, sizeof remote_room);
  local->HostAddressLen = nic_attr.NicAddressLen;
  memcpy(local->HostAddress, nic_attr.LocalNicAddress, nic_attr.NicAddressLen);
  set_discriminator(local);
  if (strcmp(argv[1], "--receive") == 0)
    receive_file(argv[2], local, remote);
  else
    send_file(argv[1], argv[2], local, remote);
  check(VipDisconnect(vi), "VipDisconnect");
  check(VipDestroyVi(vi), "VipDestroyVi");
  check(VipCloseNic(nic), "VipCloseNic");
  return 0;
}
