// Worker: a process of one end that runs cases, one after the other, until one goes wrong or wants
// to have been alone.
#ifndef SEMANTICS_WORKER_H
#define SEMANTICS_WORKER_H

#include <sys/types.h>

#include <string>

#include "case.h"
#include "options.h"

namespace semantics {

class Worker {
 public:
  // `peer` connects it with the worker at the other end.
  Worker(Role role, const Options& options, Peer peer);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();  // ends it and all that it has started

  // False if the worker is of no use any more: the case hung, crashed, or did not get to its end.
  // The transcript says so.
  bool run(const Registered& test);

 private:
  [[noreturn]] void serve(Peer& peer);
  std::string path(const Registered& test) const;

  Role role_;
  const Options& options_;
  pid_t pid_;
  int commands_ = -1, results_ = -1;  // in the parent
};

}  // namespace semantics

#endif
