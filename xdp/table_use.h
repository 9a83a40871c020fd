// Threads beside the loop that use the descriptors of the agent. While there are any, the loop keeps its table of
// descriptors (HangGuard). Each has a TableUse of its own from before it begins.
#ifndef VIADUCT_XDP_TABLE_USE_H
#define VIADUCT_XDP_TABLE_USE_H

#include <atomic>

namespace viaduct {

class TableUse {
 public:
  TableUse() { ++count(); }
  TableUse(const TableUse&) : TableUse() {}
  ~TableUse() { --count(); }
  TableUse& operator=(const TableUse&) = delete;

  static bool any() { return count() != 0; }

 private:
  static std::atomic<unsigned>& count() {
    static std::atomic<unsigned> out{0};
    return out;
  }
};

}  // namespace viaduct

#endif
