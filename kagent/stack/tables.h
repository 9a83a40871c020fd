// Where a stack's tables lie in its segment. A part of the stack copies the pointers that it needs;
// all that changes lies in the segment itself, or in the Tables that the stack owns.
#ifndef VIADUCT_KAGENT_STACK_TABLES_H
#define VIADUCT_KAGENT_STACK_TABLES_H

#include <cstddef>
#include <cstdint>

#include "kagent/contract/session_layout.h"
#include "kagent/contract/stack_limits.h"
#include "kagent/contract/vip_codes.h"
#include "kagent/contract/wire.h"
#include "kagent/stack/command_state.h"
#include "kagent/stack/connection_state.h"
#include "kagent/stack/delay_state.h"
#include "kagent/stack/history_state.h"
#include "kagent/stack/message_state.h"
#include "kagent/stack/pool.h"
#include "kagent/stack/root_state.h"
#include "kagent/stack/session_state.h"
#include "kagent/stack/timer_wheel.h"
#include "kagent/stack/vi_state.h"
#include "xdp/port.h"

namespace viaduct {

using ViIndex = std::uint32_t;

// In a frame that is about a connection request, this stands for the VI.
inline constexpr std::uint32_t kToRequest = 0xffffffff;

inline constexpr std::uint32_t kBurst = 64;  // frames received at once

// The host that the stack belongs to, and its agent.
struct StackAddresses {
  MacAddress host;  // the NIC's, by which programs know this host
  MacAddress control_session;  // where connection requests to the own host go: the agent's
};

// The numbers of objects in use now, for the counters' table and for tests that look for leaks.
struct StackUsage {
  std::uint32_t sessions, vis, cqs, regions, ptags, peers, requests, goodbyes, held, connected,
      claims, members;
};

struct Tables {
  // `segment`: zeroed, 64-byte aligned, footprint(limits) bytes. `port_mtu`, `lendable`: the
  // port's.
  Tables(void* segment, const StackLimits& limits, std::uint16_t ether_type,
         const MacAddress& address, const StackAddresses& addresses, std::uint32_t port_mtu,
         std::uint32_t lendable, std::uint64_t now);

  // Offsets of the tables in the segment.
  struct Parts {
    std::size_t root, sessions, programs, vis, cqs, regions, ptags, peers, requests, goodbyes,
        claims, held, pendings, attempts, delays, in_flight, resent_marks, responses, key_buckets,
        peer_buckets, request_buckets, goodbye_buckets, wheel, timers, history, views, open_sessions,
        total;
  };
  static Parts parts(const StackLimits& limits);
  static std::size_t footprint(const StackLimits& limits) { return parts(limits).total; }

  StackUsage usage() const;

  StackLimits limits;
  std::uint64_t now;
  MacAddress address;
  StackAddresses addresses;
  std::uint32_t mtu;
  std::uint16_t ether_type;

  state::Root* root;
  state::Session* sessions;
  state::Program* programs;  // of sessions, then of those that have attached:
  Pool<state::Program> members;
  Pool<state::Vi> vis;
  Pool<state::Cq> cqs;
  Pool<state::Region> regions;
  Pool<state::Ptag> ptags;
  Pool<state::Peer> peers;
  Pool<state::Request> requests;
  Pool<state::Goodbye> goodbyes;
  Pool<state::Claim> claims;
  state::Pending* pendings;
  state::Attempt* attempts;
  state::Delay* delays;            // by VI
  state::InFlight* in_flight;
  std::uint32_t* resent_marks;
  state::Response* responses;
  Frame* held_frames;              // kept by VI and PSN
  std::uint32_t* key_buckets;      // VIs by peer key
  std::uint32_t* peer_buckets;     // peers by address
  std::uint32_t* request_buckets;  // requests by the requester's key
  std::uint32_t* goodbye_buckets;  // goodbyes by the peer's key
  TimerWheel wheel;
  state::History* history;

  // Where the segments of sessions are mapped, by program (sessions have the numbers of their first
  // ones), and which sessions are open: for this process alone.
  layout::View* views;
  std::uint32_t* open_sessions;
  std::uint32_t open_count = 0;
  std::uint32_t held_limit;
  std::uint32_t key_bucket_mask;
};

// The first base of a stack: the other bases copy pointers out of it.
struct OwnTables {
  Tables tables_;
};

}  // namespace viaduct

#endif
