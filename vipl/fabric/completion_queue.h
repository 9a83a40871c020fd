// A completion queue of libfabric's. It is guarded by its NIC's mutex and grows, so nothing is lost.
#ifndef VIADUCT_VIPL_FABRIC_COMPLETION_QUEUE_H
#define VIADUCT_VIPL_FABRIC_COMPLETION_QUEUE_H

#include <memory>
#include <vector>

#include "vipl/fabric/completion.h"
#include "vipl/fabric/shared_nic.h"

namespace viaduct::fabric {

class Domain;

class CompletionQueue final : public fid_cq, private NicQueue {
 public:
  static int open(fid_domain* domain, fi_cq_attr* attr, fid_cq** cq, void* context);

  SharedNic& nic() { return *nic_; }
  void acquire() { ++users_; }
  void release() { --users_; }

  // These functions are called with the NIC's mutex held.
  void add(const Completion& completion);
  bool empty() const { return first_ == last_; }
  // Wakes waiting threads, without a completion.
  void interrupt();
  // Whether the program may sleep on the descriptor.
  int try_wait();

 private:
  CompletionQueue(Domain& domain, const fi_cq_attr& attr);
  ~CompletionQueue();

  bool tell_watched() override;

  static int close(struct fid* fid);
  static int control(struct fid* fid, int command, void* argument);
  static ssize_t read(fid_cq* cq, void* buffer, std::size_t count);
  static ssize_t readfrom(fid_cq* cq, void* buffer, std::size_t count, fi_addr_t* from);
  static ssize_t readerr(fid_cq* cq, fi_cq_err_entry* entry, std::uint64_t flags);
  static ssize_t sread(fid_cq* cq, void* buffer, std::size_t count, const void* condition,
                       int timeout);
  static ssize_t sreadfrom(fid_cq* cq, void* buffer, std::size_t count, fi_addr_t* from,
                           const void* condition, int timeout);
  static int signal(fid_cq* cq);
  static const char* strerror(fid_cq* cq, int status, const void* data, char* buffer,
                              std::size_t length);
  static fi_ops ops;
  static fi_ops_cq cq_ops;

  bool disturbed() const;
  void settle();
  ssize_t take(void* buffer, std::size_t count);
  void* copy(void* to, const Completion& completion) const;
  ssize_t wait(void* buffer, std::size_t count, std::size_t least, int timeout);
  bool failed() const { return ring_[first_ & (ring_.size() - 1)].error != 0; }
  std::size_t pending() const { return last_ - first_; }

  Domain& domain_;
  const std::shared_ptr<SharedNic> nic_;
  const fi_cq_format format_;
  WaitObject wait_;
  const bool counts_;  // waiting threads say for how many entries (FI_CQ_COND_THRESHOLD)

  std::vector<Completion> ring_;  // a power of two
  std::size_t first_ = 0;
  std::size_t last_ = 0;
  unsigned sleepers_ = 0;
  bool watched_ = false;  // the program may sleep on the descriptor
  bool interrupted_ = false;
  std::uint64_t room_ = 0;  // SharedNic::room() when waiting threads were last told
  unsigned users_ = 0;
};

}  // namespace viaduct::fabric

#endif
