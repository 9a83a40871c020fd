// An active endpoint: what a program sees of a link.
#ifndef VIADUCT_VIPL_FABRIC_ENDPOINT_H
#define VIADUCT_VIPL_FABRIC_ENDPOINT_H

#include <initializer_list>

#include "vipl/fabric/addresses.h"
#include "vipl/fabric/completion_queue.h"
#include "vipl/fabric/counter.h"
#include "vipl/fabric/link.h"

namespace viaduct::fabric {

class Domain;
class EventQueue;

class Endpoint final : public fid_ep, private LinkUser {
 public:
  static int open(fid_domain* domain, fi_info* info, fid_ep** ep, void* context);

  enum class Way { kSend, kWrite, kRead };
  // `flags` are those of the call; the endpoint's flags count where the call has none.
  ssize_t transmit(Way way, Request& request, std::uint64_t flags);
  ssize_t receive(Request& request, std::uint64_t flags);
  std::uint64_t send_flags() const { return send_flags_; }
  std::uint64_t receive_flags() const { return receive_flags_; }

 private:
  enum Counts { kSends, kReceives, kReads, kWrites, kRemoteWrites, kCounts };

  Endpoint(Domain& domain, const fi_info& info, Link* link);
  ~Endpoint();

  static int close(struct fid* fid);
  static int bind(struct fid* fid, struct fid* other, std::uint64_t flags);
  static int control(struct fid* fid, int command, void* argument);
  int bind_queue(CompletionQueue& queue, std::uint64_t flags);
  int bind_counter(Counter& counter, std::uint64_t flags);
  int enable();
  bool tells(std::initializer_list<Counts> kinds) const;
  void linger();
  static fi_ops ops;

  static int getopt(fid_t fid, int level, int name, void* value, std::size_t* length);
  static ssize_t receives_left(fid_ep* ep);
  static ssize_t sends_left(fid_ep* ep);
  static fi_ops_ep ep_ops;

  static int setname(fid_t fid, void* address, std::size_t length);
  static int getname(fid_t fid, void* address, std::size_t* length);
  static int getpeer(fid_ep* ep, void* address, std::size_t* length);
  static int connect(fid_ep* ep, const void* address, const void* data, std::size_t length);
  static int accept(fid_ep* ep, const void* data, std::size_t length);
  static int shutdown(fid_ep* ep, std::uint64_t flags);
  static fi_ops_cm cm_ops;

  // The operations that move data (endpoint_data.cc).
  static fi_ops_msg msg_ops;
  static fi_ops_rma rma_ops;

  void on_request(Link&, const Greeting&) override {}
  void on_accepted(const void* data, std::size_t bytes) override;
  void on_refused(int error, const void* data, std::size_t bytes) override;
  void on_established() override;
  void on_ended(Link& link) override;
  void on_sent(const Completion& completion, bool wanted, bool silent) override;
  void on_received(const Completion& completion, bool wanted) override;

  Domain& domain_;
  const std::shared_ptr<SharedNic> nic_;
  Link* link_;
  EventQueue* events_ = nullptr;
  CompletionQueue* send_queue_ = nullptr;
  CompletionQueue* receive_queue_ = nullptr;
  bool selective_sends_ = false;
  bool selective_receives_ = false;
  bool enabled_ = false;
  bool takes_written_data_;  // the program posts receives for RDMA writes with data
  const std::uint64_t caps_;
  std::uint64_t send_flags_;
  std::uint64_t receive_flags_;
  Counter* counters_[kCounts] = {};
  sockaddr_in name_{};
  PortClaim port_;  // the port that a passive endpoint had
};

}  // namespace viaduct::fabric

#endif
