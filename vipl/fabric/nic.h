// The NIC that all objects of this provider in a process share: opening one takes a port of the
// agent's, and a connection that came for a passive endpoint can be accepted only with a VI of the
// same handle. One VIPL completion queue takes the completions of all VIs; what completes is handed on
// to libfabric's queues by whoever looks (`progress`).
//
// Threads. Those of the program drive the connections that are established. Besides there are:
//   workers   connect: VipConnectRequest blocks. They end when there is nothing to do
//   watcher   looks while connections are being made, as the program may look at its event queue
//             only, and while sends wait for receives of the peer's; sleeps for completion queues that
//             the program waits for by poll(2)
// and one for each passive endpoint. None of them exists before there is something to do.
#ifndef VIADUCT_VIPL_FABRIC_NIC_H
#define VIADUCT_VIPL_FABRIC_NIC_H

#include <netinet/in.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <unordered_map>
#include <vector>

#include "vipl/fabric/provider.h"
#include "vipl/fabric/signal.h"

namespace viaduct::fabric {

class CompletionQueue;
class Link;

class Nic : public std::enable_shared_from_this<Nic> {
 public:
  // The process's NIC, opened if nobody has it.
  static int open(std::shared_ptr<Nic>& nic);
  Nic(VIP_NIC_HANDLE handle, std::uintptr_t number);
  ~Nic();
  Nic(const Nic&) = delete;
  Nic& operator=(const Nic&) = delete;

  VIP_NIC_HANDLE handle() const { return handle_; }
  VIP_CQ_HANDLE queue() const { return queue_; }
  const VIP_NIC_ATTRIBUTES& attributes() const { return attributes_; }
  // Bytes of a message of VIA.
  std::uint32_t transfer_bytes() const { return transfer_bytes_; }

  // Guards the links and completion queues of this NIC.
  std::mutex& mutex() { return mutex_; }

  // All below, but for `resolve`, is called with the mutex held.

  // Hands completions on.
  void progress();
  // The agent has gone, and the NIC with it.
  bool lost() const { return lost_; }

  void add(Link& link) { links_.insert(&link); }
  void remove(Link& link) { links_.erase(&link); }
  bool has(Link* link) const { return links_.contains(link); }

  // A connection is being made that goes on when somebody looks; the count of them.
  void add_pending();
  void remove_pending() { --pending_; }

  // A link has something to send and no promise of a receive. When that comes nothing wakes who sleeps.
  void add_starving(Link& link);
  void remove_starving(Link& link) { std::erase(starving_, &link); }
  bool starving() const { return !starving_.empty(); }
  // From the time it starves until it has sent all: the program may not look at a queue meanwhile.
  void add_unattended();
  void remove_unattended() { --unattended_; }

  // Counts how often a link that had refused a program's operation had room again.
  void tell_room() { ++room_; }
  std::uint64_t room() const { return room_; }

  // Has a queue's signal raised when something comes for it.
  void watch(CompletionQueue& queue);
  void unwatch(CompletionQueue& queue) { watched_.erase(&queue); }
  void progress_always();

  // Runs a task in a worker.
  void run(std::function<void()> task);

  // The address of a host's NIC, of 6 bytes. Blocks, a second at most.
  bool resolve(in_addr address, VIP_UINT8* host);
  void forget(in_addr address);

 private:
  struct Registry;
  static Registry& registry();
  static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error);

  bool prepare();
  void start_watcher();
  void watcher();
  void worker();
  void lose_all();
  void take_completions();
  void dispatch(VIP_VI_HANDLE vi, bool receive);

  const VIP_NIC_HANDLE handle_;
  const std::uintptr_t number_;
  VIP_CQ_HANDLE queue_ = nullptr;
  VIP_NIC_ATTRIBUTES attributes_{};
  std::uint32_t transfer_bytes_ = 0;

  std::mutex mutex_;
  std::set<Link*> links_;
  unsigned pending_ = 0;
  std::vector<Link*> starving_;
  unsigned unattended_ = 0;
  std::uint64_t room_ = 0;
  bool always_ = false;
  bool lost_ = false;

  std::set<CompletionQueue*> watched_;
  std::thread watcher_;
  std::condition_variable watcher_news_;
  Signal wake_watcher_;
  std::chrono::microseconds nap_{};
  bool polling_ = false;
  bool brief_ = false;  // and for a short while only
  bool idle_ = false;   // it sleeps until it is told of something
  bool stopping_ = false;

  std::deque<std::function<void()>> tasks_;
  std::condition_variable task_news_;
  unsigned workers_ = 0;
  unsigned idle_workers_ = 0;

  std::mutex names_mutex_;
  std::unordered_map<std::uint32_t, std::uint64_t> names_;
};

}  // namespace viaduct::fabric

#endif
