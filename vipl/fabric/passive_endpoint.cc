#include "vipl/fabric/passive_endpoint.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

#include "vipl/fabric/event_queue.h"
#include "vipl/fabric/fabric.h"
#include "vipl/fabric/info.h"

namespace viaduct::fabric {
namespace {

constexpr std::size_t kMostBacklog = 1024;

// The passive endpoints of the process, by which handles of requests are recognized. Each is guarded by its NIC's
// mutex, and there is one NIC.
std::set<PassiveEndpoint*>& all() {
  static auto& set = *new std::set<PassiveEndpoint*>;
  return set;
}

}  // namespace

fi_ops PassiveEndpoint::ops = ops_of(&PassiveEndpoint::close, &PassiveEndpoint::control, &PassiveEndpoint::bind);

fi_ops_ep PassiveEndpoint::ep_ops = {
    .size = sizeof(fi_ops_ep),
    .cancel = [](fid_t, void*) -> ssize_t { return -FI_ENOSYS; },
    .getopt = &PassiveEndpoint::getopt,
    .setopt = [](fid_t, int, int, const void*, std::size_t) { return -FI_ENOPROTOOPT; },
    .tx_ctx = [](fid_ep*, int, fi_tx_attr*, fid_ep**, void*) { return -FI_ENOSYS; },
    .rx_ctx = [](fid_ep*, int, fi_rx_attr*, fid_ep**, void*) { return -FI_ENOSYS; },
    .rx_size_left = [](fid_ep*) -> ssize_t { return -FI_ENOSYS; },
    .tx_size_left = [](fid_ep*) -> ssize_t { return -FI_ENOSYS; },
};

fi_ops_cm PassiveEndpoint::cm_ops = {
    .size = sizeof(fi_ops_cm),
    .setname = &PassiveEndpoint::setname,
    .getname = &PassiveEndpoint::getname,
    .getpeer = [](fid_ep*, void*, std::size_t*) { return -FI_ENOSYS; },
    .connect = [](fid_ep*, const void*, const void*, std::size_t) { return -FI_ENOSYS; },
    .listen = &PassiveEndpoint::listen,
    .accept = [](fid_ep*, const void*, std::size_t) { return -FI_ENOSYS; },
    .reject = &PassiveEndpoint::reject,
    .shutdown = [](fid_ep*, std::uint64_t) { return -FI_ENOSYS; },
    .join = [](fid_ep*, const void*, std::uint64_t, fid_mc**, void*) { return -FI_ENOSYS; },
};

int PassiveEndpoint::open(fid_fabric* fabric, fi_info* info, fid_pep** pep, void* context) {
  fi_info* copy = fi_dupinfo(info);
  if (copy == nullptr) return -FI_ENOMEM;
  auto* made = new (std::nothrow) PassiveEndpoint(object<Fabric>(fabric), copy);
  if (made == nullptr) {
    fi_freeinfo(copy);
    return -FI_ENOMEM;
  }
  made->fid.context = context;
  *pep = made;
  return 0;
}

PassiveEndpoint::PassiveEndpoint(Fabric& fabric, fi_info* info)
    : fid_pep{{FI_CLASS_PEP, nullptr, &ops}, &ep_ops, &cm_ops},
      fabric_(fabric),
      nic_(fabric.nic()),
      info_(info),
      backlog_(kMostBacklog) {
  name_.sin_family = AF_INET;
  if (info->src_addr != nullptr && info->src_addrlen >= sizeof name_) {
    std::memcpy(&name_, info->src_addr, sizeof name_);
  }
  if (name_.sin_addr.s_addr == INADDR_ANY) own_address(*nic_, name_.sin_addr);
  fabric_.acquire();
  const std::lock_guard lock(nic_->mutex());
  all().insert(this);
}

PassiveEndpoint::~PassiveEndpoint() {
  if (events_ != nullptr) events_->release();
  fi_freeinfo(info_);
  fabric_.release();
}

int PassiveEndpoint::close(struct fid* fid) {
  auto& pep = object_of<PassiveEndpoint, fid_pep>(fid);
  if (pep.listening_) {
    pep.stopping_ = true;
    pthread_cancel(pep.thread_);
    pthread_join(pep.thread_, nullptr);
  }
  std::set<Link*> links;
  {
    const std::lock_guard lock(pep.nic_->mutex());
    all().erase(&pep);
    links.swap(pep.calling_);
    for (ConnectionRequest* request : pep.requests_) {
      request->link->reject(nullptr, 0);
      if (pep.events_ != nullptr) pep.events_->forget(&request->fid);
      delete request;
    }
    for (Link* link : links) link->set_user(nullptr);
  }
  for (Link* link : links) Link::destroy(link);
  if (pep.events_ != nullptr) pep.events_->forget(fid);
  delete &pep;
  return 0;
}

int PassiveEndpoint::bind(struct fid* fid, struct fid* other, std::uint64_t) {
  auto& pep = object_of<PassiveEndpoint, fid_pep>(fid);
  if (other->fclass != FI_CLASS_EQ || pep.events_ != nullptr) return -FI_EINVAL;
  pep.events_ = &object_of<EventQueue, fid_eq>(other);
  pep.events_->acquire();
  return 0;
}

int PassiveEndpoint::control(struct fid* fid, int command, void* argument) {
  auto& pep = object_of<PassiveEndpoint, fid_pep>(fid);
  if (command != FI_BACKLOG) return -FI_ENOSYS;
  const int asked = *static_cast<const int*>(argument);
  if (asked < 0) return -FI_EINVAL;
  const std::lock_guard lock(pep.nic_->mutex());
  pep.backlog_ = std::clamp<std::size_t>(static_cast<std::size_t>(asked), 1, kMostBacklog);
  return 0;
}

int PassiveEndpoint::getopt(fid_t, int level, int name, void* value, std::size_t* length) {
  if (level != FI_OPT_ENDPOINT || name != FI_OPT_CM_DATA_SIZE) return -FI_ENOPROTOOPT;
  if (*length < sizeof(std::size_t)) return -FI_ETOOSMALL;
  *static_cast<std::size_t*>(value) = kCmDataBytes;
  *length = sizeof(std::size_t);
  return 0;
}

// ------------------------------------------------------------------------------------ names

int PassiveEndpoint::claim() {
  if (port_.held()) return 0;
  if (const int error = port_.take(ntohs(name_.sin_port)); error != 0) return -error;
  name_.sin_port = htons(port_.port());
  return 0;
}

int PassiveEndpoint::give_address(sockaddr_in& name, PortClaim& port) {
  if (listening_ || address_given_) return -FI_EINVAL;
  if (const int error = claim(); error != 0) return error;
  name = name_;
  port.take_from(port_);
  address_given_ = true;
  return 0;
}

int PassiveEndpoint::setname(fid_t fid, void* address, std::size_t length) {
  auto& pep = object_of<PassiveEndpoint, fid_pep>(fid);
  sockaddr_in name;
  if (pep.listening_ || pep.address_given_ || length < sizeof name) return -FI_EINVAL;
  std::memcpy(&name, address, sizeof name);
  if (name.sin_family != AF_INET) return -FI_EADDRNOTAVAIL;
  if (const int error = pep.port_.take(ntohs(name.sin_port)); error != 0) return -error;
  pep.name_ = name;
  pep.name_.sin_port = htons(pep.port_.port());
  if (name.sin_addr.s_addr == INADDR_ANY) own_address(*pep.nic_, pep.name_.sin_addr);
  return 0;
}

int PassiveEndpoint::getname(fid_t fid, void* address, std::size_t* length) {
  auto& pep = object_of<PassiveEndpoint, fid_pep>(fid);
  if (!pep.address_given_) {
    if (const int error = pep.claim(); error != 0) return error;
  }
  return copy_address(pep.name_, address, length);
}

// ------------------------------------------------------------------------------------ listening

int PassiveEndpoint::listen(fid_pep* fid) {
  auto& pep = object<PassiveEndpoint>(fid);
  if (pep.events_ == nullptr) return -FI_ENOEQ;
  if (pep.listening_ || pep.address_given_) return -FI_EINVAL;
  if (const int error = pep.claim(); error != 0) return error;
  const int error = pthread_create(
      &pep.thread_, nullptr,
      [](void* self) -> void* {
        static_cast<PassiveEndpoint*>(self)->run();
        return nullptr;
      },
      &pep);
  if (error != 0) return -error;
  pep.listening_ = true;
  return 0;
}

// The thread is cancelled when it waits, and nowhere else.
void PassiveEndpoint::run() {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  while (!stopping_) await_request();
}

void PassiveEndpoint::await_request() {
  alignas(VIP_NET_ADDRESS) unsigned char local_room[sizeof(VIP_NET_ADDRESS) + 16] = {};
  alignas(VIP_NET_ADDRESS) unsigned char remote_room[sizeof(VIP_NET_ADDRESS) + 128] = {};
  auto* local = reinterpret_cast<VIP_NET_ADDRESS*>(local_room);
  auto* remote = reinterpret_cast<VIP_NET_ADDRESS*>(remote_room);
  Discriminator here;
  here.port = port_.port();
  local->HostAddressLen = 6;
  local->DiscriminatorLen = sizeof here;
  std::memcpy(local->HostAddress, nic_->attributes().LocalNicAddress, 6);
  std::memcpy(local->HostAddress + 6, &here, sizeof here);
  VIP_VI_ATTRIBUTES theirs;
  VIP_CONN_HANDLE connection;
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, nullptr);
  const VIP_RETURN code =
      VipConnectWait(nic_->handle(), local, VIP_INFINITE, remote, &theirs, &connection);
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, nullptr);
  if (code == VIP_TIMEOUT) return;
  if (code != VIP_SUCCESS) {
    stopping_ = true;
    const std::lock_guard lock(nic_->mutex());
    events_->error(&fid, error_of(code), nullptr, 0);
    return;
  }
  bool room;
  {
    const std::lock_guard lock(nic_->mutex());
    room = calling_.size() + requests_.size() < backlog_;
  }
  Link* link = nullptr;
  if (room && theirs.MaxTransferSize <= nic_->attributes().MaxTransferSize) {
    link = Link::make(*nic_, static_cast<std::uint32_t>(theirs.MaxTransferSize));
  }
  if (link == nullptr) {
    VipConnectReject(connection);
    return;
  }
  {
    const std::lock_guard lock(nic_->mutex());
    link->set_user(this);
    link->expect_request();
    calling_.insert(link);
  }
  const VIP_RETURN accepted = VipConnectAccept(connection, link->vi());
  if (accepted == VIP_SUCCESS) return;
  FI_INFO(&provider, FI_LOG_EP_CTRL, "a request could not be accepted: %s\n",
          VipxReturnText(accepted));
  if (accepted != VIP_TIMEOUT) VipConnectReject(connection);
  {
    const std::lock_guard lock(nic_->mutex());
    if (calling_.erase(link) == 0) return;
  }
  Link::destroy(link);
}

