#include <cstring>

#include "executor_parts.h"

namespace conformance {
namespace {

constexpr std::size_t kRoom = 512;

// A VIP_NET_ADDRESS with room behind it.
struct NetAddress {
  alignas(8) unsigned char bytes[kRoom];

  explicit NetAddress(std::uint8_t prefill = 0) { std::memset(bytes, prefill, sizeof bytes); }
  explicit NetAddress(const Address& from) : NetAddress() {
    VIP_NET_ADDRESS* const a = get();
    a->HostAddressLen = from.host_len.value_or(static_cast<VIP_UINT16>(from.host.size()));
    a->DiscriminatorLen =
        from.discriminator_len.value_or(static_cast<VIP_UINT16>(from.discriminator.size()));
    unsigned char* const to = bytes + offsetof(VIP_NET_ADDRESS, HostAddress);
    const std::size_t host = std::min<std::size_t>(from.host.size(), 200);
    const std::size_t rest = std::min<std::size_t>(from.discriminator.size(), 300);
    if (host != 0) std::memcpy(to, from.host.data(), host);
    if (rest != 0) std::memcpy(to + host, from.discriminator.data(), rest);
  }
  VIP_NET_ADDRESS* get() { return reinterpret_cast<VIP_NET_ADDRESS*>(bytes); }

