/* vipl.h: the Virtual Interface Provider Library, as provided by Viaduct.
 *
 * A program opens a NIC, registers memory, creates VIs (pairs of work queues, send and receive),
 * connects each VI to one VI elsewhere, posts descriptors and takes completed ones back:
 *
 *     VipOpenNic   VipRegisterMem   VipCreateVi   VipConnectWait + VipConnectAccept
 *                                                 VipConnectRequest
 *     VipPostRecv  VipPostSend      VipRecvDone / VipRecvWait   VipSendDone / VipSendWait
 *                                   VipCQDone / VipCQWait: which queue has completed something
 *     VipDisconnect  VipDestroyVi   VipDeregisterMem   VipCloseNic
 *
 * Usable from C89 and later and from C++98 and later. Nothing must be defined before inclusion;
 * VIPL095 may be.
 *
 * Common to all functions
 *   Threads    Any function may be called by any thread at any time, also on the same object,
 *              unless its text says otherwise. Not from signal handlers.
 *   Blocking   "does not block" means no system call in the ordinary case. "short" means one
 *              question to the agent, answered at once. "blocks" functions take a timeout.
 *   Timeouts   in milliseconds. VIP_INFINITE and everything above it mean no limit.
 *   Handles    are numbers, not addresses. A stale, foreign or invented one gives
 *              VIP_INVALID_PARAMETER (a protection tag: VIP_INVALID_PTAG), never a crash.
 *   NULL       for a required argument gives VIP_INVALID_PARAMETER.
 *   The end    When the agent has gone away, functions that need it return VIP_ERROR_RESOURCE, VIs
 *              are in VIP_STATE_ERROR and posted descriptors complete as flushed with
 *              VIP_STATUS_TRANSPORT_ERROR. Disconnecting, destroying and deregistering succeed.
 *              Then only VipCloseNic is left to do.
 *   Handlers   are called one at a time by a thread of the library, one for each NIC handle that
 *              has handlers or VIs, with all signals blocked but those of faults (SIGSEGV and the
 *              like). They may block for ever, end the process and call any function of the
 *              library, also on what they were called for. Functions that end a registration (VipCloseNic,
 *              VipDestroyVi, VipDestroyCQ) do not wait for a handler: the one call that is being
 *              made at that moment may go on, or just begin, after its return; no other follows.
 *   Cancelling a thread (pthread_cancel) ends it where it sleeps in a function that blocks.
 *   fork       A child process has none of its parent's NICs: their handles are invalid there. It
 *              may open its own, or attach to them (VipxAttach, vipl_ext.h).
 *   exit       A program may end without closing anything. At exit() and at the return from main
 *              the library does what VipCloseNic does. Handlers are called no more. _exit() and being
 *              killed don't wait.
 *   order      What was posted before VipDisconnect, VipCloseNic, VipDeregisterMem or
 *              VipSetMemAttributes is sent before. They wait until those sends have completed (on
 *              the reliable levels: until the peer has acknowledged them), but no longer than half a
 *              second in which none completes, and five seconds in all. Sends left then are flushed.
 * The lists of return codes below don't repeat VIP_INVALID_PARAMETER for a bad handle or NULL, nor
 * VIP_ERROR_RESOURCE for the end.
 *
 * Sources, named at each function
 *   [I]  the header that Intel published      [G]  Giganet's header (VI 1.0)
 *   [V]  Myricom's VI-GM documentation        [S]  the VI Architecture Specification 1.0
 *   [P]  programs of the time rely on it      [D]  decided here, where the others are silent
 */
#if !defined(_VIPL_) && !defined(_VIPL_H)
#define _VIPL_
#define _VIPL_H

#ifndef __UINT64_TYPE__
#include <stdint.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

#ifndef IN
#define IN
#endif
#ifndef OUT
#define OUT
#endif
#ifndef VI_CALL
#define VI_CALL
#endif

/* Compilers had anonymous unions long before the C standard did. */
#ifdef __GNUC__
#define VIPL_EXTENSION_ __extension__
#else
#define VIPL_EXTENSION_
#endif

/* ------------------------------------------------------------------------- basic types [I, G] */

typedef void *VIP_PVOID;
typedef int VIP_BOOLEAN; /* VIP_TRUE or VIP_FALSE */
typedef char VIP_CHAR;
typedef unsigned char VIP_UCHAR;
typedef short VIP_SHORT;
typedef unsigned short VIP_USHORT;
typedef long VIP_LONG;
typedef unsigned long VIP_ULONG; /* 8 bytes on LP64; programs print it with %lu */

#ifdef __UINT64_TYPE__
typedef __UINT64_TYPE__ VIP_UINT64;
typedef __UINT32_TYPE__ VIP_UINT32;
typedef __UINT16_TYPE__ VIP_UINT16;
typedef __UINT8_TYPE__ VIP_UINT8;
#else
typedef uint64_t VIP_UINT64;
typedef uint32_t VIP_UINT32;
typedef uint16_t VIP_UINT16;
typedef uint8_t VIP_UINT8;
#endif

typedef VIP_PVOID VIP_EVENT_HANDLE; /* [G] */
typedef VIP_PVOID VIP_QOS;          /* must be NULL */
typedef VIP_PVOID VIP_NIC_HANDLE;
typedef VIP_PVOID VIP_VI_HANDLE;
typedef VIP_PVOID VIP_CQ_HANDLE;
typedef VIP_PVOID VIP_PROTECTION_HANDLE;
typedef VIP_PVOID VIP_CONN_HANDLE;
typedef VIP_UINT32 VIP_MEM_HANDLE; /* never 0 */

#define VIP_TRUE (1)
#define VIP_FALSE (0)

#ifndef VIP_KERNEL
#define VIP_INFINITE 0xFFFFFFFFUL
#endif

/* Where descriptors should lie: a multiple of this. */
#define VIP_DESCRIPTOR_ALIGNMENT 64
/* Data may lie anywhere; this is where copying it is fastest. */
#ifndef VIP_DATA_ALIGNMENT
#define VIP_DATA_ALIGNMENT 64
#endif

/* Reliability levels: one bit in a VI's attributes, several in a NIC's. */
typedef VIP_USHORT VIP_RELIABILITY_LEVEL;
#define VIP_SERVICE_UNRELIABLE 0x0001         /* at most once */
#define VIP_SERVICE_RELIABLE_DELIVERY 0x0002  /* once, in order; done when it has been sent */
#define VIP_SERVICE_RELIABLE_RECEPTION 0x0004 /* the same; done when in the peer's memory */
#define VIP_BASE_SERVICES \
  (VIP_SERVICE_UNRELIABLE | VIP_SERVICE_RELIABLE_DELIVERY | VIP_SERVICE_RELIABLE_RECEPTION)
