// The parts of a stack, from low to high: each works with those before it.
#ifndef VIADUCT_KAGENT_STACK_STACK_PARTS_H
#define VIADUCT_KAGENT_STACK_STACK_PARTS_H

#include "kagent/stack/acknowledger.h"
#include "kagent/stack/budget.h"
#include "kagent/stack/claim_table.h"
#include "kagent/stack/command_slots.h"
#include "kagent/stack/commands.h"
#include "kagent/stack/completions.h"
#include "kagent/stack/connect_requests.h"
#include "kagent/stack/connections.h"
#include "kagent/stack/credit_grants.h"
#include "kagent/stack/disconnects.h"
#include "kagent/stack/forwarding.h"
#include "kagent/stack/frames_in.h"
#include "kagent/stack/frames_out.h"
#include "kagent/stack/keepalive.h"
#include "kagent/stack/loss_recovery.h"
#include "kagent/stack/memory_table.h"
#include "kagent/stack/name_service.h"
#include "kagent/stack/peer_table.h"
#include "kagent/stack/placer.h"
#include "kagent/stack/processes.h"
#include "kagent/stack/receiver.h"
#include "kagent/stack/request_proof.h"
#include "kagent/stack/request_targets.h"
#include "kagent/stack/send_credit.h"
#include "kagent/stack/send_queue.h"
#include "kagent/stack/stopped_peers.h"
#include "kagent/stack/tables.h"
#include "kagent/stack/trains.h"
#include "kagent/stack/transmitter.h"
#include "kagent/stack/pending_disconnect.h"
#include "kagent/stack/virtual_interfaces.h"
#include "kagent/stack/wakeups.h"

namespace viaduct {

template <class Platform>
struct StackParts {
  StackParts(const Tables& tables, typename Platform::Port& port,
             typename Platform::Environment& environment)
      : frames_out(tables, port), frames_in(port), wakeups(tables, environment),
        command_slots(tables, wakeups), memory_table(tables, environment),
        completions(tables, environment, budget, wakeups),
        trains(tables, port, environment, frames_out),
        send_queue(tables, port.bulk_path(), pending_disconnect, trains, memory_table, completions),
        credit_grants(tables, port),
        acknowledger(tables, frames_out, credit_grants), send_credit(tables, send_queue),
        peer_table(tables, port, credit_grants),
        loss_recovery(tables, frames_out, pending_disconnect, trains, send_queue, send_credit, peer_table),
        transmitter(tables, port, environment, pending_disconnect, frames_out, trains, send_queue,
                    acknowledger, send_credit, loss_recovery, peer_table),
        placer(tables, environment),
        receiver(tables, environment, pending_disconnect, frames_in, memory_table, completions, send_queue,
                 credit_grants, acknowledger, send_credit, loss_recovery, placer),
        disconnects(tables, frames_out), request_proof(tables, frames_out),
        connect_requests(tables, request_proof),
        virtual_interfaces(tables, environment, wakeups, memory_table, completions, credit_grants,
                           receiver),
        request_targets(tables, frames_out, credit_grants, peer_table),
        forwarding(tables, environment, frames_out, connect_requests),
        connections(tables, environment, budget, frames_out, command_slots, completions, send_queue,
                    credit_grants, peer_table, loss_recovery, placer, disconnects, request_proof,
                    connect_requests, virtual_interfaces, request_targets, forwarding),
        stopped_peers(tables, environment, frames_out, peer_table, request_targets),
        keepalive(tables, frames_out, peer_table, disconnects, connections, stopped_peers),
        name_service(tables, port, environment, frames_out, command_slots),
        claim_table(tables, environment, budget, frames_out, command_slots, peer_table),
        processes(tables, environment, budget, wakeups, memory_table, placer, receiver,
                  connect_requests, forwarding),
        commands(tables, budget, command_slots, memory_table, completions, virtual_interfaces,
                 connections, name_service, claim_table, processes) {}

  PendingDisconnect pending_disconnect;
  Budget budget;
  FramesOut<Platform> frames_out;
  FramesIn<Platform> frames_in;
  Wakeups<Platform> wakeups;
  CommandSlots<Platform> command_slots;
  MemoryTable<Platform> memory_table;
  Completions<Platform> completions;
  Trains<Platform> trains;
  SendQueue<Platform> send_queue;
  CreditGrants<Platform> credit_grants;
  Acknowledger<Platform> acknowledger;
  SendCredit<Platform> send_credit;
  PeerTable<Platform> peer_table;
  LossRecovery<Platform> loss_recovery;
  Transmitter<Platform> transmitter;
  Placer<Platform> placer;
  Receiver<Platform> receiver;
  Disconnects<Platform> disconnects;
  RequestProof<Platform> request_proof;
  ConnectRequests<Platform> connect_requests;
  VirtualInterfaces<Platform> virtual_interfaces;
  RequestTargets<Platform> request_targets;
  Forwarding<Platform> forwarding;
  Connections<Platform> connections;
  StoppedPeers<Platform> stopped_peers;
  Keepalive<Platform> keepalive;
  NameService<Platform> name_service;
  ClaimTable<Platform> claim_table;
  Processes<Platform> processes;
  Commands<Platform> commands;
};

}  // namespace viaduct

#endif
