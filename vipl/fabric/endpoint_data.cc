// The functions of an endpoint that move data.
#include "vipl/fabric/endpoint.h"

namespace viaduct::fabric {
namespace {

constexpr std::uint64_t kOfCalls = FI_COMPLETION | FI_INJECT | FI_REMOTE_CQ_DATA | FI_FENCE;
constexpr std::uint64_t kAllowed = kOfCalls | FI_MORE | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE |
                                   FI_DELIVERY_COMPLETE | FI_PRIORITY;
// The operation gives no completion, whatever the endpoint was bound with.
constexpr std::uint64_t kSilent = std::uint64_t{1} << 60;

}  // namespace

// Every completion means that the peer has the data in its memory. So the flags that ask for this, or for less, make
// no difference.
ssize_t Endpoint::transmit(Way way, Request& request, std::uint64_t flags) {
  if (!enabled_) return -FI_EOPBADSTATE;
  if ((flags & ~(kAllowed | kSilent)) != 0) return -FI_EBADFLAGS;
  if (way == Way::kWrite && (flags & FI_REMOTE_CQ_DATA) != 0 && !takes_written_data_) {
    return -FI_EOPNOTSUPP;
  }
  request.flags = flags & kOfCalls;
  request.silent = (flags & kSilent) != 0;
  request.wanted = !request.silent && (!selective_sends_ || (flags & FI_COMPLETION) != 0);
  const std::lock_guard lock(nic_->mutex());
  switch (way) {
    case Way::kSend:
      return link_->send(request);
    case Way::kWrite:
      return link_->write(request);
    default:
      return link_->read(request);
  }
}

ssize_t Endpoint::receive(Request& request, std::uint64_t flags) {
  if (!enabled_) return -FI_EOPBADSTATE;
  if ((flags & ~(FI_COMPLETION | FI_MORE)) != 0) return -FI_EBADFLAGS;
  request.wanted = !selective_receives_ || (flags & FI_COMPLETION) != 0;
  const std::lock_guard lock(nic_->mutex());
  return link_->post_receive(request);
}

namespace {

// Pieces of memory, and what has to do with them.
Request request_of(const iovec* ranges, void* const* descs, std::size_t count, void* context) {
  Request request;
  request.ranges = ranges;
  request.descs = descs;
  request.count = count;
  request.context = context;
  return request;
}

Request request_of(const fi_msg_rma& message) {
  Request request = request_of(message.msg_iov, message.desc, message.iov_count, message.context);
  request.remote = message.rma_iov;
  request.remote_count = message.rma_iov_count;
  return request;
}

// RDMA between pieces of memory here and one piece of the peer's.
ssize_t transmit_rma(Endpoint& ep, Endpoint::Way way, Request request, std::uint64_t address, std::uint64_t key,
                     std::uint64_t flags) {
  fi_rma_iov remote{address, 0, key};
  for (std::size_t i = 0; i < request.count; ++i) remote.len += request.ranges[i].iov_len;
  request.remote = &remote;
  request.remote_count = 1;
  return ep.transmit(way, request, flags);
}

// ------------------------------------------------------------------------------------ messages

ssize_t recvv(fid_ep* fid, const iovec* ranges, void** descs, std::size_t count,
              fi_addr_t, void* context) {
  auto& ep = object<Endpoint>(fid);
  Request request = request_of(ranges, descs, count, context);
  return ep.receive(request, ep.receive_flags());
}

ssize_t recv(fid_ep* fid, void* buffer, std::size_t length, void* desc, fi_addr_t from,
             void* context) {
  const iovec range{buffer, length};
  return recvv(fid, &range, &desc, 1, from, context);
}

ssize_t recvmsg(fid_ep* fid, const fi_msg* message, std::uint64_t flags) {
  Request request = request_of(message->msg_iov, message->desc, message->iov_count, message->context);
  return object<Endpoint>(fid).receive(request, flags);
}

ssize_t sendv(fid_ep* fid, const iovec* ranges, void** descs, std::size_t count,
              fi_addr_t, void* context) {
  auto& ep = object<Endpoint>(fid);
  Request request = request_of(ranges, descs, count, context);
  return ep.transmit(Endpoint::Way::kSend, request, ep.send_flags());
}

ssize_t send(fid_ep* fid, const void* buffer, std::size_t length, void* desc,
             fi_addr_t to, void* context) {
  const iovec range{const_cast<void*>(buffer), length};
  return sendv(fid, &range, &desc, 1, to, context);
}

ssize_t sendmsg(fid_ep* fid, const fi_msg* message, std::uint64_t flags) {
  Request request = request_of(message->msg_iov, message->desc, message->iov_count, message->context);
  request.data = message->data;
  return object<Endpoint>(fid).transmit(Endpoint::Way::kSend, request, flags);
}

ssize_t inject(fid_ep* fid, const void* buffer, std::size_t length, fi_addr_t) {
  const iovec range{const_cast<void*>(buffer), length};
  Request request;
  request.ranges = &range;
  request.count = 1;
  return object<Endpoint>(fid).transmit(Endpoint::Way::kSend, request, FI_INJECT | kSilent);
}

ssize_t senddata(fid_ep* fid, const void* buffer, std::size_t length, void* desc,
                 std::uint64_t data, fi_addr_t, void* context) {
  auto& ep = object<Endpoint>(fid);
  const iovec range{const_cast<void*>(buffer), length};
  Request request = request_of(&range, &desc, 1, context);
  request.data = data;
  return ep.transmit(Endpoint::Way::kSend, request, ep.send_flags() | FI_REMOTE_CQ_DATA);
}

ssize_t injectdata(fid_ep* fid, const void* buffer, std::size_t length,
                   std::uint64_t data, fi_addr_t) {
  const iovec range{const_cast<void*>(buffer), length};
  Request request;
  request.ranges = &range;
  request.count = 1;
  request.data = data;
  return object<Endpoint>(fid).transmit(Endpoint::Way::kSend, request,
                                        FI_INJECT | FI_REMOTE_CQ_DATA | kSilent);
}

// ------------------------------------------------------------------------------------ RDMA

ssize_t readv(fid_ep* fid, const iovec* ranges, void** descs, std::size_t count,
              fi_addr_t, std::uint64_t address, std::uint64_t key, void* context) {
  auto& ep = object<Endpoint>(fid);
  return transmit_rma(ep, Endpoint::Way::kRead, request_of(ranges, descs, count, context), address, key,
                      ep.send_flags() & ~FI_INJECT);
}

ssize_t read(fid_ep* fid, void* buffer, std::size_t length, void* desc, fi_addr_t from,
             std::uint64_t address, std::uint64_t key, void* context) {
  const iovec range{buffer, length};
  return readv(fid, &range, &desc, 1, from, address, key, context);
}

ssize_t readmsg(fid_ep* fid, const fi_msg_rma* message, std::uint64_t flags) {
  if ((flags & (FI_INJECT | FI_REMOTE_CQ_DATA)) != 0) return -FI_EBADFLAGS;
  Request request = request_of(*message);
  return object<Endpoint>(fid).transmit(Endpoint::Way::kRead, request, flags);
}

ssize_t writev(fid_ep* fid, const iovec* ranges, void** descs, std::size_t count,
               fi_addr_t, std::uint64_t address, std::uint64_t key, void* context) {
  auto& ep = object<Endpoint>(fid);
  return transmit_rma(ep, Endpoint::Way::kWrite, request_of(ranges, descs, count, context), address, key,
                      ep.send_flags());
}

ssize_t write(fid_ep* fid, const void* buffer, std::size_t length, void* desc,
              fi_addr_t to, std::uint64_t address, std::uint64_t key, void* context) {
  const iovec range{const_cast<void*>(buffer), length};
  return writev(fid, &range, &desc, 1, to, address, key, context);
}

ssize_t writemsg(fid_ep* fid, const fi_msg_rma* message, std::uint64_t flags) {
  Request request = request_of(*message);
  request.data = message->data;
  return object<Endpoint>(fid).transmit(Endpoint::Way::kWrite, request, flags);
}

ssize_t inject_write(fid_ep* fid, const void* buffer, std::size_t length, fi_addr_t,
                     std::uint64_t address, std::uint64_t key) {
  const iovec range{const_cast<void*>(buffer), length};
  return transmit_rma(object<Endpoint>(fid), Endpoint::Way::kWrite, request_of(&range, nullptr, 1, nullptr), address,
                      key, FI_INJECT | kSilent);
}

ssize_t writedata(fid_ep* fid, const void* buffer, std::size_t length, void* desc,
                  std::uint64_t data, fi_addr_t, std::uint64_t address,
                  std::uint64_t key, void* context) {
  auto& ep = object<Endpoint>(fid);
  const iovec range{const_cast<void*>(buffer), length};
  Request request = request_of(&range, &desc, 1, context);
  request.data = data;
  return transmit_rma(ep, Endpoint::Way::kWrite, request, address, key, ep.send_flags() | FI_REMOTE_CQ_DATA);
}

ssize_t inject_writedata(fid_ep* fid, const void* buffer, std::size_t length,
                         std::uint64_t data, fi_addr_t, std::uint64_t address,
                         std::uint64_t key) {
  const iovec range{const_cast<void*>(buffer), length};
  Request request = request_of(&range, nullptr, 1, nullptr);
  request.data = data;
  return transmit_rma(object<Endpoint>(fid), Endpoint::Way::kWrite, request, address, key,
                      FI_INJECT | FI_REMOTE_CQ_DATA | kSilent);
}

}  // namespace

fi_ops_msg Endpoint::msg_ops = {
    .size = sizeof(fi_ops_msg),
    .recv = recv,
    .recvv = recvv,
    .recvmsg = recvmsg,
    .send = send,
    .sendv = sendv,
    .sendmsg = sendmsg,
    .inject = inject,
    .senddata = senddata,
    .injectdata = injectdata,
};

fi_ops_rma Endpoint::rma_ops = {
    .size = sizeof(fi_ops_rma),
    .read = read,
    .readv = readv,
    .readmsg = readmsg,
    .write = write,
    .writev = writev,
    .writemsg = writemsg,
    .inject = inject_write,
    .writedata = writedata,
    .injectdata = inject_writedata,
};

}  // namespace viaduct::fabric
