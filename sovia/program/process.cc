#include "sovia/program/process.h"

#include <pthread.h>
#include <stdlib.h>

#include <atomic>

#include "sovia/background/background.h"
#include "sovia/process/counters.h"
#include "sovia/process/libc.h"
#include "sovia/process/options.h"
#include "sovia/process/signals.h"
#include "sovia/program/fork.h"
#include "sovia/program/gain.h"
#include "sovia/program/inheritance.h"
#include "sovia/program/stdio_streams.h"
#include "sovia/socket/fork_handoff.h"
#include "sovia/socket/socket.h"
#include "sovia/socket/table.h"
#include "sovia/sovia.h"
#include "vipl/vipl_ext.h"

namespace viaduct::sovia {

namespace process {
namespace {

constinit std::atomic<bool> g_watching{false};
constinit std::atomic<bool> g_finished{false};

}  // namespace

void watch() {
  if (g_watching.exchange(true)) return;
  pthread_atfork(fork::before, fork::in_parent, fork::in_child);
  at_quick_exit(finish);
}

void finish() {
  // Nothing is done inside a call: a signal handler that ends the process may have interrupted one that holds locks.
  if (signals::t_inside != 0 || g_finished.exchange(true)) return;
  const signals::Inside inside;
  const KeepErrno keep;
  background::farewell();
  table::for_each([](int fd, Socket& socket) {
    detach(socket);
    reset_if_unread(socket, fd);
    table::closing(fd);
  });
}

namespace {

// Runs once for each library that contains this file: libsovia, and the preload library. The environment is looked at
// here and nowhere else: later a thread of the program may be changing it.
[[gnu::constructor]] void begin() {
  libc::prepare();
  keep_environment();
  VipxKeepEnvironment();
  background::begin();
  watch();
  take_inheritance();
}

// Streams on sockets are written out here, as exit() does so only after the library has finished.
[[gnu::destructor]] void end() {
  streams::flush_all();
  finish();
  gain::tell();
}

}  // namespace
}  // namespace process
}  // namespace viaduct::sovia