#define VIP_SERVICE_ACK 0x4000 /* [G], not supported */
#define VIP_SERVICE_DFC 0x8000 /* [G], not supported */

/* ------------------------------------------------------------------------- return codes [I, G] */

typedef enum {
  VIP_SUCCESS = 0,
  VIP_NOT_DONE = 1,                  /* nothing has completed yet */
  VIP_INVALID_PARAMETER = 2,         /* bad handle, pointer or value */
  VIP_ERROR_RESOURCE = 3,            /* out of something, or the agent has gone away */
  VIP_TIMEOUT = 4,                   /* the time given has passed */
  VIP_REJECT = 5,                    /* the peer refused the connection */
  VIP_INVALID_RELIABILITY_LEVEL = 6, /* not one level, not supported, or not the peer's */
  VIP_INVALID_MTU = 7,               /* MaxTransferSize above the NIC's, or not the peer's */
  VIP_INVALID_QOS = 8,               /* QoS is not NULL */
  VIP_INVALID_PTAG = 9,              /* no such protection tag */
  VIP_INVALID_RDMAREAD = 10,         /* RDMA read asked for where it is not supported */
  VIP_DESCRIPTOR_ERROR = 11,         /* completed with an error, or the queue is empty */
  VIP_INVALID_STATE = 12,            /* the VI is in the wrong state */
  VIP_ERROR_NAMESERVICE = 13,        /* the name is not known */
  VIP_NO_MATCH = 14,                 /* the peer host answered; no program waited there */
  VIP_NOT_REACHABLE = 15,            /* [G] no way to the peer's network */
  VIP_ERROR_NOT_SUPPORTED = 16       /* [G] not provided; always the last code */
} VIP_RETURN;

/* Programs of the time ask the preprocessor which codes a provider has. */
#define VIP_SUCCESS VIP_SUCCESS
#define VIP_NOT_DONE VIP_NOT_DONE
#define VIP_INVALID_PARAMETER VIP_INVALID_PARAMETER
#define VIP_ERROR_RESOURCE VIP_ERROR_RESOURCE
#define VIP_TIMEOUT VIP_TIMEOUT
#define VIP_REJECT VIP_REJECT
#define VIP_INVALID_RELIABILITY_LEVEL VIP_INVALID_RELIABILITY_LEVEL
#define VIP_INVALID_MTU VIP_INVALID_MTU
#define VIP_INVALID_QOS VIP_INVALID_QOS
#define VIP_INVALID_PTAG VIP_INVALID_PTAG
#define VIP_INVALID_RDMAREAD VIP_INVALID_RDMAREAD
#define VIP_DESCRIPTOR_ERROR VIP_DESCRIPTOR_ERROR
#define VIP_INVALID_STATE VIP_INVALID_STATE
#define VIP_ERROR_NAMESERVICE VIP_ERROR_NAMESERVICE
#define VIP_NO_MATCH VIP_NO_MATCH
#define VIP_NOT_REACHABLE VIP_NOT_REACHABLE
#define VIP_ERROR_NOT_SUPPORTED VIP_ERROR_NOT_SUPPORTED

#ifndef VIP_ERROR
#define VIP_ERROR VIP_DESCRIPTOR_ERROR /* [G] */
#endif

/* ------------------------------------------------------------------------- addresses [I, G] */

/* The address of a connection point: a host address (6 bytes: the NIC's MAC address), directly
 * followed by a discriminator (0 to MaxDiscriminatorLen bytes, chosen by the programs; those of
 * different length never match). Programs allocate room for both behind HostAddress. */
typedef struct _VIP_NET_ADDRESS {
  VIP_UINT16 HostAddressLen;   /* bytes */
  VIP_UINT16 DiscriminatorLen; /* bytes */
  VIP_UINT8 HostAddress[1];    /* discriminator at HostAddress + HostAddressLen */
} VIP_NET_ADDRESS;

/* ------------------------------------------------------------------------- attributes [I, G] */

typedef struct _VIP_NIC_ATTRIBUTES {
  VIP_CHAR Name[64]; /* the interface, NUL-terminated */
  VIP_ULONG HardwareVersion;
  VIP_ULONG ProviderVersion;
  VIP_UINT16 NicAddressLen;           /* bytes of LocalNicAddress: 6 */
  const VIP_UINT8 *LocalNicAddress;   /* the library's memory, valid until the process ends */
  VIP_BOOLEAN ThreadSafe;             /* VIP_TRUE */
  VIP_UINT16 MaxDiscriminatorLen;     /* bytes */
  VIP_ULONG MaxRegisterBytes;         /* all regions of this NIC handle together */
  VIP_ULONG MaxRegisterRegions;
  VIP_ULONG MaxRegisterBlockBytes;    /* one region */
  VIP_ULONG MaxVI;
  VIP_ULONG MaxDescriptorsPerQueue;
  VIP_ULONG MaxSegmentsPerDesc;       /* data segments; an RDMA descriptor's address segment
                                         comes on top */
  VIP_ULONG MaxCQ;
  VIP_ULONG MaxCQEntries;
  VIP_ULONG MaxTransferSize;          /* bytes of one descriptor */
  VIP_ULONG NativeMTU;                /* bytes of one frame on the wire */
  VIP_ULONG MaxPtags;
  VIP_RELIABILITY_LEVEL ReliabilityLevelSupport; /* VIP_SERVICE_* bits */
  VIP_RELIABILITY_LEVEL RDMAReadSupport;         /* levels on which RDMA read works; 0: none */
} VIP_NIC_ATTRIBUTES;

typedef struct _VIP_VI_ATTRIBUTES {
  VIP_RELIABILITY_LEVEL ReliabilityLevel; /* one VIP_SERVICE_* bit */
  VIP_ULONG MaxTransferSize;              /* bytes */
  VIP_QOS QoS;                            /* NULL */
  VIP_PROTECTION_HANDLE Ptag;             /* NULL goes with every tag of this NIC handle [G, P] */
  VIP_BOOLEAN EnableRdmaWrite;            /* the peer may write; not 0 means yes */
  VIP_BOOLEAN EnableRdmaRead;
} VIP_VI_ATTRIBUTES;

typedef struct _VIP_MEM_ATTRIBUTES {
  VIP_PROTECTION_HANDLE Ptag; /* NULL goes with every tag of this NIC handle [G, P] */
  VIP_BOOLEAN EnableRdmaWrite;
  VIP_BOOLEAN EnableRdmaRead;
} VIP_MEM_ATTRIBUTES;

typedef enum {
  VIP_STATE_IDLE = 0,
  VIP_STATE_CONNECTED = 1,
  VIP_STATE_CONNECT_PENDING = 2,
  VIP_STATE_ERROR = 3 /* the connection is over; VipDisconnect leads back to Idle */
} VIP_VI_STATE;

