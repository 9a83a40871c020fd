#include "vipl/fabric/missing_agent.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "vipl/fabric/provider.h"
#include "vipl/fabric/selection.h"
#include "vipl/vipl_ext.h"

namespace viaduct::fabric {
namespace {

// Whether another process of the same job and host tells it.
bool is_told_by_another() {
  for (const char* const rank : {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID"}) {
    const char* const value = std::getenv(rank);
    if (value != nullptr && std::strcmp(value, "0") != 0) return true;
  }
  return false;
}

}  // namespace

void tell_of_missing_agent(VIP_RETURN code) {
  static std::atomic<bool> told{false};
  if (!is_selected() || is_told_by_another() || told.exchange(true)) return;
  char host[64] = "this host";
  gethostname(host, sizeof host - 1);
  char line[256];
  const int bytes = std::snprintf(line, sizeof line, "viaduct: %s: no agent serves %s, start viad(8): %s\n", host, device_name(),
                                  VipxReturnText(code));
  // One write, as many hosts may write to the same place.
  if (bytes > 0 && ::write(STDERR_FILENO, line, static_cast<std::size_t>(bytes)) < 0) return;
}

}  // namespace viaduct::fabric
