// Frames on the TCP connection between the tests and a peer. Integers little-endian.
//
//   greeting, by the server   "vipl-conformance 1\n"
//   request    u32 bytes that follow | u64 call | u16 operation | arguments
//   answer     u32 bytes that follow | u64 call | u8 1: answer, 0: text of an exception | bytes
//
// Answers come in the order in which the calls return.
#ifndef CONFORMANCE_CONTROL_CHANNEL_H
#define CONFORMANCE_CONTROL_CHANNEL_H

#include <cstddef>
#include <string>

namespace conformance {

inline constexpr char kGreeting[] = "vipl-conformance 1\n";

// False when the connection has ended.
bool send_all(int fd, const std::string& bytes);
bool receive_all(int fd, std::size_t size, std::string* bytes);
// With the count before it; receive_frame without.
bool send_frame(int fd, const std::string& bytes);
bool receive_frame(int fd, std::string* bytes);

}  // namespace conformance

#endif
