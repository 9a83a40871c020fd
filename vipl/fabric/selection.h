// Whether the user has chosen this provider, and what goes with the choice.
#ifndef VIADUCT_VIPL_FABRIC_SELECTION_H
#define VIADUCT_VIPL_FABRIC_SELECTION_H

namespace viaduct::fabric {

// The provider is chosen by name: by libfabric's variable, or by Open MPI's for its transport. Any thread may call it.
bool is_selected();

// Sets what ofi_rxm asks for on a connection, unless the environment says it. To be called before libfabric loads ofi_rxm.
void prepare_ofi_rxm();

}  // namespace viaduct::fabric

#endif
