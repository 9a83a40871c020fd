// A passive endpoint: waits for connections in a thread of its own, and hands requests to its event
// queue.
#ifndef VIADUCT_VIPL_FABRIC_PASSIVE_ENDPOINT_H
#define VIADUCT_VIPL_FABRIC_PASSIVE_ENDPOINT_H

#include <pthread.h>

#include <atomic>
#include <set>

#include "vipl/fabric/addresses.h"
#include "vipl/fabric/link.h"

namespace viaduct::fabric {

class EventQueue;
class Fabric;
class PassiveEndpoint;

// The request that FI_CONNREQ names, until it is accepted or rejected.
struct ConnectionRequest {
  struct fid fid;
  Link* link;
  PassiveEndpoint* owner;

  // The link of a request that is not taken yet; nullptr if there is none. To be called with the NIC's mutex held.
  static Link* take(SharedNic& nic, struct fid* handle);
};

class PassiveEndpoint final : public fid_pep, private LinkUser {
 public:
  static int open(fid_fabric* fabric, fi_info* info, fid_pep** pep, void* context);

  // The open passive endpoint with this handle; nullptr if there is none. To be called with the NIC's mutex held.
  static PassiveEndpoint* find(struct fid* handle);
  // Gives the passive endpoint's address and port to an active endpoint; the passive one can only be closed then.
  // Returns 0, or an error.
  int give_address(sockaddr_in& name, PortClaim& port);

 private:
  friend struct ConnectionRequest;

  PassiveEndpoint(Fabric& fabric, fi_info* info);
  ~PassiveEndpoint();

  static int close(struct fid* fid);
  static int bind(struct fid* fid, struct fid* other, std::uint64_t flags);
  static int control(struct fid* fid, int command, void* argument);
  static int getopt(fid_t fid, int level, int name, void* value, std::size_t* length);
  static int setname(fid_t fid, void* address, std::size_t length);
  static int getname(fid_t fid, void* address, std::size_t* length);
  static int listen(fid_pep* pep);
  static int reject(fid_pep* pep, fid_t handle, const void* data, std::size_t length);
  static fi_ops ops;
  static fi_ops_ep ep_ops;
  static fi_ops_cm cm_ops;

  void on_request(Link& link, const Greeting& greeting) override;
  void on_accepted(const void*, std::size_t) override {}
  void on_refused(int, const void*, std::size_t) override {}
  void on_established() override {}
  void on_ended(Link& link) override;
  void on_sent(const Completion&, bool, bool) override {}
  void on_received(const Completion&, bool) override {}

  int claim();
  void run();
  void await_request();

  Fabric& fabric_;
  const std::shared_ptr<SharedNic> nic_;
  fi_info* const info_;
  EventQueue* events_ = nullptr;
  PortClaim port_;
  sockaddr_in name_{};

  bool listening_ = false;
  bool address_given_ = false;
  std::size_t backlog_;  // how many connections may lack their request or its answer at once
  std::atomic<bool> stopping_ = false;
  pthread_t thread_{};
  std::set<Link*> calling_;                // no request has come from them yet
  std::set<ConnectionRequest*> requests_;  // not taken yet
};

}  // namespace viaduct::fabric

#endif