#define VIP_STATE_IDLE VIP_STATE_IDLE
#define VIP_STATE_CONNECTED VIP_STATE_CONNECTED
#define VIP_STATE_CONNECT_PENDING VIP_STATE_CONNECT_PENDING
#define VIP_STATE_ERROR VIP_STATE_ERROR

/* ------------------------------------------------------------------------- descriptors [I, G] */

typedef union _VIP_PVOID64 {
  VIP_UINT64 AddressBits;
  VIP_PVOID Address;
  struct _VIP_DESCRIPTOR *Descriptor; /* [G] */
} VIP_PVOID64;

/* The control segment. Next and NextHandle belong to the library while the descriptor is posted. */
typedef struct _VIP_CONTROL_SEGMENT {
  VIP_PVOID64 Next;
  VIP_MEM_HANDLE NextHandle;
  VIP_UINT16 SegCount;      /* segments that follow, an address segment included */
  VIP_UINT16 Control;       /* VIP_CONTROL_* */
  VIP_UINT32 Reserved;
  VIP_UINT32 ImmediateData; /* written at a receive only if VIP_STATUS_IMMEDIATE is set */
  VIP_UINT32 Length;        /* in: bytes of all segments; out, at a receive: bytes received */
  VIP_UINT32 Status;        /* out: VIP_STATUS_*; ignored on entry */
} VIP_CONTROL_SEGMENT;

/* First segment of an RDMA descriptor: where in the peer's memory. */
typedef struct _VIP_ADDRESS_SEGMENT {
  VIP_PVOID64 Data;
  VIP_MEM_HANDLE Handle;
  VIP_UINT32 Reserved;
} VIP_ADDRESS_SEGMENT;

typedef struct _VIP_DATA_SEGMENT {
  VIP_PVOID64 Data;
  VIP_MEM_HANDLE Handle;
  VIP_UINT32 Length; /* bytes */
} VIP_DATA_SEGMENT;

typedef union _VIP_DESCRIPTOR_SEGMENT {
  VIP_ADDRESS_SEGMENT Remote;
  VIP_DATA_SEGMENT Local;
} VIP_DESCRIPTOR_SEGMENT;

/* A descriptor, 64 bytes. It has the member names of both headers: CS and DS[i].Local or
 * DS[i].Remote as in [I] (and in [G] with VIPL095), Control and Data[i] as in [G]. Programs make
 * room behind it for more than two segments and go on indexing. */
VIPL_EXTENSION_ typedef struct _VIP_DESCRIPTOR {
  union {
    VIP_CONTROL_SEGMENT CS;
    VIP_CONTROL_SEGMENT Control;
  };
  union {
    VIP_DESCRIPTOR_SEGMENT DS[2];
    VIP_DATA_SEGMENT Data[2];
  };
} VIP_DESCRIPTOR;

/* Control bits */
#define VIP_CONTROL_OP_SENDRECV 0x0000
#define VIP_CONTROL_OP_RDMAWRITE 0x0001
#define VIP_CONTROL_OP_RDMAREAD 0x0002
#define VIP_CONTROL_OP_RESERVED 0x0003
#define VIP_CONTROL_OP_MASK 0x0003
#define VIP_CONTROL_IMMEDIATE 0x0004 /* ImmediateData goes with it */
#define VIP_CONTROL_QFENCE 0x0008    /* not before earlier RDMA reads of this queue are done */
#define VIP_CONTROL_RESERVED 0xFFF0

/* Status bits */
#define VIP_STATUS_DONE 0x00000001
#define VIP_STATUS_FORMAT_ERROR 0x00000002        /* bad operation, segment count, reserved bit */
#define VIP_STATUS_PROTECTION_ERROR 0x00000004    /* memory handle, range or tag, here */
#define VIP_STATUS_LENGTH_ERROR 0x00000008        /* segments and Length disagree; too long */
#define VIP_STATUS_PARTIAL_ERROR 0x00000010       /* an error in the middle */
#define VIP_STATUS_DESC_FLUSHED_ERROR 0x00000020  /* the VI is not, or no longer, connected */
#define VIP_STATUS_TRANSPORT_ERROR 0x00000040     /* the connection, or the agent, is lost */
#define VIP_STATUS_RDMA_PROT_ERROR 0x00000080     /* the peer's memory protection refused it */
#define VIP_STATUS_REMOTE_DESC_ERROR 0x00000100   /* the peer had no receive that could take it */
#define VIP_STATUS_ERROR_MASK 0x000001FE
#define VIP_STATUS_OP_SEND 0x00000000
#define VIP_STATUS_OP_RECEIVE 0x00010000
#define VIP_STATUS_OP_RDMA_WRITE 0x00020000
#define VIP_STATUS_OP_REMOTE_RDMA_WRITE 0x00030000 /* a receive used by the peer's RDMA write */
#define VIP_STATUS_OP_RDMA_READ 0x00040000
#define VIP_STATUS_OP_MASK 0x00070000
#define VIP_STATUS_IMMEDIATE 0x00080000 /* ImmediateData is valid */
#define VIP_STATUS_RESERVED 0xFFF0FE00

/* ------------------------------------------------------------------------- errors [I, G] */

typedef enum {
  VIP_RESOURCE_NIC = 0,
  VIP_RESOURCE_VI = 1,
  VIP_RESOURCE_CQ = 2,
  VIP_RESOURCE_DESCRIPTOR = 3
} VIP_RESOURCE_CODE;

#define VIP_RESOURCE_NIC VIP_RESOURCE_NIC
#define VIP_RESOURCE_VI VIP_RESOURCE_VI
#define VIP_RESOURCE_CQ VIP_RESOURCE_CQ
#define VIP_RESOURCE_DESCRIPTOR VIP_RESOURCE_DESCRIPTOR

typedef enum {
  VIP_ERROR_POST_DESC = 0,
  VIP_ERROR_CONN_LOST = 1,
  VIP_ERROR_RECVQ_EMPTY = 2,
  VIP_ERROR_VI_OVERRUN = 3,
  VIP_ERROR_RDMAW_PROT = 4,
  VIP_ERROR_RDMAW_DATA = 5,
  VIP_ERROR_RDMAW_ABORT = 6,
  VIP_ERROR_RDMAR_PROT = 7,
  VIP_ERROR_COMP_PROT = 8,
  VIP_ERROR_RDMA_TRANSPORT = 9,
  VIP_ERROR_CATASTROPHIC = 10
} VIP_ERROR_CODE;

