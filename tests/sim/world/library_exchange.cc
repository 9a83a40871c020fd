// Messages of a side: posting them, and taking back what was posted.
#include <poll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "tests/sim/world/failure.h"
#include "tests/sim/world/library_job.h"
#include "tests/sim/world/pattern.h"
#include "vipl/vipl_ext.h"

namespace viaduct::sim {
namespace {

constexpr std::uint64_t kPatience = 20 * kMsec;  // for messages that may have been lost
constexpr std::uint32_t kHarmless =  // the end of a connection sets these in descriptors
    VIP_STATUS_DESC_FLUSHED_ERROR | VIP_STATUS_PARTIAL_ERROR | VIP_STATUS_TRANSPORT_ERROR;

// Immediate data tells which message of which connection this is.
std::uint32_t label(const Connection& c, std::uint32_t number) {
  return c.number << 16 | (number & 0xffff);
}

}  // namespace

std::uint32_t LibrarySide::batch_size(unsigned side, unsigned number) const {
  return 1 + static_cast<std::uint32_t>(mix(options_.job * 2 + side, number) % options_.window);
}

// A few are empty, most are small.
std::uint32_t LibrarySide::size_of(std::uint64_t stream, std::uint64_t number) const {
  const std::uint64_t draw = mix(stream ^ 0x517e, number);
  const std::uint64_t kind = draw % 8;
  const std::uint64_t most = kind == 0 ? 2 : kind < 5 ? 500 : options_.largest + 1ull;
  return static_cast<std::uint32_t>((draw >> 8) %
                                    std::min<std::uint64_t>(most, options_.largest + 1));
}

// ---------------------------------------------------------------------------- posting

void LibrarySide::come_back(Item& item, bool receive) {
  item.back.store(1);
  item.buffer->status = nullptr;
  (receive ? free_in_ : free_out_).push_back(&item);
}

void LibrarySide::post(bool receive, Item& item) {
  item.back.store(0);
  item.buffer->status = &item.back;
  item.buffer->posted = item.from + item.descriptor->CS.Length;
  item.buffer->incoming = receive || item.op == VIP_CONTROL_OP_RDMAREAD;
  const VIP_VI_HANDLE vi = vi_;
  queue_[receive].push_back(&item);
  ++posting_;
  const VIP_MEM_HANDLE memory = descriptors_->handle;
  const VIP_RETURN posted =
      receive ? VipPostRecv(vi, item.descriptor, memory) : VipPostSend(vi, item.descriptor, memory);
  --posting_;
  if (!check(posted, receive ? "VipPostRecv" : "VipPostSend", {VIP_SUCCESS})) {
    if (std::erase(queue_[receive], &item) != 0) come_back(item, receive);
    return;
  }
  VIP_RETURN asked = VIP_SUCCESS;
  if (manner_ == Manner::kNotified) {
    ++asked_;
    asked = receive ? VipRecvNotify(vi, this, on_receive) : VipSendNotify(vi, this, on_send);
  } else if (manner_ == Manner::kCqNotified) {
    ++asked_, ++asked_of_cq_;
    asked = VipCQNotify(cq_, this, on_entry);
  }
  check(asked, "Vip..Notify", {VIP_SUCCESS});
}

void LibrarySide::offer(Item& item) {
  Buffer& buffer = *item.buffer;
  if (buffer.handle == 0) {
    ++posting_;
    const bool registered = register_buffer(buffer, buffer.size, false, false);
    --posting_;
    if (!registered) {
      free_in_.push_back(&item);
      return;
    }
  }
  VIP_DESCRIPTOR& d = *item.descriptor;
  std::memset(&d, 0, sizeof d);
  item.from = 0;
  item.op = VIP_CONTROL_OP_SENDRECV;
  const std::uint32_t length = options_.largest + (options_.largest % 2 == 0 ? 8 : 0);
  const std::uint32_t first = static_cast<std::uint32_t>(program_.random.below(length + 1));
  d.DS[0].Local = {{reinterpret_cast<std::uint64_t>(buffer.data)}, buffer.handle, first};
  d.DS[1].Local = {
      {reinterpret_cast<std::uint64_t>(buffer.data + first)}, buffer.handle, length - first};
  d.CS.SegCount = 2;
  d.CS.Length = length;
  post(true, item);
}

void LibrarySide::offer_all() {
  while (!free_in_.empty() && !gone_ && vi_ != nullptr) {
    Item* const item = free_in_.back();
    free_in_.pop_back();
    offer(*item);
  }
}

// Data of an outgoing message or of an RDMA read, in up to three pieces behind `remote`.
void LibrarySide::describe(Item& item, std::uint32_t length, const VIP_ADDRESS_SEGMENT* remote) {
  VIP_DESCRIPTOR& d = *item.descriptor;
  std::memset(&d, 0, sizeof d);
  unsigned count = 0;
  if (remote != nullptr) d.DS[count++].Remote = *remote;
  std::uint32_t at = 0;
  for (std::uint64_t left = 1 + program_.random.below(3); at < length; --left) {
    const auto piece =
        left > 1 ? (length - at) / static_cast<std::uint32_t>(left) : length - at;
    if (piece == 0) continue;
    // There is room behind the descriptor for more than it names.
    VIP_DESCRIPTOR_SEGMENT* const segments = d.DS;
    segments[count++].Local = {{reinterpret_cast<std::uint64_t>(item.buffer->data + item.from + at)},
                               item.buffer->handle, piece};
    at += piece;
  }
  d.CS.SegCount = static_cast<VIP_UINT16>(count);
  d.CS.Length = length;
}

bool LibrarySide::send() {
  Item& item = *free_out_.back();
  free_out_.pop_back();
  Random& random = program_.random;
  const std::uint64_t stream = connection_->streams[side_];
  const std::uint32_t length = size_of(stream, sent_);
  item.number = sent_;
  item.crime = false;
  item.from = static_cast<std::uint32_t>(random.below(8));
  item.op = VIP_CONTROL_OP_SENDRECV;
  Pattern(stream, sent_).fill(item.buffer->data + item.from, length);
  const Buffer* const target = other().target_;
  if (options_.rdma && options_.level != vip::kUnreliable && target != nullptr &&
      target->handle != 0 && random.chance(0.3)) {
    item.op = VIP_CONTROL_OP_RDMAWRITE;
    const VIP_ADDRESS_SEGMENT remote{
        {reinterpret_cast<std::uint64_t>(target->data + place_of(sent_))}, target->handle, 0};
    describe(item, length, &remote);
  } else {
    describe(item, length, nullptr);
  }
  item.descriptor->CS.Control = static_cast<VIP_UINT16>(item.op | VIP_CONTROL_IMMEDIATE);
  item.descriptor->CS.ImmediateData = label(*connection_, sent_);
  tell("  job %u side %u sends %u: %u bytes", options_.job, side_, sent_, length);
  ++sent_;
  post(false, item);
  return !gone_ && !over_;
}

// Where in the target's region message `number` goes: each of those under way has a place.
std::size_t LibrarySide::place_of(std::uint32_t number) const {
  return std::size_t{number % (2 * options_.window)} * options_.largest;
}

void LibrarySide::read() {
  const Buffer* const constant = other().constant_;
  if (constant == nullptr || constant->handle == 0 || free_out_.empty()) return;
  Item& item = *free_out_.back();
  free_out_.pop_back();
  Random& random = program_.random;
  const auto length = 1 + static_cast<std::uint32_t>(
                              random.below(std::min<std::uint32_t>(options_.largest, 2000)));
  item.number = static_cast<std::uint32_t>(random.below(constant->size - length));
  item.crime = false;
  item.from = 0;
  item.op = VIP_CONTROL_OP_RDMAREAD;
  const VIP_ADDRESS_SEGMENT remote{
      {reinterpret_cast<std::uint64_t>(constant->data + item.number)}, constant->handle, 0};
  describe(item, length, &remote);
  item.descriptor->CS.Control = VIP_CONTROL_OP_RDMAREAD;
  post(false, item);
}

// VIA answers these errors with an error of the descriptor and the end of the connection.
void LibrarySide::commit_crime() {
  Random& random = program_.random;
  if (random.chance(0.2)) {
    // No crime for the connection: a VI that is in use is not destroyed.
    const VIP_RETURN result = VipDestroyVi(vi_);
    if (result == VIP_INVALID_STATE) return;
    if (result != VIP_SUCCESS || !program_.lost()) {
      check(result, "VipDestroyVi of a VI in use", {});
      return;
    }
    gone_ = over_ = true;
    vi_ = nullptr;
    return;
  }
  connection_->spoilt = true;
  if (other().connection_ != nullptr) other().connection_->spoilt = true;
  if (random.chance(0.3) && !queue_[1].empty()) {
    Buffer& buffer = *queue_[1].back()->buffer;
    if (buffer.handle == 0) return;
    check(VipDeregisterMem(program_.nic, buffer.data, buffer.handle), "VipDeregisterMem",
          {VIP_SUCCESS});
    buffer.handle = 0;
    buffer.status = nullptr;  // the stack may not touch it now
    return;
  }
  Item& item = *free_out_.back();
  free_out_.pop_back();
  item.crime = true;
  item.from = 0;
  item.op = VIP_CONTROL_OP_SENDRECV;
  const auto more = 1 + static_cast<std::uint32_t>(random.below(16));
  describe(item, options_.largest + 8 + more, nullptr);
  if (random.chance(0.5)) {  // beyond its region; else more than the receive has room for
    VIP_DESCRIPTOR& d = *item.descriptor;
    d.DS[0].Local = {{reinterpret_cast<std::uint64_t>(narrow_->data)}, narrow_->handle,
                     narrow_->region + more};
    d.CS.SegCount = 1;
    d.CS.Length = narrow_->region + more;
  }
  post(false, item);
}

// ---------------------------------------------------------------------------- taking back

void LibrarySide::take_message(const Item& item, const VIP_DESCRIPTOR& d) {
  if ((d.CS.Status & VIP_STATUS_IMMEDIATE) == 0) fail("immediate data is missing");
  const std::uint32_t told = d.CS.ImmediateData;
  if (peers_ == nullptr) {
    peers_ = options_.peers ? job_.world.connection(told >> 16) : connection_;
    if (peers_ == nullptr) fail("a message of connection %u, which was never made", told >> 16);
  }
  std::uint32_t number = got_;
  if (options_.level == vip::kUnreliable) {
    number = told & 0xffff;
    if (number < got_) fail("unreliable message %u after %u", number, got_ - 1);
  }
  if (told != label(*peers_, number)) {
    fail("job %u side %u: message %x has come instead of %x", options_.job, side_, told,
         label(*peers_, number));
  }
  const std::uint64_t stream = peers_->streams[1 - side_];
  const std::uint32_t size = size_of(stream, number);
  const bool rdma = (d.CS.Status & VIP_STATUS_OP_MASK) == VIP_STATUS_OP_REMOTE_RDMA_WRITE;
  if (!rdma && (d.CS.Status & VIP_STATUS_OP_MASK) != VIP_STATUS_OP_RECEIVE) {
    fail("a receive with status %x", d.CS.Status);
  }
  if (!rdma && d.CS.Length != size) {
    fail("message %u has come with %u bytes instead of %u", number, d.CS.Length, size);
  }
  const std::byte* const data = rdma ? target_->data + place_of(number) : item.buffer->data;
  const std::size_t right = Pattern(stream, number).right(data, size);
  if (right != size) {
    fail("job %u side %u: byte %zu of message %u (%u bytes) is wrong", options_.job, side_, right,
         number, size);
  }
  got_ = number + 1;
  tell("  job %u side %u got %u: %u bytes", options_.job, side_, number, size);
}

// The result of a Done or a Wait. True if a descriptor has come back.
bool LibrarySide::take(bool receive, VIP_RETURN result, VIP_DESCRIPTOR* d) {
  Queue& queue = queue_[receive];
  if (d == nullptr) {
    if (result == VIP_NOT_DONE || result == VIP_TIMEOUT) return false;
    if (result == VIP_DESCRIPTOR_ERROR) {
      if (!queue.empty()) fail("a queue is said to be empty, with %zu posted", queue.size());
      return false;
    }
    check(result, receive ? "a receive's Done or Wait" : "a send's Done or Wait", {});
    return false;
  }
  if (queue.empty() || queue.front()->descriptor != d) {
    fail("job %u side %u: a %s has come back out of order, or twice", options_.job, side_,
         receive ? "receive" : "send");
  }
  Item& item = *queue.front();
  queue.pop_front();
  item.back.store(1);
  item.buffer->status = nullptr;
  const std::uint32_t status = d->CS.Status;
  const bool well = (status & VIP_STATUS_ERROR_MASK) == 0;
  if ((status & VIP_STATUS_DONE) == 0 || well != (result == VIP_SUCCESS) ||
      (!well && result != VIP_DESCRIPTOR_ERROR)) {
    fail("a descriptor with status %x comes with result %d", status, result);
  }
  Connection* const c = connection_;
  if (well && c == nullptr) fail("a descriptor has completed without a connection");
  const bool harmless = (status & VIP_STATUS_ERROR_MASK & ~kHarmless) == 0;
  if (!well && !over_) {
    over_ = true;
    tell("job %u side %u: a %s has ended with status %x", options_.job, side_,
         receive ? "receive" : "send", status);
  }
  if (!well && !harmless && c != nullptr && !c->spoilt && (receive || (!c->ended && !is_left()))) {
    fail("a %s has ended with status %x", receive ? "receive" : "send", status);
  }
  if (receive) {
    if (well) {
      ++c->received[side_];
      take_message(item, *d);
    }
    if (up_ && !over_ && !gone_) {
      offer(item);
    } else {
      free_in_.push_back(&item);
    }
    return true;
  }
  if (well) {
    if (item.crime) fail("a send that must not succeed has succeeded");
    if (item.op == VIP_CONTROL_OP_RDMAREAD) {
      const std::uint32_t bytes = d->CS.Length;
      if (Pattern(options_.job, 1 - side_).right(item.buffer->data, bytes, item.number) != bytes) {
        fail("what an RDMA read has brought is wrong");
      }
    } else {
      ++c->sent[side_];
    }
  }
  // The program uses its memory for something else now.
  std::memset(item.buffer->data, 0xee, std::min<std::uint32_t>(item.buffer->size, 64));
  free_out_.push_back(&item);
  return true;
}

bool LibrarySide::take_next(bool receive) {
  VIP_DESCRIPTOR* d = nullptr;
  const VIP_RETURN result = receive ? VipRecvDone(vi_, &d) : VipSendDone(vi_, &d);
  return take(receive, result, d);
}

// The result of VipCQDone or VipCQWait: the matching Done succeeds at once.
bool LibrarySide::take_entry(VIP_RETURN result, VIP_VI_HANDLE vi, VIP_BOOLEAN receive) {
  if (result == VIP_NOT_DONE || result == VIP_TIMEOUT) return false;
  if (result != VIP_SUCCESS) {
    if (program_.lost() && !program_.closing && !empty()) {
      fail("a completion queue has ended with %zu sends and %zu receives posted",
           queue_[0].size(), queue_[1].size());
    }
    check(result, "a completion queue", {});
    return false;
  }
  if (vi != vi_) fail("a completion queue tells of a VI that is not there");
  if (take_next(receive != VIP_FALSE)) return true;
  if (!program_.closing) fail("a completion queue has told of a completion that is none");
  return false;
}

void LibrarySide::told() {
  ++events_;
  program_.word.fetch_add(1);
  Kernel::the().fibers.wake(&program_.word, 1 << 30);
}

void LibrarySide::take_from_handler(bool receive, VIP_VI_HANDLE vi, VIP_DESCRIPTOR* d) {
  if (program_.is_leaving() || vi != vi_) return;
  if (++called_ > asked_) fail("a handler was called more often than asked for");
  const bool well = (d->CS.Status & VIP_STATUS_ERROR_MASK) == 0;
  take(receive, well ? VIP_SUCCESS : VIP_DESCRIPTOR_ERROR, d);
  told();
}

void LibrarySide::on_receive(void* side, VIP_NIC_HANDLE, VIP_VI_HANDLE vi, VIP_DESCRIPTOR* d) {
  static_cast<LibrarySide*>(side)->take_from_handler(true, vi, d);
}

void LibrarySide::on_send(void* side, VIP_NIC_HANDLE, VIP_VI_HANDLE vi, VIP_DESCRIPTOR* d) {
  static_cast<LibrarySide*>(side)->take_from_handler(false, vi, d);
}

void LibrarySide::on_entry(void* context, VIP_NIC_HANDLE, VIP_VI_HANDLE vi, VIP_BOOLEAN receive) {
  auto& side = *static_cast<LibrarySide*>(context);
  if (side.program_.is_leaving() || vi != side.vi_) return;
  if (++side.called_ > side.asked_) fail("a handler was called more often than asked for");
  side.take_entry(VIP_SUCCESS, vi, receive);
  side.told();
}

// ---------------------------------------------------------------------------- waiting

// Until a handler or the other thread has taken something.
bool LibrarySide::sleep_until_told(bool patient) {
  const std::uint64_t until = patient ? ~0ull : program_.library.now() + kPatience;
  while (events_ == seen_) {
    if (gone_ || program_.closing || program_.library.now() >= until) return false;
    Kernel::the().wait(&program_.word, until);
  }
  seen_ = events_;
  return true;
}

bool LibrarySide::wait_on_queue(bool receive, bool patient) {
  Random& random = program_.random;
  const VIP_ULONG timeout = !patient               ? kPatience / kMsec
                            : random.chance(0.9) ? VIP_INFINITE
                                                 : random.below(50);
  VIP_DESCRIPTOR* d = nullptr;
  const VIP_RETURN result =
      receive ? VipRecvWait(vi_, timeout, &d) : VipSendWait(vi_, timeout, &d);
  if (result == VIP_TIMEOUT && timeout == VIP_INFINITE) fail("a wait without a limit was too long");
  return take(receive, result, d);
}

// A program that polls does something else now and then: for longer, the longer it looks in vain.
void LibrarySide::think(unsigned& looks) {
  constexpr unsigned kOften = 8, kDoublings = 12;
  if (++looks % kOften != 0 && !program_.random.chance(0.1)) return;
  nap(100, kUs << std::min(looks / kOften, kDoublings));
}

// Waits until something has come back. False if nothing has, in time.
bool LibrarySide::get_some(bool patient) {
  VIP_VI_HANDLE vi = nullptr;
  VIP_BOOLEAN receive = VIP_FALSE;
  const std::uint64_t until = patient ? ~0ull : program_.library.now() + kPatience;
  const VIP_ULONG timeout = patient ? VIP_INFINITE : kPatience / kMsec;
  unsigned looks = 0;
  switch (manner_) {
    case Manner::kPolls:
      while (!gone_) {
        if (take_next(true) || (!gone_ && take_next(false))) {
          Kernel::the().fibers.current()->yields = 0;
          return true;
        }
        if (program_.library.now() >= until) return false;
        think(looks);
      }
      return false;
    case Manner::kWaits:
      if (wait_on_queue(got_ < due_ || queue_[0].empty(), patient)) return true;
      return !gone_ && !queue_[0].empty() && take_next(false);
    case Manner::kThreads:
      return queue_[0].empty() ? sleep_until_told(patient) : wait_on_queue(false, patient);
    case Manner::kCqPolls:
      while (!gone_) {
        // A descriptor taken back without its entry has none any more.
        if (program_.random.chance(0.05) && take_next(true)) return true;
        if (gone_) return false;
        const VIP_RETURN result = VipCQDone(cq_, &vi, &receive);
        if (take_entry(result, vi, receive)) {
          Kernel::the().fibers.current()->yields = 0;
          return true;
        }
        if (program_.library.now() >= until) return false;
        think(looks);
      }
      return false;
    case Manner::kCqWaits: {
      const VIP_RETURN result = VipCQWait(cq_, timeout, &vi, &receive);
      if (result == VIP_TIMEOUT && patient) fail("a wait without a limit was too long");
      return take_entry(result, vi, receive);
    }
    case Manner::kCqSleeps: {
      VIP_RETURN result = VipCQDone(cq_, &vi, &receive);
      if (result == VIP_NOT_DONE) {
        const timespec limit{0, static_cast<long>(kPatience)};
        const int ready = VipxPoll(cq_, nullptr, 0, patient ? nullptr : &limit, nullptr);
        const bool may_fail = errno == EINTR || (errno == ENODEV && program_.lost()) ||
                              program_.closing;
        if (ready > 0 || (ready < 0 && !may_fail)) fail("VipxPoll says %d, errno %d", ready, errno);
        result = VipCQDone(cq_, &vi, &receive);
      }
      return take_entry(result, vi, receive);
    }
    case Manner::kNotified:
    case Manner::kCqNotified:
    case Manner::kCount:
      break;
  }
  return sleep_until_told(patient);
}

bool LibrarySide::batch() {
  due_ += batch_size(1 - side_, batch_);
  const bool reliable = options_.level != vip::kUnreliable;
  for (std::uint32_t left = batch_size(side_, batch_); left > 0; --left) {
    if (over_ || gone_ || program_.closing) return false;
    if (options_.rdma && reliable && free_out_.size() > left && program_.random.chance(0.2)) {
      read();
    }
    if (reliable && crimes_ != 0 && job_.world.plan.crime != 0 &&
        program_.random.chance(job_.world.plan.crime) && free_out_.size() > left) {
      --crimes_;
      commit_crime();
      if (over_ || gone_) return false;
    }
    // Handlers may have found the end.
    if (over_ || gone_ || !send()) return false;
  }
  while (!over_ && !gone_ && (got_ < due_ || !queue_[0].empty())) {
    if (program_.closing) return false;
    // Of what may be lost, the last one may be.
    if (!get_some(reliable) && !reliable && queue_[0].empty() && !over_) break;
  }
  // With the next batch the other side takes it that all receives are posted again.
  while (posting_ != 0) Kernel::the().sleep(kUs);
  return !over_ && !gone_;
}

// After a disconnect everything has come back.
void LibrarySide::drain() {
  const bool told_of = manner_ == Manner::kNotified || manner_ == Manner::kCqNotified;
  while (!gone_ && !program_.closing && !empty()) {
    if (told_of || (manner_ == Manner::kThreads && queue_[0].empty())) {
      sleep_until_told(true);
      continue;
    }
    bool any = false;
    VIP_VI_HANDLE vi = nullptr;
    VIP_BOOLEAN receive = VIP_FALSE;
    if (manner_ == Manner::kThreads) {
      any = take_next(false);
    } else if (cq_ != nullptr) {
      const VIP_RETURN result = VipCQDone(cq_, &vi, &receive);
      any = take_entry(result, vi, receive);
    } else {
      any = (!queue_[1].empty() && take_next(true)) || (!gone_ && !queue_[0].empty() && take_next(false));
    }
    if (!any && !gone_ && !program_.closing) {
      fail("%zu sends and %zu receives were not given back by a disconnect", queue_[0].size(),
           queue_[1].size());
    }
  }
  if (gone_ || program_.closing) return;
  if (told_of && asked_ != called_) fail("%u calls were asked for, and %u made", asked_, called_);
  if (cq_ == nullptr || told_of) return;
  VIP_VI_HANDLE vi = nullptr;
  VIP_BOOLEAN receive = VIP_FALSE;
  const VIP_RETURN result = VipCQDone(cq_, &vi, &receive);
  if (check(result, "VipCQDone", {VIP_NOT_DONE, VIP_SUCCESS}) && result == VIP_SUCCESS) {
    fail("a completion queue tells of more than was posted");
  }
}

// In a thread of its own.
void LibrarySide::be_the_receiver() {
  while (!gone_ && !queue_[1].empty()) {
    wait_on_queue(true, true);
    told();
  }
  receiver_runs_ = false;
  told();
}

}  // namespace viaduct::sim
