// The description of a VI in a connection request or its acceptance.
#ifndef VIADUCT_KAGENT_STACK_CONNECT_BODY_H
#define VIADUCT_KAGENT_STACK_CONNECT_BODY_H

#include <algorithm>
#include <cstdint>

#include "kagent/contract/wire.h"
#include "kagent/stack/vi_state.h"

namespace viaduct {

inline wire::ConnectBody body_of(const state::Vi& vi, std::uint32_t vi_index,
                                 const MacAddress& host, std::uint32_t mtu, bool checksum, bool train_checksum) {
  wire::ConnectBody body{};
  body.host = host;
  body.request = vi.link.request;
  body.vi = vi_index;
  body.key = vi.link.local_key;
  body.first_psn = vi.tx.send_next;
  body.max_transfer = vi.max_transfer;
  body.reliability = vi.reliability;
  body.mtu = static_cast<std::uint16_t>(std::min(mtu, 65535u));
  body.rdma_flags = static_cast<std::uint8_t>((vi.link.peer_to_peer ? wire::kPeerToPeer : 0) |
                                              (vi.enable_write ? wire::kRdmaWriteEnabled : 0) |
                                              (vi.enable_read ? wire::kRdmaReadEnabled : 0) |
                                              (checksum ? wire::kAsksForChecksum : 0) |
                                              (train_checksum ? 0 : wire::kTakesPlainTrains) | wire::kTakesBundles);
  return body;
}

}  // namespace viaduct

#endif