#define VIP_ERROR_POST_DESC VIP_ERROR_POST_DESC
#define VIP_ERROR_CONN_LOST VIP_ERROR_CONN_LOST
#define VIP_ERROR_RECVQ_EMPTY VIP_ERROR_RECVQ_EMPTY
#define VIP_ERROR_VI_OVERRUN VIP_ERROR_VI_OVERRUN
#define VIP_ERROR_RDMAW_PROT VIP_ERROR_RDMAW_PROT
#define VIP_ERROR_RDMAW_DATA VIP_ERROR_RDMAW_DATA
#define VIP_ERROR_RDMAW_ABORT VIP_ERROR_RDMAW_ABORT
#define VIP_ERROR_RDMAR_PROT VIP_ERROR_RDMAR_PROT
#define VIP_ERROR_COMP_PROT VIP_ERROR_COMP_PROT
#define VIP_ERROR_RDMA_TRANSPORT VIP_ERROR_RDMA_TRANSPORT
#define VIP_ERROR_CATASTROPHIC VIP_ERROR_CATASTROPHIC

typedef struct _VIP_ERROR_DESCRIPTOR {
  VIP_NIC_HANDLE NicHandle;
  VIP_VI_HANDLE ViHandle;
  VIP_CQ_HANDLE CQHandle;
  VIP_DESCRIPTOR *DescriptorPtr;
  VIP_ULONG OpCode;
  VIP_RESOURCE_CODE ResourceCode; /* which of the above is meant */
  VIP_ERROR_CODE ErrorCode;
} VIP_ERROR_DESCRIPTOR;

/* ------------------------------------------------------------------------- management [I, G] */

#define VIP_SMI_AUTODISCOVERY ((VIP_ULONG)1)

/* ADAddrArray is an array of pointers, as in [I]: addresses vary in length, so that an array of
 * the structure itself, as in [G], could not be indexed. */
typedef struct _VIP_AUTODISCOVERY_LIST {
  VIP_ULONG NumberOfHops;
  VIP_NET_ADDRESS **ADAddrArray;
  VIP_ULONG NumAdAddrs;
} VIP_AUTODISCOVERY_LIST;

/* ------------------------------------------------------------------------- callbacks [G] */

typedef void(VI_CALL *VIP_VI_CALLBACK)(IN VIP_PVOID Context, IN VIP_NIC_HANDLE NicHandle,
                                       IN VIP_VI_HANDLE ViHandle,
                                       IN VIP_DESCRIPTOR *DescriptorPtr);
typedef void(VI_CALL *VIP_CQ_CALLBACK)(IN VIP_PVOID Context, IN VIP_NIC_HANDLE NicHandle,
                                       IN VIP_VI_HANDLE ViHandle, IN VIP_BOOLEAN RecvQueue);
typedef void(VI_CALL *VIP_ERROR_HANDLER)(IN VIP_PVOID Context,
                                         IN VIP_ERROR_DESCRIPTOR *ErrorDesc);

/* ========================================================================= NIC */

/* VipOpenNic: opens a NIC, that is, starts a session with the agent that owns it.
 *   DeviceName  what the program calls the NIC, at most 63 characters ("/dev/via_eth0", "nic0",
 *               "VINIC", or an interface's name); the agent's configuration maps names to NICs.
 *               "/dev/via_lo" is a NIC that reaches programs of this host only
 *   NicHandle   out. Each open gives another handle with objects of its own
 * Short (a few seconds at most when the agent does not answer). The agent's socket is
 * $VIADUCT_SOCKET, else "/run/viaduct/socket" or, of root in this network namespace, "@viaduct" (vipl(7)); an agent
 * that runs as another user than root or the caller is refused. With $VIADUCT_DEBUG set, a failure is explained on
 * standard error.
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  DeviceName is NULL or too long, or the agent knows no such device
 *   VIP_ERROR_RESOURCE     no agent, an agent of another version, no room for another session, or
 *                          this process has 128 NICs open
 * Source: [I, G, V]; device names [P]. */
VIP_RETURN VipOpenNic(IN const VIP_CHAR *DeviceName, OUT VIP_NIC_HANDLE *NicHandle);

/* VipCloseNic: closes one handle. All that was made with it goes away: VIs are disconnected,
 * memory is deregistered, threads that block on any of it return VIP_ERROR_RESOURCE, handlers are
 * not called any more. A handler that runs is not waited for; its thread ends when it returns. The
 * end of the process does the same. Blocks until what was posted on connected VIs has
 * been sent, see "order" above.
 *   VIP_SUCCESS
 * Source: [I, G]; clean-up [S, P]. */
VIP_RETURN VipCloseNic(IN VIP_NIC_HANDLE NicHandle);

/* VipQueryNic: the attributes and limits of a NIC. Does not block.
 *   NicAttribs  out
 *   VIP_SUCCESS
 * Source: [I, G]. */
VIP_RETURN VipQueryNic(IN VIP_NIC_HANDLE NicHandle, OUT VIP_NIC_ATTRIBUTES *NicAttribs);

/* ========================================================================= memory */

/* VipCreatePtag: makes a protection tag. A descriptor may use memory whose tag is its VI's; the
 * NULL tag, on either side, goes with every tag of the same NIC handle. Short.
 *   Ptag  out
 *   VIP_SUCCESS
 *   VIP_ERROR_RESOURCE  too many tags
 * Source: [I, G]; NULL tag [P]. */
VIP_RETURN VipCreatePtag(IN VIP_NIC_HANDLE NicHandle, OUT VIP_PROTECTION_HANDLE *Ptag);

/* VipDestroyPtag: destroys a protection tag that nothing bears. Short.
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  no such tag
 *   VIP_ERROR_RESOURCE     a VI or a region still bears it
 * Source: [I, G]. */
VIP_RETURN VipDestroyPtag(IN VIP_NIC_HANDLE NicHandle, IN VIP_PROTECTION_HANDLE Ptag);

/* VipRegisterMem: lets descriptors use [VirtualAddress, VirtualAddress + Length). Any alignment and
 * length; ranges may overlap and be registered repeatedly, each time with another handle. Nothing
 * is pinned: what a descriptor uses must be mapped until it has been taken back, and be writable
 * where something is received, as if the program's own memcpy() did it. Short.
 *   MemAttribs    NULL: no tag, no RDMA
 *   MemoryHandle  out, never 0; peers need it, with the address, for RDMA
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  VirtualAddress is NULL, or Length 0 or beyond the address space
 *   VIP_ERROR_RESOURCE     too many regions or bytes
 *   VIP_INVALID_PTAG       no such tag
 *   VIP_INVALID_RDMAREAD   EnableRdmaRead where RDMA read is not supported
 * Source: [I, G]; NULL attributes, non-zero handle, overlap [P]. */
