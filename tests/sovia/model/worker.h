// Worker: a process of a program, which does the calls that the controller asks for.
#ifndef SOVIA_MODEL_WORKER_H
#define SOVIA_MODEL_WORKER_H

#include <netinet/in.h>

#include <string>
#include <vector>

#include "call.h"
#include "pattern.h"

namespace model {

class Worker {
 public:
  // `directory` has the controller's socket.
  Worker(std::string directory, int name);
  [[noreturn]] void serve();

 private:
  void hello();
  void answer(const Request& request, Reply& reply);
  void move(const Request& request, Reply& reply);
  void descriptors(const Request& request, Reply& reply);
  void readiness(const Request& request, Reply& reply);

  void listen(const Request& request, Reply& reply);
  void connect(const Request& request, Reply& reply);
  void warm(const Request& request, Reply& reply);
  void send(const Request& request, Reply& reply);
  void receive(const Request& request, Reply& reply);
  void fork(const Request& request, Reply& reply);
  void pass(const Request& request, Reply& reply);
  void take(Reply& reply);
  void settle(const Request& request, Reply& reply);

  std::string letters(int name) const;

  std::string directory_;
  int name_;
  int control_ = -1;
  int letters_ = -1;  // a Unix socket for descriptors
  Pattern pattern_;
  std::vector<char> buffer_;
};

// Bytes that the kernel's TCP has sent on a connection, those that were sent again too.
std::uint64_t kernel_bytes(int fd);

}  // namespace model

#endif
