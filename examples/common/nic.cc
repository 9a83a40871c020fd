#include "examples/common/nic.h"

#include <cstdarg>
#include <cstdio>
#include <iterator>

namespace via {

std::atomic<bool> stopped{false};

std::string format(const char* text, ...) {
  char buffer[512];
  va_list arguments;
  va_start(arguments, text);
  std::vsnprintf(buffer, sizeof buffer, text, arguments);
  va_end(arguments);
  return buffer;
}

const char* return_text(VIP_RETURN code) {
  static constexpr const char* kTexts[] = {
      "VIP_SUCCESS",
      "VIP_NOT_DONE: nothing has completed",
      "VIP_INVALID_PARAMETER: a bad handle or value",
      "VIP_ERROR_RESOURCE: out of something, or no agent",
      "VIP_TIMEOUT: no answer in time",
      "VIP_REJECT: the peer refused",
      "VIP_INVALID_RELIABILITY_LEVEL: not supported, or not the peer's",
      "VIP_INVALID_MTU: message size too large, or not the peer's",
      "VIP_INVALID_QOS",
      "VIP_INVALID_PTAG",
      "VIP_INVALID_RDMAREAD",
      "VIP_DESCRIPTOR_ERROR",
      "VIP_INVALID_STATE: the VI is in the wrong state",
      "VIP_ERROR_NAMESERVICE: the name is not known",
      "VIP_NO_MATCH: nobody waits there",
      "VIP_NOT_REACHABLE: no way to the host",
      "VIP_ERROR_NOT_SUPPORTED",
  };
  static_assert(std::size(kTexts) == VIP_ERROR_NOT_SUPPORTED + 1);
  const auto index = static_cast<std::size_t>(code);
  return index < std::size(kTexts) ? kTexts[index] : "unknown return code";
}

std::string status_text(std::uint32_t status) {
  static constexpr struct {
    std::uint32_t bit;
    const char* name;
  } kBits[] = {
      {VIP_STATUS_FORMAT_ERROR, "format error"},
      {VIP_STATUS_PROTECTION_ERROR, "protection error"},
      {VIP_STATUS_LENGTH_ERROR, "length error"},
      {VIP_STATUS_PARTIAL_ERROR, "partial error"},
      {VIP_STATUS_DESC_FLUSHED_ERROR, "descriptor flushed"},
      {VIP_STATUS_TRANSPORT_ERROR, "transport error"},
      {VIP_STATUS_RDMA_PROT_ERROR, "RDMA protection error"},
      {VIP_STATUS_REMOTE_DESC_ERROR, "remote descriptor error"},
  };
  std::string text;
  for (const auto& [bit, name] : kBits) {
    if ((status & bit) != 0) text += (text.empty() ? "" : ", ") + std::string(name);
  }
  return text;
}

void check(VIP_RETURN code, const char* call) {
  if (code != VIP_SUCCESS) throw Failure(format("%s: %s", call, return_text(code)));
}

std::string address_text(const std::uint8_t* a) {
  return format("%02x:%02x:%02x:%02x:%02x:%02x", a[0], a[1], a[2], a[3], a[4], a[5]);
}

const char* reliability_text(VIP_RELIABILITY_LEVEL level) {
  return level == VIP_SERVICE_UNRELIABLE          ? "unreliable delivery"
         : level == VIP_SERVICE_RELIABLE_DELIVERY ? "reliable delivery"
                                                  : "reliable reception";
}

Nic::Nic(const std::string& device) {
  const VIP_RETURN result = VipOpenNic(device.c_str(), &handle_);
  if (result == VIP_INVALID_PARAMETER) {
    throw Failure("the agent knows no NIC called \"" + device + "\"");
  }
  if (result != VIP_SUCCESS) {
    throw Failure(
        format("can't open the NIC \"%s\": %s. Is viad running? VIADUCT_DEBUG=1 tells more",
               device.c_str(), return_text(result)));
  }
  check(VipQueryNic(handle_, &attributes_), "VipQueryNic");
}

Address Nic::address() const {
  Address own;
  own.get()->HostAddressLen = attributes_.NicAddressLen;
  std::memcpy(own.host(), attributes_.LocalNicAddress, attributes_.NicAddressLen);
  return own;
}

void Nic::count_refused() { check(VipErrorCallback(handle_, this, on_error), "VipErrorCallback"); }

// In a thread of the library. That a connection is lost the descriptors tell, too.
void Nic::on_error(void* context, VIP_ERROR_DESCRIPTOR* error) {
  Nic& nic = *static_cast<Nic*>(context);
  if (error->ErrorCode == VIP_ERROR_RECVQ_EMPTY) {
    const std::lock_guard guard(nic.lock_);
    ++nic.refused_[error->ViHandle];
  } else if (error->ErrorCode != VIP_ERROR_CONN_LOST && error->ErrorCode != VIP_ERROR_VI_OVERRUN) {
    std::fprintf(stderr, "error on the NIC \"%s\": code %d\n", nic.attributes_.Name,
                 static_cast<int>(error->ErrorCode));
  }
}

std::uint32_t Nic::refused(VIP_VI_HANDLE vi) {
  const std::lock_guard guard(lock_);
  const auto found = refused_.find(vi);
  return found == refused_.end() ? 0 : found->second;
}

void Nic::forget_refused(VIP_VI_HANDLE vi) {
  const std::lock_guard guard(lock_);
  refused_.erase(vi);
}

}  // namespace via
