#include "vipl/fabric/info.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <strings.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "vipl/fabric/addresses.h"
#include "vipl/fabric/missing_agent.h"
#include "vipl/fabric/shared_nic.h"
#include "vipl/fabric/request.h"
#include "vipl/fabric/wire.h"

namespace viaduct::fabric {
namespace {

constexpr std::uint64_t kSendCaps = FI_MSG | FI_RMA | FI_SEND | FI_READ | FI_WRITE | FI_FENCE;
constexpr std::uint64_t kReceiveCaps =
    FI_MSG | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t kDomainCaps = FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr std::uint64_t kCaps = kSendCaps | kReceiveCaps | kDomainCaps;
constexpr std::uint64_t kRmaWays = FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr std::uint64_t kSendFlags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE |
                                     FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE |
                                     FI_REMOTE_CQ_DATA | FI_MORE | FI_FENCE;
constexpr std::uint64_t kReceiveFlags = FI_COMPLETION | FI_MORE;
// Orders that hold whatever the program does. Other orders hold if the program asks for them, and cost something.
constexpr std::uint64_t kOrder = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW |
                                 FI_ORDER_WAS | FI_ORDER_SAW | FI_ORDER_SAS | FI_ORDER_RMA_RAR |
                                 FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW;
constexpr std::uint64_t kStrictOrder = FI_ORDER_WAR | FI_ORDER_SAR | FI_ORDER_RMA_WAR;
constexpr int kBasicMr = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
constexpr std::size_t kMostBytes = std::size_t{1} << 40;  // as much as can be registered
constexpr std::uint32_t kProtocol = 0x56494100;           // "VIA", which earlier versions told of

// Facts about the NIC, asked once. Every program of libfabric asks, and few use this provider.
struct Facts {
  bool known = false;
  char interface[64] = {};
  std::size_t endpoints = 0;
  std::size_t queues = 0;
  std::size_t regions = 0;
};

std::mutex facts_mutex;
Facts facts;

bool ask(Facts& now) {
  VIP_NIC_ATTRIBUTES attributes;
  if (const VIP_RETURN code = VipxQueryDevice(device_name(), &attributes); code != VIP_SUCCESS) {
    // An agent of an earlier version does not tell, and one that is busy may take longer: opening the NIC is more patient.
    std::shared_ptr<SharedNic> nic;
    if (SharedNic::open(nic) != 0) {
      tell_of_missing_agent(code);
      return false;
    }
    attributes = nic->attributes();
  }
  std::snprintf(now.interface, sizeof now.interface, "%s", attributes.Name);
  now.endpoints = attributes.MaxVI;
  now.queues = attributes.MaxCQEntries;
  now.regions = attributes.MaxRegisterRegions;
  now.known = true;
  return true;
}

bool get_facts(Facts& out) {
  const std::lock_guard lock(facts_mutex);
  if (!facts.known && !ask(facts)) return false;
  out = facts;
  return true;
}

// ------------------------------------------------------------------------------------ hints

bool refused(const char* what) {
  FI_INFO(&provider, FI_LOG_CORE, "%s: not what the hints ask for\n", what);
  return false;
}

bool lacks(std::uint64_t asked, std::uint64_t have) { return (asked & ~have) != 0; }

bool suits(const fi_tx_attr& asked) {
  if (lacks(asked.caps, kCaps)) return refused("tx_attr->caps");
  if (lacks(asked.op_flags, kSendFlags)) return refused("tx_attr->op_flags");
  if (lacks(asked.msg_order, kOrder | kStrictOrder)) return refused("tx_attr->msg_order");
  if (asked.comp_order != FI_ORDER_NONE) return refused("tx_attr->comp_order");
  if (asked.inject_size > kInjectBytes) return refused("tx_attr->inject_size");
  if (asked.size > kMostQueueSize) return refused("tx_attr->size");
  if (asked.iov_limit > kSegments) return refused("tx_attr->iov_limit");
  if (asked.rma_iov_limit > kSegments) return refused("tx_attr->rma_iov_limit");
  return true;
}

bool suits(const fi_rx_attr& asked) {
  if (lacks(asked.caps, kCaps)) return refused("rx_attr->caps");
  if (lacks(asked.op_flags, kReceiveFlags)) return refused("rx_attr->op_flags");
  if (lacks(asked.msg_order, kOrder | kStrictOrder)) return refused("rx_attr->msg_order");
  if (lacks(asked.comp_order, FI_ORDER_STRICT | FI_ORDER_DATA)) return refused("rx_attr->comp_order");
  if (asked.total_buffered_recv != 0) return refused("rx_attr->total_buffered_recv");
  if (asked.size > kMostQueueSize) return refused("rx_attr->size");
  if (asked.iov_limit > kSegments) return refused("rx_attr->iov_limit");
  return true;
}

bool suits(const fi_ep_attr& asked) {
  if (asked.type != FI_EP_UNSPEC && asked.type != FI_EP_MSG) return refused("ep_attr->type");
  if (asked.protocol != FI_PROTO_UNSPEC && asked.protocol != kProtocol) {
    return refused("ep_attr->protocol");
  }
  if (asked.protocol_version > kVersion) return refused("ep_attr->protocol_version");
  if (asked.max_msg_size > kMostBytes) return refused("ep_attr->max_msg_size");
  if (std::max({asked.max_order_raw_size, asked.max_order_war_size, asked.max_order_waw_size}) > kMostBytes) {
    return refused("ep_attr: ordered sizes");
  }
  if (asked.tx_ctx_cnt > 1 || asked.rx_ctx_cnt > 1) return refused("ep_attr: contexts");
  if (asked.auth_key_size != 0) return refused("ep_attr->auth_key_size");
  return true;
}

// Bits of mr_mode that the program must be ready for.
int needed_mr_mode(std::uint64_t caps) {
  return (caps & (FI_RMA | kRmaWays)) != 0 ? kBasicMr : 0;
}

// Whether the program can register memory as `caps` need it.
bool registers_as_needed(int mode, std::uint32_t version, std::uint64_t caps) {
  if (version < FI_VERSION(1, 5)) return mode == FI_MR_BASIC || mode == FI_MR_UNSPEC;
  const int needed = needed_mr_mode(caps);
  return mode != FI_MR_SCALABLE && (mode == FI_MR_BASIC || (mode & needed) == needed);
}

bool suits(const fi_domain_attr& asked, std::uint32_t version, std::uint64_t caps) {
  if (!registers_as_needed(asked.mr_mode, version, caps)) return refused("domain_attr->mr_mode");
  if (asked.mr_key_size > sizeof(std::uint64_t)) return refused("domain_attr->mr_key_size");
  if (asked.cq_data_size > sizeof(VIP_UINT32)) return refused("domain_attr->cq_data_size");
  if (asked.mr_iov_limit > 1) return refused("domain_attr->mr_iov_limit");
  if (lacks(asked.caps, kDomainCaps)) return refused("domain_attr->caps");
  if (asked.max_ep_tx_ctx > 1 || asked.max_ep_rx_ctx > 1 || asked.max_ep_stx_ctx != 0 ||
      asked.max_ep_srx_ctx != 0) {
    return refused("domain_attr: contexts");
  }
  if (asked.auth_key_size != 0) return refused("domain_attr->auth_key_size");
  return true;
}

// Without `hints` everything suits.
bool suits(const fi_info* hints, std::uint32_t version) {
  if (hints == nullptr) return true;
  if (lacks(hints->caps, kCaps)) return refused("caps");
  if (hints->addr_format != FI_FORMAT_UNSPEC && hints->addr_format != FI_SOCKADDR &&
      hints->addr_format != FI_SOCKADDR_IN) {
    return refused("addr_format");
  }
  return (hints->ep_attr == nullptr || suits(*hints->ep_attr)) &&
         (hints->tx_attr == nullptr || suits(*hints->tx_attr)) &&
         (hints->rx_attr == nullptr || suits(*hints->rx_attr)) &&
         (hints->domain_attr == nullptr || suits(*hints->domain_attr, version, hints->caps));
}

// ------------------------------------------------------------------------------------ addresses

bool look_up(const char* node, const char* service, std::uint64_t flags, sockaddr_in& found) {
  addrinfo wanted{};
  wanted.ai_family = AF_INET;
  wanted.ai_socktype = SOCK_STREAM;
  if ((flags & FI_NUMERICHOST) != 0) wanted.ai_flags |= AI_NUMERICHOST;
  if ((flags & FI_SOURCE) != 0) wanted.ai_flags |= AI_PASSIVE;
  addrinfo* results = nullptr;
  if (getaddrinfo(node, service, &wanted, &results) != 0 || results == nullptr) return false;
  std::memcpy(&found, results->ai_addr, sizeof found);
  freeaddrinfo(results);
  return true;
}

// An address of a fi_info; false if there is one of another kind.
bool given(const void* address, std::size_t length, sockaddr_in& out, bool& there) {
  there = false;
  if (address == nullptr || length == 0) return true;
  if (length < sizeof out) return false;
  std::memcpy(&out, address, sizeof out);
  there = true;
  return out.sin_family == AF_INET;
}

struct Ends {
  sockaddr_in source{};
  sockaddr_in destination{};
  bool has_destination = false;
};

bool find_ends(const char* node, const char* service, std::uint64_t flags, const fi_info* hints,
               in_addr own, Ends& ends) {
  bool has_source = false;
  if (hints != nullptr &&
      (!given(hints->src_addr, hints->src_addrlen, ends.source, has_source) ||
       !given(hints->dest_addr, hints->dest_addrlen, ends.destination, ends.has_destination))) {
    return refused("address");
  }
  if (node != nullptr || service != nullptr) {
    sockaddr_in found;
    if (!look_up(node, service, flags, found)) return false;
    if ((flags & FI_SOURCE) != 0) {
      ends.source = found;
      has_source = true;
    } else {
      ends.destination = found;
      ends.has_destination = true;
    }
  }
  const bool loopback = (ntohl(ends.source.sin_addr.s_addr) >> 24) == 127;
  ends.source.sin_family = AF_INET;
  if (!has_source || ends.source.sin_addr.s_addr == INADDR_ANY || loopback) {
    ends.source.sin_addr = own;
  }
  if (ends.source.sin_addr.s_addr != own.s_addr) return refused("source address");
  return true;
}

// ------------------------------------------------------------------------------------ the answer

std::size_t or_else(std::size_t asked, std::size_t value) { return asked != 0 ? asked : value; }

char* copy_text(const char* text) { return strdup(text); }

// Adds to the capabilities asked for only those that go without saying: those of the domain, and both directions
// where none was named.
std::uint64_t complete(std::uint64_t asked) {
  std::uint64_t caps = asked | kDomainCaps;
  if ((asked & FI_MSG) != 0 && (asked & (FI_SEND | FI_RECV)) == 0) caps |= FI_SEND | FI_RECV;
  if ((asked & FI_RMA) != 0 && (asked & kRmaWays) == 0) caps |= kRmaWays;
  return caps;
}

std::uint64_t caps_for(std::uint32_t version, const fi_info* hints) {
  if (hints == nullptr) return kCaps;
  if (hints->caps != 0) return complete(hints->caps);
  const fi_domain_attr* domain = hints->domain_attr;
  // A program that can't register memory as RDMA needs it gets no RDMA.
  return domain == nullptr || registers_as_needed(domain->mr_mode, version, kCaps)
             ? kCaps
             : kCaps & ~(FI_RMA | kRmaWays);
}

// Capabilities of one direction: all that the endpoint has, unless less was asked for.
std::uint64_t caps_of_way(std::uint64_t caps, std::uint64_t asked, std::uint64_t way) {
  return caps & way & (asked != 0 ? complete(asked) : way);
}

void set_names(fi_info& info, const Facts& now, in_addr own, in_addr mask) {
  const in_addr link{own.s_addr & mask.s_addr};
  char network[INET_ADDRSTRLEN];
  inet_ntop(AF_INET, &link, network, sizeof network);
  char text[INET_ADDRSTRLEN + 4];
  std::snprintf(text, sizeof text, "%s/%d", network, __builtin_popcount(mask.s_addr));
  info.fabric_attr->name = copy_text(text);
  info.domain_attr->name = copy_text(now.interface);
}

void set_transmit(fi_info& info, const fi_info* hints) {
  const fi_tx_attr* tx = hints != nullptr ? hints->tx_attr : nullptr;
  const fi_rx_attr* rx = hints != nullptr ? hints->rx_attr : nullptr;
  fi_tx_attr& out = *info.tx_attr;
  out.caps = caps_of_way(info.caps, tx != nullptr ? tx->caps : 0, kSendCaps);
  out.mode = 0;
  out.op_flags = tx != nullptr ? tx->op_flags : 0;
  out.msg_order = kOrder | (tx != nullptr ? tx->msg_order : 0) | (rx != nullptr ? rx->msg_order : 0);
  out.comp_order = FI_ORDER_NONE;
  out.inject_size = kInjectBytes;
  out.size = or_else(tx != nullptr ? tx->size : 0, kQueueSize);
  out.iov_limit = kSegments;
  out.rma_iov_limit = kSegments;
}

void set_receive(fi_info& info, const fi_info* hints) {
  const fi_rx_attr* rx = hints != nullptr ? hints->rx_attr : nullptr;
  fi_rx_attr& out = *info.rx_attr;
  out.caps = caps_of_way(info.caps, rx != nullptr ? rx->caps : 0, kReceiveCaps);
  out.mode = info.mode;
  out.op_flags = rx != nullptr ? rx->op_flags : 0;
  out.msg_order = info.tx_attr->msg_order;
  out.comp_order = FI_ORDER_STRICT | FI_ORDER_DATA;
  out.size = or_else(rx != nullptr ? rx->size : 0, kQueueSize);
  out.iov_limit = kSegments;
}

void set_endpoint(fi_info& info) {
  fi_ep_attr& out = *info.ep_attr;
  out.type = FI_EP_MSG;
  out.protocol = FI_PROTO_UNSPEC;  // libfabric has no number for VIA
  out.protocol_version = kVersion;
  out.max_msg_size = kMostBytes;
  out.max_order_raw_size = kMostBytes;
  out.max_order_war_size = (info.tx_attr->msg_order & kStrictOrder) != 0 ? kMostBytes : 0;
  out.max_order_waw_size = kMostBytes;
  out.tx_ctx_cnt = 1;
  out.rx_ctx_cnt = 1;
}

void set_domain(fi_info& info, std::uint32_t version, const fi_info* hints, const Facts& now) {
  const fi_domain_attr* domain = hints != nullptr ? hints->domain_attr : nullptr;
  fi_domain_attr& out = *info.domain_attr;
  out.threading = domain != nullptr && domain->threading != FI_THREAD_UNSPEC ? domain->threading
                                                                             : FI_THREAD_SAFE;
  // The provider needs no help with connections; a program that offers it gets its wish.
  out.control_progress = domain != nullptr && domain->control_progress != FI_PROGRESS_UNSPEC
                             ? domain->control_progress
                             : FI_PROGRESS_AUTO;
  out.data_progress = domain != nullptr && domain->data_progress != FI_PROGRESS_UNSPEC
                          ? domain->data_progress
                          : FI_PROGRESS_MANUAL;
  out.resource_mgmt = FI_RM_ENABLED;
  out.av_type = domain != nullptr ? domain->av_type : FI_AV_UNSPEC;
  if (version < FI_VERSION(1, 5) || (domain != nullptr && domain->mr_mode == FI_MR_BASIC)) {
    out.mr_mode = FI_MR_BASIC;
    info.mode |= hints == nullptr ? FI_LOCAL_MR : hints->mode & FI_LOCAL_MR;
  } else {
    const int all = FI_MR_LOCAL | kBasicMr;
    out.mr_mode = domain == nullptr ? all : all & domain->mr_mode;
  }
  out.mr_key_size = sizeof(std::uint64_t);
  out.cq_data_size = sizeof(VIP_UINT32);
  out.cq_cnt = now.queues;
  out.ep_cnt = now.endpoints;
  out.tx_ctx_cnt = now.endpoints;
  out.rx_ctx_cnt = now.endpoints;
  out.max_ep_tx_ctx = 1;
  out.max_ep_rx_ctx = 1;
  out.cntr_cnt = now.endpoints;
  out.mr_iov_limit = 1;
  out.caps = kDomainCaps;
  out.max_err_data = kCmDataBytes;
  out.mr_cnt = now.regions;
}

fi_info* make(std::uint32_t version, const fi_info* hints, const Facts& now, const Ends& ends) {
  fi_info* info = fi_dupinfo(nullptr);
  if (info == nullptr) return nullptr;
  info->caps = caps_for(version, hints);
  // The handle names a passive endpoint whose address an active one is to have.
  info->handle = hints != nullptr ? hints->handle : nullptr;
  // An RDMA write with data takes a receive.
  info->mode = hints == nullptr ? FI_RX_CQ_DATA : hints->mode & FI_RX_CQ_DATA;
  info->addr_format = FI_SOCKADDR_IN;
  set_address(info->src_addr, info->src_addrlen, ends.source);
  if (ends.has_destination) {
    set_address(info->dest_addr, info->dest_addrlen, ends.destination);
  }
  set_transmit(*info, hints);
  set_receive(*info, hints);
  set_endpoint(*info);
  set_domain(*info, version, hints, now);
  return info;
}

}  // namespace

int get_info(std::uint32_t version, const char* node, const char* service, std::uint64_t flags,
             const fi_info* hints, fi_info** info) {
  if (!suits(hints, version)) return -FI_ENODATA;
  Facts now;
  if (!get_facts(now)) return -FI_ENODATA;
  in_addr own;
  in_addr mask;
  if (!address_of_interface(now.interface, own, mask)) {
    FI_WARN(&provider, FI_LOG_CORE, "the interface %s has no IPv4 address\n", now.interface);
    return -FI_ENODATA;
  }
  Ends ends;
  if (!find_ends(node, service, flags, hints, own, ends)) return -FI_ENODATA;
  fi_info* made = make(version, hints, now, ends);
  if (made == nullptr) return -FI_ENOMEM;
  set_names(*made, now, own, mask);
  if (hints != nullptr) {
    const char* domain = hints->domain_attr != nullptr ? hints->domain_attr->name : nullptr;
    const char* fabric = hints->fabric_attr != nullptr ? hints->fabric_attr->name : nullptr;
    if ((domain != nullptr && strcasecmp(domain, made->domain_attr->name) != 0) ||
        (fabric != nullptr && strcasecmp(fabric, made->fabric_attr->name) != 0)) {
      fi_freeinfo(made);
      return -FI_ENODATA;
    }
  }
  *info = made;
  return 0;
}

void own_address(const SharedNic& nic, in_addr& address) {
  in_addr own;
  in_addr mask;
  if (address_of_interface(nic.attributes().Name, own, mask)) address = own;
}

void set_address(void*& to, std::size_t& length, const sockaddr_in& address) {
  std::free(to);
  to = std::malloc(sizeof address);
  length = to != nullptr ? sizeof address : 0;
  if (to != nullptr) std::memcpy(to, &address, sizeof address);
}

int copy_address(const sockaddr_in& address, void* to, std::size_t* length) {
  const std::size_t room = *length;
  *length = sizeof address;
  if (room != 0) std::memcpy(to, &address, std::min(room, sizeof address));
  return room < sizeof address ? -FI_ETOOSMALL : 0;
}

}  // namespace viaduct::fabric
