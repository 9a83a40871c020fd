// The numbers of the VIPL that the stack needs, with the values of vipl.h (which lies above this
// folder and checks them against these when libvipl is built).
#ifndef VIADUCT_KAGENT_CONTRACT_VIP_CODES_H
#define VIADUCT_KAGENT_CONTRACT_VIP_CODES_H

#include <cstdint>

namespace viaduct::vip {

enum Return : std::uint32_t {
  kSuccess = 0,
  kNotDone = 1,
  kInvalidParameter = 2,
  kErrorResource = 3,
  kTimeout = 4,
  kReject = 5,
  kInvalidReliabilityLevel = 6,
  kInvalidMtu = 7,
  kInvalidQos = 8,
  kInvalidPtag = 9,
  kInvalidRdmaRead = 10,
  kDescriptorError = 11,
  kInvalidState = 12,
  kErrorNameService = 13,
  kNoMatch = 14,
  kNotReachable = 15,
  kNotSupported = 16,
};

enum State : std::uint32_t { kIdle = 0, kConnected = 1, kConnectPending = 2, kError = 3 };

enum Service : std::uint16_t { kUnreliable = 1, kReliableDelivery = 2, kReliableReception = 4 };

enum ErrorCode : std::uint32_t {
  kPostDescriptor = 0,
  kConnectionLost = 1,
  kReceiveQueueEmpty = 2,
  kViOverrun = 3,
  kRdmaWriteProtection = 4,
  kRdmaWriteData = 5,
  kRdmaWriteAbort = 6,
  kRdmaReadProtection = 7,
  kCompletionProtection = 8,
  kRdmaTransport = 9,
  kCatastrophic = 10,
};

enum Resource : std::uint8_t {
  kResourceNic = 0,
  kResourceVi = 1,
  kResourceCq = 2,
  kResourceDescriptor = 3,
};

enum Status : std::uint32_t {
  kDone = 0x1,
  kFormatError = 0x2,
  kProtectionError = 0x4,
  kLengthError = 0x8,
  kPartialError = 0x10,
  kFlushedError = 0x20,
  kTransportError = 0x40,
  kRdmaProtectionError = 0x80,
  kRemoteDescriptorError = 0x100,
  kErrorMask = 0x1fe,
  kOpSend = 0x00000,
  kOpReceive = 0x10000,
  kOpRdmaWrite = 0x20000,
  kOpRemoteRdmaWrite = 0x30000,
  kOpRdmaRead = 0x40000,
  kOpMask = 0x70000,
  kImmediate = 0x80000,
};

// The status bits for the operation `op` (a layout::SlotOp) of a descriptor in a send queue.
constexpr std::uint32_t status_op(std::uint32_t op) {
  return op == 1 ? kOpRdmaWrite : op == 2 ? kOpRdmaRead : kOpSend;
}

}  // namespace viaduct::vip

#endif
