// VipOpenNic, VipCloseNic, VipQueryNic.
#include <cstring>

#include "kagent/contract/vip_codes.h"
#include "vipl/session/callback_thread.h"
#include "vipl/process/environment.h"
#include "vipl/process/exit_drain.h"
#include "vipl/process/lock.h"
#include "vipl/session/handshake.h"
#include "vipl/session/outgoing.h"
#include "vipl/session/registry.h"
#include "vipl/session/session.h"
#include "vipl/process/sys.h"
#include "vipl/session/session_guard.h"
#include "vipl/session/session_table.h"
#include "vipl/vipl_ext.h"

using namespace viaduct::vipl;

// The stack's numbers are those of vipl.h.
namespace {
namespace vip = viaduct::vip;
#define SAME(a, b) static_assert(static_cast<long>(a) == static_cast<long>(b))
SAME(vip::kSuccess, VIP_SUCCESS);
SAME(vip::kNotDone, VIP_NOT_DONE);
SAME(vip::kInvalidParameter, VIP_INVALID_PARAMETER);
SAME(vip::kErrorResource, VIP_ERROR_RESOURCE);
SAME(vip::kTimeout, VIP_TIMEOUT);
SAME(vip::kReject, VIP_REJECT);
SAME(vip::kInvalidReliabilityLevel, VIP_INVALID_RELIABILITY_LEVEL);
SAME(vip::kInvalidMtu, VIP_INVALID_MTU);
SAME(vip::kInvalidQos, VIP_INVALID_QOS);
SAME(vip::kInvalidPtag, VIP_INVALID_PTAG);
SAME(vip::kInvalidRdmaRead, VIP_INVALID_RDMAREAD);
SAME(vip::kDescriptorError, VIP_DESCRIPTOR_ERROR);
SAME(vip::kInvalidState, VIP_INVALID_STATE);
SAME(vip::kErrorNameService, VIP_ERROR_NAMESERVICE);
SAME(vip::kNoMatch, VIP_NO_MATCH);
SAME(vip::kNotReachable, VIP_NOT_REACHABLE);
SAME(vip::kNotSupported, VIP_ERROR_NOT_SUPPORTED);
SAME(vip::kIdle, VIP_STATE_IDLE);
SAME(vip::kConnected, VIP_STATE_CONNECTED);
SAME(vip::kConnectPending, VIP_STATE_CONNECT_PENDING);
SAME(vip::kError, VIP_STATE_ERROR);
SAME(vip::kUnreliable, VIP_SERVICE_UNRELIABLE);
SAME(vip::kReliableDelivery, VIP_SERVICE_RELIABLE_DELIVERY);
SAME(vip::kReliableReception, VIP_SERVICE_RELIABLE_RECEPTION);
SAME(vip::kPostDescriptor, VIP_ERROR_POST_DESC);
SAME(vip::kConnectionLost, VIP_ERROR_CONN_LOST);
SAME(vip::kReceiveQueueEmpty, VIP_ERROR_RECVQ_EMPTY);
SAME(vip::kViOverrun, VIP_ERROR_VI_OVERRUN);
SAME(vip::kRdmaWriteProtection, VIP_ERROR_RDMAW_PROT);
SAME(vip::kRdmaWriteData, VIP_ERROR_RDMAW_DATA);
SAME(vip::kRdmaWriteAbort, VIP_ERROR_RDMAW_ABORT);
SAME(vip::kRdmaReadProtection, VIP_ERROR_RDMAR_PROT);
SAME(vip::kCompletionProtection, VIP_ERROR_COMP_PROT);
SAME(vip::kRdmaTransport, VIP_ERROR_RDMA_TRANSPORT);
SAME(vip::kCatastrophic, VIP_ERROR_CATASTROPHIC);
SAME(vip::kDone, VIP_STATUS_DONE);
SAME(vip::kFormatError, VIP_STATUS_FORMAT_ERROR);
SAME(vip::kProtectionError, VIP_STATUS_PROTECTION_ERROR);
SAME(vip::kLengthError, VIP_STATUS_LENGTH_ERROR);
SAME(vip::kPartialError, VIP_STATUS_PARTIAL_ERROR);
SAME(vip::kFlushedError, VIP_STATUS_DESC_FLUSHED_ERROR);
SAME(vip::kTransportError, VIP_STATUS_TRANSPORT_ERROR);
SAME(vip::kRdmaProtectionError, VIP_STATUS_RDMA_PROT_ERROR);
SAME(vip::kRemoteDescriptorError, VIP_STATUS_REMOTE_DESC_ERROR);
SAME(vip::kErrorMask, VIP_STATUS_ERROR_MASK);
SAME(vip::kOpSend, VIP_STATUS_OP_SEND);
SAME(vip::kOpReceive, VIP_STATUS_OP_RECEIVE);
SAME(vip::kOpRdmaWrite, VIP_STATUS_OP_RDMA_WRITE);
SAME(vip::kOpRemoteRdmaWrite, VIP_STATUS_OP_REMOTE_RDMA_WRITE);
SAME(vip::kOpRdmaRead, VIP_STATUS_OP_RDMA_READ);
SAME(vip::kImmediate, VIP_STATUS_IMMEDIATE);
SAME(viaduct::layout::kSlotImmediate, VIP_CONTROL_IMMEDIATE);
SAME(viaduct::layout::kSlotFence, VIP_CONTROL_QFENCE);
#undef SAME
}  // namespace

