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
#include "kagent/stack/verdict.h"
#include "kagent/stack/virtual_interfaces.h"
#include "kagent/stack/wakeups.h"

namespace viaduct {

template <class World>
struct StackParts {
  StackParts(const Tables& tables, typename World::Port& port,
             typename World::Environment& environment)
      : frames_out(tables, port), frames_in(port), wakeups(tables, environment),
        command_slots(tables, wakeups), memory_table(tables, environment),
        completions(tables, environment, budget, wakeups),
        trains(tables, port, environment, frames_out),
        send_queue(tables, port, verdict, trains, memory_table, completions), credit_grants(tables, port),
        acknowledger(tables, frames_out, credit_grants), send_credit(tables, send_queue),
        peer_table(tables, port, credit_grants),
        loss_recovery(tables, frames_out, verdict, trains, send_queue, send_credit, peer_table),
        transmitter(tables, port, environment, verdict, frames_out, trains, send_queue,
                    acknowledger, send_credit, loss_recovery, peer_table),
        placer(tables, environment),
        receiver(tables, environment, verdict, frames_in, memory_table, completions, send_queue,
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

  Verdict verdict;
  Budget budget;
  FramesOut<World> frames_out;
  FramesIn<World> frames_in;
  Wakeups<World> wakeups;
  CommandSlots<World> command_slots;
  MemoryTable<World> memory_table;
  Completions<World> completions;
  Trains<World> trains;
  SendQueue<World> send_queue;
  CreditGrants<World> credit_grants;
  Acknowledger<World> acknowledger;
  SendCredit<World> send_credit;
  PeerTable<World> peer_table;
  LossRecovery<World> loss_recovery;
  Transmitter<World> transmitter;
  Placer<World> placer;
  Receiver<World> receiver;
  Disconnects<World> disconnects;
  RequestProof<World> request_proof;
  ConnectRequests<World> connect_requests;
  VirtualInterfaces<World> virtual_interfaces;
  RequestTargets<World> request_targets;
  Forwarding<World> forwarding;
  Connections<World> connections;
  StoppedPeers<World> stopped_peers;
  Keepalive<World> keepalive;
  NameService<World> name_service;
  ClaimTable<World> claim_table;
  Processes<World> processes;
  Commands<World> commands;
};

}  // namespace viaduct

#endif
