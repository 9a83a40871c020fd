#include "vipl/fabric/endpoint.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <initializer_list>
#include <new>
#include <thread>

#include "vipl/fabric/completion_queue.h"
#include "vipl/fabric/domain.h"
#include "vipl/fabric/event_queue.h"
#include "vipl/fabric/info.h"
#include "vipl/fabric/passive_endpoint.h"

namespace viaduct::fabric {
namespace {

// How long an endpoint that is closed waits until what was posted has arrived.
constexpr auto kLinger = std::chrono::milliseconds(500);

std::uint32_t queue_size(std::size_t asked) {
  return asked == 0 ? kQueueSize
                    : static_cast<std::uint32_t>(std::min<std::size_t>(asked, kMostQueueSize));
}

}  // namespace

fi_ops Endpoint::ops = ops_of(&Endpoint::close, &Endpoint::control, &Endpoint::bind);

fi_ops_ep Endpoint::ep_ops = {
    .size = sizeof(fi_ops_ep),
    .cancel = [](fid_t, void*) -> ssize_t { return -FI_ENOSYS; },
    .getopt = &Endpoint::getopt,
    .setopt = [](fid_t, int, int, const void*, std::size_t) { return -FI_ENOPROTOOPT; },
    .tx_ctx = [](fid_ep*, int, fi_tx_attr*, fid_ep**, void*) { return -FI_ENOSYS; },
    .rx_ctx = [](fid_ep*, int, fi_rx_attr*, fid_ep**, void*) { return -FI_ENOSYS; },
    .rx_size_left = &Endpoint::receives_left,
    .tx_size_left = &Endpoint::sends_left,
};

fi_ops_cm Endpoint::cm_ops = {
    .size = sizeof(fi_ops_cm),
    .setname = &Endpoint::setname,
    .getname = &Endpoint::getname,
    .getpeer = &Endpoint::getpeer,
    .connect = &Endpoint::connect,
    .listen = [](fid_pep*) { return -FI_ENOSYS; },
    .accept = &Endpoint::accept,
    .reject = [](fid_pep*, fid_t, const void*, std::size_t) { return -FI_ENOSYS; },
    .shutdown = &Endpoint::shutdown,
    .join = [](fid_ep*, const void*, std::uint64_t, fid_mc**, void*) { return -FI_ENOSYS; },
};

// ------------------------------------------------------------------------------------ life

int Endpoint::open(fid_domain* fid, fi_info* info, fid_ep** ep, void* context) {
  auto& domain = object<Domain>(fid);
  if (info->ep_attr != nullptr && info->ep_attr->type != FI_EP_MSG &&
      info->ep_attr->type != FI_EP_UNSPEC) {
    return -FI_EINVAL;
  }
  SharedNic& nic = *domain.nic();
  Link* link = nullptr;
  PassiveEndpoint* former = nullptr;  // the passive endpoint whose address this endpoint is to have
  if (info->handle != nullptr) {
    // The handle may be that of a request that has been answered, of which nothing is left.
    const std::lock_guard lock(nic.mutex());
    former = PassiveEndpoint::find(info->handle);
    if (former == nullptr) link = ConnectionRequest::take(nic, info->handle);
    if (former == nullptr && link == nullptr) return -FI_EINVAL;
    if (link != nullptr) link->set_user(nullptr);
  }
  if (link == nullptr) link = Link::make(nic, nic.transfer_bytes());
  if (link == nullptr) return -FI_ENOMEM;
  auto* made = new (std::nothrow) Endpoint(domain, *info, link);
  if (made == nullptr) {
    Link::destroy(link);
    return -FI_ENOMEM;
  }
  made->fid.context = context;
  if (former != nullptr) {
    if (const int error = former->give_address(made->name_, made->port_); error != 0) {
      close(&made->fid);
      return error;
    }
  }
  *ep = made;
  return 0;
}

Endpoint::Endpoint(Domain& domain, const fi_info& info, Link* link)
    : fid_ep{{FI_CLASS_EP, nullptr, &ops}, &ep_ops, &cm_ops, &msg_ops, &rma_ops,
             nullptr, nullptr, nullptr},
      domain_(domain),
      nic_(domain.nic()),
      link_(link),
      takes_written_data_((info.mode & FI_RX_CQ_DATA) != 0),
      caps_(info.caps),
      send_flags_(info.tx_attr != nullptr ? info.tx_attr->op_flags : 0),
      receive_flags_(info.rx_attr != nullptr ? info.rx_attr->op_flags : 0) {
  domain_.acquire();
  const std::uint64_t order = info.tx_attr != nullptr ? info.tx_attr->msg_order : 0;
  const bool strict = (order & (FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR)) != 0;
  name_.sin_family = AF_INET;
  if (info.src_addr != nullptr && info.src_addrlen >= sizeof name_) {
    std::memcpy(&name_, info.src_addr, sizeof name_);
  }
  if (name_.sin_addr.s_addr == INADDR_ANY) own_address(*nic_, name_.sin_addr);
  const std::lock_guard lock(nic_->mutex());
  link_->configure(domain_.regions(), queue_size(info.tx_attr != nullptr ? info.tx_attr->size : 0),
                   queue_size(info.rx_attr != nullptr ? info.rx_attr->size : 0), strict);
  link_->set_user(this);
}

Endpoint::~Endpoint() {
  if (events_ != nullptr) {
    events_->forget(&fid);
    events_->release();
  }
  domain_.release();
}

// Waits until posted sends have arrived, unless the peer has stopped listening: a program may close at
// once after it has injected its last message.
void Endpoint::linger() {
  const auto end = std::chrono::steady_clock::now() + kLinger;
  std::unique_lock lock(nic_->mutex());
  for (;;) {
    nic_->progress();
    if (!link_->up() || link_->all_sent()) return;
    if (std::chrono::steady_clock::now() >= end) return;
    lock.unlock();
    std::this_thread::yield();
    lock.lock();
  }
}

int Endpoint::close(struct fid* fid) {
  auto& ep = object_of<Endpoint, fid_ep>(fid);
  ep.linger();
  Link::destroy(ep.link_);
  {
    const std::lock_guard lock(ep.nic_->mutex());
    if (ep.send_queue_ != nullptr) ep.send_queue_->release();
    if (ep.receive_queue_ != nullptr) ep.receive_queue_->release();
    for (Counter* counter : ep.counters_) {
      if (counter != nullptr) counter->release();
    }
  }
  delete &ep;
  return 0;
}

int Endpoint::bind(struct fid* fid, struct fid* other, std::uint64_t flags) {
  auto& ep = object_of<Endpoint, fid_ep>(fid);
  const std::lock_guard lock(ep.nic_->mutex());
  switch (other->fclass) {
    case FI_CLASS_EQ:
      if (ep.events_ != nullptr) return -FI_EINVAL;
      ep.events_ = &object_of<EventQueue, fid_eq>(other);
      ep.events_->acquire();
      return 0;
    case FI_CLASS_CQ:
      return ep.bind_queue(object_of<CompletionQueue, fid_cq>(other), flags);
    case FI_CLASS_CNTR:
      return ep.bind_counter(object_of<Counter, fid_cntr>(other), flags);
    default:
      return -FI_EINVAL;
  }
}

int Endpoint::bind_queue(CompletionQueue& queue, std::uint64_t flags) {
  if ((flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) != 0) return -FI_EBADFLAGS;
  const bool selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
  if (((flags & FI_TRANSMIT) != 0 && send_queue_ != nullptr) ||
      ((flags & FI_RECV) != 0 && receive_queue_ != nullptr)) {
    return -FI_EINVAL;
  }
  if ((flags & FI_TRANSMIT) != 0) {
    send_queue_ = &queue;
    selective_sends_ = selective;
    queue.acquire();
  }
  if ((flags & FI_RECV) != 0) {
    receive_queue_ = &queue;
    selective_receives_ = selective;
    queue.acquire();
  }
  return 0;
}

int Endpoint::bind_counter(Counter& counter, std::uint64_t flags) {
  constexpr std::pair<std::uint64_t, Counts> kKinds[] = {{FI_SEND, kSends},
                                                         {FI_RECV, kReceives},
                                                         {FI_READ, kReads},
                                                         {FI_WRITE, kWrites},
                                                         {FI_REMOTE_WRITE, kRemoteWrites}};
  if ((flags & FI_REMOTE_READ) != 0) return -FI_ENOSYS;
  std::uint64_t known = 0;
  for (const auto& [flag, kind] : kKinds) {
    if ((flags & flag) != 0 && counters_[kind] != nullptr) return -FI_EINVAL;
    known |= flag;
  }
  if ((flags & ~known) != 0) return -FI_EBADFLAGS;
  for (const auto& [flag, kind] : kKinds) {
    if ((flags & flag) == 0) continue;
    counters_[kind] = &counter;
    counter.acquire();
  }
  return 0;
}

int Endpoint::control(struct fid* fid, int command, void* argument) {
  auto& ep = object_of<Endpoint, fid_ep>(fid);
  switch (command) {
    case FI_ENABLE:
      return ep.enable();
    case FI_GETOPSFLAG: {
      auto& flags = *static_cast<std::uint64_t*>(argument);
      if ((flags & (FI_TRANSMIT | FI_RECV)) == (FI_TRANSMIT | FI_RECV)) return -FI_EINVAL;
      flags = (flags & FI_TRANSMIT) != 0 ? ep.send_flags_ : ep.receive_flags_;
      return 0;
    }
    case FI_SETOPSFLAG: {
      const std::uint64_t flags = *static_cast<std::uint64_t*>(argument);
      const std::uint64_t rest = flags & ~(FI_TRANSMIT | FI_RECV);
      if ((flags & (FI_TRANSMIT | FI_RECV)) == 0 || rest == (flags & 0)) return -FI_EINVAL;
      if ((flags & FI_TRANSMIT) != 0) ep.send_flags_ = rest;
      if ((flags & FI_RECV) != 0) ep.receive_flags_ = rest;
      return 0;
    }
    default:
      return -FI_ENOSYS;
  }
}

// Whether a counter counts operations of these kinds.
bool Endpoint::tells(std::initializer_list<Counts> kinds) const {
  return std::any_of(kinds.begin(), kinds.end(),
                     [this](Counts kind) { return counters_[kind] != nullptr; });
}

// Fails unless an event queue is bound, and a completion queue or counter for each direction in use.
int Endpoint::enable() {
  if (events_ == nullptr) return -FI_ENOEQ;
  const bool sends = (caps_ & (FI_SEND | FI_READ | FI_WRITE)) != 0;
  if (sends && send_queue_ == nullptr && !tells({kSends, kReads, kWrites})) return -FI_ENOCQ;
  const bool receives = (caps_ & FI_RECV) != 0;
  if (receives && receive_queue_ == nullptr && !tells({kReceives})) return -FI_ENOCQ;
  enabled_ = true;
  return 0;
}

int Endpoint::getopt(fid_t, int level, int name, void* value, std::size_t* length) {
  if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE) return -FI_ENOPROTOOPT;
  if (*length < sizeof(std::size_t)) return -FI_ETOOSMALL;
  *static_cast<std::size_t*>(value) = kCmDataBytes;
  *length = sizeof(std::size_t);
  return 0;
}

