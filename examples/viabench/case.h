// A case: one thing that is measured, again in every round.
#ifndef VIADUCT_EXAMPLES_VIABENCH_CASE_H
#define VIADUCT_EXAMPLES_VIABENCH_CASE_H

#include <cstdint>
#include <string>

namespace viabench {

// A "-" stands for what does not apply. Words, not enumerations: they are what is sent to the other
// host, what the JSON says and what the table of bars names.
struct Case {
  std::string what;           // latency, bandwidth, rate, connect, register, idle, senders, memory; for the
                              // papers streams, fanin, fanout, hotspot (socket_crowd.h), web (socket_web.h)
  std::string transport;      // raw, tcp, hosted, granted, sovia, lanevi; copy: memcpy, beside register
  std::string wait = "-";     // poll, block
  std::string level = "-";    // ud, rd, rr; of sovia a configuration (sovia.h); of tcp nagle, for delay
  std::string offload = "-";  // on, off; kept: as the host has it
  std::uint32_t size = 0;     // bytes of a message; for memory, VIs
  std::uint32_t count = 0;    // messages, connections, registrations
  std::uint32_t others = 0;   // idle: connected VIs beside; senders: how many; memory: idle VIs; of the papers
                              // connections, requests on each, or, for latency on sovia, the window

  bool via() const { return transport == "hosted" || transport == "granted"; }

  // Whether there is a part for the other host.
  bool two_ends() const { return what != "register" && what != "memory"; }

  // "latency/hosted/poll/rd/4": all but the count.
  std::string id() const;

  // One line without a line feed, and back. Throws Failure when the line is not a case.
  std::string encode() const;
  static Case decode(const std::string& line);
};

// The figure that a measurement is about, and its unit.
struct Figure {
  const char* name;
  const char* unit;
  const char* title;
  bool less_is_better;
  bool many_sizes;  // is drawn, and shown, over the size of messages
};
const Figure& figure_of(const std::string& what);

}  // namespace viabench

#endif