VIP_RETURN VipRegisterMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress,
                          IN VIP_ULONG Length, IN VIP_MEM_ATTRIBUTES *MemAttribs,
                          OUT VIP_MEM_HANDLE *MemoryHandle);

/* VipDeregisterMem: ends a registration. Sends that use it are sent before; posted receives that
 * use it fail with VIP_STATUS_PROTECTION_ERROR. Blocks until sends from it have completed, see "order"
 * above.
 *   VirtualAddress, MemoryHandle  as at VipRegisterMem
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  no region has this handle and address
 * Source: [I, G]. */
VIP_RETURN VipDeregisterMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID VirtualAddress,
                            IN VIP_MEM_HANDLE MemoryHandle);

/* VipQueryMem: the attributes of a region. Short.
 *   Address, MemHandle  as at VipRegisterMem
 *   MemAttribs          out
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER    no region has this handle and address
 * Source: [I, G]. */
VIP_RETURN VipQueryMem(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID Address,
                       IN VIP_MEM_HANDLE MemHandle, OUT VIP_MEM_ATTRIBUTES *MemAttribs);

/* VipSetMemAttributes: changes the attributes of a region. A transfer under way may see either.
 * Short.
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER    no region has this handle and address
 *   VIP_INVALID_PTAG, VIP_INVALID_RDMAREAD  as at VipRegisterMem
 * Source: [I, G]. */
VIP_RETURN VipSetMemAttributes(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID Address,
                               IN VIP_MEM_HANDLE MemHandle, IN VIP_MEM_ATTRIBUTES *MemAttribs);

/* ========================================================================= VIs */

/* VipCreateVi: makes a VI, in Idle. Short.
 *   ViAttribs                   what both ends of a connection must agree on, and protection
 *   SendCQHandle, RecvCQHandle  where completions of each queue are announced; NULL: nowhere
 *   ViHandle                    out
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER          a CQ handle is bad or of another NIC handle
 *   VIP_ERROR_RESOURCE             too many VIs
 *   VIP_INVALID_RELIABILITY_LEVEL  not one supported level
 *   VIP_INVALID_MTU                MaxTransferSize above the NIC's
 *   VIP_INVALID_QOS                QoS is not NULL
 *   VIP_INVALID_PTAG               no such tag
 *   VIP_INVALID_RDMAREAD           EnableRdmaRead where RDMA read is not supported
 * Source: [I, G]. */
VIP_RETURN VipCreateVi(IN VIP_NIC_HANDLE NicHandle, IN VIP_VI_ATTRIBUTES *ViAttribs,
                       IN VIP_CQ_HANDLE SendCQHandle, IN VIP_CQ_HANDLE RecvCQHandle,
                       OUT VIP_VI_HANDLE *ViHandle);

/* VipDestroyVi: destroys an Idle VI. Descriptors still on its queues are forgotten, and so are
 * their entries on CQs. Threads that wait on it return VIP_INVALID_PARAMETER; calls asked for with
 * VipSendNotify or VipRecvNotify are cancelled. Short.
 *   VIP_SUCCESS
 *   VIP_INVALID_STATE  the VI is not Idle: VipDisconnect first
 * Source: [I, G, S]; queues need not be empty [P]. */
VIP_RETURN VipDestroyVi(IN VIP_VI_HANDLE ViHandle);

/* VipQueryVi: state and attributes of a VI. Does not block; cheap enough to be polled for the
 * peer's disconnect.
 *   State, ViAttribs             out
 *   ViSendQEmpty, ViRecvQEmpty   out: VIP_TRUE if no descriptor is on that queue, completed ones
 *                                that were not taken back included
 *   VIP_SUCCESS
 * Source: [I, G]; polling [P]. */
VIP_RETURN VipQueryVi(IN VIP_VI_HANDLE ViHandle, OUT VIP_VI_STATE *State,
                      OUT VIP_VI_ATTRIBUTES *ViAttribs, OUT VIP_BOOLEAN *ViSendQEmpty,
                      OUT VIP_BOOLEAN *ViRecvQEmpty);

/* VipSetViAttributes: changes the attributes of an Idle VI. Short.
 *   VIP_SUCCESS
 *   VIP_INVALID_STATE        the VI is not Idle
 *   VIP_INVALID_RELIABILITY_LEVEL, VIP_INVALID_MTU, VIP_INVALID_QOS, VIP_INVALID_PTAG,
 *   VIP_INVALID_RDMAREAD     as at VipCreateVi
 * Source: [I, G, S]. */
VIP_RETURN VipSetViAttributes(IN VIP_VI_HANDLE ViHandle, IN VIP_VI_ATTRIBUTES *ViAttribs);

/* ========================================================================= connections */

/* VipConnectWait: waits for a connection request to one address of this NIC. Needs no VI; several
 * threads may wait for different discriminators. Requests for another discriminator are left alone.
 * Blocks.
 *   LocalAddr        only the discriminator is looked at: requests must ask for just this one
 *   Timeout          ms; 0: only a request that is already there
 *   RemoteAddr       out: address that the requester calls its own. Lengths and all bytes are
 *                    written, 4 + 6 + the discriminator's: there must be room
 *   RemoteViAttribs  out: of the requester's VI; QoS and Ptag are NULL
 *   ConnHandle       out: for VipConnectAccept or VipConnectReject
 *   VIP_SUCCESS
 *   VIP_TIMEOUT            no request came
 *   VIP_INVALID_PARAMETER  a length is impossible
 *   VIP_ERROR_RESOURCE     96 threads wait for connections on this NIC handle already
 * Source: [I, G]; RemoteAddr [P]. */
VIP_RETURN VipConnectWait(IN VIP_NIC_HANDLE NicHandle, IN VIP_NET_ADDRESS *LocalAddr,
                          IN VIP_ULONG Timeout, OUT VIP_NET_ADDRESS *RemoteAddr,
                          OUT VIP_VI_ATTRIBUTES *RemoteViAttribs,
                          OUT VIP_CONN_HANDLE *ConnHandle);

/* VipConnectAccept: accepts a request with an Idle VI. Reliability level and MaxTransferSize must
 * be the requester's. On a mismatch the requester learns nothing: another VI may be tried. Blocks
 * for a round trip on the wire.
 *   VIP_SUCCESS            the VI is connected; ConnHandle is used up
 *   VIP_INVALID_PARAMETER  ConnHandle was used up, or the VI is of another NIC handle
 *   VIP_INVALID_STATE      the VI is not Idle
 *   VIP_INVALID_RELIABILITY_LEVEL, VIP_INVALID_MTU, VIP_INVALID_QOS  mismatch
 *   VIP_TIMEOUT            the requester has given up; ConnHandle is used up
 *   VIP_ERROR_RESOURCE     too many connections
 * Source: [I, G, V]. */