  // Lengths that don't fit are kept, without bytes.
  Address value() {
    const VIP_NET_ADDRESS* const a = get();
    Address address;
    const std::size_t host = a->HostAddressLen, rest = a->DiscriminatorLen;
    const unsigned char* const from = bytes + offsetof(VIP_NET_ADDRESS, HostAddress);
    if (host + rest > kRoom - offsetof(VIP_NET_ADDRESS, HostAddress)) {
      address.host_len = a->HostAddressLen;
      address.discriminator_len = a->DiscriminatorLen;
      return address;
    }
    address.host.assign(from, from + host);
    address.discriminator.assign(from + host, from + host + rest);
    return address;
  }
  // Whether a byte from here on is not what it was filled with.
  bool changed(std::size_t from, std::uint8_t prefill) const {
    for (std::size_t i = from; i < kRoom; ++i) {
      if (bytes[i] != prefill) return true;
    }
    return false;
  }
};

}  // namespace

Incoming Executor::connect_wait(NicHandle nic, const Address& local, std::uint64_t timeout,
                                std::uint8_t prefill, Nulls nulls) {
  Incoming incoming;
  NetAddress local_address(local), remote_address(prefill);
  VIP_VI_ATTRIBUTES a = {};
  VIP_CONN_HANDLE conn = reinterpret_cast<VIP_CONN_HANDLE>(kUntouched);
  RUN(incoming, ConnectWait, to_pointer(nic), nulls.has(2) ? nullptr : local_address.get(), timeout,
      nulls.has(4) ? nullptr : remote_address.get(), nulls.has(5) ? nullptr : &a,
      nulls.has(6) ? nullptr : &conn);
  incoming.conn = from_pointer<ConnHandle>(conn);
  incoming.attributes = from_vipl(a);
  if (incoming.code != VIP_SUCCESS) return incoming;
  incoming.remote = remote_address.value();
  incoming.beyond =
      remote_address.changed(offsetof(VIP_NET_ADDRESS, HostAddress) + incoming.remote.host.size() +
                                 incoming.remote.discriminator.size(),
                             prefill);
  return incoming;
}

Result Executor::connect_accept(ConnHandle conn, ViHandle vi) {
  Result result;
  RUN(result, ConnectAccept, to_pointer(conn), to_pointer(vi));
  return result;
}

Result Executor::connect_reject(ConnHandle conn) {
  Result result;
  RUN(result, ConnectReject, to_pointer(conn));
  return result;
}

Outgoing Executor::connect_request(ViHandle vi, const Address& local, const Address& remote,
                                   std::uint64_t timeout, Nulls nulls) {
  Outgoing outgoing;
  NetAddress local_address(local), remote_address(remote);
  VIP_VI_ATTRIBUTES a = {};
  RUN(outgoing, ConnectRequest, to_pointer(vi), nulls.has(2) ? nullptr : local_address.get(),
      nulls.has(3) ? nullptr : remote_address.get(), timeout, nulls.has(5) ? nullptr : &a);
  outgoing.attributes = from_vipl(a);
  return outgoing;
}

Result Executor::disconnect(ViHandle vi) {
  Result result;
  RUN(result, Disconnect, to_pointer(vi));
  return result;
}

Result Executor::connect_peer_request(ViHandle vi, const Address& local, const Address& remote,
                                      std::uint64_t timeout, Nulls nulls) {
  Result result;
  NetAddress local_address(local), remote_address(remote);
  RUN(result, ConnectPeerRequest, to_pointer(vi), nulls.has(2) ? nullptr : local_address.get(),
      nulls.has(3) ? nullptr : remote_address.get(), timeout);
  return result;
}

Outgoing Executor::connect_peer_done(ViHandle vi, Nulls nulls) {
  Outgoing outgoing;
  VIP_VI_ATTRIBUTES a = {};
  RUN(outgoing, ConnectPeerDone, to_pointer(vi), nulls.has(2) ? nullptr : &a);
  outgoing.attributes = from_vipl(a);
  return outgoing;
}

Outgoing Executor::connect_peer_wait(ViHandle vi, Nulls nulls) {
  Outgoing outgoing;
  VIP_VI_ATTRIBUTES a = {};
  RUN(outgoing, ConnectPeerWait, to_pointer(vi), nulls.has(2) ? nullptr : &a);
  outgoing.attributes = from_vipl(a);
  return outgoing;
}

// ------------------------------------------------------------------ names

Result Executor::ns_init(NicHandle nic) {
  Result result;
  RUN(result, NSInit, to_pointer(nic), nullptr);
  return result;
}

NameAnswer Executor::ns_get_host_by_name(NicHandle nic, const std::string& name,
                                         std::uint64_t index, std::uint8_t prefill, Nulls nulls) {
  NameAnswer answer;
  NetAddress address(prefill);
  std::string text = name;
  RUN(answer, NSGetHostByName, to_pointer(nic), nulls.has(2) ? nullptr : text.data(),
      nulls.has(3) ? nullptr : address.get(), index);
  if (answer.code != VIP_SUCCESS) return answer;
  const std::uint16_t kept = address.get()->DiscriminatorLen;
  const auto expected = static_cast<std::uint16_t>(prefill << 8 | prefill);
  address.get()->DiscriminatorLen = 0;
  answer.address = address.value();
  answer.beyond =
      kept != expected ||
      address.changed(offsetof(VIP_NET_ADDRESS, HostAddress) + answer.address.host.size(), prefill);
  return answer;
}

NameAnswer Executor::ns_get_host_by_addr(NicHandle nic, const Address& address, std::uint64_t room,
                                         Nulls nulls) {
  NameAnswer answer;
  NetAddress net_address(address);
  std::vector<char> text(room + 1, '\x5a');
  VIP_ULONG length = room;
  RUN(answer, NSGetHostByAddr, to_pointer(nic), nulls.has(2) ? nullptr : net_address.get(),
      nulls.has(3) ? nullptr : text.data(), nulls.has(4) ? nullptr : &length);
  answer.name_len = length;
  answer.beyond = text[room] != '\x5a';
  if (answer.code == VIP_SUCCESS) answer.name.assign(text.data(), strnlen(text.data(), room));
  return answer;
}

Result Executor::ns_shutdown(NicHandle nic) {
  Result result;
  RUN(result, NSShutdown, to_pointer(nic));
  return result;
}

// ------------------------------------------------------------------ management

namespace {

// The array is one of pointers in one header and one of structures in the other.
Address at(VIP_NET_ADDRESS** addresses, std::size_t i) {
  const VIP_NET_ADDRESS* const from = addresses[i];
  const unsigned char* const host = from->HostAddress;
  return {{host, host + from->HostAddressLen},
          {host + from->HostAddressLen, host + from->HostAddressLen + from->DiscriminatorLen},
          {},
          {}};
}
[[maybe_unused]] Address at(VIP_NET_ADDRESS* addresses, std::size_t i) {
  VIP_NET_ADDRESS* one = addresses + i;
  return at(&one, 0);
}

}  // namespace

Discovery Executor::query_system_management_info(NicHandle nic, std::uint64_t type, Nulls nulls) {
  Discovery found;
  VIP_AUTODISCOVERY_LIST list;
  std::memset(&list, 0x5a, sizeof list);
  RUN(found, QuerySystemManagementInfo, to_pointer(nic), type, nulls.has(3) ? nullptr : &list);
  if (found.code != VIP_SUCCESS || nulls.has(3)) return found;
  found.hops = list.NumberOfHops;
  for (std::size_t i = 0; i < list.NumAdAddrs; ++i) {
    found.addresses.push_back(at(list.ADAddrArray, i));
  }
  return found;
}

}  // namespace conformance
