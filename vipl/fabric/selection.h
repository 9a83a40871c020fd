// Whether the user has chosen this provider, and what goes with the choice.
#ifndef VIADUCT_VIPL_FABRIC_SELECTION_H
#define VIADUCT_VIPL_FABRIC_SELECTION_H

namespace viaduct::fabric {

// The provider is chosen by name: by libfabric's variable, or by Open MPI's for its transport. Any thread may call it.
bool is_selected();

// Has ofi_rxm post few receives for a connection, by a variable of the process's environment, where this provider is
// chosen and the variable is not set. To be called before libfabric initializes ofi_rxm, and by one thread.
void prepare_ofi_rxm();

}  // namespace viaduct::fabric

#endif