VIP_RETURN VipConnectAccept(IN VIP_CONN_HANDLE ConnHandle, IN VIP_VI_HANDLE ViHandle);

/* VipConnectReject: refuses a request; the requester's call returns VIP_REJECT. Short.
 *   VIP_SUCCESS            ConnHandle is used up
 *   VIP_INVALID_PARAMETER  ConnHandle was used up
 *   VIP_TIMEOUT            the requester has given up; ConnHandle is used up
 * Source: [I, G]. */
VIP_RETURN VipConnectReject(IN VIP_CONN_HANDLE ConnHandle);

/* VipConnectRequest: connects an Idle VI to a peer that waits, or will wait in time, at an address.
 * After a failure the VI is Idle again and its posted receives are still there. Blocks.
 *   LocalAddr        what the peer will be told; its host bytes are not looked at
 *   RemoteAddr       host address (6 bytes) and discriminator to ask for
 *   Timeout          ms, not 0
 *   RemoteViAttribs  out: of the peer's VI; QoS and Ptag are NULL
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  Timeout is 0, or a length is impossible
 *   VIP_INVALID_STATE      the VI is not Idle
 *   VIP_REJECT             refused by the peer
 *   VIP_NO_MATCH           the host answered, but no program waited there in time
 *   VIP_TIMEOUT            the host did not answer, or the peer neither accepted nor refused
 *   VIP_NOT_REACHABLE      no host can have this address (group address, zero), or this NIC is the
 *                          loopback device and it is not its own
 *   VIP_ERROR_RESOURCE     too many connections or threads that wait
 * Source: [I, G, V]; waiting before VIP_NO_MATCH [P]. */
VIP_RETURN VipConnectRequest(IN VIP_VI_HANDLE ViHandle, IN VIP_NET_ADDRESS *LocalAddr,
                             IN VIP_NET_ADDRESS *RemoteAddr, IN VIP_ULONG Timeout,
                             OUT VIP_VI_ATTRIBUTES *RemoteViAttribs);

/* VipDisconnect: ends a VI's connection, or clears its error. Sends that were posted are sent
 * before, and the peer sees the end behind it. Then the descriptors that are left complete as flushed
 * and wait to be taken back. Blocks until then, see "order" above.
 *   VIP_SUCCESS  also if the VI was Idle, or the peer has gone
 * Source: [I, G]; harmless when repeated [P]. */
VIP_RETURN VipDisconnect(IN VIP_VI_HANDLE ViHandle);

/* VipConnectPeerRequest: starts a symmetric connection: both sides call it, and each one's
 * RemoteAddr is the other's LocalAddr. Returns at once; the VI is then in Connect Pending.
 *   Timeout  ms, for the whole attempt; not 0
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER    Timeout is 0, or a length is impossible
 *   VIP_INVALID_STATE        the VI is not Idle
 *   VIP_ERROR_RESOURCE       too many attempts
 * Source: [I, G, S]. */
VIP_RETURN VipConnectPeerRequest(IN VIP_VI_HANDLE ViHandle, IN VIP_NET_ADDRESS *LocalAddr,
                                 IN VIP_NET_ADDRESS *RemoteAddr, IN VIP_ULONG Timeout);

/* VipConnectPeerDone: asks how a symmetric connection stands. Short.
 *   RemoteViAttribs  out, on success
 *   VIP_SUCCESS
 *   VIP_NOT_DONE             still under way
 *   VIP_INVALID_STATE        none was started
 *   VIP_TIMEOUT, VIP_REJECT, VIP_INVALID_RELIABILITY_LEVEL, VIP_INVALID_MTU, VIP_INVALID_QOS,
 *   VIP_NOT_REACHABLE        how it failed
 *   VIP_ERROR_RESOURCE       the same: too many connections
 * Source: [I, G, S]. */
VIP_RETURN VipConnectPeerDone(IN VIP_VI_HANDLE ViHandle, OUT VIP_VI_ATTRIBUTES *RemoteViAttribs);

/* VipConnectPeerWait: waits for the end of a symmetric connection attempt. Blocks, as long as the
 * attempt may last.
 *   RemoteViAttribs  out, on success
 *   as VipConnectPeerDone, without VIP_NOT_DONE
 * Source: [I, G, S]. */
VIP_RETURN VipConnectPeerWait(IN VIP_VI_HANDLE ViHandle, OUT VIP_VI_ATTRIBUTES *RemoteViAttribs);

/* ========================================================================= data transfer */

/* VipPostSend: puts a send, RDMA write or RDMA read on a VI's send queue. Does not block. Errors in
 * the descriptor's contents are reported in its Status when it completes.
 *   DescriptorPtr  64-byte aligned by the standard; any multiple of 8 is taken. Its Status is
 *                  cleared; it and the data must be left alone until it is taken back
 *   MemoryHandle   of the region in which the descriptor lies
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  DescriptorPtr is NULL or not aligned: nothing was posted. So the caller
 *                          hears at once, in place of the error handler (VIP_ERROR_POST_DESC), of
 *                          a descriptor that would never complete
 *   VIP_ERROR_RESOURCE     the queue is full (MaxDescriptorsPerQueue)
 * Source: [I, G, S]; Status on entry [P]; alignment [D]. */
VIP_RETURN VipPostSend(IN VIP_VI_HANDLE ViHandle, IN VIP_DESCRIPTOR *DescriptorPtr,
                       IN VIP_MEM_HANDLE MemoryHandle);

/* VipPostRecv: puts a receive on a VI's receive queue, in any state of the VI; in the error state
 * it completes at once as flushed. The data of a message is in place when the receive has been
 * taken back. Arguments and returns as VipPostSend.
 * Source: [I, G, S]. */
VIP_RETURN VipPostRecv(IN VIP_VI_HANDLE ViHandle, IN VIP_DESCRIPTOR *DescriptorPtr,
                       IN VIP_MEM_HANDLE MemoryHandle);

/* VipSendDone: takes the oldest descriptor of the send queue back, if it has completed. Does not
 * block, not even while another thread waits on the same queue.
 *   DescriptorPtr  out: the descriptor, or NULL
 *   VIP_SUCCESS           completed
 *   VIP_DESCRIPTOR_ERROR  completed with an error, see its Status; with NULL: the queue is empty
 *   VIP_NOT_DONE          not completed yet
 * Source: [I, G, V]. */
VIP_RETURN VipSendDone(IN VIP_VI_HANDLE ViHandle, OUT VIP_DESCRIPTOR **DescriptorPtr);

/* VipRecvDone: the same for the receive queue. Length is then the number of bytes received.
 * Source: [I, G, V]. */
VIP_RETURN VipRecvDone(IN VIP_VI_HANDLE ViHandle, OUT VIP_DESCRIPTOR **DescriptorPtr);

