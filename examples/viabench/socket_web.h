// A web server's connections: requests of 16 bytes, answers of the case's size, `others` of them on each.
#ifndef VIADUCT_EXAMPLES_VIABENCH_SOCKET_WEB_H
#define VIADUCT_EXAMPLES_VIABENCH_SOCKET_WEB_H

#include <functional>

#include "examples/viabench/measure.h"
#include "examples/viabench/tcp_socket.h"

namespace viabench {

void web_near(const std::function<TcpSocket()>& connect, const Case& c, const Reporter& report);
void web_far(const TcpListener& listener, const Case& c);

}  // namespace viabench

#endif
