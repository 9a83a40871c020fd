// Functions that libfabric calls: the provider, and of fabric and domain those that make other objects.
#include "vipl/fabric/completion_queue.h"
#include "vipl/fabric/counter.h"
#include "vipl/fabric/domain.h"
#include "vipl/fabric/endpoint.h"
#include "vipl/fabric/event_queue.h"
#include "vipl/fabric/fabric.h"
#include "vipl/fabric/info.h"
#include "vipl/fabric/memory.h"
#include "vipl/fabric/passive_endpoint.h"

namespace viaduct::fabric {

fi_provider provider = {
    .version = FI_VERSION(1, 0),
    .fi_version = FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION),
    .context = {},
    .name = "viaduct",
    .getinfo = get_info,
    .fabric = &Fabric::open,
    .cleanup = [] {},
};

fi_ops_fabric Fabric::fabric_ops = {
    .size = sizeof(fi_ops_fabric),
    .domain = &Domain::open,
    .passive_ep = &PassiveEndpoint::open,
    .eq_open = &EventQueue::open,
    .wait_open = &Fabric::no_wait_open,
    .trywait = &Fabric::try_wait,
    .domain2 = nullptr,
};

int Fabric::try_wait(fid_fabric*, struct fid** fids, int count) {
  for (int i = 0; i < count; ++i) {
    int error = -FI_ENOSYS;
    if (fids[i]->fclass == FI_CLASS_CQ) {
      auto& queue = object_of<CompletionQueue, fid_cq>(fids[i]);
      const std::lock_guard lock(queue.nic().mutex());
      error = queue.try_wait();
    } else if (fids[i]->fclass == FI_CLASS_EQ) {
      error = object_of<EventQueue, fid_eq>(fids[i]).try_wait();
    }
    if (error != 0) return error;
  }
  return 0;
}

fi_ops_domain Domain::domain_ops = {
    .size = sizeof(fi_ops_domain),
    .av_open = &Domain::no_av_open,
    .cq_open = &CompletionQueue::open,
    .endpoint = &Endpoint::open,
    .scalable_ep = &Domain::no_scalable,
    .cntr_open = &Counter::open,
    .poll_open = &Domain::no_poll_open,
    .stx_ctx = &Domain::no_shared_send,
    .srx_ctx = &Domain::no_shared_receive,
    .query_atomic = &Domain::no_atomic,
    .query_collective = &Domain::no_collective,
    .endpoint2 = nullptr,
};

}  // namespace viaduct::fabric
