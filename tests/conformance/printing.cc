#include "printing.h"

#include <ostream>
#include <span>
#include <sstream>

namespace conformance {
namespace {

constexpr const char* kCodeNames[] = {"SUCCESS",
                                      "NOT_DONE",
                                      "INVALID_PARAMETER",
                                      "ERROR_RESOURCE",
                                      "TIMEOUT",
                                      "REJECT",
                                      "INVALID_RELIABILITY_LEVEL",
                                      "INVALID_MTU",
                                      "INVALID_QOS",
                                      "INVALID_PTAG",
                                      "INVALID_RDMAREAD",
                                      "DESCRIPTOR_ERROR",
                                      "INVALID_STATE",
                                      "ERROR_NAMESERVICE",
                                      "NO_MATCH",
                                      "NOT_REACHABLE",
                                      "ERROR_NOT_SUPPORTED"};
constexpr const char* kErrorNames[] = {"POST_DESC",  "CONN_LOST",      "RECVQ_EMPTY", "VI_OVERRUN",
                                       "RDMAW_PROT", "RDMAW_DATA",     "RDMAW_ABORT", "RDMAR_PROT",
                                       "COMP_PROT",  "RDMA_TRANSPORT", "CATASTROPHIC"};
constexpr const char* kResourceNames[] = {"NIC", "VI", "CQ", "DESCRIPTOR"};
constexpr const char* kStateNames[] = {"IDLE", "CONNECTED", "CONNECT_PENDING", "ERROR"};
constexpr struct {
  std::uint32_t bit;
  const char* name;
} kStatusNames[] = {{VIP_STATUS_DONE, "DONE"},
                    {VIP_STATUS_FORMAT_ERROR, "FORMAT_ERROR"},
                    {VIP_STATUS_PROTECTION_ERROR, "PROTECTION_ERROR"},
                    {VIP_STATUS_LENGTH_ERROR, "LENGTH_ERROR"},
                    {VIP_STATUS_PARTIAL_ERROR, "PARTIAL_ERROR"},
                    {VIP_STATUS_DESC_FLUSHED_ERROR, "DESC_FLUSHED_ERROR"},
                    {VIP_STATUS_TRANSPORT_ERROR, "TRANSPORT_ERROR"},
                    {VIP_STATUS_RDMA_PROT_ERROR, "RDMA_PROT_ERROR"},
                    {VIP_STATUS_REMOTE_DESC_ERROR, "REMOTE_DESC_ERROR"},
                    {VIP_STATUS_IMMEDIATE, "IMMEDIATE"}};
constexpr const char* kOperationNames[] = {"OP_SEND", "OP_RECEIVE", "OP_RDMA_WRITE",
                                           "OP_REMOTE_RDMA_WRITE", "OP_RDMA_READ"};

std::string pick(std::span<const char* const> names, unsigned number, const char* kind) {
  if (number < names.size()) return names[number];
  return std::string(kind) + " " + std::to_string(number);
}

void put_bytes(std::ostream& out, const std::vector<std::uint8_t>& bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  for (const std::uint8_t byte : bytes) out << kDigits[byte >> 4] << kDigits[byte & 15];
}

}  // namespace

std::string code_name(VIP_RETURN code) { return pick(kCodeNames, code, "code"); }
std::string error_name(VIP_ERROR_CODE code) { return pick(kErrorNames, code, "error code"); }
std::string resource_name(VIP_RESOURCE_CODE code) {
  return pick(kResourceNames, code, "resource code");
}

std::string status_name(std::uint32_t status) {
  std::ostringstream out;
  out << pick(kOperationNames, (status & VIP_STATUS_OP_MASK) >> 16, "operation");
  for (const auto& [bit, name] : kStatusNames) {
    if ((status & bit) != 0) out << '|' << name;
  }
  out << " (0x" << std::hex << status << ')';
  return out.str();
}

void PrintTo(const Status& status, std::ostream* out) { *out << status_name(status.bits); }

void PrintTo(const Completion& completion, std::ostream* out) {
  *out << code_name(completion.code);
  if (completion.id == kNoDescriptor) {
    *out << ", no descriptor";
  } else if (completion.id == kUnknownDescriptor) {
    *out << ", a descriptor that was not posted";
  } else {
    *out << ", descriptor " << completion.id << ", " << status_name(completion.status.bits)
         << ", length " << completion.length << ", immediate " << completion.immediate
         << (completion.intact ? "" : ", its segments or Control were changed");
  }
}

void PrintTo(const ErrorEvent& event, std::ostream* out) {
  if (!event.came) {
    *out << "no error event";
    return;
  }
  *out << error_name(event.error) << " of " << resource_name(event.resource) << ", VI " << std::hex
       << static_cast<std::uint64_t>(event.vi) << std::dec << ", descriptor " << event.descriptor;
}

void PrintTo(const Address& address, std::ostream* out) {
  put_bytes(*out, address.host);
  *out << '/';
  put_bytes(*out, address.discriminator);
}

void PrintTo(const ViAttributes& a, std::ostream* out) {
  *out << "level " << a.level << ", max transfer size " << a.max_transfer_size << ", QoS " << a.qos
       << ", tag " << static_cast<std::uint64_t>(a.ptag) << ", RDMA write " << a.rdma_write
       << ", RDMA read " << a.rdma_read;
}

}  // namespace conformance

void PrintTo(VIP_RETURN code, std::ostream* out) { *out << "VIP_" << conformance::code_name(code); }
void PrintTo(VIP_VI_STATE state, std::ostream* out) {
  *out << "VIP_STATE_" << conformance::pick(conformance::kStateNames, state, "state");
}
void PrintTo(VIP_ERROR_CODE code, std::ostream* out) { *out << conformance::error_name(code); }
void PrintTo(VIP_RESOURCE_CODE code, std::ostream* out) {
  *out << conformance::resource_name(code);
}
