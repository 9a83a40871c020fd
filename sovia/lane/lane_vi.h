// The VI connection below a lane: whether it is made, its end, and its destruction.
#ifndef VIADUCT_SOVIA_LANE_LANE_VI_H
#define VIADUCT_SOVIA_LANE_LANE_VI_H

#include <vipl/vipl.h>

#include <cstddef>
#include <cstdint>

#include "sovia/lane/process_nic.h"
#include "sovia/lane/remote_memory.h"
#include "sovia/lane/transport.h"

namespace viaduct::sovia {

class LaneVi {
 public:
  virtual Transport& transport() = 0;
  // Memory opened both ways; nullptr: the VI does no RDMA.
  virtual RemoteMemory* remote() = 0;
  // VIP_NOT_DONE while the peer has not answered, VIP_SUCCESS when it has.
  virtual VIP_RETURN connected() = 0;
  // Ends the connection. Packets that came before can still be taken.
  virtual void disconnect() = 0;
  virtual bool take(ProcessNic::Arrival& arrival) VIADUCT_REQUIRES(engine::g_turn) = 0;
  // Registers memory of the program's to write from (ProcessNic::take_memory).
  virtual std::uint32_t take_memory(const void* data, std::size_t bytes) = 0;
  virtual void give_back_memory(std::uint32_t memory) = 0;
  // Ends the connection and frees everything, this object included.
  virtual void destroy() VIADUCT_REQUIRES(engine::g_turn) = 0;

  ReceiveOwner receives;

 protected:
  ~LaneVi() = default;
};

}  // namespace viaduct::sovia

#endif