VIP_RETURN VipOpenNic(const VIP_CHAR* DeviceName, VIP_NIC_HANDLE* NicHandle) {
  if (DeviceName == nullptr || NicHandle == nullptr) return VIP_INVALID_PARAMETER;
  constexpr std::size_t kRoom = sizeof(viaduct::control::Hello::device);
  if (std::memchr(DeviceName, '\0', kRoom) == nullptr) return VIP_INVALID_PARAMETER;
  Hello hello;
  const VIP_RETURN answered = say_hello(DeviceName, hello);
  if (answered != VIP_SUCCESS) return answered;
  for (int* const fd : {&hello.agent_wake, &hello.poll_wake, &hello.port, &hello.trains, &hello.train_guard}) {
    *fd = sys::out_of_the_way(*fd);
  }
  Session* session = nullptr;
  const VIP_RETURN opened = registry::open(hello, session);
  if (opened != VIP_SUCCESS) return opened;
  exit_drain::prepare();
  *NicHandle = Handle(Kind::kNic, session->nic_part(), 0).pointer();
  return VIP_SUCCESS;
}

void VipxKeepEnvironment() { environment::keep(); }

VIP_RETURN VipxHoldPosts(VIP_NIC_HANDLE nic, VIP_BOOLEAN hold) {
  const SessionGuard inside(nic, Kind::kNic);
  if (!inside) return VIP_INVALID_PARAMETER;
  if (Driver* const driver = inside.session().driver; driver != nullptr) driver->hold_posts(hold != VIP_FALSE);
  return VIP_SUCCESS;
}

VIP_RETURN VipxAttach(VIP_NIC_HANDLE nic) {
  const Handle handle(nic);
  if (!handle.is(Kind::kNic) || handle.nic() >= kMaxSessions) return VIP_INVALID_PARAMETER;
  const VIP_RETURN attached = registry::attach(handle.nic(), handle.key());
  if (attached != VIP_SUCCESS) return attached;
  exit_drain::prepare();
  // If there is no thread, only the default error handler is missing.
  const SessionGuard inside(nic, Kind::kNic);
  if (inside) callback_thread::start(inside.session());
  return VIP_SUCCESS;
}