ssize_t Endpoint::receives_left(fid_ep* fid) {
  auto& ep = object<Endpoint>(fid);
  const std::lock_guard lock(ep.nic_->mutex());
  return static_cast<ssize_t>(ep.link_->receives_left());
}

ssize_t Endpoint::sends_left(fid_ep* fid) {
  auto& ep = object<Endpoint>(fid);
  const std::lock_guard lock(ep.nic_->mutex());
  return static_cast<ssize_t>(ep.link_->sends_left());
}

// ------------------------------------------------------------------------------------ connections

int Endpoint::setname(fid_t fid, void* address, std::size_t length) {
  auto& ep = object_of<Endpoint, fid_ep>(fid);
  if (length < sizeof ep.name_) return -FI_EINVAL;
  std::memcpy(&ep.name_, address, sizeof ep.name_);
  return 0;
}

int Endpoint::getname(fid_t fid, void* address, std::size_t* length) {
  return copy_address(object_of<Endpoint, fid_ep>(fid).name_, address, length);
}

int Endpoint::getpeer(fid_ep* fid, void* address, std::size_t* length) {
  auto& ep = object<Endpoint>(fid);
  const std::lock_guard lock(ep.nic_->mutex());
  if (ep.link_->peer().sin_family != AF_INET) return -FI_ENOTCONN;
  return copy_address(ep.link_->peer(), address, length);
}

