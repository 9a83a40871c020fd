// A host that tests make calls on: this process, or a peer at the other end of a control
// connection. Nic, Vi and the others of objects.h are what tests use; they are thin wraps of
// call().
#ifndef CONFORMANCE_HOST_H
#define CONFORMANCE_HOST_H

#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>

#include "operations.h"

namespace conformance {

// A call that has not returned in the time that any call may take.
struct Hung : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// The peer process has ended, or can't be reached.
struct PeerLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Host {
 public:
  virtual ~Host() = default;

  // May be called by many threads at a time. Throws Hung, PeerLost, or std::runtime_error with what
  // the executor threw.
  template <class Op, class... A>
  typename Op::Return call(const A&... arguments) {
    Executor* const local = executor();
    if (local != nullptr && (operation(Op::kNumber).takes == Takes::Short || left_to_others())) {
      return std::invoke(Op::kMethod, *local, arguments...);
    }
    Writer writer;
    writer(typename Op::Arguments(arguments...));
    Reader answer(perform_elsewhere(Op::kNumber, std::move(writer.bytes)));
    if constexpr (!std::is_void_v<typename Op::Return>) {
      typename Op::Return value;
      answer(value);
      return value;
    }
  }

  // "this host" or "the peer host", for messages.
  const std::string& name() const { return name_; }
  bool is_this_process() { return executor() != nullptr; }

 protected:
  explicit Host(std::string name) : name_(std::move(name)) {}
  // The executor, if it is in this process.
  virtual Executor* executor() { return nullptr; }
  // Carries an operation out where it may take long. Throws Hung when it takes too long.
  virtual std::string perform_elsewhere(OpNumber number, std::string arguments) = 0;

 private:
  std::string name_;
};
using HostPtr = std::shared_ptr<Host>;

// How long any call may take before it counts as hung. Far beyond every timeout that tests use.
void set_patience(std::chrono::milliseconds patience);
std::chrono::milliseconds patience();

// An executor of this process.
HostPtr make_local_host(std::string name);
// A session at a server. Throws PeerLost.
HostPtr make_remote_host(std::string name, const std::string& host, const std::string& port);

// The server: each session in a process of its own. Returns the exit status: 1 if one of the
// sessions ended badly. Ends on SIGTERM and SIGINT.
int serve(const std::string& port);

}  // namespace conformance

#endif
