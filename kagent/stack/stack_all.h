// The stack's parts, whole: for the one source that instantiates a stack, so that the compiler sees the
// data path at once. The order does not matter.
#ifndef VIADUCT_KAGENT_STACK_STACK_ALL_H
#define VIADUCT_KAGENT_STACK_STACK_ALL_H

#include "kagent/stack/acknowledger.cc"
#include "kagent/stack/claim_table.cc"
#include "kagent/stack/command_slots.cc"
#include "kagent/stack/commands.cc"
#include "kagent/stack/completions.cc"
#include "kagent/stack/connect_requests.cc"
#include "kagent/stack/connections.cc"
#include "kagent/stack/connections_peer.cc"
#include "kagent/stack/credit_grants.cc"
#include "kagent/stack/disconnects.cc"
#include "kagent/stack/forwarding.cc"
#include "kagent/stack/frames_in.cc"
#include "kagent/stack/frames_out.cc"
#include "kagent/stack/keepalive.cc"
#include "kagent/stack/loss_recovery.cc"
#include "kagent/stack/memory_table.cc"
#include "kagent/stack/name_service.cc"
#include "kagent/stack/peer_table.cc"
#include "kagent/stack/placer.cc"
#include "kagent/stack/processes.cc"
#include "kagent/stack/receiver.cc"
#include "kagent/stack/request_proof.cc"
#include "kagent/stack/request_targets.cc"
#include "kagent/stack/send_credit.cc"
#include "kagent/stack/send_queue.cc"
#include "kagent/stack/stack.cc"
#include "kagent/stack/stopped_peers.cc"
#include "kagent/stack/trains.cc"
#include "kagent/stack/transmitter.cc"
#include "kagent/stack/virtual_interfaces.cc"
#include "kagent/stack/wakeups.cc"

#endif