int Endpoint::connect(fid_ep* fid, const void* address, const void* data, std::size_t length) {
  auto& ep = object<Endpoint>(fid);
  if (address == nullptr) return -FI_EINVAL;
  sockaddr_in peer;
  std::memcpy(&peer, address, sizeof peer);
  if (peer.sin_family != AF_INET || peer.sin_port == 0) return -FI_EINVAL;
  if (!ep.enabled_) {
    if (const int error = ep.enable(); error != 0) return error;
  }
  if ((ntohl(peer.sin_addr.s_addr) >> 24) == 127) own_address(*ep.nic_, peer.sin_addr);
  const std::lock_guard lock(ep.nic_->mutex());
  return ep.link_->connect(ep.name_, peer, data, length);
}

int Endpoint::accept(fid_ep* fid, const void* data, std::size_t length) {
  auto& ep = object<Endpoint>(fid);
  if (!ep.enabled_) {
    if (const int error = ep.enable(); error != 0) return error;
  }
  const std::lock_guard lock(ep.nic_->mutex());
  return ep.link_->accept(ep.name_, data, length);
}

int Endpoint::shutdown(fid_ep* fid, std::uint64_t flags) {
  auto& ep = object<Endpoint>(fid);
  if (flags != 0) return -FI_EBADFLAGS;
  ep.linger();
  const std::lock_guard lock(ep.nic_->mutex());
  return ep.link_->shut_down();
}

