// Samples of latency and bandwidth over a connected socket, whatever carries its data.
#ifndef VIADUCT_EXAMPLES_VIABENCH_SOCKET_TRANSFER_H
#define VIADUCT_EXAMPLES_VIABENCH_SOCKET_TRANSFER_H

#include "examples/viabench/measure.h"
#include "examples/viabench/tcp_socket.h"

namespace viabench {

// `agent`: an agent takes part, and its processor time counts.
void transfer_near(const TcpSocket& s, const Case& c, const Reporter& report, bool agent);
void transfer_far(const TcpSocket& s, const Case& c, const Reporter& report, bool agent);

}  // namespace viabench

#endif
