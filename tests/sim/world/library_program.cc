// The main thread of a program that uses the real library.
#include <algorithm>

#include "tests/sim/world/failure.h"
#include "tests/sim/world/library_side.h"
#include "tests/sim/world/world.h"

namespace viaduct::sim {
namespace {

void on_error(void* context, VIP_ERROR_DESCRIPTOR* error) {
  auto& program = *static_cast<LibraryProgram*>(context);
  if (program.is_leaving() || error->NicHandle != program.nic) return;
  if (error->ErrorCode == VIP_ERROR_CATASTROPHIC) {
    if (!program.lost()) fail("program %u is told of an end that has not come", program.number);
    if (++program.catastrophes > 1) fail("program %u is told of its end twice", program.number);
  }
  program.word.fetch_add(1);
  Kernel::the().fibers.wake(&program.word, 1);
}

}  // namespace

LibraryProgram::LibraryProgram(Library& its_library, unsigned its_number, unsigned its_host,
                               bool is_granted)
    : library(its_library),
      number(its_number),
      host(its_host),
      granted(is_granted),
      random(its_library.world.plan.seed * 31 + its_number) {}

void LibraryProgram::spawn(const char* name, std::function<void()> work) {
  Kernel::the().fibers.start(this, name, std::move(work));
}

void LibraryProgram::born() {
  ++life;
  memory.reset();
  memory = std::make_unique<Memory>(number);
  dead_until = 0;
  closing = false;
  running = 0;
  socket = nullptr;
  tell("program %u begins on host %u%s", number, host,
       granted ? ", with a stack of its own" : "");
  spawn("main", [this] { main(); });
}

bool LibraryProgram::open() {
  const VIP_RETURN opened = VipOpenNic("sim", &nic);
  if (opened == VIP_ERROR_RESOURCE && !library.world.is_calm()) return false;
  if (opened != VIP_SUCCESS) fail("program %u: VipOpenNic says %d", number, opened);
  catastrophes = 0;
  listens = random.chance(0.5);
  if (listens && VipErrorCallback(nic, this, on_error) != VIP_SUCCESS) {
    fail("program %u: no error handler", number);
  }
  VIP_NIC_ATTRIBUTES attributes;
  if (VipQueryNic(nic, &attributes) != VIP_SUCCESS || attributes.NicAddressLen != 6) {
    fail("program %u: VipQueryNic", number);
  }
  return true;
}

void LibraryProgram::close() {
  const VIP_NIC_HANDLE before = nic;
  if (VipCloseNic(nic) != VIP_SUCCESS) fail("program %u: VipCloseNic", number);
  VIP_NIC_ATTRIBUTES attributes;
  if (VipQueryNic(before, &attributes) != VIP_INVALID_PARAMETER) {
    fail("program %u: a closed NIC is still there", number);
  }
  nic = nullptr;
}

bool LibraryProgram::has_work() const {
  return std::any_of(sides.begin(), sides.end(),
                     [](const LibrarySide* side) { return !side->finished(); });
}

void LibraryProgram::main() {
  Kernel& kernel = Kernel::the();
  while (!library.world.ending() && has_work()) {
    nic = nullptr;
    if (!open()) {
      nic = nullptr;
      kernel.sleep(random.between(1, 50) * kMsec);
      continue;
    }
    tell("program %u has opened the NIC", number);
    running = static_cast<unsigned>(sides.size());
    for (LibrarySide* const side : sides) spawn("side", [side] { side->run(); });
    // At times everything is closed while it is used.
    const std::uint64_t most = library.world.plan.span + kMsec;
    const std::uint64_t until =
        random.chance(0.2) ? library.now() + random.magnitude(10 * kUs, most) : ~0ull;
    while (running != 0 && library.now() < until) kernel.wait(&word, until);
    if (running != 0) {
      tell("program %u closes the NIC with everything open", number);
      for (LibrarySide* const side : sides) side->note_end();
      closing = true;
      close();
      kernel.fibers.wake(&word, 1 << 30);
      while (running != 0) kernel.wait(&word, ~0ull);
    } else {
      // The handler is told of the end, sooner or later.
      while (lost() && listens && catastrophes == 0) kernel.wait(&word, ~0ull);
      if (!lost()) library.check_slots(*this);
      close();
    }
    for (LibrarySide* const side : sides) side->nic_closed();
    closing = false;
    tell("program %u has closed the NIC", number);
    kernel.sleep(random.magnitude(kUs, 50 * kMsec));
  }
  done = true;
}

}  // namespace viaduct::sim
