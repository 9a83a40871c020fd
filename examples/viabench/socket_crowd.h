// Samples of many connections between two hosts, whatever carries their data.
//
//   streams  a stream on each of them, between two threads
//   fanin    the same, all to one thread
//   fanout   streams to all of them, from one thread
//   hotspot  messages to and fro on all of them, answered by one thread
#ifndef VIADUCT_EXAMPLES_VIABENCH_SOCKET_CROWD_H
#define VIADUCT_EXAMPLES_VIABENCH_SOCKET_CROWD_H

#include <functional>

#include "examples/viabench/measure.h"
#include "examples/viabench/tcp_socket.h"

namespace viabench {

bool is_crowd(const Case& c);

// `warm` is done at both ends of each connection before anything is measured.
using Warm = std::function<void(const TcpSocket&)>;
void crowd_near(const std::function<TcpSocket()>& connect, const Case& c, const Reporter& report, const Warm& warm);
void crowd_far(const TcpListener& listener, const Case& c, const Reporter& report, const Warm& warm);

}  // namespace viabench

#endif
