#include "vipl/fabric/link.h"

#include <arpa/inet.h>
#include <sys/mman.h>

#include <cassert>
#include <cstring>
#include <new>
#include <utility>

namespace viaduct::fabric {
namespace {

constexpr VIP_ULONG kCallMs = 3000;
constexpr std::uint32_t kLeastTransfer = 32768;  // that every NIC has

// Memory of whole pages that are there when they are used.
void* map(std::size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

bool pending(Link::State state) {
  return state == Link::State::kAsked || state == Link::State::kGreeting ||
         state == Link::State::kAnswering || state == Link::State::kRefusing;
}

}  // namespace

Link* Link::make(Nic& nic, std::uint32_t transfer_bytes) {
  auto* link = new (std::nothrow) Link(nic, transfer_bytes);
  if (link != nullptr && link->set_up()) return link;
  delete link;
  return nullptr;
}

Link::Link(Nic& nic, std::uint32_t transfer_bytes)
    : nic_(nic.shared_from_this()), transfer_bytes_(transfer_bytes) {}

bool Link::set_up() {
  own_ = static_cast<Private*>(map(sizeof(Private)));
  shared_ = static_cast<Shared*>(map(sizeof(Shared)));
  if (own_ == nullptr || shared_ == nullptr) return false;
  VIP_MEM_ATTRIBUTES attributes{nullptr, VIP_FALSE, VIP_FALSE};
  if (VipRegisterMem(nic_->handle(), own_, sizeof *own_, &attributes, &own_memory_) !=
      VIP_SUCCESS) {
    return false;
  }
  attributes.EnableRdmaWrite = VIP_TRUE;
  if (VipRegisterMem(nic_->handle(), shared_, sizeof *shared_, &attributes, &shared_memory_) !=
      VIP_SUCCESS) {
    return false;
  }
  VIP_VI_ATTRIBUTES vi{VIP_SERVICE_RELIABLE_RECEPTION, transfer_bytes_, nullptr, nullptr,
                       VIP_TRUE, VIP_TRUE};
  if (VipCreateVi(nic_->handle(), &vi, nic_->queue(), nic_->queue(), &vi_) != VIP_SUCCESS) {
    vi_ = nullptr;
    return false;
  }
  sent_.resize(slots());
  posted_receives_.resize(receives_);
  // The greeting comes before all else.
  VIP_DESCRIPTOR& descriptor = own_->greeting.descriptor;
  descriptor.CS.Control = VIP_CONTROL_OP_SENDRECV;
  descriptor.CS.SegCount = 1;
  descriptor.CS.Length = sizeof(Greeting);
  descriptor.DS[0].Local.Data.Address = &own_->greeting_bytes;
  descriptor.DS[0].Local.Handle = own_memory_;
  descriptor.DS[0].Local.Length = sizeof(Greeting);
  if (VipPostRecv(vi_, &descriptor, own_memory_) != VIP_SUCCESS) return false;
  const std::lock_guard lock(nic_->mutex());
  VipSetUserData(vi_, this);
  nic_->add(*this);
  added_ = true;
  return true;
}

void Link::destroy(Link* link) {
  {
    const std::lock_guard lock(link->nic_->mutex());
    link->user_ = nullptr;
    if (link->state_ == State::kCalling) {
      for (Posted& posted : link->posted_receives_) link->release(posted);
      link->abandoned_ = true;
      return;
    }
  }
  delete link;
}

Link::~Link() {
  if (added_) {
    const std::lock_guard lock(nic_->mutex());
    set_state(State::kDown);
    if (starving_) nic_->remove_starving(*this);
    attend();
    VipSetUserData(vi_, nullptr);
    nic_->remove(*this);
  }
  if (vi_ != nullptr) {
    VipDisconnect(vi_);
    VipDestroyVi(vi_);
  }
  for (Posted& posted : posted_receives_) release(posted);
  if (own_memory_ != 0) VipDeregisterMem(nic_->handle(), own_, own_memory_);
  if (shared_memory_ != 0) VipDeregisterMem(nic_->handle(), shared_, shared_memory_);
  if (own_ != nullptr) munmap(own_, sizeof *own_);
  if (shared_ != nullptr) munmap(shared_, sizeof *shared_);
}

void Link::configure(Regions& regions, std::uint32_t sends, std::uint32_t receives, bool strict) {
  assert(posted_ == 0 && credits_in_.posted() == 0);
  regions_ = &regions;
  sends_ = sends;
  receives_ = receives;
  strict_ = strict;
  sent_.resize(slots());
  posted_receives_.resize(receives);
}

void Link::set_state(State state) {
  const bool was = pending(state_);
  state_ = state;
  if (pending(state) == was) return;
  if (was) {
    nic_->remove_pending();
  } else {
    nic_->add_pending();
  }
}

// ------------------------------------------------------------------------------------ greetings

bool Link::post_greeting(Greeting::Kind kind, const void* data, std::size_t bytes) {
  if (bytes > kCmDataBytes) return false;
  Sent* sent;
  SendSlot& slot = next_slot(sent);
  Greeting greeting{};
  greeting.magic = kMagic;
  greeting.version = kVersion;
  greeting.kind = kind;
  credits_in_.promise(first_promise());
  greeting.promised = credits_in_.promised();
  greeting.shared_address = reinterpret_cast<std::uintptr_t>(shared_);
  greeting.shared_memory = shared_memory_;
  greeting.address = self_.sin_addr.s_addr;
  greeting.port = self_.sin_port;
  greeting.data_bytes = static_cast<std::uint16_t>(bytes);
  if (bytes != 0) std::memcpy(greeting.data, data, bytes);
  const std::size_t length = offsetof(Greeting, data) + bytes;
  std::memcpy(slot.bytes, &greeting, length);
  Ranges local;
  local.add({reinterpret_cast<std::uintptr_t>(slot.bytes), length, own_memory_});
  fill(slot, nullptr, local, VIP_CONTROL_OP_SENDRECV);
  sent->kind = Sent::Kind::kGreeting;
  return post(slot, *sent) == 0;
}

void Link::on_greeting(VIP_DESCRIPTOR& descriptor) {
  const VIP_UINT32 status = descriptor.CS.Status;
  if ((status & VIP_STATUS_ERROR_MASK) != 0) {
    if (state_ != State::kIdle && state_ != State::kCalling) end(FI_ECONNRESET);
    return;
  }
  Greeting greeting{};
  const std::size_t bytes = std::min<std::size_t>(descriptor.CS.Length, sizeof greeting);
  std::memcpy(&greeting, &own_->greeting_bytes, bytes);
  const std::size_t head = offsetof(Greeting, data);
  if ((status & VIP_STATUS_OP_MASK) != VIP_STATUS_OP_RECEIVE || bytes < head ||
      greeting.magic != kMagic || greeting.version != kVersion ||
      greeting.data_bytes != bytes - head || greeting.promised > kWindow) {
    end(FI_ECONNABORTED);
    return;
  }
  if (state_ == State::kGreeting && greeting.kind == Greeting::kRequest) {
    on_request(greeting);
  } else if (state_ == State::kAsked &&
             (greeting.kind == Greeting::kAccept || greeting.kind == Greeting::kReject)) {
    on_answer(greeting);
  } else {
    end(FI_ECONNABORTED);
  }
}

void Link::learn(const Greeting& greeting) {
  peer_shared_ = greeting.shared_address;
  peer_memory_ = greeting.shared_memory;
  credits_out_.grant(greeting.promised);
}

void Link::on_request(const Greeting& greeting) {
  learn(greeting);
  peer_.sin_family = AF_INET;
  peer_.sin_addr.s_addr = greeting.address;
  peer_.sin_port = greeting.port;
  set_state(State::kRequested);
  if (user_ != nullptr) user_->on_request(*this, greeting);
}

void Link::on_answer(const Greeting& greeting) {
  if (greeting.kind == Greeting::kReject) {
    set_state(State::kDown);
    if (user_ != nullptr) user_->on_refused(FI_ECONNREFUSED, greeting.data, greeting.data_bytes);
    return;
  }
  learn(greeting);
  set_state(State::kUp);
  promise();
  if (user_ != nullptr) user_->on_accepted(greeting.data, greeting.data_bytes);
}

void Link::on_greeting_sent(int error) {
  if (error != 0) {
    end(FI_ECONNRESET);
  } else if (state_ == State::kAnswering) {
    set_state(State::kUp);
    promise();
    if (user_ != nullptr) user_->on_established();
  } else if (state_ == State::kRefusing) {
    end(0);
  }
}

// ------------------------------------------------------------------------------------ connecting

int Link::connect(const sockaddr_in& self, const sockaddr_in& peer, const void* data,
                  std::size_t bytes) {
  if (state_ != State::kIdle) return -FI_EISCONN;
  if (bytes > kCmDataBytes) return -FI_EINVAL;
  self_ = self;
  peer_ = peer;
  const auto* first = static_cast<const unsigned char*>(data);
  cm_data_.assign(first, first + bytes);
  set_state(State::kCalling);
  nic_->run([this] { call(); });
  return 0;
}

// One try, without the mutex. An error of libfabric's.
int Link::call_once(std::uint32_t transfer_bytes, VIP_RETURN& code) {
  alignas(VIP_NET_ADDRESS) unsigned char local_room[sizeof(VIP_NET_ADDRESS) + 16] = {};
  alignas(VIP_NET_ADDRESS) unsigned char remote_room[sizeof(VIP_NET_ADDRESS) + 16] = {};
  auto* local = reinterpret_cast<VIP_NET_ADDRESS*>(local_room);
  auto* remote = reinterpret_cast<VIP_NET_ADDRESS*>(remote_room);
  code = VIP_NOT_REACHABLE;
  if (!nic_->resolve(peer_.sin_addr, remote->HostAddress)) return FI_EHOSTUNREACH;
  if (transfer_bytes != transfer_bytes_) {
    VIP_VI_ATTRIBUTES attributes{VIP_SERVICE_RELIABLE_RECEPTION, transfer_bytes, nullptr, nullptr,
                                 VIP_TRUE, VIP_TRUE};
    code = VipSetViAttributes(vi_, &attributes);
    if (code != VIP_SUCCESS) return error_of(code);
    transfer_bytes_ = transfer_bytes;
  }
  Discriminator here;
  Discriminator there;
  there.port = ntohs(peer_.sin_port);
  for (auto [address, discriminator] : {std::pair{local, &here}, std::pair{remote, &there}}) {
    address->HostAddressLen = 6;
    address->DiscriminatorLen = sizeof *discriminator;
    std::memcpy(address->HostAddress + 6, discriminator, sizeof *discriminator);
  }
  std::memcpy(local->HostAddress, nic_->attributes().LocalNicAddress, 6);
  VIP_VI_ATTRIBUTES theirs;
  code = VipConnectRequest(vi_, local, remote, kCallMs, &theirs);
  return error_of(code);
}

// Runs in a worker.
void Link::call() {
  VIP_RETURN code;
  int error = call_once(transfer_bytes_, code);
  if (code == VIP_REJECT && transfer_bytes_ > kLeastTransfer) {
    // A NIC there takes shorter messages only.
    error = call_once(kLeastTransfer, code);
  }
  if (error != 0) nic_->forget(peer_.sin_addr);
  std::unique_lock lock(nic_->mutex());
  if (abandoned_) {
    state_ = State::kDown;
    lock.unlock();
    delete this;
    return;
  }
  if (error == 0) {
    set_state(State::kAsked);
    if (!post_greeting(Greeting::kRequest, cm_data_.data(), cm_data_.size())) {
      error = FI_ECONNABORTED;
    }
  }
  if (error != 0) {
    // The VI has its receives still, and may be used for another try.
    set_state(State::kIdle);
    if (user_ != nullptr) user_->on_refused(error, nullptr, 0);
  }
}

void Link::expect_request() { set_state(State::kGreeting); }

int Link::accept(const sockaddr_in& self, const void* data, std::size_t bytes) {
  if (state_ != State::kRequested) return -FI_ECONNABORTED;
  if (bytes > kCmDataBytes) return -FI_EINVAL;
  self_ = self;
  if (!post_greeting(Greeting::kAccept, data, bytes)) return -FI_ECONNABORTED;
  set_state(State::kAnswering);
  return 0;
}

int Link::reject(const void* data, std::size_t bytes) {
  if (bytes > kCmDataBytes) return -FI_EINVAL;
  user_ = nullptr;
  if (state_ == State::kRequested && post_greeting(Greeting::kReject, data, bytes)) {
    set_state(State::kRefusing);
  } else {
    end(0);
    nic_->run([this] { delete this; });
  }
  return 0;
}

// ------------------------------------------------------------------------------------ the end

// Takes back all that has completed, in order.
void Link::drain() {
  while (posted_ != done_) {
    const std::uint32_t before = done_;
    on_send_done();
    if (done_ == before) break;
  }
  while (credits_in_.posted() != credits_in_.consumed()) {
    const std::uint32_t before = credits_in_.consumed();
    on_receive_done();
    if (credits_in_.consumed() == before) break;
  }
}

void Link::end(int reason) {
  if (state_ == State::kDown) return;
  const State before = state_;
  set_state(State::kDown);
  VipDisconnect(vi_);
  drain();
  fail_unposted();
  attend();
  tell_room();
  if (before == State::kRefusing) {
    // Nobody has it any more.
    nic_->run([this] { delete this; });
    return;
  }
  if (user_ == nullptr) return;
  if (before == State::kAsked || before == State::kCalling) {
    user_->on_refused(reason == 0 ? FI_ECONNREFUSED : reason, nullptr, 0);
  } else {
    user_->on_ended(*this);
  }
}

void Link::on_lost() {
  if (state_ == State::kIdle || state_ == State::kCalling) return;
  end(FI_ECONNRESET);
}

void Link::shut_down() {
  if (state_ == State::kIdle || state_ == State::kCalling) return;
  end(FI_ECONNABORTED);
}

int Link::error_of_status(VIP_UINT32 status) {
  if ((status & VIP_STATUS_ERROR_MASK) == 0) return 0;
  if ((status & VIP_STATUS_LENGTH_ERROR) != 0) return FI_ETRUNC;
  if ((status & VIP_STATUS_RDMA_PROT_ERROR) != 0) return FI_EACCES;
  if ((status & VIP_STATUS_PROTECTION_ERROR) != 0) return FI_EKEYREJECTED;
  if ((status & VIP_STATUS_REMOTE_DESC_ERROR) != 0) return FI_EREMOTEIO;
  if ((status & VIP_STATUS_FORMAT_ERROR) != 0) return FI_EINVAL;
  if ((status & VIP_STATUS_DESC_FLUSHED_ERROR) != 0) return FI_ECANCELED;
  return FI_EIO;
}

}  // namespace viaduct::fabric
