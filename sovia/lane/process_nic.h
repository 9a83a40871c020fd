// The VIA NIC of the process.
//
// A process has one NIC, that of the first connection that is worth a lane; connections over other
// interfaces stay with the kernel. All receive queues are on one completion queue.
#ifndef VIADUCT_SOVIA_LANE_PROCESS_NIC_H
#define VIADUCT_SOVIA_LANE_PROCESS_NIC_H

#include <vipl/vipl.h>

#include <atomic>
#include <cstdint>

#include "sovia/lane/registrations.h"
#include "sovia/lane/tcp_route.h"
#include "sovia/lane/turn.h"

namespace viaduct::sovia {

class LaneOwner;

// The owner of a VI's receives, which is told of packets that come to them.
struct ReceiveOwner {
  LaneOwner* told = nullptr;
};

// A descriptor, and its owner.
struct alignas(64) PostedDescriptor {
  VIP_DESCRIPTOR descriptor;
  ReceiveOwner* owner;
  std::uint32_t place;
};

class ProcessNic {
 public:
  // Opens the NIC. nullptr if no agent serves the interface. Takes tens of milliseconds. `on_lost` is called when the
  // agent has gone.
  static ProcessNic* open(const char* interface, void (*on_lost)(ProcessNic& nic));
  void close();
  void lost() { on_lost_(*this); }

  VIP_NIC_HANDLE handle() const { return nic_; }
  VIP_CQ_HANDLE cq() const { return cq_; }
  VIP_PROTECTION_HANDLE ptag() const { return ptag_; }
  bool reads_remote() const { return (attributes_.RDMAReadSupport & VIP_SERVICE_RELIABLE_DELIVERY) != 0; }
  const char* interface() const { return attributes_.Name; }
  const std::uint8_t* address() const { return attributes_.LocalNicAddress; }

  // Something that has come for a lane: a packet, or the end of its connection. next() is false if there is nothing.
  struct Arrival {
    ReceiveOwner* owner;
    bool lost;  // the VI's connection is over; the rest is void
    bool missing;  // lost before all came that the peer had sent
    std::uint32_t place, bytes, immediate;
  };
  bool next(Arrival& arrival) VIADUCT_REQUIRES(engine::g_turn);
  // As next(), for an entry that has been taken off the completion queue already.
  static bool take(VIP_VI_HANDLE vi, Arrival& arrival) VIADUCT_REQUIRES(engine::g_turn);

  // Registers memory of the program's to send from, until give_back_memory(). 0: that can't be done.
  VIP_MEM_HANDLE take_memory(const void* data, std::size_t bytes) {
    // The memory has no protection tag, so that lanes with tags of their own can send from it. The peer has no access
    // to it.
    return registrations_.take(nic_, nullptr, data, bytes);
  }
  // Whether the program drives its own stack: then it needs no agent for each packet, and can forward packets to its
  // memory. True until learn_stack_from() has asked the first VI.
  bool has_own_stack() const { return has_own_stack_.load(std::memory_order_relaxed); }
  void learn_stack_from(VIP_VI_HANDLE vi);
  // Has `step` called in a process of its own when this one is gone (VipxSetFinisher). False: there is no such process.
  bool set_finisher(int (*step)(void* context));
  void give_back_memory(VIP_MEM_HANDLE memory) { registrations_.give_back(nic_, memory); }

 private:
  explicit ProcessNic(void (*on_lost)(ProcessNic& nic));

  void (*const on_lost_)(ProcessNic& nic);
  VIP_NIC_HANDLE nic_ = nullptr;
  VIP_PROTECTION_HANDLE ptag_ = nullptr;
  VIP_CQ_HANDLE cq_ = nullptr;
  VIP_NIC_ATTRIBUTES attributes_{};
  Registrations registrations_;
  std::atomic<bool> has_own_stack_{true};
};

// The object that is told of the packets and failures of a VI.
class LaneOwner {
 public:
  virtual void arrived(const ProcessNic::Arrival& arrival) VIADUCT_REQUIRES(engine::g_turn) = 0;
  // The transport has refused to post something (Transport::failed).
  virtual void transport_failed() = 0;

 protected:
  ~LaneOwner() = default;
};

}  // namespace viaduct::sovia

#endif
