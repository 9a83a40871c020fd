#include "sovia/program/giving_way.h"

#include <vipl/vipl_ext.h>

#include "sovia/background/background.h"
#include "sovia/datagram/datagram_table.h"
#include "sovia/lane/waiting.h"
#include "sovia/poll/epoll_set.h"
#include "sovia/process/libc.h"
#include "sovia/process/own_descriptors.h"
#include "sovia/socket/background_requests.h"
#include "sovia/socket/socket.h"
#include "sovia/socket/table.h"

namespace viaduct::sovia {
namespace {

constinit std::mutex g_lock;

bool move_event(int fd) {
  return waiting::give_number(fd) || background::requests().poke.move_from(fd) || epoll_sets::give_number(fd);
}

bool vipl_has_left(int fd) { return !own_descriptors::is_of_vipl(fd) || VipxVacate(fd) != 0; }

// Threads that sleep in VIPL hear that the NIC has gone, and leave what they sleep on.
bool await_vipl(int fd) {
  constexpr std::uint64_t kPatienceNs = 1'000 * kMs;
  constexpr timespec kMoment{0, 100'000};
  for (const std::uint64_t until = now_ns() + kPatienceNs; now_ns() < until;) {
    if (vipl_has_left(fd)) return true;
    libc::ppoll(nullptr, 0, &kMoment, nullptr);
  }
  return false;
}

}  // namespace

GivingWay::GivingWay(int fd) : guard_(g_lock), done_(true) {
  const KeepErrno keep;
  // In a child that has its parent's memory the numbers of the parent stay what they are.
  if (!signals::is_own_memory() || move_event(fd)) return;
  if (own_descriptors::is_of_vipl(fd)) {
    if (!vipl_has_left(fd)) {
      close_nic();
      await_vipl(fd);
    }
    own_descriptors::count_vipl(VipxDescriptors);  // what has another number may have a lower one
  }
  done_ = !own_descriptors::has(fd);
}

void GivingWay::close_nic() {
  table::for_each(
      [](int each, Socket& socket, void*) {
        socket.leave(each, Reason::kResources);
        socket.gather(each);
      },
      nullptr);
  datagram::table::give_up_all(Reason::kResources, false);
  background::stop();
  nic_closed_ = true;
}

GivingWay::~GivingWay() {
  if (nic_closed_) background::resume();
}

}  // namespace viaduct::sovia
