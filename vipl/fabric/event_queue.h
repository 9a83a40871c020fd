// An event queue of libfabric's. It has a mutex of its own, which may be taken while a NIC's is held.
#ifndef VIADUCT_VIPL_FABRIC_EVENT_QUEUE_H
#define VIADUCT_VIPL_FABRIC_EVENT_QUEUE_H

#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "vipl/fabric/provider.h"
#include "vipl/fabric/signal.h"

namespace viaduct::fabric {

class Fabric;

struct Event {
  std::uint32_t kind = 0;                   // FI_CONNREQ ...
  std::vector<unsigned char> body;          // what fi_eq_read gives
  int error = 0;                            // FI_E...: an error of `fid`, with `body` as its data
  struct fid* fid = nullptr;
  fi_info* info = nullptr;  // of a request, the reader's to free
};

class EventQueue : public fid_eq {
 public:
  static int open(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** eq, void* context);

  void acquire();
  void release();

  void connection(std::uint32_t kind, struct fid* fid, fi_info* info, const void* data,
                  std::size_t bytes);
  void error(struct fid* fid, int error, const void* data, std::size_t bytes);
  // Forgets the events of an object that ends.
  void forget(const struct fid* fid);
  int try_wait();

 private:
  EventQueue(Fabric& fabric, const fi_eq_attr& attr);
  ~EventQueue();

  static int close(struct fid* fid);
  static int control(struct fid* fid, int command, void* argument);
  static ssize_t read(fid_eq* eq, std::uint32_t* event, void* buffer, std::size_t length,
                      std::uint64_t flags);
  static ssize_t readerr(fid_eq* eq, fi_eq_err_entry* entry, std::uint64_t flags);
  static ssize_t write(fid_eq* eq, std::uint32_t event, const void* buffer, std::size_t length,
                       std::uint64_t flags);
  static ssize_t sread(fid_eq* eq, std::uint32_t* event, void* buffer, std::size_t length,
                       int timeout, std::uint64_t flags);
  static const char* strerror(fid_eq* eq, int error, const void* data, char* buffer,
                              std::size_t length);
  static fi_ops ops;
  static fi_ops_eq eq_ops;

  void add(Event&& event);
  ssize_t take(std::uint32_t* event, void* buffer, std::size_t length, std::uint64_t flags);

  Fabric& fabric_;
  WaitObject wait_;
  std::mutex mutex_;
  std::condition_variable news_;
  std::deque<Event> events_;
  std::vector<unsigned char> error_data_;  // until the next read
  unsigned users_ = 0;
};

}  // namespace viaduct::fabric

#endif
