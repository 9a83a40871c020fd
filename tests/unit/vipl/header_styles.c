/* How programs of the time spell things; each must compile unchanged, in C and in C++. */
#ifdef WITH_VIPL095
#define VIPL095
#endif
#include "vipl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A message-passing library: error texts by switch and by table. */
static const char *text_of(VIP_RETURN code) {
  static const char *const texts[] = {"SUCCESS", "NOT_DONE"};
  switch (code) {
    case VIP_NOT_REACHABLE: return "not reachable";
    case VIP_ERROR_NOT_SUPPORTED: return "not supported";
    default: break;
  }
  return code <= VIP_ERROR_NOT_SUPPORTED && code < 2 ? texts[code] : "other";
}

#ifndef VIP_ERROR_NOT_SUPPORTED
#define VIP_ERROR_NOT_SUPPORTED -33333
#endif

/* Attributes by position, descriptors in aligned arrays with data right behind them. */
static VIP_VI_ATTRIBUTES by_position = {VIP_SERVICE_RELIABLE_DELIVERY, 32768, 0, NULL, VIP_FALSE,
                                        VIP_FALSE};
#ifdef __GNUC__
static VIP_DESCRIPTOR aligned[4] __attribute__((aligned(VIP_DESCRIPTOR_ALIGNMENT)));
#else
static VIP_DESCRIPTOR aligned[4];
#endif

/* The names of Intel's header. */
static void intel_style(VIP_DESCRIPTOR *d, void *data, VIP_MEM_HANDLE handle) {
  d->CS.Length = 8;
  d->CS.Status = 0;
  d->CS.Control = VIP_CONTROL_OP_RDMAWRITE | VIP_CONTROL_IMMEDIATE;
  d->CS.Reserved = 0;
  d->CS.SegCount = 2;
  d->CS.Next.Address = NULL;
  d->DS[0].Remote.Data.AddressBits = 0;
  d->DS[0].Remote.Handle = handle;
  d->DS[1].Local.Data.Address = data;
  d->DS[1].Local.Handle = handle;
  d->DS[1].Local.Length = 8;
}

/* The names of Giganet's header. */
static void giganet_style(VIP_DESCRIPTOR *d, void *data, VIP_MEM_HANDLE handle) {
  d->Control.Control = VIP_CONTROL_OP_SENDRECV;
  d->Control.SegCount = 1;
  d->Control.Length = 8;
  d->Control.Next.Descriptor = d + 1;
  d->Data[0].Data.Address = data;
  d->Data[0].Handle = handle;
  d->Data[0].Length = 8;
}

static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR *error) {
  printf("%p %d %d\n", context, (int)error->ErrorCode, (int)error->ResourceCode);
}

/* Functions reached by name. */
typedef VIP_RETURN (*open_function)(const VIP_CHAR *, VIP_NIC_HANDLE *);
typedef VIP_RETURN(VI_CALL *callback_function)(IN VIP_NIC_HANDLE, IN VIP_PVOID,
                                               IN VIP_ERROR_HANDLER);

int main(int argc, char **argv) {
  open_function open_nic = VipOpenNic;
  callback_function set_callback = VipErrorCallback;
  VIP_NIC_HANDLE nic = 0;
  VIP_VI_HANDLE vi = NULL;
  VIP_CQ_HANDLE cq = 0;
  VIP_NIC_ATTRIBUTES attributes;
  VIP_MEM_HANDLE handle = 7;
  VIP_BOOLEAN receive;
  VIP_DESCRIPTOR *done;
  VIP_NET_ADDRESS *address = (VIP_NET_ADDRESS *)calloc(1, 40);
  void *as_pointer = (void *)(unsigned long)handle;
  if (address == NULL) return 1;
  if (VIP_ERROR_NOT_SUPPORTED != 16) return 3;
  intel_style(&aligned[0], argv, handle);
  giganet_style(&aligned[1], argv, handle);
  if (aligned[1].DS[0].Local.Data.Address != (void *)argv || aligned[1].CS.SegCount != 1) return 2;
  if (argc > 1) {
    VIP_RETURN result = open_nic(argv[1], &nic);
    if (result == VIP_SUCCESS) {
      set_callback(nic, as_pointer, on_error);
      VipQueryNic(nic, &attributes);
      memcpy(address->HostAddress, attributes.LocalNicAddress, attributes.NicAddressLen);
      printf("%s %lu %ld\n", attributes.Name, attributes.MaxTransferSize, (long)attributes.MaxVI);
      VipCreateCQ(nic, 16, &cq);
      VipCreateVi(nic, &by_position, NULL, cq, &vi);
      while (VipCQDone(cq, &vi, &receive) == VIP_SUCCESS && receive == VIP_TRUE) {
        VipRecvDone(vi, &done);
      }
      VipCQWait(cq, VIP_INFINITE, &vi, &receive);
    }
  }
  puts(text_of(VipDisconnect(vi)));
  free(address);
  return 0;
}
