// The NIC that all objects of this provider in a process share: opening one takes a port of the
// agent's, and a connection that came for a passive endpoint can be accepted only with a VI of the
// same handle. One VIPL completion queue takes the completions of all VIs; each thread that
// looks hands them on to libfabric's queues (`progress`).
//
// Threads. Those of the program drive the connections that are established. Besides there are:
//   workers   connect: VipConnectRequest blocks. They end when there is nothing to do
//   watcher   looks while connections are being made, as the program may look at its event queue
//             only, and while sends wait for receives of the peer's; sleeps for completion queues that
//             the program waits for by poll(2)
// and one for each passive endpoint. None of them exists before there is something to do.
#ifndef VIADUCT_VIPL_FABRIC_SHARED_NIC_H
#define VIADUCT_VIPL_FABRIC_SHARED_NIC_H

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "vipl/fabric/names.h"
#include "vipl/fabric/provider.h"
#include "vipl/fabric/signal.h"
#include "vipl/fabric/workers.h"

namespace viaduct::fabric {

// Calls from a NIC to a link, with the NIC's mutex held.
class NicLink {
 public:
  virtual void on_send_done() = 0;
  virtual void on_receive_done() = 0;
  virtual void on_lost() = 0;
  // The link has something to send and had no receive for it: goes on if one has been promised.
  virtual void feed() = 0;

 protected:
  ~NicLink() = default;
};

// A queue that threads may sleep on. With the NIC's mutex held.
class NicQueue {
 public:
  // Raises the queue's signal if something has come. True: it did; the watcher leaves the queue alone until watch()
  // is called again.
  virtual bool tell_watched() = 0;

 protected:
  ~NicQueue() = default;
};

class SharedNic : public std::enable_shared_from_this<SharedNic> {
 public:
  // The process's NIC, opened if it is not open.
  static int open(std::shared_ptr<SharedNic>& nic);
  SharedNic(VIP_NIC_HANDLE handle, std::uintptr_t number);
  ~SharedNic();
  SharedNic(const SharedNic&) = delete;
  SharedNic& operator=(const SharedNic&) = delete;

  VIP_NIC_HANDLE handle() const { return handle_; }
  VIP_CQ_HANDLE queue() const { return queue_; }
  const VIP_NIC_ATTRIBUTES& attributes() const { return attributes_; }
  // The most bytes that one VIA message carries here.
  std::uint32_t transfer_bytes() const { return transfer_bytes_; }

  // Guards the links and completion queues of this NIC.
  std::mutex& mutex() { return mutex_; }

  Names& names() { return names_; }

  // All functions below are called with the mutex held.

  // Hands completions on to libfabric's queues.
  void progress();
  // The agent has gone, and the NIC with it.
  bool lost() const { return lost_; }

  void add(NicLink& link) { links_.insert(&link); }
  void remove(NicLink& link) { links_.erase(&link); }
  bool has(NicLink* link) const { return links_.contains(link); }

  // A connection is being made that goes on only when a thread looks; these are counted.
  void add_pending();
  void remove_pending() { --pending_; }

  // A link has something to send, but no receive has been promised for it. A promise wakes no sleeper when it comes.
  void add_starving(NicLink& link);
  void remove_starving(NicLink& link) { std::erase(starving_, &link); }
  bool starving() const { return !starving_.empty(); }
  // A link is backlogged from the time it starves until it has sent all: the program may not look at a queue
  // meanwhile.
  void add_backlogged();
  void remove_backlogged() { --backlogged_; }

  // Counts how often a link that had refused a program's operation had room again.
  void tell_room() { ++room_; }
  std::uint64_t room() const { return room_; }

  // Has a queue's signal raised when something comes for it.
  void watch(NicQueue& queue);
  void unwatch(NicQueue& queue) { watched_.erase(&queue); }
  void progress_always();

  // Runs a task in a worker, without the mutex.
  void run(std::function<void()> task) { workers_.run(std::move(task), shared_from_this()); }
  // Ends the workers that have nothing to do; to be called without the mutex.
  void end_idle_workers() { workers_.end_idle(); }

 private:
  static void on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error);

  bool prepare();
  void start_watcher();
  void watcher();
  void lose_all();
  void take_completions();
  void dispatch(VIP_VI_HANDLE vi, bool receive);

  const VIP_NIC_HANDLE handle_;
  const std::uintptr_t number_;
  VIP_CQ_HANDLE queue_ = nullptr;
  VIP_NIC_ATTRIBUTES attributes_{};
  std::uint32_t transfer_bytes_ = 0;

  std::mutex mutex_;
  std::set<NicLink*> links_;
  unsigned pending_ = 0;
  std::vector<NicLink*> starving_;
  unsigned backlogged_ = 0;
  std::uint64_t room_ = 0;
  bool polls_always_ = false;
  bool lost_ = false;

  std::set<NicQueue*> watched_;
  std::thread watcher_;
  std::condition_variable watcher_news_;
  Signal wake_watcher_;
  std::chrono::microseconds nap_{};
  enum { kAwake, kIdle, kPolling, kPollingBriefly } watcher_state_ = kAwake;  // kIdle: until it is told of something
  bool stopping_ = false;

  Workers workers_{mutex_};
  Names names_;
};

}  // namespace viaduct::fabric

#endif