VIP_RETURN VipCloseNic(VIP_NIC_HANDLE NicHandle) {
  const Handle handle(NicHandle);
  if (const SessionGuard inside(NicHandle, Kind::kNic); inside) {
    outgoing::Patience patience;
    outgoing::wait_for_all(inside.session(), patience);
  }
  const bool closed = handle.is(Kind::kNic) && handle.nic() < kMaxSessions &&
                      registry::close(handle.nic(), handle.key());
  return closed ? VIP_SUCCESS : VIP_INVALID_PARAMETER;
}

namespace {

// `address`: where the NIC's address lies; null: nowhere.
VIP_NIC_ATTRIBUTES attributes_of(const viaduct::control::NicAttributes& nic, VIP_ULONG max_descriptors,
                                 const std::uint8_t* address) {
  VIP_NIC_ATTRIBUTES out = {};
  static_assert(sizeof out.Name == sizeof nic.name);
  std::memcpy(out.Name, nic.name, sizeof out.Name);
  out.HardwareVersion = nic.hardware_version;
  out.ProviderVersion = nic.provider_version;
  out.NicAddressLen = viaduct::layout::kHostBytes;
  out.LocalNicAddress = address;
  out.ThreadSafe = VIP_TRUE;
  out.MaxDiscriminatorLen = static_cast<VIP_UINT16>(nic.max_discriminator);
  out.MaxRegisterBytes = nic.max_bytes;
  out.MaxRegisterRegions = nic.max_regions;
  out.MaxRegisterBlockBytes = nic.max_block_bytes;
  out.MaxVI = nic.max_vis;
  out.MaxDescriptorsPerQueue = max_descriptors;
  out.MaxSegmentsPerDesc = nic.max_segments;
  out.MaxCQ = nic.max_cqs;
  out.MaxCQEntries = nic.max_cq_entries;
  out.MaxTransferSize = nic.max_transfer;
  out.NativeMTU = nic.native_mtu;
  out.MaxPtags = nic.max_ptags;
  out.ReliabilityLevelSupport = nic.reliability_support;
  out.RDMAReadSupport = nic.rdma_read_support;
  return out;
}

}  // namespace

VIP_RETURN VipQueryNic(VIP_NIC_HANDLE NicHandle, VIP_NIC_ATTRIBUTES* NicAttribs) {
  const SessionGuard inside(NicHandle, Kind::kNic);
  if (!inside || NicAttribs == nullptr) return VIP_INVALID_PARAMETER;
  const Session& session = inside.session();
  *NicAttribs = attributes_of(session.nic, session.max_descriptors, session.nic.address);
  return VIP_SUCCESS;
}

VIP_RETURN VipxQueryDevice(const VIP_CHAR* device, VIP_NIC_ATTRIBUTES* attributes) {
  if (device == nullptr || attributes == nullptr) return VIP_INVALID_PARAMETER;
  constexpr std::size_t kRoom = sizeof(viaduct::control::AskNic::device);
  if (std::memchr(device, '\0', kRoom) == nullptr) return VIP_INVALID_PARAMETER;
  viaduct::control::NicAttributes nic;
  const VIP_RETURN answered = ask_for_nic(device, nic);
  if (answered == VIP_SUCCESS) *attributes = attributes_of(nic, most_descriptors(nic), nullptr);
  return answered;
}

VIP_RETURN VipxSetFinisher(VIP_NIC_HANDLE nic, VIPX_STEP step, VIP_PVOID context) {
  const SessionGuard inside(nic, Kind::kNic);
  if (!inside) return VIP_INVALID_PARAMETER;
  Session& session = inside.session();
  session.finisher.stop();
  if (step == nullptr) return VIP_SUCCESS;
  const auto descriptors = [](const void* of, int* fds, int most) {
    const Lock lock(registry::g_lock);
    return registry::descriptors(*static_cast<const Session*>(of), fds, most);
  };
  return session.finisher.start(&session, descriptors, session.driver, step, context) ? VIP_SUCCESS : VIP_ERROR_RESOURCE;
}