void Endpoint::on_accepted(const void* data, std::size_t bytes) {
  events_->connection(FI_CONNECTED, &fid, nullptr, data, bytes);
}

void Endpoint::on_established() { events_->connection(FI_CONNECTED, &fid, nullptr, nullptr, 0); }

void Endpoint::on_refused(int error, const void* data, std::size_t bytes) {
  events_->error(&fid, error, data, bytes);
}

void Endpoint::on_ended(Link&) {
  if (events_ != nullptr) events_->connection(FI_SHUTDOWN, &fid, nullptr, nullptr, 0);
}

// ------------------------------------------------------------------------------------ completions

void Endpoint::on_sent(const Completion& completion, bool wanted, bool silent) {
  const Counts kind = (completion.flags & FI_READ) != 0    ? kReads
                      : (completion.flags & FI_WRITE) != 0 ? kWrites
                                                           : kSends;
  if (counters_[kind] != nullptr) counters_[kind]->count(completion.error != 0);
  const bool told = wanted || (completion.error != 0 && !silent);
  if (send_queue_ != nullptr && told) send_queue_->add(completion);
}

void Endpoint::on_received(const Completion& completion, bool wanted) {
  const Counts kind = (completion.flags & FI_REMOTE_WRITE) != 0 ? kRemoteWrites : kReceives;
  if (counters_[kind] != nullptr) counters_[kind]->count(completion.error != 0);
  const bool told = wanted || completion.error != 0 || (completion.flags & FI_REMOTE_WRITE) != 0;
  if (receive_queue_ != nullptr && told) receive_queue_->add(completion);
}

}  // namespace viaduct::fabric