/* VipSendWait: waits until the oldest descriptor of the send queue has completed and takes it back.
 * Works on queues with a CQ as well. Blocks (first spinning, then asleep).
 *   Timeout        ms; 0: as VipSendDone
 *   DescriptorPtr  out: the descriptor, or NULL
 *   VIP_SUCCESS           completed
 *   VIP_DESCRIPTOR_ERROR  completed with an error, see its Status; with NULL: the queue is empty
 *   VIP_TIMEOUT           not completed in time
 *   VIP_INVALID_PARAMETER also when the VI is destroyed meanwhile
 * When the NIC is closed meanwhile, the descriptor comes back as flushed.
 * Source: [I, G, V]; queues with a CQ [D]. */
VIP_RETURN VipSendWait(IN VIP_VI_HANDLE ViHandle, IN VIP_ULONG Timeout,
                       OUT VIP_DESCRIPTOR **DescriptorPtr);

/* VipRecvWait: the same for the receive queue. Length is then the number of bytes received.
 * Source: [I, G, V]. */
VIP_RETURN VipRecvWait(IN VIP_VI_HANDLE ViHandle, IN VIP_ULONG Timeout,
                       OUT VIP_DESCRIPTOR **DescriptorPtr);

/* VipSendNotify: has a handler called, once, with the oldest descriptor of the send queue as soon as
 * that has completed and after it has been taken back. Each call of this function stands for one
 * descriptor; they are served in the order in which they were made, and each descriptor goes to one
 * handler, Done or Wait. Flushed descriptors count too. VipDestroyVi and VipCloseNic cancel. Does not
 * block.
 *   Context  handed to the handler
 *   Handler  void handler(Context, NicHandle, ViHandle, DescriptorPtr), called by a thread of the
 *            library, not before this function has been called
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  Handler is NULL
 *   VIP_ERROR_RESOURCE     1024 calls are pending on this NIC handle, or no thread can be made
 * Source: [I, G]; one call, one descriptor [V]. */
VIP_RETURN VipSendNotify(IN VIP_VI_HANDLE ViHandle, IN VIP_PVOID Context,
                         IN VIP_VI_CALLBACK Handler);

/* VipRecvNotify: the same for the receive queue.
 * Source: [I, G]. */
VIP_RETURN VipRecvNotify(IN VIP_VI_HANDLE ViHandle, IN VIP_PVOID Context,
                         IN VIP_VI_CALLBACK Handler);

/* ========================================================================= completion queues */

/* VipCreateCQ: makes a completion queue. Short.
 *   EntryCount  entries to hold at least; no entry is ever lost, however many are pending
 *   CQHandle    out
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  EntryCount is 0
 *   VIP_ERROR_RESOURCE     too many CQs, or EntryCount above MaxCQEntries
 * Source: [I, G]; entries are not lost [D]. */
VIP_RETURN VipCreateCQ(IN VIP_NIC_HANDLE NicHandle, IN VIP_ULONG EntryCount,
                       OUT VIP_CQ_HANDLE *CQHandle);

/* VipDestroyCQ: destroys a completion queue that no VI uses. Threads that wait on it return
 * VIP_INVALID_PARAMETER; calls asked for with VipCQNotify are cancelled. Short.
 *   VIP_SUCCESS
 *   VIP_ERROR_RESOURCE  a VI still uses it
 * Source: [I, G, S]; waiting threads [P]. */
VIP_RETURN VipDestroyCQ(IN VIP_CQ_HANDLE CQHandle);

/* VipResizeCQ: changes the size of a completion queue, with its contents. Short.
 *   EntryCount  as at VipCreateCQ
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER    EntryCount is 0
 *   VIP_ERROR_RESOURCE       EntryCount above MaxCQEntries
 * Source: [I, G, S]. */
VIP_RETURN VipResizeCQ(IN VIP_CQ_HANDLE CQHandle, IN VIP_ULONG EntryCount);

/* VipCQDone: takes the oldest entry off a completion queue. The matching VipRecvDone or VipSendDone
 * then succeeds at once. Entries of descriptors that were taken back without it, and of destroyed
 * VIs, are passed over. Does not block.
 *   ViHandle   out: whose descriptor has completed
 *   RecvQueue  out: VIP_TRUE: a receive, VIP_FALSE: a send
 *   VIP_SUCCESS
 *   VIP_NOT_DONE        no entry
 *   VIP_ERROR_RESOURCE  no entry, and the agent has gone away
 * Source: [I, G]. */
VIP_RETURN VipCQDone(IN VIP_CQ_HANDLE CQHandle, OUT VIP_VI_HANDLE *ViHandle,
                     OUT VIP_BOOLEAN *RecvQueue);

/* VipCQWait: waits for an entry and takes it off. Blocks (first spinning, then asleep).
 *   Timeout              ms; 0: as VipCQDone
 *   ViHandle, RecvQueue  out, as at VipCQDone
 *   VIP_SUCCESS
 *   VIP_TIMEOUT            no entry came in time
 *   VIP_INVALID_PARAMETER  also when the CQ is destroyed meanwhile
 *   VIP_ERROR_RESOURCE     the NIC is closed meanwhile, or no entry and the agent has gone away
 * Source: [I, G]. */
VIP_RETURN VipCQWait(IN VIP_CQ_HANDLE CQHandle, IN VIP_ULONG Timeout, OUT VIP_VI_HANDLE *ViHandle,
                     OUT VIP_BOOLEAN *RecvQueue);

/* VipCQNotify: has a handler called, once, with the next entry of a completion queue, which has then
 * been taken off. Each call of this function stands for one entry; they are served in the order in
 * which they were made. VipDestroyCQ and VipCloseNic cancel. Does not block.
 *   Context  handed to the handler
 *   Handler  void handler(Context, NicHandle, ViHandle, RecvQueue), called by a thread of the
 *            library; the descriptor is then to be taken back with VipRecvDone or VipSendDone
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  Handler is NULL
 *   VIP_ERROR_RESOURCE     1024 calls are pending on this NIC handle, or no thread can be made
 * Source: [I, G, V]. */
VIP_RETURN VipCQNotify(IN VIP_CQ_HANDLE CQHandle, IN VIP_PVOID Context,
                       IN VIP_CQ_CALLBACK Handler);

/* ========================================================================= name service */

/* VipNSInit: prepares the name service; there is nothing to prepare. May be repeated. Does not
 * block.
 *   NSInitInfo  not looked at
 *   VIP_SUCCESS
 * Source: [I, G]; repetition [P]. */
VIP_RETURN VipNSInit(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID NSInitInfo);

