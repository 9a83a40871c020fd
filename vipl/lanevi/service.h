// The program from the time that its interface is there to its end.
#ifndef VIADUCT_VIPL_LANEVI_SERVICE_H
#define VIADUCT_VIPL_LANEVI_SERVICE_H

#include <memory>

#include "vipl/lanevi/counters.h"
#include "vipl/lanevi/link.h"
#include "vipl/lanevi/options.h"
#include "vipl/lanevi/tun.h"

namespace viaduct::lanevi {

class Service {
 public:
  // Blocks the signals that it takes: to be made before there are threads. Throws Failure.
  Service(const Options& options, Tun& tun);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Runs until SIGTERM or SIGINT. Throws Failure.
  void run();

 private:
  void open_link();
  void make_link(VIP_NIC_HANDLE nic);
  void carry();
  void wait_for_agent();
  void take_signals();
  void drop_packets();

  const Options& options_;
  Tun& tun_;
  Counters counters_;
  std::unique_ptr<Link> link_;
  int signals_ = -1;
  bool stopped_ = false;
  bool no_agent_reported_ = false;
  bool had_link_ = false;
};

}  // namespace viaduct::lanevi

#endif
