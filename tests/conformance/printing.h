// How GoogleTest prints what VIPL returns, and names for tables.
#ifndef CONFORMANCE_PRINTING_H
#define CONFORMANCE_PRINTING_H

#include <vipl.h>

#include <iosfwd>
#include <string>

#include "types.h"

// In the namespaces of their types, where GoogleTest looks.
void PrintTo(VIP_RETURN code, std::ostream* out);
void PrintTo(VIP_VI_STATE state, std::ostream* out);
void PrintTo(VIP_ERROR_CODE code, std::ostream* out);
void PrintTo(VIP_RESOURCE_CODE code, std::ostream* out);

namespace conformance {

// "TIMEOUT"; "code 23" for what is not in the list.
std::string code_name(VIP_RETURN code);
std::string error_name(VIP_ERROR_CODE code);
std::string resource_name(VIP_RESOURCE_CODE code);
// "DONE|OP_RECEIVE|IMMEDIATE (0x90001)"
std::string status_name(std::uint32_t status);

void PrintTo(const Status& status, std::ostream* out);
void PrintTo(const Completion& completion, std::ostream* out);
void PrintTo(const ErrorEvent& event, std::ostream* out);
void PrintTo(const Address& address, std::ostream* out);
void PrintTo(const ViAttributes& attributes, std::ostream* out);

}  // namespace conformance

#endif
