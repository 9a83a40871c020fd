#include "vipl/lanevi/link.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "vipl/lanevi/failure.h"

namespace viaduct::lanevi {
namespace {

using std::chrono::milliseconds;

constexpr int kAtOnce = 64;             // packets in one direction before the other one has its turn
constexpr std::size_t kSpareSlots = 8;  // for hellos, and to read into without any peer
constexpr std::size_t kMostPeers = 512;
constexpr milliseconds kPatience{20};         // with a peer that has no room
constexpr milliseconds kLonePatience{1000};   // the same if it is the only peer that is connected
constexpr milliseconds kConnectInterval{50};  // between two looks at a connection that is asked for
constexpr milliseconds kHelloInterval{200};   // until the hello is answered
constexpr milliseconds kAddressInterval{2000};  // between two looks at the own addresses

}  // namespace

Link::Link(VIP_NIC_HANDLE opened, const Options& options, Tun& tun, Counters& counters)
    : options_(options),
      tun_(tun),
      counters_(counters),
      discriminator_(std::string(kVersion) + ":" + options.network),
      nic_(opened) {
  check(VipErrorCallback(nic_.handle(), &counters_, on_error), "VipErrorCallback");
  add_slots(kSpareSlots);
  routes_.set_own(tun_.addresses());
  directory_ = std::make_unique<Directory>(nic_, options_);
}

Link::~Link() {
  for (auto& [name, peer] : counters_.peers) peer.connected = false;
  nic_.close();
}

// Called in a thread of the library. The descriptors tell of a lost connection too, so it is not noted here.
void Link::on_error(void* context, VIP_ERROR_DESCRIPTOR* error) {
  if (error->ErrorCode == VIP_ERROR_RECVQ_EMPTY) {
    static_cast<Counters*>(context)->drop_no_receive.fetch_add(1, std::memory_order_relaxed);
  }
}

void Link::add_slots(std::size_t count) {
  const SlotBlock& block = sends_.emplace_back(nic_.handle(), count);
  for (std::size_t i = 0; i < count; ++i) free_.push_back(block.at(i));
}

// ------------------------------------------------------------------------------------ peers

const ToldPeer* Link::told(const std::string& name) const {
  const auto found = std::find_if(options_.peers.begin(), options_.peers.end(),
                                  [&](const ToldPeer& peer) { return peer.host == name; });
  return found == options_.peers.end() ? nullptr : &*found;
}

void Link::take_news() {
  for (const FoundHost& host : directory_->take()) {
    const auto known = std::find_if(peers_.begin(), peers_.end(), [&](const auto& peer) {
      return peer->name() == host.name || peer->host() == host.address;
    });
    if (known == peers_.end()) {
      add_peer(host);
    } else if ((*known)->name() == host.name) {
      (*known)->move_to(host.address, free_);
    }
  }
  next_look_ = {};
}

void Link::add_peer(const FoundHost& host) {
  if (peers_.size() >= kMostPeers) return;
  try {
    // Each peer brings slots of its own, so that peers that hold all of theirs leave some for the others.
    add_slots(Peer::kSends);
    peers_.push_back(
        std::make_unique<Peer>(nic_, host.address, host.name, counters_.peers[host.name]));
    const ToldPeer* const as_told = told(host.name);
    if (as_told != nullptr) routes_.set(peers_.back().get(), as_told->addresses);
  } catch (const Failure& failure) {
    std::fprintf(stderr, "lanevid: no room for %s: %s\n", host.name.c_str(), failure.what());
  }
}

Clock::time_point Link::on_time(Clock::time_point now) {
  if (waiting_.slot != nullptr && now >= waiting_.until) drop_waiting();
  if (now >= next_look_) {
    next_look_ = now + kAddressInterval;
    if (routes_.set_own(tun_.addresses())) {
      for (const auto& peer : peers_) {
        if (peer->connected()) peer->wants_answer = true;
      }
    }
    for (const auto& peer : peers_) watch(*peer, now);
  }
  return waiting_.slot != nullptr ? std::min(waiting_.until, next_look_) : next_look_;
}

void Link::watch(Peer& peer, Clock::time_point now) {
  if (!peer.connected()) {
    peer.ask(discriminator_);
    const VIP_RETURN result = peer.await();
    if (result == VIP_SUCCESS) {
      begin(peer, now);
    } else if (result != VIP_NOT_DONE) {
      if (result != peer.told) {
        std::fprintf(stderr, "lanevid: connecting to %s: %s\n", peer.name().c_str(),
                     VipxReturnText(result));
      }
      peer.told = result;
      peer.end(free_);
    }
    next_look_ = std::min(next_look_, now + kConnectInterval);
  }
  if (!peer.connected() || !peer.wants_answer) return;
  if (now >= peer.hello_time) {
    say_hello(peer);
    peer.hello_time = now + kHelloInterval;
  }
  next_look_ = std::min(next_look_, peer.hello_time);
}

void Link::begin(Peer& peer, Clock::time_point now) {
  std::fprintf(stderr, "lanevid: %s is connected\n", peer.name().c_str());
  peer.told = VIP_SUCCESS;
  peer.wants_answer = true;
  peer.hello_time = now;
  set_offload();
}

void Link::lose(Peer& peer) {
  std::fprintf(stderr, "lanevid: %s is away\n", peer.name().c_str());
  if (waiting_.peer == &peer) drop_waiting();
  // The peer's addresses stay assigned to it until another host that is there claims them.
  peer.end(free_);
  set_offload();
  next_look_ = {};
}

// ------------------------------------------------------------------------------------ from the
// peers

bool Link::take_completions() {
  bool any_received = false;
  for (int taken = 0; taken < kAtOnce; ++taken) {
    VIP_VI_HANDLE vi;
    VIP_BOOLEAN received;
    if (VipxCQDone(nic_.queue(), &vi, &received) != VIP_SUCCESS) break;
    Peer* const peer = static_cast<Peer*>(VipGetUserData(vi));
    if (peer == nullptr) continue;
    // The first messages may come before the state of the connection was looked at.
    if (!peer->connected()) watch(*peer, Clock::now());
    received ? take_received(*peer) : take_sent(*peer);
    any_received |= received != 0;
  }
  return any_received;
}

void Link::take_sent(Peer& peer) {
  Slot* const slot = peer.take_sent();
  if (slot == nullptr) return;
  const bool failed = (slot->descriptor.CS.Status & VIP_STATUS_ERROR_MASK) != 0;
  free_.push_back(slot);
  if (failed) {
    ++peer.counters().drop_send;
    if (peer.connected() && peer.broken()) lose(peer);
    return;
  }
  peer.stalled = false;
  if (waiting_.peer == &peer) submit_waiting();
}

void Link::take_received(Peer& peer) {
  Slot* const slot = peer.take_received();
  if (slot == nullptr) return;
  const VIP_UINT32 status = slot->descriptor.CS.Status;
  const bool failed = (status & VIP_STATUS_ERROR_MASK) != 0;
  const bool broken = failed && peer.connected() && peer.broken();
  if (!failed && peer.connected()) {
    (status & VIP_STATUS_IMMEDIATE) != 0 ? on_hello(peer, *slot) : on_packet(peer, *slot);
  }
  peer.give_back(slot);
  if (broken) lose(peer);
}

void Link::on_packet(Peer& peer, const Slot& slot) {
  PeerCounters& counters = peer.counters();
  const std::uint32_t bytes = slot.descriptor.CS.Length;
  const auto ends = ends_of(slot.data, bytes);
  if (!ends) {
    ++counters.drop_malformed;
  } else if (routes_.find(ends->source) != &peer) {
    ++counters.drop_source;
  } else if (!tun_.write(slot.data, bytes)) {
    ++counters.drop_interface;
  } else {
    ++counters.packets_received;
    counters.bytes_received += bytes - kPacketHeader;
  }
}

void Link::on_hello(Peer& peer, const Slot& slot) {
  const auto hello = Hello::decode(slot.data, slot.descriptor.CS.Length);
  if (!hello) {
    ++peer.counters().drop_malformed;
    return;
  }
  peer.heard = true;
  if (hello->heard) peer.wants_answer = false;
  peer.takes_uncut_udp = hello->takes_uncut_udp;
  set_offload();
  if (told(peer.name()) == nullptr) set_routes(peer, hello->addresses);
  if (hello->wants_answer) say_hello(peer);
}

void Link::set_routes(Peer& peer, const std::vector<IpAddress>& addresses) {
  for (const IpAddress& address : addresses) {
    Peer* const holder = routes_.find(address);
    if (holder != nullptr && !holder->connected()) routes_.remove(holder);
  }
  if (const IpAddress* const refused = routes_.set(&peer, addresses)) {
    std::fprintf(stderr, "lanevid: %s says that it has %s, which another host has\n",
                 peer.name().c_str(), text_of(*refused).c_str());
  }
}

void Link::say_hello(Peer& peer) {
  if (free_.empty() || !peer.has_room()) return;
  Hello hello;
  hello.wants_answer = peer.wants_answer;
  hello.heard = peer.heard;
  hello.takes_uncut_udp = tun_.takes_uncut_udp();
  for (const IpPrefix& prefix : routes_.own()) hello.addresses.push_back(prefix.address);
  Slot* const slot = free_.back();
  const auto bytes = static_cast<std::uint32_t>(hello.encode(slot->data));
  if (peer.send(slot, bytes, true)) free_.pop_back();
}

// The interface has one setting for all peers, so the one that takes least decides.
void Link::set_offload() {
  tun_.leave_udp_uncut(std::all_of(peers_.begin(), peers_.end(), [](const auto& peer) {
    return !peer->connected() || peer->takes_uncut_udp;
  }));
}

// ------------------------------------------------------------------------------------ to the peers

bool Link::read_interface() {
  int taken = 0;
  for (; taken < kAtOnce && may_read(); ++taken) {
    Slot* const slot = free_.back();
    const std::size_t bytes = tun_.read(slot->data, sizeof slot->data);
    if (bytes == 0) break;
    free_.pop_back();
    route(slot, static_cast<std::uint32_t>(bytes));
  }
  return taken > 0;
}

// Posts the slot, keeps it until the peer has room, or frees it.
void Link::route(Slot* slot, std::uint32_t bytes) {
  const auto ends = ends_of(slot->data, bytes);
  if (!ends) {
    ++counters_.drop_malformed;
  } else if (routes_.is_group(ends->destination)) {
    return send_to_all(slot, bytes);
  } else if (Peer* const peer = routes_.find(ends->destination)) {
    return submit(*peer, slot, bytes);
  } else {
    ++counters_.drop_unknown;
  }
  free_.push_back(slot);
}

void Link::send_to_all(Slot* slot, std::uint32_t bytes) {
  for (const auto& peer : peers_) {
    if (!peer->connected()) continue;
    if (free_.empty() || !peer->has_room()) {
      ++peer->counters().drop_busy;
      continue;
    }
    Slot* const copy = free_.back();
    free_.pop_back();
    std::memcpy(copy->data, slot->data, bytes);
    post(*peer, copy, bytes);
  }
  free_.push_back(slot);
}

milliseconds Link::patience() const {
  const auto connected = std::count_if(peers_.begin(), peers_.end(),
                                       [](const auto& peer) { return peer->connected(); });
  return connected > 1 ? kPatience : kLonePatience;
}

void Link::submit(Peer& peer, Slot* slot, std::uint32_t bytes) {
  if (peer.connected()) {
    if (peer.has_room()) return post(peer, slot, bytes);
    if (!peer.stalled) {
      waiting_ = {&peer, slot, bytes, Clock::now() + patience()};
      return;
    }
  }
  ++(peer.connected() ? peer.counters().drop_busy : peer.counters().drop_away);
  free_.push_back(slot);
}

void Link::post(Peer& peer, Slot* slot, std::uint32_t bytes) {
  if (!peer.send(slot, bytes, false)) {
    ++peer.counters().drop_send;
    free_.push_back(slot);
    return;
  }
  ++peer.counters().packets_sent;
  peer.counters().bytes_sent += bytes - kPacketHeader;
}

void Link::submit_waiting() {
  const Waiting waiting = waiting_;
  waiting_ = {};
  post(*waiting.peer, waiting.slot, waiting.bytes);
}

// Gives up the packet that waits for its peer, as the other peers have waited long enough. This peer's packets are
// dropped until something goes through to it again.
void Link::drop_waiting() {
  waiting_.peer->stalled = true;
  ++waiting_.peer->counters().drop_busy;
  free_.push_back(waiting_.slot);
  waiting_ = {};
}

}  // namespace viaduct::lanevi