/* VipNSGetHostByName: the host address that goes with a name. Writes HostAddressLen and the host
 * bytes; touches neither DiscriminatorLen nor what follows, and looks at nothing in Address. Blocks
 * while hosts on the link are asked, a second at most.
 *   Name       host name, short or with its domain, or the text of an IP address
 *   Address    out
 *   NameIndex  which of the name's addresses, from 0
 *   VIP_SUCCESS
 *   VIP_ERROR_NAMESERVICE  the name, or that index of it, is not known
 * Source: [I, G]; what is written [P]. */
VIP_RETURN VipNSGetHostByName(IN VIP_NIC_HANDLE NicHandle, IN VIP_CHAR *Name,
                              OUT VIP_NET_ADDRESS *Address, IN VIP_ULONG NameIndex);

/* VipNSGetHostByAddr: the name that goes with a host address. Short.
 *   Address  only the host part is looked at
 *   Name     out, NUL-terminated
 *   NameLen  in: bytes that Name has; out: length of the name, without NUL
 *   VIP_SUCCESS
 *   VIP_ERROR_RESOURCE       Name is too short; NameLen then tells what is needed
 *   VIP_ERROR_NAMESERVICE    no name is known
 * Source: [I, G]. */
VIP_RETURN VipNSGetHostByAddr(IN VIP_NIC_HANDLE NicHandle, IN VIP_NET_ADDRESS *Address,
                              OUT VIP_CHAR *Name, IN OUT VIP_ULONG *NameLen);

/* VipNSShutdown: ends the use of the name service. Addresses remain valid. May be repeated. Does
 * not block.
 *   VIP_SUCCESS
 * Source: [I, G, P]. */
VIP_RETURN VipNSShutdown(IN VIP_NIC_HANDLE NicHandle);

/* ========================================================================= errors, management */

/* VipErrorCallback: registers the handler for asynchronous errors of this NIC handle, in place of
 * the one before. It stays registered. At most 256 errors wait for it; more are lost. Does not block.
 *   Context  handed to the handler
 *   Handler  void handler(Context, ErrorDesc), called by a thread of the library; ErrorDesc is valid
 *            during the call. NULL: the default, which writes a line to standard error, except for
 *            VIP_ERROR_VI_OVERRUN and for connections that the peer has ended in good order
 *   VIP_SUCCESS
 *   VIP_ERROR_RESOURCE  no thread can be made
 * What ErrorDesc says; NicHandle is always set, ViHandle for all but the last:
 *   VIP_ERROR_CONN_LOST       VI: the connection has ended otherwise than by an own VipDisconnect.
 *                             What follows but the last two comes before it where it is the cause
 *   VIP_ERROR_RECVQ_EMPTY     VI: a message, or an RDMA write with immediate data, found no receive
 *   VIP_ERROR_RDMAW_PROT      VI: the peer wanted to write where it may not. With immediate data
 *                             only if no receive is posted; else the receive that the write would
 *                             have used completes with VIP_STATUS_RDMA_PROT_ERROR
 *   VIP_ERROR_RDMAR_PROT      VI: the peer wanted to read where it may not
 *   VIP_ERROR_RDMAW_DATA      VI: the peer wrote to registered memory that is not there any more;
 *                             with immediate data as VIP_ERROR_RDMAW_PROT
 *   VIP_ERROR_RDMAW_ABORT     VI: the connection ended in the middle of the peer's RDMA write
 *   VIP_ERROR_RDMA_TRANSPORT  VI: the peer fell silent while an own RDMA operation was under way
 *   VIP_ERROR_POST_DESC       descriptor: a send does not lie in the region of its MemoryHandle
 *   VIP_ERROR_COMP_PROT       descriptor: a receive may not use its own or its data's memory
 *   VIP_ERROR_VI_OVERRUN      VI: a post found the queue full, the first time after one that did not
 *   VIP_ERROR_CATASTROPHIC    NIC: the agent has gone away
 * OpCode is 0 for a send, 1 for an RDMA write, 2 for an RDMA read (VIP_CONTROL_OP_*), 3 for a
 * receive; 0 where no operation is to blame. CQHandle is NULL.
 * Source: [I, G]; NULL [P]; which errors there are and when [D]. */
VIP_RETURN VipErrorCallback(IN VIP_NIC_HANDLE NicHandle, IN VIP_PVOID Context,
                            IN VIP_ERROR_HANDLER Handler);

/* VipQuerySystemManagementInfo: facts about the network. Blocks for a tenth of a second, and for as
 * long as other threads ask the same.
 *   InfoType    VIP_SMI_AUTODISCOVERY: which other hosts on the link have agents
 *   SysManInfo  out: VIP_AUTODISCOVERY_LIST. NumberOfHops is 1; NumAdAddrs addresses, without
 *               discriminators, are in ADAddrArray, which belongs to the library and is valid until
 *               the sixteenth such call after it on this NIC handle, or VipCloseNic: threads that
 *               ask at the same time don't spoil each other's answer
 *   VIP_SUCCESS
 *   VIP_INVALID_PARAMETER  another InfoType
 *   VIP_ERROR_RESOURCE     no memory
 * Source: [I, G]; the array's owner [D]. */
VIP_RETURN VipQuerySystemManagementInfo(IN VIP_NIC_HANDLE NicHandle, IN VIP_ULONG InfoType,
                                        OUT VIP_PVOID SysManInfo);

/* ========================================================================= Giganet's additions */

/* VipSetUserData: keeps a pointer with a VI. A bad handle is ignored. Does not block.
 * Source: [G, P]. */
void VipSetUserData(IN VIP_VI_HANDLE ViHandle, IN VIP_PVOID Data);

/* VipGetUserData: the pointer that VipSetUserData kept; NULL if none was, or the handle is bad.
 * Does not block.
 * Source: [G, P]. */
VIP_PVOID VipGetUserData(IN VIP_VI_HANDLE ViHandle);

/* VipAddTagCQ, VipRemoveTagCQ, VipPostDeferredSends: no description of these is known.
 *   VIP_ERROR_NOT_SUPPORTED  always
 * Source: [G]. */
VIP_RETURN VipAddTagCQ(IN VIP_CQ_HANDLE CQHandle, IN OUT VIP_EVENT_HANDLE *Event, IN VIP_ULONG Tag,
                       IN VIP_ULONG Priority);
VIP_RETURN VipRemoveTagCQ(IN VIP_CQ_HANDLE CQHandle, IN VIP_EVENT_HANDLE Event, IN VIP_ULONG Tag);
VIP_RETURN VipPostDeferredSends(IN VIP_VI_HANDLE ViHandle, IN VIP_BOOLEAN EnableInterrupt,
                                IN OUT VIP_BOOLEAN *SendsDeferred);

#undef VIPL_EXTENSION_

#ifdef __cplusplus
}
#endif

#endif
