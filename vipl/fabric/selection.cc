#include "vipl/fabric/selection.h"

#include <cstdlib>
#include <cstring>

namespace viaduct::fabric {
namespace {

// A list that begins with ^ names what is left out.
bool chooses(const char* variable, const char* provider) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '^' && std::strstr(value, provider) != nullptr;
}

}  // namespace

bool is_selected() {
  return chooses("FI_PROVIDER", "viaduct") || chooses("OMPI_MCA_mtl_ofi_provider_include", "viaduct");
}

// Ofi_rxm posts this number of receives of 16 KB for each connection. Its own choice, 128, costs 2 MB of memory for each peer, and
// clearing that is most of the time that connecting takes; more than 16 make no stream faster.
void prepare_ofi_rxm() {
  if (is_selected()) setenv("FI_OFI_RXM_MSG_RX_SIZE", "16", 0);
}

}  // namespace viaduct::fabric
