#include "tests/scale/link.h"

#include <cstring>
#include <stdexcept>

namespace scale {

void must(VIP_RETURN code, const char* what) {
  if (code == VIP_SUCCESS) return;
  throw std::runtime_error(std::string(what) + " returns " + std::to_string(code));
}

Address::Address(std::uint32_t discriminator) {
  get()->HostAddressLen = 6;
  get()->DiscriminatorLen = sizeof discriminator;
  std::memcpy(bytes + offsetof(VIP_NET_ADDRESS, HostAddress) + 6, &discriminator,
              sizeof discriminator);
}

Nic::Nic(const std::string& device) {
  must(VipOpenNic(device.c_str(), &handle_), "VipOpenNic");
  must(VipQueryNic(handle_, &attributes_), "VipQueryNic");
}

VIP_VI_HANDLE Nic::create_vi(VIP_CQ_HANDLE cq) const {
  VIP_VI_ATTRIBUTES attributes = {};
  attributes.ReliabilityLevel = VIP_SERVICE_RELIABLE_DELIVERY;
  attributes.MaxTransferSize = attributes_.MaxTransferSize;
  VIP_VI_HANDLE vi;
  must(VipCreateVi(handle_, &attributes, cq, cq, &vi), "VipCreateVi");
  return vi;
}

Host Nic::find(const std::string& name) const {
  Address address(0);
  std::string text = name;
  must(VipNSGetHostByName(handle_, text.data(), address.get(), 0), "VipNSGetHostByName");
  Host host;
  std::memcpy(host.address, address.host(), sizeof host.address);
  return host;
}

Host Nic::self() const {
  Host host;
  std::memcpy(host.address, attributes_.LocalNicAddress, sizeof host.address);
  return host;
}

void Nic::connect(VIP_VI_HANDLE vi, const Host& host, std::uint32_t discriminator) const {
  Address local(discriminator), remote(discriminator);
  std::memcpy(remote.host(), host.address, sizeof host.address);
  VIP_VI_ATTRIBUTES attributes;
  must(VipConnectRequest(vi, local.get(), remote.get(), 30000, &attributes), "VipConnectRequest");
}

void Nic::accept(VIP_VI_HANDLE vi, std::uint32_t discriminator) const {
  Address local(discriminator), remote(0);
  VIP_VI_ATTRIBUTES attributes;
  VIP_CONN_HANDLE connection;
  VIP_RETURN code;
  do {
    must(VipConnectWait(handle_, local.get(), VIP_INFINITE, remote.get(), &attributes, &connection),
         "VipConnectWait");
    code = VipConnectAccept(connection, vi);
  } while (code == VIP_TIMEOUT);
  must(code, "VipConnectAccept");
}

VIP_VI_STATE state_of(VIP_VI_HANDLE vi) {
  VIP_VI_STATE state;
  VIP_VI_ATTRIBUTES attributes;
  VIP_BOOLEAN send_empty, receive_empty;
  must(VipQueryVi(vi, &state, &attributes, &send_empty, &receive_empty), "VipQueryVi");
  return state;
}

void drop(std::vector<VIP_VI_HANDLE>& vis) {
  for (const VIP_VI_HANDLE vi : vis) must(VipDisconnect(vi), "VipDisconnect");
  for (const VIP_VI_HANDLE vi : vis) must(VipDestroyVi(vi), "VipDestroyVi");
  vis.clear();
}

Link::Link(const Nic& nic) : nic_(nic), vi_(nic.create_vi()) {
  must(VipRegisterMem(nic.get(), packets_, sizeof packets_, nullptr, &memory_), "VipRegisterMem");
  for (unsigned i = 0; i < kReceives; ++i) post_receive(packets_[i]);
}

Link::~Link() {
  VIP_DESCRIPTOR* done;
  VipDisconnect(vi_);
  while (VipRecvDone(vi_, &done) == VIP_DESCRIPTOR_ERROR && done != nullptr) continue;
  VipDestroyVi(vi_);
  VipDeregisterMem(nic_.get(), packets_, memory_);
}

void Link::post_receive(Packet& packet) {
  VIP_DESCRIPTOR& d = packet.descriptor;
  d.CS.SegCount = 1;
  d.CS.Control = VIP_CONTROL_OP_SENDRECV;
  d.CS.Length = sizeof packet.value;
  d.DS[0].Local = {{reinterpret_cast<std::uintptr_t>(&packet.value)}, memory_, sizeof packet.value};
  must(VipPostRecv(vi_, &d, memory_), "VipPostRecv");
}

void Link::send(std::uint32_t value) {
  Packet& packet = packets_[kReceives];
  packet.value = value;
  VIP_DESCRIPTOR& d = packet.descriptor;
  d.CS.SegCount = 1;
  d.CS.Control = VIP_CONTROL_OP_SENDRECV;
  d.CS.Length = sizeof packet.value;
  d.DS[0].Local = {{reinterpret_cast<std::uintptr_t>(&packet.value)}, memory_, sizeof packet.value};
  must(VipPostSend(vi_, &d, memory_), "VipPostSend");
  VIP_DESCRIPTOR* done;
  VIP_RETURN code;
  while ((code = VipSendDone(vi_, &done)) == VIP_NOT_DONE) continue;
  must(code, "VipSendDone");
}

std::uint32_t Link::receive() {
  VIP_DESCRIPTOR* done;
  VIP_RETURN code;
  while ((code = VipRecvDone(vi_, &done)) == VIP_NOT_DONE) continue;
  must(code, "VipRecvDone");
  Packet& packet = *reinterpret_cast<Packet*>(done);
  const std::uint32_t value = packet.value;
  post_receive(packet);
  return value;
}

}  // namespace scale
