// VIPL calls for the VIs of lanes. Each packet has one descriptor; the flow of the TCP connection names the peer's VI.
#ifndef VIADUCT_SOVIA_LANE_VI_CALLS_H
#define VIADUCT_SOVIA_LANE_VI_CALLS_H

#include <vipl/vipl.h>

#include <cstddef>
#include <cstdint>

#include "sovia/lane/flow.h"
#include "sovia/lane/process_nic.h"

namespace viaduct::sovia::vi_calls {

// Address space for descriptors and places: pages take memory when data first comes to them. nullptr: there is none.
std::byte* map(std::size_t bytes);
// Asks for a connection to the peer's VI of the same flow. `kind` and `number` tell VIs of one flow apart.
bool connect(VIP_VI_HANDLE vi, ProcessNic& nic, const std::uint8_t (&peer)[6], const Flow& flow, char kind,
             std::uint8_t number, std::uint32_t timeout_ms);
// VIP_NOT_DONE while the peer has not answered, VIP_SUCCESS when it has.
VIP_RETURN connected(VIP_VI_HANDLE vi);
// Sends a message from memory with handle `memory`; `own` is the handle of the descriptor's memory. False if the
// connection is over.
bool send(VIP_VI_HANDLE vi, PostedDescriptor& posted, const void* data, std::uint32_t bytes, VIP_MEM_HANDLE memory,
          std::uint32_t immediate, VIP_UINT16 control, VIP_MEM_HANDLE own);
bool receive(VIP_VI_HANDLE vi, PostedDescriptor& posted, void* data, std::uint32_t bytes, VIP_MEM_HANDLE own);
// The number of messages that have left since the last call.
std::uint32_t completed(VIP_VI_HANDLE vi);
// Ends the connection and frees the VI.
void destroy(VIP_VI_HANDLE vi);

}  // namespace viaduct::sovia::vi_calls

#endif
