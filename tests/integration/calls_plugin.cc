// A plug-in that makes calls on a socket of the program that has loaded it (calls_tool.cc).
#include <sys/socket.h>
#include <sys/types.h>

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED ssize_t plugin_send(int fd, const void* data, size_t bytes) { return send(fd, data, bytes, MSG_NOSIGNAL); }
EXPORTED ssize_t plugin_receive(int fd, void* data, size_t bytes) { return recv(fd, data, bytes, MSG_WAITALL); }
