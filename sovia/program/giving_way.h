// The program wants a number that one of the library's descriptors has.
#ifndef VIADUCT_SOVIA_PROGRAM_GIVING_WAY_H
#define VIADUCT_SOVIA_PROGRAM_GIVING_WAY_H

#include <mutex>

#include "sovia/process/signals.h"

namespace viaduct::sovia {

// Takes the library away from the number, until the program has made it its own. An event descriptor gets another
// number. For one of the NIC's every connection leaves its lane and the NIC is closed; it is opened again, at other
// numbers, when a connection is next worth a lane, but not while this lives.
class GivingWay {
 public:
  explicit GivingWay(int fd);
  ~GivingWay();
  GivingWay(const GivingWay&) = delete;
  GivingWay& operator=(const GivingWay&) = delete;

  // Whether the number is the library's no longer.
  bool done() const { return done_; }

 private:
  void close_nic();

  const signals::Inside inside_;
  const std::scoped_lock<std::mutex> guard_;
  bool done_;
  bool nic_closed_ = false;
};

}  // namespace viaduct::sovia

#endif
