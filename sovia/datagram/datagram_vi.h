// The VI of a datagram lane.
#ifndef VIADUCT_SOVIA_DATAGRAM_DATAGRAM_VI_H
#define VIADUCT_SOVIA_DATAGRAM_DATAGRAM_VI_H

#include "sovia/datagram/datagram_transport.h"
#include "sovia/lane/tcp_route.h"

namespace viaduct::sovia::datagram {

class DatagramVi final : public DatagramTransport {
 public:
  // Makes a VI with all receives posted, which asks for its peer. nullptr if something has run out.
  static DatagramVi* make(ProcessNic& nic, const Flow& flow, const std::uint8_t (&peer)[6],
                          std::uint32_t timeout_ms);

  VIP_RETURN connected() override;
  std::byte* to_send(std::uint32_t place) override;
  const std::byte* received(std::uint32_t place) override;
  bool post(std::uint32_t place, std::uint32_t bytes, std::uint32_t immediate) override;
  bool post_receive(std::uint32_t place) override;
  std::uint32_t completed() override;
  void destroy() override;

 private:
  explicit DatagramVi(ProcessNic& nic) : nic_(nic) {}
  ~DatagramVi() = default;
  bool map();

  ProcessNic& nic_;
  VIP_VI_HANDLE vi_ = nullptr;
  VIP_MEM_HANDLE memory_ = 0;
  std::byte* base_ = nullptr;
  std::size_t bytes_ = 0;
  PostedDescriptor* send_ = nullptr;
  PostedDescriptor* receive_ = nullptr;
  std::byte *send_places_ = nullptr, *receive_places_ = nullptr;
};

}  // namespace viaduct::sovia::datagram

#endif
