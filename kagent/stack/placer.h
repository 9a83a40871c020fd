// Writes received data to programs: collected over a burst, written by one system call.
#ifndef VIADUCT_KAGENT_STACK_PLACER_H
#define VIADUCT_KAGENT_STACK_PLACER_H

#include <sys/uio.h>

#include <cstdint>
#include <span>

#include "kagent/stack/tables.h"
#include "kagent/stack/target.h"
#include "kagent/stack/vi_table.h"

namespace viaduct {

template <class Platform>
class Placer : private ViTable {
 public:
  Placer(const Tables& tables, typename Platform::Environment& environment)
      : ViTable(tables), environment_(environment) {}

  inline void place(ViIndex vi, const Target& target, std::uint32_t offset,
                    std::span<const std::byte> payload);
  void place_at(ViIndex vi, std::uint64_t address, std::span<const std::byte> data, bool last);
  bool flush_placement();
  // Writes the data of this VI that was collected, if there is some.
  void flush_of(ViIndex vi) {
    if (placing_ == vi) flush_placement();
  }

 private:
  static constexpr std::uint32_t kMaxPieces = 256;  // collected before they are written
  // Data on its way to a program.
  struct Pieces {
    iovec remote[kMaxPieces], local[kMaxPieces];
    std::uint32_t remotes = 0, locals = 0;
  };

  inline void begin_placing(ViIndex vi, std::span<const std::byte> data);
  inline void place_piece(std::uint64_t address, std::uint64_t length);

  typename Platform::Environment& environment_;
  ViIndex placing_ = state::kNone;  // VI that pieces_ holds data for
  Pieces pieces_;
};

}  // namespace viaduct

#endif
