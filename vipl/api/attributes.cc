#include "vipl/api/attributes.h"

#include <cstring>

namespace viaduct::vipl {

VIP_RETURN ptag_in(const SessionGuard& inside, VIP_PROTECTION_HANDLE handle, std::uint32_t& ptag) {
  ptag = 0;
  if (handle == nullptr) return VIP_SUCCESS;
  const Handle given(handle);
  if (!inside.owns(given, Kind::kPtag)) return VIP_INVALID_PTAG;
  ptag = given.driver_handle();
  return VIP_SUCCESS;
}

VIP_PROTECTION_HANDLE ptag_out(const Session& session, std::uint32_t ptag) {
  if (ptag == 0) return nullptr;
  return Handle(Kind::kPtag, session.nic_part(), ptag).pointer();
}

VIP_RETURN vi_attributes_in(const SessionGuard& inside, const VIP_VI_ATTRIBUTES& given,
                            layout::ViAttributes& attributes) {
  if (given.QoS != nullptr) return VIP_INVALID_QOS;
  if (given.MaxTransferSize > inside.session().nic.max_transfer) return VIP_INVALID_MTU;
  attributes.reliability = given.ReliabilityLevel;
  attributes.max_transfer = static_cast<std::uint32_t>(given.MaxTransferSize);
  attributes.enable_write = given.EnableRdmaWrite != 0;
  attributes.enable_read = given.EnableRdmaRead != 0;
  return ptag_in(inside, given.Ptag, attributes.ptag);
}

VIP_VI_ATTRIBUTES peer_attributes_out(const layout::ViAttributes& attributes) {
  VIP_VI_ATTRIBUTES out = {};
  out.ReliabilityLevel = static_cast<VIP_RELIABILITY_LEVEL>(attributes.reliability);
  out.MaxTransferSize = attributes.max_transfer;
  out.EnableRdmaWrite = attributes.enable_write != 0;
  out.EnableRdmaRead = attributes.enable_read != 0;
  return out;
}

VIP_RETURN memory_attributes_in(const SessionGuard& inside, const VIP_MEM_ATTRIBUTES* given,
                                layout::MemoryAttributes& attributes) {
  if (given == nullptr) return VIP_SUCCESS;
  attributes.enable_write = given->EnableRdmaWrite != 0;
  attributes.enable_read = given->EnableRdmaRead != 0;
  return ptag_in(inside, given->Ptag, attributes.ptag);
}

bool address_in(const Session& session, const VIP_NET_ADDRESS& given, bool host,
                layout::Address& address) {
  if (given.DiscriminatorLen > layout::kMaxDiscriminator ||
      given.DiscriminatorLen > session.nic.max_discriminator) {
    return false;
  }
  const bool has_host = given.HostAddressLen == layout::kHostBytes;
  if (!has_host && (host || given.HostAddressLen != 0)) return false;
  const auto* const bytes =
      reinterpret_cast<const std::uint8_t*>(&given) + offsetof(VIP_NET_ADDRESS, HostAddress);
  if (host) std::memcpy(address.host, bytes, layout::kHostBytes);
  address.discriminator_length = given.DiscriminatorLen;
  std::memcpy(address.discriminator, bytes + given.HostAddressLen, given.DiscriminatorLen);
  return true;
}

void address_out(const layout::Address& address, VIP_NET_ADDRESS& out) {
  const std::uint16_t length = address.discriminator_length < layout::kMaxDiscriminator
                                   ? address.discriminator_length
                                   : static_cast<std::uint16_t>(layout::kMaxDiscriminator);
  out.HostAddressLen = layout::kHostBytes;
  out.DiscriminatorLen = length;
  auto* const bytes =
      reinterpret_cast<std::uint8_t*>(&out) + offsetof(VIP_NET_ADDRESS, HostAddress);
  std::memcpy(bytes, address.host, layout::kHostBytes);
  std::memcpy(bytes + layout::kHostBytes, address.discriminator, length);
}

}  // namespace viaduct::vipl
