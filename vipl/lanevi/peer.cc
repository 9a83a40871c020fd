#include "vipl/lanevi/peer.h"

#include <utility>

#include "vipl/lanevi/failure.h"

namespace viaduct::lanevi {

Peer::Peer(LinkNic& nic, const MacAddress& host, std::string name, PeerCounters& counters)
    : host_(host),
      own_(nic.address()),
      name_(std::move(name)),
      counters_(counters),
      receives_(nic.handle(), kReceives) {
  VIP_VI_ATTRIBUTES attributes{};
  attributes.ReliabilityLevel = VIP_SERVICE_UNRELIABLE;
  attributes.MaxTransferSize = kMessageBytes;
  check(VipCreateVi(nic.handle(), &attributes, nic.queue(), nic.queue(), &vi_), "VipCreateVi");
  VipSetUserData(vi_, this);
  for (std::size_t i = 0; i < receives_.count(); ++i) give_back(receives_.at(i));
}

void Peer::ask(const std::string& discriminator) {
  if (state_ != State::kApart) return;
  NetAddress local(own_, discriminator);
  NetAddress remote(host_, discriminator);
  // Asks without a time limit: the library repeats the request, and the other host may begin at any time.
  if (VipConnectPeerRequest(vi_, local.get(), remote.get(), VIP_INFINITE) == VIP_SUCCESS) {
    state_ = State::kAsking;
  }
}

VIP_RETURN Peer::await() {
  if (state_ != State::kAsking) return VIP_NOT_DONE;
  VIP_VI_ATTRIBUTES theirs;
  const VIP_RETURN result = VipConnectPeerDone(vi_, &theirs);
  if (result == VIP_SUCCESS) {
    state_ = State::kConnected;
    counters_.connected = true;
    ++counters_.connections;
  }
  return result;
}

void Peer::end(std::vector<Slot*>& freed) {
  VipDisconnect(vi_);
  state_ = State::kApart;
  counters_.connected = false;
  stalled = wants_answer = heard = takes_uncut_udp = false;
  while (Slot* const slot = take_sent()) freed.push_back(slot);
  posted_ = 0;
  while (Slot* const slot = take_received()) give_back(slot);
}

bool Peer::broken() const {
  VIP_VI_STATE state;
  VIP_VI_ATTRIBUTES attributes;
  VIP_BOOLEAN no_sends;
  VIP_BOOLEAN no_receives;
  return VipQueryVi(vi_, &state, &attributes, &no_sends, &no_receives) != VIP_SUCCESS ||
         state == VIP_STATE_ERROR;
}

void Peer::move_to(const MacAddress& host, std::vector<Slot*>& freed) {
  if (connected() || host == host_) return;
  end(freed);
  host_ = host;
}

bool Peer::send(Slot* slot, std::uint32_t bytes, bool hello) {
  slot->prepare(bytes, hello);
  if (VipPostSend(vi_, &slot->descriptor, slot->memory) != VIP_SUCCESS) return false;
  ++posted_;
  return true;
}

Slot* Peer::take_sent() {
  VIP_DESCRIPTOR* descriptor = nullptr;
  VipxSendDone(vi_, &descriptor);
  if (descriptor != nullptr) --posted_;
  return descriptor != nullptr ? Slot::of(descriptor) : nullptr;
}

Slot* Peer::take_received() {
  VIP_DESCRIPTOR* descriptor = nullptr;
  VipRecvDone(vi_, &descriptor);
  return descriptor != nullptr ? Slot::of(descriptor) : nullptr;
}

void Peer::give_back(Slot* slot) {
  slot->prepare(kMessageBytes, false);
  VipPostRecv(vi_, &slot->descriptor, slot->memory);
}

}  // namespace viaduct::lanevi
