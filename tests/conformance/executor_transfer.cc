#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "executor_parts.h"

namespace conformance {

// ------------------------------------------------------------------ posting

// Called with mutex_ held; lets go of it during the registration.
void Executor::take_slot(OpenNic& nic, std::size_t bytes, Image* image) {
  Slab* slab = nullptr;
  for (const auto& one : nic.slabs) {
    if (!one->free_slots.empty() && one->slot_bytes >= bytes) slab = one.get();
  }
  if (slab == nullptr) {
    const std::size_t slots = bytes <= Slab::kSlot ? 2048 : 1;
    auto fresh = std::make_unique<Slab>();
    fresh->slot_bytes = std::max(Slab::kSlot, (bytes + 63) / 64 * 64);
    const std::size_t size = (slots * fresh->slot_bytes + 4095) / 4096 * 4096;
    fresh->memory.reset(static_cast<char*>(std::aligned_alloc(4096, size)));
    for (std::size_t i = 0; i < slots; ++i) {
      fresh->free_slots.push_back(fresh->memory.get() + i * fresh->slot_bytes);
    }
    mutex_.unlock();
    const VIP_RETURN code = VIP(RegisterMem, to_pointer(nic.handle), fresh->memory.get(), size,
                                nullptr, &fresh->handle);
    mutex_.lock();
    if (code != VIP_SUCCESS) fresh->handle = 0;
    slab = fresh.get();
    nic.slabs.push_back(std::move(fresh));
  }
  image->slab = slab;
  image->handle = slab->handle;
  image->slot = slab->free_slots.front();
  slab->free_slots.pop_front();
  std::memset(image->slot, 0, bytes);
}

std::unique_ptr<Executor::Image> Executor::make_image(ViHandle vi, const Descriptor& d) {
  auto image = std::make_unique<Image>();
  const std::size_t count = d.segments.size() + (d.remote ? 1 : 0);
  // Room for what SegCount claims, so that a provider that believes it reads zeroes.
  const std::size_t room =
      std::max<std::size_t>({count, 2, std::min<std::size_t>(d.seg_count.value_or(0), 4096)});
  const std::size_t bytes = sizeof(VIP_CONTROL_SEGMENT) + room * sizeof(VIP_DATA_SEGMENT);
  {
    const std::lock_guard lock(mutex_);
    image->id = ++last_id_;
    if (!d.at) {
      const auto owner = nic_of_.find(vi);
      OpenNic* nic = owner != nic_of_.end() ? owner->second : nullptr;
      if (nic == nullptr && !nics_.empty()) nic = nics_.back().get();
      if (nic == nullptr) throw std::runtime_error("a post without an open NIC");
      take_slot(*nic, bytes + d.misalign, image.get());
    }
  }
  char* const at = (d.at ? static_cast<char*>(to_address(*d.at)) : image->slot) + d.misalign;
  image->where = reinterpret_cast<VIP_DESCRIPTOR*>(at);
  image->handle = d.memory_handle.value_or(image->handle);

  // Copied as bytes: a descriptor may lie anywhere on purpose.
  VIP_CONTROL_SEGMENT control;
  std::memset(&control, 0, sizeof control);
  std::uint32_t total = 0;
  char* to = at + sizeof control;
  if (d.remote) {
    VIP_ADDRESS_SEGMENT segment;
    std::memset(&segment, 0, sizeof segment);
    segment.Data.AddressBits = d.remote->address;
    segment.Handle = d.remote->handle;
    std::memcpy(to, &segment, sizeof segment);
    to += sizeof segment;
  }
  for (const Segment& from : d.segments) {
    VIP_DATA_SEGMENT segment;
    std::memset(&segment, 0, sizeof segment);
    segment.Data.AddressBits = from.address;
    segment.Handle = from.handle;
    segment.Length = from.length;
    std::memcpy(to, &segment, sizeof segment);
    to += sizeof segment;
    total += from.length;
  }
  control.SegCount = d.seg_count.value_or(static_cast<VIP_UINT16>(count));
  const unsigned flags = static_cast<unsigned>(d.op) | (d.immediate ? VIP_CONTROL_IMMEDIATE : 0U) |
                         (d.fence ? VIP_CONTROL_QFENCE : 0U) | d.more_control;
  control.Control = d.control.value_or(static_cast<VIP_UINT16>(flags));
  control.Reserved = d.reserved;
  control.ImmediateData = d.immediate.value_or(d.old_immediate);
  control.Length = d.length.value_or(total);
  control.Status = d.old_status;
  std::memcpy(at, &control, sizeof control);
  image->control = control.Control;
  image->seg_count = control.SegCount;
  image->segments.assign(at + sizeof control, to);
  return image;
}

template <class Post>
Posted Executor::post(Function function, ViHandle vi, const Descriptor& descriptor, Nulls nulls,
                      Post call) {
  Posted posted;
  std::unique_ptr<Image> image = make_image(vi, descriptor);
  VIP_DESCRIPTOR* const where = nulls.has(2) ? nullptr : image->where;
  const VIP_MEM_HANDLE handle = image->handle;
  posted.id = image->id;
  {
    // Before the post: it may come back, in another thread, before the post returns.
    const std::lock_guard lock(mutex_);
    last_at_[image->where] = image->id;
    posted_[image->where] = std::move(image);
  }
  run(posted, function, [&] { return call(to_pointer(vi), where, handle); });
  if (posted.code == VIP_SUCCESS) return posted;
  const std::lock_guard lock(mutex_);
  for (auto it = posted_.begin(); it != posted_.end(); ++it) {
    if (it->second->id != posted.id) continue;
    if (it->second->slab != nullptr) it->second->slab->free_slots.push_back(it->second->slot);
    posted_.erase(it);
    break;
  }
  return posted;
}

Posted Executor::post_send(ViHandle vi, const Descriptor& descriptor, Nulls nulls) {
  return post(Function::kPostSend, vi, descriptor, nulls, VipPostSend);
}

Posted Executor::post_recv(ViHandle vi, const Descriptor& descriptor, Nulls nulls) {
  return post(Function::kPostRecv, vi, descriptor, nulls, VipPostRecv);
}

// ------------------------------------------------------------------ taking back

void Executor::take_back(VIP_DESCRIPTOR* descriptor, Completion* completion) {
  if (descriptor == nullptr) return;
  const std::lock_guard lock(mutex_);
  const auto found = posted_.find(descriptor);
  if (found == posted_.end()) {
    completion->id = kUnknownDescriptor;
    return;
  }
  Image& image = *found->second;
  VIP_CONTROL_SEGMENT control;
  std::memcpy(&control, descriptor, sizeof control);
  completion->id = image.id;
  completion->status = {control.Status};
  completion->length = control.Length;
  completion->immediate = control.ImmediateData;
  completion->intact = control.Control == image.control && control.SegCount == image.seg_count &&
                       std::equal(image.segments.begin(), image.segments.end(),
                                  reinterpret_cast<const char*>(descriptor) + sizeof control);
  record_status(control.Status);
  if (image.slab != nullptr) image.slab->free_slots.push_back(image.slot);
  posted_.erase(found);
}

template <class Call>
Completion Executor::dequeue(Call call, unsigned out_argument, Nulls nulls) {
  Completion completion;
  VIP_DESCRIPTOR* descriptor = reinterpret_cast<VIP_DESCRIPTOR*>(kUntouched);
  call(completion, nulls.has(out_argument) ? nullptr : &descriptor);
  if (!nulls.has(out_argument)) take_back(descriptor, &completion);
  return completion;
}

Completion Executor::send_done(ViHandle vi, Nulls nulls) {
  return dequeue(
      [&](Completion& c, VIP_DESCRIPTOR** out) { RUN(c, SendDone, to_pointer(vi), out); }, 2,
      nulls);
}

Completion Executor::recv_done(ViHandle vi, Nulls nulls) {
  return dequeue(
      [&](Completion& c, VIP_DESCRIPTOR** out) { RUN(c, RecvDone, to_pointer(vi), out); }, 2,
      nulls);
}

Completion Executor::send_wait(ViHandle vi, std::uint64_t timeout, Nulls nulls) {
  return dequeue(
      [&](Completion& c, VIP_DESCRIPTOR** out) { RUN(c, SendWait, to_pointer(vi), timeout, out); },
      3, nulls);
}

Completion Executor::recv_wait(ViHandle vi, std::uint64_t timeout, Nulls nulls) {
  return dequeue(
      [&](Completion& c, VIP_DESCRIPTOR** out) { RUN(c, RecvWait, to_pointer(vi), timeout, out); },
      3, nulls);
}

// ------------------------------------------------------------------ Notify

template <class Call>
Notify Executor::notify(Call call) {
  Notify registered;
  Pending* pending = nullptr;
  {
    const std::lock_guard lock(mutex_);
    notifications_.push_back(std::make_unique<Pending>());
    pending = notifications_.back().get();
    pending->executor = this;
    pending->caller = std::this_thread::get_id();
    registered.ticket = notifications_.size();
  }
  call(registered, pending);
  return registered;
}

Notify Executor::send_notify(ViHandle vi, Nulls nulls) {
  return notify([&](Notify& n, Pending* p) {
    RUN(n, SendNotify, to_pointer(vi), p, nulls.has(3) ? nullptr : &Executor::on_vi);
  });
}

Notify Executor::recv_notify(ViHandle vi, Nulls nulls) {
  return notify([&](Notify& n, Pending* p) {
    RUN(n, RecvNotify, to_pointer(vi), p, nulls.has(3) ? nullptr : &Executor::on_vi);
  });
}

Notify Executor::cq_notify(CqHandle cq, Nulls nulls) {
  return notify([&](Notify& n, Pending* p) {
    RUN(n, CQNotify, to_pointer(cq), p, nulls.has(3) ? nullptr : &Executor::on_cq);
  });
}

void Executor::on_vi(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
                     VIP_DESCRIPTOR* descriptor) {
  auto* const pending = static_cast<Pending*>(context);
  Executor& self = *pending->executor;
  Completion completion;
  self.take_back(descriptor, &completion);
  const std::lock_guard lock(self.mutex_);
  pending->result = {true,
                     from_pointer<NicHandle>(nic),
                     from_pointer<ViHandle>(vi),
                     -1,
                     completion,
                     std::this_thread::get_id() == pending->caller};
  self.changed_.notify_all();
}

void Executor::on_cq(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
                     VIP_BOOLEAN recv_queue) {
  auto* const pending = static_cast<Pending*>(context);
  Executor& self = *pending->executor;
  const std::lock_guard lock(self.mutex_);
  pending->result = {true,
                     from_pointer<NicHandle>(nic),
                     from_pointer<ViHandle>(vi),
                     recv_queue,
                     {},
                     std::this_thread::get_id() == pending->caller};
  self.changed_.notify_all();
}

Notification Executor::await_notification(std::uint64_t ticket, std::uint64_t timeout) {
  std::unique_lock lock(mutex_);
  const Pending& pending = *notifications_.at(ticket - 1);
  changed_.wait_until(lock, std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout),
                      [&] { return pending.result.came; });
  return pending.result;
}

