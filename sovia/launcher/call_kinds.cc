#include "sovia/launcher/call_kinds.h"

#include <map>

#include "sovia/preload/symbols.h"

namespace viaduct::sovia::launcher {
namespace {

std::map<std::string, CallKind> make_kinds() {
  std::map<std::string, CallKind> kinds;
#define SOVIA_IS(kind) [&](const char* symbol) { kinds[symbol] = CallKind::kind; }
#define SOVIA_ADD(symbol, ...) add(#symbol);
  {
    const auto add = SOVIA_IS(kData);
    SOVIA_DATA_SYMBOLS(SOVIA_ADD) SOVIA_DATA_SYMBOLS_BY_HAND(SOVIA_ADD)
  }
  {
    const auto add = SOVIA_IS(kReady);
    SOVIA_READY_SYMBOLS(SOVIA_ADD) SOVIA_READY_SYMBOLS_BY_HAND(SOVIA_ADD)
  }
  {
    const auto add = SOVIA_IS(kStdio);
    SOVIA_STDIO_SYMBOLS(SOVIA_ADD)
  }
  {
    const auto add = SOVIA_IS(kConnection);
    SOVIA_CONNECTION_SYMBOLS(SOVIA_ADD)
  }
  {
    const auto add = SOVIA_IS(kDescriptor);
    SOVIA_DESCRIPTOR_SYMBOLS(SOVIA_ADD) SOVIA_DESCRIPTOR_SYMBOLS_BY_HAND(SOVIA_ADD)
  }
  {
    const auto add = SOVIA_IS(kProcess);
    SOVIA_PROCESS_SYMBOLS(SOVIA_ADD) SOVIA_PROCESS_SYMBOLS_BY_HAND(SOVIA_ADD)
  }
  {
    const auto add = SOVIA_IS(kLeaving);
    SOVIA_LEAVING_SYMBOLS(SOVIA_ADD) add("io_submit");
  }
  {
    const auto add = SOVIA_IS(kKernel);
    for (const char* const symbol : {"bind", "listen", "getsockname", "getpeername"}) add(symbol);
  }
  {
    // Functions by which a program can make system calls past the C library's functions for sockets.
    const auto add = SOVIA_IS(kUnseen);
    for (const char* const symbol : {"syscall", "clone", "dlmopen", "rcmd", "rexec"}) add(symbol);
  }
  {
    const auto add = SOVIA_IS(kRefused);
    SOVIA_RING_SYMBOLS_BY_HAND(SOVIA_ADD)
  }
  {
    const auto add = SOVIA_IS(kLookedUp);
    for (const char* const symbol : {"dlopen", "dlsym", "dlvsym"}) add(symbol);
  }
#undef SOVIA_ADD
#undef SOVIA_IS
  return kinds;
}

}  // namespace

CallKind kind_of(const std::string& symbol) {
  static const std::map<std::string, CallKind> kinds = make_kinds();
  const auto found = kinds.find(symbol);
  return found == kinds.end() ? CallKind::kNone : found->second;
}

}  // namespace viaduct::sovia::launcher
