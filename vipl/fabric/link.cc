#include "vipl/fabric/link.h"

#include <arpa/inet.h>

#include <cassert>
#include <chrono>
#include <cstring>
#include <new>
#include <utility>

namespace viaduct::fabric {
namespace {

constexpr VIP_ULONG kCallMs = 3000;
constexpr auto kCallPatience = std::chrono::seconds(60);
constexpr std::uint32_t kLeastTransfer = 32768;  // the longest message that every NIC takes

bool pending(Link::Phase phase) {
  return phase == LinkState::kAsked || phase == LinkState::kGreeting ||
         phase == LinkState::kAnswering || phase == LinkState::kRefusing;
}

}  // namespace

Link* Link::make(SharedNic& nic, std::uint32_t transfer_bytes) {
  auto* link = new (std::nothrow) Link(nic, transfer_bytes);
  if (link != nullptr && link->set_up()) return link;
  delete link;
  return nullptr;
}

bool Link::set_up() {
  SharedNic& nic = *state_.nic;
  if (!state_.memory.set_up()) return false;
  VIP_VI_ATTRIBUTES vi{VIP_SERVICE_RELIABLE_RECEPTION, state_.transfer_bytes, nullptr, nullptr,
                       VIP_TRUE, VIP_TRUE};
  if (VipCreateVi(nic.handle(), &vi, nic.queue(), nic.queue(), &state_.vi) != VIP_SUCCESS) {
    state_.vi = nullptr;
    return false;
  }
  ring_.resize(kQueueSize);
  // The greeting comes before all else.
  Slots& slots = state_.memory.slots();
  VIP_DESCRIPTOR& descriptor = slots.greeting.descriptor;
  descriptor.CS.Control = VIP_CONTROL_OP_SENDRECV;
  descriptor.CS.SegCount = 1;
  descriptor.CS.Length = sizeof(Greeting);
  descriptor.DS[0].Local.Data.Address = &slots.greeting_bytes;
  descriptor.DS[0].Local.Handle = state_.memory.handle();
  descriptor.DS[0].Local.Length = sizeof(Greeting);
  if (VipPostRecv(state_.vi, &descriptor, state_.memory.handle()) != VIP_SUCCESS) return false;
  const std::lock_guard lock(nic.mutex());
  VipSetUserData(state_.vi, static_cast<NicLink*>(this));
  nic.add(*this);
  added_ = true;
  return true;
}

void Link::destroy(Link* link) {
  {
    const std::lock_guard lock(link->state_.nic->mutex());
    link->state_.user = nullptr;
    if (link->state_.phase == LinkState::kCalling) {
      link->receives_.release_all();
      link->abandoned_ = true;
      return;
    }
  }
  delete link;
}

Link::~Link() {
  if (added_) {
    const std::lock_guard lock(state_.nic->mutex());
    set_phase(LinkState::kDown);
    transfers_.leave_nic();
    VipSetUserData(state_.vi, nullptr);
    state_.nic->remove(*this);
  }
  if (state_.vi != nullptr) {
    VipDisconnect(state_.vi);
    VipDestroyVi(state_.vi);
  }
}

void Link::configure(Regions& regions, std::uint32_t sends, std::uint32_t receives, bool strict) {
  assert(ring_.empty() && receives_.unused());
  state_.regions = &regions;
  state_.strict = strict;
  ring_.resize(sends);
  transfers_.configure(sends);
  receives_.configure(receives);
}

void Link::set_phase(Phase phase) {
  const bool was = pending(state_.phase);
  state_.phase = phase;
  if (pending(phase) == was) return;
  if (was) {
    state_.nic->remove_pending();
  } else {
    state_.nic->add_pending();
  }
}

// ------------------------------------------------------------------------------------ greetings

bool Link::post_greeting(Greeting::Kind kind, const void* data, std::size_t bytes) {
  if (bytes > kCmDataBytes) return false;
  Sent* sent;
  SendSlot& slot = ring_.next(sent);
  Greeting greeting{};
  greeting.magic = kMagic;
  greeting.version = kVersion;
  greeting.kind = kind;
  greeting.promised = receives_.first_promise();
  greeting.shared_address = reinterpret_cast<std::uintptr_t>(&state_.memory.shared());
  greeting.shared_memory = state_.memory.shared_handle();
  greeting.address = self_.sin_addr.s_addr;
  greeting.port = self_.sin_port;
  greeting.data_bytes = static_cast<std::uint16_t>(bytes);
  if (bytes != 0) std::memcpy(greeting.data, data, bytes);
  const std::size_t length = offsetof(Greeting, data) + bytes;
  std::memcpy(slot.bytes, &greeting, length);
  ring_.fill_own(slot, nullptr, length, VIP_CONTROL_OP_SENDRECV);
  sent->kind = Sent::Kind::kGreeting;
  return ring_.post(slot, *sent) == 0;
}

void Link::on_greeting(VIP_DESCRIPTOR& descriptor) {
  const VIP_UINT32 status = descriptor.CS.Status;
  if ((status & VIP_STATUS_ERROR_MASK) != 0) {
    if (state_.phase != LinkState::kIdle && state_.phase != LinkState::kCalling) end(FI_ECONNRESET);
    return;
  }
  Greeting greeting{};
  const std::size_t bytes = std::min<std::size_t>(descriptor.CS.Length, sizeof greeting);
  std::memcpy(&greeting, &state_.memory.slots().greeting_bytes, bytes);
  const std::size_t head = offsetof(Greeting, data);
  if ((status & VIP_STATUS_OP_MASK) != VIP_STATUS_OP_RECEIVE || bytes < head ||
      greeting.magic != kMagic || greeting.version != kVersion ||
      greeting.data_bytes != bytes - head || greeting.promised > kWindow) {
    end(FI_ECONNABORTED);
    return;
  }
  if (state_.phase == LinkState::kGreeting && greeting.kind == Greeting::kRequest) {
    on_request(greeting);
  } else if (state_.phase == LinkState::kAsked &&
             (greeting.kind == Greeting::kAccept || greeting.kind == Greeting::kReject)) {
    on_answer(greeting);
  } else {
    end(FI_ECONNABORTED);
  }
}

void Link::learn(const Greeting& greeting) {
  state_.peer_shared = greeting.shared_address;
  state_.peer_memory = greeting.shared_memory;
  transfers_.grant(greeting.promised);
}

void Link::on_request(const Greeting& greeting) {
  learn(greeting);
  peer_.sin_family = AF_INET;
  peer_.sin_addr.s_addr = greeting.address;
  peer_.sin_port = greeting.port;
  set_phase(LinkState::kRequested);
  if (state_.user != nullptr) state_.user->on_request(*this, greeting);
}

void Link::on_answer(const Greeting& greeting) {
  if (greeting.kind == Greeting::kReject) {
    set_phase(LinkState::kDown);
    if (state_.user != nullptr) state_.user->on_refused(FI_ECONNREFUSED, greeting.data, greeting.data_bytes);
    return;
  }
  learn(greeting);
  set_phase(LinkState::kUp);
  receives_.promise();
  if (state_.user != nullptr) state_.user->on_accepted(greeting.data, greeting.data_bytes);
}

void Link::on_greeting_sent(int error) {
  if (error != 0) {
    end(FI_ECONNRESET);
  } else if (state_.phase == LinkState::kAnswering) {
    set_phase(LinkState::kUp);
    receives_.promise();
    if (state_.user != nullptr) state_.user->on_established();
  } else if (state_.phase == LinkState::kRefusing) {
    end(0);
  }
}

// ------------------------------------------------------------------------------------ connecting

int Link::connect(const sockaddr_in& self, const sockaddr_in& peer, const void* data,
                  std::size_t bytes) {
  if (state_.phase != LinkState::kIdle) return -FI_EISCONN;
  if (bytes > kCmDataBytes) return -FI_EINVAL;
  self_ = self;
  peer_ = peer;
  const auto* first = static_cast<const unsigned char*>(data);
  cm_data_.assign(first, first + bytes);
  set_phase(LinkState::kCalling);
  state_.nic->run([this] { call(); });
  return 0;
}

// Tries once to connect, without the mutex. Returns an error of libfabric's.
int Link::call_once(std::uint32_t transfer_bytes, VIP_RETURN& code) {
  alignas(VIP_NET_ADDRESS) unsigned char local_room[sizeof(VIP_NET_ADDRESS) + 16] = {};
  alignas(VIP_NET_ADDRESS) unsigned char remote_room[sizeof(VIP_NET_ADDRESS) + 16] = {};
  auto* local = reinterpret_cast<VIP_NET_ADDRESS*>(local_room);
  auto* remote = reinterpret_cast<VIP_NET_ADDRESS*>(remote_room);
  code = VIP_NOT_REACHABLE;
  if (!state_.nic->names().resolve(state_.nic->handle(), peer_.sin_addr, remote->HostAddress)) return FI_EHOSTUNREACH;
  if (transfer_bytes != state_.transfer_bytes) {
    VIP_VI_ATTRIBUTES attributes{VIP_SERVICE_RELIABLE_RECEPTION, transfer_bytes, nullptr, nullptr,
                                 VIP_TRUE, VIP_TRUE};
    code = VipSetViAttributes(state_.vi, &attributes);
    if (code != VIP_SUCCESS) return error_of(code);
    state_.transfer_bytes = transfer_bytes;
  }
  Discriminator here;
  Discriminator there;
  there.port = ntohs(peer_.sin_port);
  for (auto [address, discriminator] : {std::pair{local, &here}, std::pair{remote, &there}}) {
    address->HostAddressLen = 6;
    address->DiscriminatorLen = sizeof *discriminator;
    std::memcpy(address->HostAddress + 6, discriminator, sizeof *discriminator);
  }
  std::memcpy(local->HostAddress, state_.nic->attributes().LocalNicAddress, 6);
  VIP_VI_ATTRIBUTES theirs;
  code = VipConnectRequest(state_.vi, local, remote, kCallMs, &theirs);
  return error_of(code);
}

// A rank that computes, or waits for a processor, may take long to answer: as with TCP, that is no error yet.
int Link::call_patiently() {
  const auto until = std::chrono::steady_clock::now() + kCallPatience;
  for (;;) {
    VIP_RETURN code;
    int error = call_once(state_.transfer_bytes, code);
    if (code == VIP_REJECT && state_.transfer_bytes > kLeastTransfer) {
      // The NIC of the peer takes shorter messages only.
      error = call_once(kLeastTransfer, code);
    }
    if (code != VIP_TIMEOUT || std::chrono::steady_clock::now() > until) return error;
    const std::lock_guard lock(state_.nic->mutex());
    if (abandoned_) return error;
  }
}

// Connects; runs in a worker.
void Link::call() {
  int error = call_patiently();
  if (error != 0) state_.nic->names().forget(peer_.sin_addr);
  std::unique_lock lock(state_.nic->mutex());
  if (abandoned_) {
    state_.phase = LinkState::kDown;
    lock.unlock();
    delete this;
    return;
  }
  if (error == 0) {
    set_phase(LinkState::kAsked);
    if (!post_greeting(Greeting::kRequest, cm_data_.data(), cm_data_.size())) {
      error = FI_ECONNABORTED;
    }
  }
  if (error != 0) {
    // The VI still has its receives, and may be used for another try.
    set_phase(LinkState::kIdle);
    if (state_.user != nullptr) state_.user->on_refused(error, nullptr, 0);
  }
}

void Link::expect_request() { set_phase(LinkState::kGreeting); }

int Link::accept(const sockaddr_in& self, const void* data, std::size_t bytes) {
  if (state_.phase == LinkState::kIdle) return -FI_EOPBADSTATE;
  if (state_.phase != LinkState::kRequested) return -FI_ECONNABORTED;
  if (bytes > kCmDataBytes) return -FI_EINVAL;
  self_ = self;
  if (!post_greeting(Greeting::kAccept, data, bytes)) return -FI_ECONNABORTED;
  set_phase(LinkState::kAnswering);
  return 0;
}

int Link::reject(const void* data, std::size_t bytes) {
  if (bytes > kCmDataBytes) return -FI_EINVAL;
  state_.user = nullptr;
  if (state_.phase == LinkState::kRequested && post_greeting(Greeting::kReject, data, bytes)) {
    set_phase(LinkState::kRefusing);
  } else {
    end(0);
    state_.nic->run([this] { delete this; });
  }
  return 0;
}

// ------------------------------------------------------------------------------------ completions

// Takes back the oldest descriptor of the send queue. False if it has not completed.
bool Link::take_sent() {
  VIP_UINT32 status;
  Sent* sent = ring_.take(status);
  if (sent == nullptr) return false;
  const int error = error_of_sent(status);
  switch (sent->kind) {
    case Sent::Kind::kOwn:
      break;
    case Sent::Kind::kPromise:
      receives_.on_promise_sent();
      break;
    case Sent::Kind::kGreeting:
      on_greeting_sent(error);
      break;
    default:
      transfers_.on_sent(*sent, error, status);
      break;
  }
  if (error != 0 && state_.up()) end(FI_ECONNRESET);
  return true;
}

// Takes back the oldest descriptor of the receive queue. False if it has not completed.
bool Link::take_received() {
  VIP_DESCRIPTOR* descriptor = nullptr;
  VipRecvDone(state_.vi, &descriptor);
  if (descriptor == nullptr) return false;
  if (descriptor == &state_.memory.slots().greeting.descriptor) {
    on_greeting(*descriptor);
  } else if (receives_.take(descriptor->CS)) {
    const bool failed = (descriptor->CS.Status & VIP_STATUS_ERROR_MASK) != 0;
    if (failed && (state_.up() || state_.phase == LinkState::kAnswering)) end(FI_ECONNRESET);
  }
  return true;
}

void Link::on_send_done() {
  if (!take_sent() || !state_.up()) return;
  transfers_.go_on();
  settled(0);
  receives_.promise();
}

void Link::on_receive_done() {
  if (take_received()) receives_.promise();
}

void Link::feed() {
  transfers_.feed();
  settled(0);
}

ssize_t Link::settled(ssize_t result) {
  if (transfers_.broken() && state_.up()) end(FI_ECONNABORTED);
  return result;
}

// ------------------------------------------------------------------------------------ the end

void Link::end(int reason) {
  // The peer may have ended as soon as it had the answer: then there was a connection.
  while (state_.phase == LinkState::kAnswering && take_sent()) continue;
  if (state_.phase == LinkState::kDown) return;
  const Phase before = state_.phase;
  set_phase(LinkState::kDown);
  VipDisconnect(state_.vi);
  while (take_sent()) {}
  while (receives_.outstanding() != 0 && take_received()) {}
  transfers_.fail_unposted();
  if (before == LinkState::kRefusing) {
    // A refused link has no user any more, so it deletes itself.
    state_.nic->run([this] { delete this; });
    return;
  }
  if (state_.user == nullptr) return;
  if (before == LinkState::kAsked || before == LinkState::kCalling) {
    // A listener that has gone, or given up, before it answered has not accepted: callers may try again.
    state_.user->on_refused(reason == 0 || reason == FI_ECONNRESET ? FI_ECONNREFUSED : reason, nullptr, 0);
  } else {
    state_.user->on_ended(*this);
  }
}

void Link::on_lost() {
  if (state_.phase == LinkState::kIdle || state_.phase == LinkState::kCalling) return;
  end(FI_ECONNRESET);
}

int Link::shut_down() {
  if (state_.phase == LinkState::kIdle || state_.phase == LinkState::kCalling) return -FI_ENOTCONN;
  end(FI_ECONNABORTED);
  return 0;
}

int error_of_status(VIP_UINT32 status) {
  if ((status & VIP_STATUS_ERROR_MASK) == 0) return 0;
  if ((status & VIP_STATUS_LENGTH_ERROR) != 0) return FI_ETRUNC;
  if ((status & VIP_STATUS_RDMA_PROT_ERROR) != 0) return FI_EACCES;
  if ((status & VIP_STATUS_PROTECTION_ERROR) != 0) return FI_EKEYREJECTED;
  if ((status & VIP_STATUS_REMOTE_DESC_ERROR) != 0) return FI_EREMOTEIO;
  if ((status & VIP_STATUS_FORMAT_ERROR) != 0) return FI_EINVAL;
  if ((status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0) return FI_ECANCELED;
  return FI_EIO;
}

int error_of_sent(VIP_UINT32 status) {
  const int error = error_of_status(status);
  return error == FI_ECANCELED ? kLostError : error;
}

}  // namespace viaduct::fabric
