// Results that a full run must have produced at least once; the list is in expected.cc.
#ifndef CONFORMANCE_EXPECTED_H
#define CONFORMANCE_EXPECTED_H

#include <span>

#include "records.h"

namespace conformance {

// The excuse for a result's absence.
enum class Unless {
  kNothing,
  kChoice,       // a provider may never give it; the text says why
  kNoCut,        // the link can't be cut in this run
  kNoKill,       // the provider can't be ended in this run
  kNoCutNoKill,  // neither
  kOneProcess,   // the peer is no process of its own
  kRdmaRead,     // the NIC can do RDMA read on some level
  kRdmaReadAll,  // the NIC can do RDMA read on all levels
  kNoRdmaRead,   // the NIC can't do RDMA read
};

struct ExpectedCode {
  Function function;
  VIP_RETURN code;
  Unless unless = Unless::kNothing;
  const char* why = "";
};
struct ExpectedStatus {
  std::uint32_t bit;  // or operation
  bool is_operation;
  Unless unless = Unless::kNothing;
  const char* why = "";
};
struct ExpectedError {
  VIP_ERROR_CODE error;
  Unless unless = Unless::kNothing;
  const char* why = "";
};
struct ExpectedResource {
  VIP_RESOURCE_CODE resource;
  Unless unless = Unless::kNothing;
  const char* why = "";
};

std::span<const ExpectedCode> expected_codes();  // by function, in the order of Function
std::span<const ExpectedStatus> expected_statuses();
std::span<const ExpectedError> expected_errors();
std::span<const ExpectedResource> expected_resources();
inline constexpr int kChecklistItems = 29;  // section 6.3

}  // namespace conformance

#endif
