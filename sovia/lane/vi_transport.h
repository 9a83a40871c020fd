// The VI of a lane, on the process's NIC.
#ifndef VIADUCT_SOVIA_LANE_VI_TRANSPORT_H
#define VIADUCT_SOVIA_LANE_VI_TRANSPORT_H

#include <vipl/vipl.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "sovia/lane/lane_options.h"
#include "sovia/lane/lane_pages.h"
#include "sovia/lane/lane_vi.h"
#include "sovia/lane/tcp_route.h"
#include "sovia/lane/vi_remote_memory.h"

namespace viaduct::sovia {

class ViTransport final : public Transport, public LaneVi {
 public:
  // Makes a VI with the first receives posted, which asks for its peer. nullptr if something has run out. `number`: which
  // lane of the connection it is.
  static ViTransport* make(ProcessNic& nic, const LanePlaces& places, const Flow& flow,
                           const std::uint8_t (&peer)[6], std::uint32_t number, std::uint32_t timeout_ms)
      VIADUCT_REQUIRES(engine::g_turn);

  Transport& transport() override { return *this; }
  RemoteMemory* remote() override { return remote_ ? &*remote_ : nullptr; }
  VIP_RETURN connected() override;
  void disconnect() override;
  bool take(ProcessNic::Arrival& arrival) override VIADUCT_REQUIRES(engine::g_turn) {
    return ProcessNic::take(vi_, arrival);
  }
  std::uint32_t take_memory(const void* data, std::size_t bytes) override { return nic_.take_memory(data, bytes); }
  void give_back_memory(std::uint32_t memory) override { nic_.give_back_memory(memory); }
  void destroy() override VIADUCT_REQUIRES(engine::g_turn);

  std::byte* data_chunk(std::uint32_t place) override;
  std::byte* control_bytes(std::uint32_t place) override;
  std::byte* received(std::uint32_t place) override;
  bool post_data(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) override;
  bool post_control(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) override;
  bool post_memory(std::uint32_t place, const std::byte* data, std::uint32_t bytes,
                   std::uint32_t memory, std::uint32_t immediate) override;
  bool post_receive(std::uint32_t place) override;
  bool use_receives(std::uint32_t count) override;
  bool redirect(std::byte* to, std::uint32_t bytes, std::uint32_t memory) override;
  bool unredirect() override;
  void hold(bool holds) override;
  void set_patient(bool patient) override;
  void failed() override {
    if (receives.told != nullptr) receives.told->transport_failed();
  }
  std::uint32_t completed() override;

 private:
  ViTransport(ProcessNic& nic, const LanePlaces& places) : nic_(nic), pages_(places) {}
  ~ViTransport() = default;
  bool create();

  ProcessNic& nic_;
  VIP_VI_HANDLE vi_ = nullptr;
  VIP_PROTECTION_HANDLE ptag_ = nullptr;  // its own, if the peer may write to memory of the program's
  VIP_MEM_HANDLE memory_ = 0;
  LanePages pages_;
  std::uint32_t receives_used_ = 0;
  std::optional<ViRemoteMemory> remote_;
};

}  // namespace viaduct::sovia

#endif
