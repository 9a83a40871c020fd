// A NIC in the placement that a case asks for, and connections to the far end.
#ifndef VIADUCT_EXAMPLES_VIABENCH_VIA_LINK_H
#define VIADUCT_EXAMPLES_VIABENCH_VIA_LINK_H

#include <vipl.h>

#include <string>

#include "examples/common/endpoint.h"
#include "examples/common/nic.h"
#include "examples/viabench/measure.h"

namespace viabench {

class ViaLink {
 public:
  // Throws Failure when the NIC can't be had in this placement.
  ViaLink(const Case& c, const Site& site);

  via::Nic& nic() { return nic_; }
  VIP_VI_ATTRIBUTES attributes() const;
  bool reliable() const { return case_.level != "ud"; }
  bool blocks() const { return case_.wait == "block"; }

  // The far end: makes up an address, and says it. Then it waits for as many requests as `accept`
  // is called for.
  void listen(const Reporter& report);
  VIP_CONN_HANDLE await_request();
  void accept(VIP_VI_HANDLE vi);

  // The near end.
  void aim(const std::string& where);
  void connect(VIP_VI_HANDLE vi);

 private:
  const Case& case_;
  via::Nic nic_;
  via::Address local_, remote_;
};

// Whether VIPL programs on this host can be granted a port. Says why not in `reason`.
bool granted_available(const Site& site, std::string& reason);

}  // namespace viabench

#endif