void PassiveEndpoint::on_request(Link& link, const Greeting& greeting) {
  calling_.erase(&link);
  auto* request = new (std::nothrow) ConnectionRequest{{FI_CLASS_CONNREQ, nullptr, nullptr}, &link, this};
  fi_info* info = fi_dupinfo(info_);
  if (request == nullptr || info == nullptr) {
    delete request;
    if (info != nullptr) fi_freeinfo(info);
    link.reject(nullptr, 0);
    return;
  }
  requests_.insert(request);
  info->handle = &request->fid;
  set_address(info->src_addr, info->src_addrlen, name_);
  set_address(info->dest_addr, info->dest_addrlen, link.peer());
  events_->connection(FI_CONNREQ, &fid, info, greeting.data, greeting.data_bytes);
}

// A requester has gone. If the program has been told of the request, it hears of the end when it accepts.
void PassiveEndpoint::on_ended(Link& link) {
  if (calling_.erase(&link) == 0) return;
  link.set_user(nullptr);
  nic_->run([gone = &link] { Link::destroy(gone); });
}

int PassiveEndpoint::reject(fid_pep* fid, fid_t handle, const void* data, std::size_t length) {
  auto& pep = object<PassiveEndpoint>(fid);
  if (length > kCmDataBytes) return -FI_EINVAL;
  const std::lock_guard lock(pep.nic_->mutex());
  Link* link = ConnectionRequest::take(*pep.nic_, handle);
  return link != nullptr ? link->reject(data, length) : -FI_EINVAL;
}

PassiveEndpoint* PassiveEndpoint::find(struct fid* handle) {
  for (PassiveEndpoint* pep : all()) {
    if (&pep->fid == handle) return pep;
  }
  return nullptr;
}

Link* ConnectionRequest::take(SharedNic&, struct fid* handle) {
  for (PassiveEndpoint* pep : all()) {
    for (ConnectionRequest* request : pep->requests_) {
      if (&request->fid != handle) continue;
      Link* link = request->link;
      pep->requests_.erase(request);
      delete request;
      return link;
    }
  }
  return nullptr;
}

}  // namespace viaduct::fabric
