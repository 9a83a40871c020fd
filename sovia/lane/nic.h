// The VIA NIC of the process, and the VI of a lane on it.
//
// A process has one NIC, that of the first connection that is worth a lane; connections over other
// interfaces stay with the kernel. All receive queues are on one completion queue.
#ifndef VIADUCT_SOVIA_LANE_NIC_H
#define VIADUCT_SOVIA_LANE_NIC_H

#include <vipl/vipl.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

#include "sovia/lane/lane.h"
#include "sovia/lane/registrations.h"
#include "sovia/lane/tcp_route.h"
#include "sovia/lane/wire.h"

namespace viaduct::sovia {

class LaneOwner;

// The owner of a VI's receives.
struct ReceiveOwner {
  LaneOwner* owner = nullptr;
};

// A descriptor, and its owner.
struct alignas(64) PostedReceive {
  VIP_DESCRIPTOR descriptor;
  ReceiveOwner* owner;
  std::uint32_t place;
};

class ViWire;

class Nic {
 public:
  // nullptr if no agent serves the interface. Takes tens of milliseconds. `on_lost` is called when the
  // agent has gone.
  static Nic* open(const char* interface, void (*on_lost)(Nic& nic));
  void close();
  void lost() { on_lost_(*this); }

  VIP_NIC_HANDLE handle() const { return nic_; }
  VIP_CQ_HANDLE cq() const { return cq_; }
  VIP_PROTECTION_HANDLE ptag() const { return ptag_; }
  const char* interface() const { return attributes_.Name; }
  const std::uint8_t* address() const { return attributes_.LocalNicAddress; }

  // One thing that has come for a lane. False if there is nothing.
  struct Arrival {
    ReceiveOwner* wire;
    bool lost;  // the VI's connection is over; the rest is void
    bool missing;  // ... before all came that the peer had sent
    std::uint32_t place, bytes, immediate;
  };
  bool next(Arrival& arrival);
  // The same for an entry of the completion queue that has been taken off already.
  static bool take(VIP_VI_HANDLE vi, Arrival& arrival);

  // Memory of the program's to send from, until give_back(). 0: it can't be had.
  VIP_MEM_HANDLE take_memory(const void* data, std::size_t bytes) {
    // Without a tag, so that lanes with tags of their own can send from it. The peer can't get at it.
    return registrations_.take(nic_, nullptr, data, bytes);
  }
  // Whether the program drives its own stack: then it needs no agent for each packet, and can forward packets to its
  // memory. True until the first VI tells.
  bool has_own_stack() const { return has_own_stack_.load(std::memory_order_relaxed); }
  void learn_stack_from(VIP_VI_HANDLE vi);
  void give_back_memory(VIP_MEM_HANDLE memory) { registrations_.give_back(nic_, memory); }

 private:
  friend class ViWire;
  explicit Nic(void (*on_lost)(Nic& nic));

  void (*const on_lost_)(Nic& nic);
  VIP_NIC_HANDLE nic_ = nullptr;
  VIP_PROTECTION_HANDLE ptag_ = nullptr;
  VIP_CQ_HANDLE cq_ = nullptr;
  VIP_NIC_ATTRIBUTES attributes_{};
  Registrations registrations_;
  std::atomic<bool> has_own_stack_{true};
};

// The owner of a wire: told of its packets and failures.
class LaneOwner {
 public:
  virtual void arrived(const Nic::Arrival& arrival) = 0;
  // The wire has refused to post something (Wire::failed).
  virtual void wire_failed() {}

 protected:
  ~LaneOwner() = default;
};

// A wire with a connection that can end: the VI below a lane.
class LaneVi : public Wire, public ReceiveOwner {
 public:
  // VIP_NOT_DONE while the peer has not answered, VIP_SUCCESS when it has.
  virtual VIP_RETURN connected() = 0;
  // Ends the connection. Packets that came before can still be taken.
  virtual void disconnect() = 0;
  virtual bool take(Nic::Arrival& arrival) = 0;
  void failed() override {
    if (owner != nullptr) owner->wire_failed();
  }
  // Memory of the program's to write from (Nic::take_memory).
  virtual std::uint32_t take_memory(const void* data, std::size_t bytes) = 0;
  virtual void give_back_memory(std::uint32_t memory) = 0;
  // All that is open to the peer is so no more.
  virtual void close_memories() = 0;
  // Ends the connection and frees everything, the wire included.
  virtual void destroy() = 0;
  // Nothing is on its way: memory that data has come to is given back until more comes.
  virtual void trim() {}