// ------------------------------------------------------------------ errors

Result Executor::error_callback(NicHandle nic, OnError what) {
  Result result;
  OpenNic* const known = find(nic);
  {
    const std::lock_guard lock(mutex_);
    if (known != nullptr) known->on_error = what;
  }
  RUN(result, ErrorCallback, to_pointer(nic), known,
      what == OnError::kDefault ? nullptr : &Executor::on_error);
  return result;
}

void Executor::on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error) {
  if (context == nullptr) return;
  auto* const nic = static_cast<OpenNic*>(context);
  Executor& self = *nic->executor;
  record_error(error->ErrorCode, error->ResourceCode);
  ErrorEvent event = {true,
                      from_pointer<NicHandle>(error->NicHandle),
                      from_pointer<ViHandle>(error->ViHandle),
                      from_pointer<CqHandle>(error->CQHandle),
                      kNoDescriptor,
                      error->OpCode,
                      error->ResourceCode,
                      error->ErrorCode};
  OnError then;
  {
    const std::lock_guard lock(self.mutex_);
    if (error->DescriptorPtr != nullptr) {
      const auto found = self.last_at_.find(error->DescriptorPtr);
      event.descriptor = found == self.last_at_.end() ? kUnknownDescriptor : found->second;
    }
    nic->errors.push_back(event);
    then = nic->on_error;
    self.changed_.notify_all();
  }
  if (then == OnError::kDisconnect) VIP(Disconnect, to_pointer(event.vi));
  if (then == OnError::kExit && self.may_die_) std::exit(0);
  if (then == OnError::kBlock) {
    std::unique_lock lock(self.mutex_);
    self.changed_.wait(lock, [&] { return self.handlers_released_; });
  }
}

ErrorEvent Executor::await_error(NicHandle nic, bool any, VIP_ERROR_CODE error,
                                 std::uint64_t timeout) {
  OpenNic* const known = find(nic);
  if (known == nullptr) throw std::runtime_error("no such NIC was opened");
  const auto wanted = [&] {
    return std::find_if(known->errors.begin(), known->errors.end(),
                        [&](const ErrorEvent& event) { return any || event.error == error; });
  };
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout),
                      [&] { return wanted() != known->errors.end(); });
  const auto found = wanted();
  if (found == known->errors.end()) return {};
  const ErrorEvent event = *found;
  known->errors.erase(found);
  return event;
}

std::vector<ErrorEvent> Executor::errors(NicHandle nic) {
  OpenNic* const known = find(nic);
  const std::lock_guard lock(mutex_);
  return known == nullptr ? std::vector<ErrorEvent>() : known->errors;
}

void Executor::release_handlers() {
  const std::lock_guard lock(mutex_);
  handlers_released_ = true;
  changed_.notify_all();
}

}  // namespace conformance
