// The provider's behaviour: every return code of every function, every status bit of every completed descriptor, every
// error reported to a handler. One table for each process; the peer's is added to the tests' own at the end of every
// test. The counting is by relaxed atomics, so that it orders nothing between threads and hides no race from
// ThreadSanitizer.
#ifndef CONFORMANCE_RECORDS_H
#define CONFORMANCE_RECORDS_H

#include <vipl.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>

#include "archive.h"

namespace conformance {

// In the order of the reference and of the table.
#define CONFORMANCE_FUNCTIONS(F)                                                               \
  F(OpenNic)                                                                                   \
  F(CloseNic)                                                                                  \
  F(QueryNic)                                                                                  \
  F(CreatePtag) F(DestroyPtag) F(RegisterMem) F(DeregisterMem) F(QueryMem) F(SetMemAttributes) \
      F(CreateVi) F(DestroyVi) F(QueryVi) F(SetViAttributes) F(ConnectWait) F(ConnectAccept)   \
          F(ConnectReject) F(ConnectRequest) F(Disconnect) F(ConnectPeerRequest)               \
              F(ConnectPeerDone) F(ConnectPeerWait) F(PostSend) F(PostRecv) F(SendDone)        \
                  F(RecvDone) F(SendWait) F(RecvWait) F(SendNotify) F(RecvNotify) F(CreateCQ)  \
                      F(DestroyCQ) F(ResizeCQ) F(CQDone) F(CQWait) F(CQNotify) F(NSInit)       \
                          F(NSGetHostByName) F(NSGetHostByAddr) F(NSShutdown) F(ErrorCallback) \
                              F(QuerySystemManagementInfo) F(AddTagCQ) F(RemoveTagCQ)          \
                                  F(PostDeferredSends) F(SetUserData) F(GetUserData)

enum class Function : std::uint8_t {
#define F(name) k##name,
  CONFORMANCE_FUNCTIONS(F)
#undef F
      kCount
};
inline constexpr std::size_t kFunctions = static_cast<std::size_t>(Function::kCount);
inline constexpr std::size_t kCodes = 17;         // VIP_RETURN
inline constexpr std::size_t kErrorCodes = 11;    // VIP_ERROR_CODE
inline constexpr std::size_t kResourceCodes = 4;  // VIP_RESOURCE_CODE
inline constexpr std::size_t kOperations = 8;     // VIP_STATUS_OP_*, shifted down

// "VipOpenNic".
const char* function_name(Function function);

// How often each was seen. A code out of range counts in `unknown`.
struct Counts {
  std::array<std::array<std::uint64_t, kCodes>, kFunctions> codes{};
  std::array<std::uint64_t, 32> status_bits{};
  std::array<std::uint64_t, kOperations> operations{};
  std::array<std::array<std::uint64_t, kResourceCodes>, kErrorCodes> errors{};
  std::uint64_t unknown = 0;

  template <class A>
  void fields(A& archive) {
    for (auto& row : codes) {
      for (auto& n : row) archive(n);
    }
    for (auto& n : status_bits) archive(n);
    for (auto& n : operations) archive(n);
    for (auto& row : errors) {
      for (auto& n : row) archive(n);
    }
    archive(unknown);
  }
};

void record_code(Function function, VIP_RETURN code);
void record_status(std::uint32_t status);
void record_error(VIP_ERROR_CODE error, VIP_RESOURCE_CODE resource);
// The counts of this process, without those of peers.
Counts recorded();
// Adds a peer's.
void add_recorded(const Counts& counts);

// A call that is under way in this thread, for the watchdog. Nothing but the outermost counts.
class InFlight {
 public:
  explicit InFlight(const char* what);
  ~InFlight();
  InFlight(const InFlight&) = delete;
  InFlight& operator=(const InFlight&) = delete;

 private:
  bool outermost_;
};

// Calls in this thread may hang: another thread waits for them, with its own time limit.
void leave_to_others();
bool left_to_others();

// A call that has been under way for longer than `limit`, or nothing.
std::string overdue_call(std::chrono::milliseconds limit);

template <class Call>
VIP_RETURN make_recorded(Function function, Call call) {
  const InFlight in_flight(function_name(function));
  const VIP_RETURN code = call();
  record_code(function, code);
  return code;
}

// VIP(CreateCQ, nic, 16, &cq): calls VipCreateCQ, as every call of the suite is made.
#define VIP(name, ...)                                           \
  ::conformance::make_recorded(::conformance::Function::k##name, \
                               [&] { return ::Vip##name(__VA_ARGS__); })

}  // namespace conformance

#endif
