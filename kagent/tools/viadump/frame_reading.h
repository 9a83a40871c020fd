// The reading of a captured frame by the stack's own decoder (kagent/contract/wire.h).
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_FRAME_READING_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_FRAME_READING_H

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "kagent/contract/wire.h"

namespace viaduct::dump {

// Why any receiver drops a frame, whatever its destination.
enum class Refusal { kNone, kShort, kVersion, kType, kLength, kChecksum, kBody };

struct Reading {
  wire::Decoded decoded{};  // good up to kLength; payload: see is_whole
  Refusal refusal = Refusal::kNone;
  bool has_header = false;  // `decoded` is good
  bool is_whole = true;     // the frame was captured to its end; else payload and checksum are not judged,
                            // and `payload` is what there is of it
  std::uint32_t checksum = 0;  // the frame's checksum, if it is whole and has one
  bool has_checksum = false;
};

// `captured` begins with the Ethernet header; `length` is that on the wire.
Reading read_frame(std::span<const std::byte> captured, std::size_t length);

const char* type_word(wire::Type type);       // "DATA"
const char* refusal_word(Refusal refusal);    // "checksum"; kNone: ""
const char* operation_word(std::uint16_t flags);  // "write"

// A field of a frame under the name that the Wireshark dissector has for it, without "viaduct.".
struct Field {
  const char* name;
  std::string value;   // decimal, 0x..., an address, bytes in hexadecimal
  bool is_number = false;  // decimal
};

// All fields, in the order of the frame; a name may be there more than once in packed frames.
std::vector<Field> fields_of(const Reading& reading);

std::string address_text(const MacAddress& address);

}  // namespace viaduct::dump

#endif