 protected:
  ~LaneVi() = default;
};

class ViWire final : public LaneVi {
 public:
  // A VI with all receives posted, asking for its peer. nullptr if something has run out.
  // `number`: of the lane on this connection.
  static ViWire* make(Nic& nic, const LanePlaces& places, const Flow& flow,
                      const std::uint8_t (&peer)[6], std::uint32_t number,
                      std::uint32_t timeout_ms);

  VIP_RETURN connected() override;
  void disconnect() override;
  bool take(Nic::Arrival& arrival) override { return Nic::take(vi_, arrival); }
  std::uint32_t take_memory(const void* data, std::size_t bytes) override { return nic_.take_memory(data, bytes); }
  void give_back_memory(std::uint32_t memory) override { nic_.give_back_memory(memory); }
  void destroy() override;
  void trim() override;

  std::byte* data_chunk(std::uint32_t place) override;
  std::byte* control_bytes(std::uint32_t place) override;
  std::byte* received(std::uint32_t place) override;
  bool post_data(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) override;
  bool post_control(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) override;
  bool post_memory(std::uint32_t place, const std::byte* data, std::uint32_t bytes,
                   std::uint32_t memory, std::uint32_t immediate) override;
  bool post_receive(std::uint32_t place) override;
  bool redirect(std::byte* to, std::uint32_t bytes, std::uint32_t memory) override;
  bool unredirect() override;
  void set_more(bool more) override;
  bool writes() const override { return ptag_ != nullptr; }
  bool post_write(std::uint32_t place, const std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                  std::uint64_t to, std::uint32_t to_memory) override;
  bool reads() const override { return reads_; }
  bool post_read(std::uint32_t place, std::byte* data, std::uint32_t bytes, std::uint32_t memory,
                 std::uint64_t from, std::uint32_t from_memory) override;
  std::uint32_t open_memory(std::byte* at, std::size_t bytes, Access access) override;
  void close_memory(std::byte* at, std::uint32_t memory) override;
  void close_memories() override;
  std::uint32_t completed() override;

 private:
  friend class Nic;
  using Posted = PostedReceive;

  ViWire(Nic& nic, const LanePlaces& places) : nic_(nic), places_(places) {}
  ~ViWire() = default;
  bool send(Posted& posted, const void* data, std::uint32_t bytes, std::uint32_t memory,
            std::uint32_t immediate);
  bool post_remote(std::uint32_t place, VIP_UINT16 operation, std::byte* data, std::uint32_t bytes,
                   std::uint32_t memory, std::uint64_t at, std::uint32_t at_memory);

  Nic& nic_;
  const LanePlaces places_;
  VIP_VI_HANDLE vi_ = nullptr;
  VIP_PROTECTION_HANDLE ptag_ = nullptr;  // its own, if the peer may write to memory of the program's
  VIP_MEM_HANDLE memory_ = 0;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  Posted *data_ = nullptr, *control_ = nullptr, *receive_ = nullptr, *writes_ = nullptr;
  std::byte *data_chunks_ = nullptr, *control_bytes_ = nullptr, *receive_chunks_ = nullptr;
  bool reads_ = false;  // RDMA read, both ways
  struct Opened {
    std::byte* at;
    VIP_MEM_HANDLE memory;
  };
  std::mutex opened_lock_;
  std::vector<Opened> opened_;  // to the peer
  // Small messages may share a frame, but not those with a fence, which waits for reads of remote memory.
  VIP_UINT16 fence_ = 0;
};

}  // namespace viaduct::sovia

#endif
