// The NIC and its addresses, and how errors are told.
#ifndef VIADUCT_EXAMPLES_COMMON_NIC_H
#define VIADUCT_EXAMPLES_COMMON_NIC_H

#include <vipl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>

namespace via {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

inline constexpr milliseconds kSlice{200};  // how often a wait looks at `stopped`

// Set by a signal: all threads end.
extern std::atomic<bool> stopped;

struct Failure : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The other side, or the agent, has ended the connection.
struct ConnectionLost : Failure {
  using Failure::Failure;
};

__attribute__((format(printf, 1, 2))) std::string format(const char* text, ...);
const char* return_text(VIP_RETURN code);
std::string status_text(std::uint32_t status);  // the error bits of a descriptor's status
std::string address_text(const std::uint8_t* address);
inline bool reliable(VIP_RELIABILITY_LEVEL level) { return level != VIP_SERVICE_UNRELIABLE; }
const char* reliability_text(VIP_RELIABILITY_LEVEL level);

// Throws Failure unless `code` is VIP_SUCCESS.
void check(VIP_RETURN code, const char* call);

// Room for an address with its discriminator.
class Address {
 public:
  VIP_NET_ADDRESS* get() { return reinterpret_cast<VIP_NET_ADDRESS*>(bytes_.data()); }
  std::uint8_t* host() { return get()->HostAddress; }
  std::uint8_t* discriminator() { return host() + get()->HostAddressLen; }

  void set_discriminator(const void* from, std::size_t bytes) {
    get()->DiscriminatorLen = static_cast<VIP_UINT16>(bytes);
    std::memcpy(discriminator(), from, bytes);
  }

 private:
  alignas(VIP_NET_ADDRESS) std::array<std::uint8_t, 512> bytes_{};
};

class Nic {
 public:
  explicit Nic(const std::string& device);
  ~Nic() { VipCloseNic(handle_); }
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  VIP_NIC_HANDLE handle() const { return handle_; }
  const VIP_NIC_ATTRIBUTES& attributes() const { return attributes_; }

  // This NIC's address without a discriminator.
  Address address() const;

  // Counts, from now on, messages that found no receive posted. On Unreliable Delivery that is all
  // that becomes of them.
  void count_refused();
  std::uint32_t refused(VIP_VI_HANDLE vi);
  void forget_refused(VIP_VI_HANDLE vi);

 private:
  static void on_error(void* context, VIP_ERROR_DESCRIPTOR* error);

  std::mutex lock_;
  std::map<VIP_VI_HANDLE, std::uint32_t> refused_;
  VIP_NIC_HANDLE handle_ = nullptr;
  VIP_NIC_ATTRIBUTES attributes_{};
};

}  // namespace via

#endif
