#include "vipl/fabric/event_queue.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <new>

#include "vipl/fabric/fabric.h"

namespace viaduct::fabric {

fi_ops EventQueue::ops = ops_of(&EventQueue::close, &EventQueue::control);

fi_ops_eq EventQueue::eq_ops = {
    .size = sizeof(fi_ops_eq),
    .read = &EventQueue::read,
    .readerr = &EventQueue::readerr,
    .write = &EventQueue::write,
    .sread = &EventQueue::sread,
    .strerror = &EventQueue::strerror,
};

int EventQueue::open(fid_fabric* fabric, fi_eq_attr* attr, fid_eq** eq, void* context) {
  if (attr != nullptr && !WaitObject::is_known(attr->wait_obj)) return -FI_ENOSYS;
  if (attr != nullptr && (attr->flags & ~(FI_WRITE | FI_AFFINITY)) != 0) return -FI_EBADFLAGS;
  const fi_eq_attr plain{};
  auto* queue =
      new (std::nothrow) EventQueue(object<Fabric>(fabric), attr != nullptr ? *attr : plain);
  if (queue == nullptr) return -FI_ENOMEM;
  queue->fid.context = context;
  if (!queue->wait_.open()) {
    delete queue;
    return -FI_EMFILE;
  }
  *eq = queue;
  return 0;
}

EventQueue::EventQueue(Fabric& fabric, const fi_eq_attr& attr)
    : fid_eq{{FI_CLASS_EQ, nullptr, &ops}, &eq_ops},
      fabric_(fabric),
      wait_(attr.wait_obj) {
  fabric_.acquire();
}

EventQueue::~EventQueue() {
  for (Event& event : events_) {
    if (event.info != nullptr) fi_freeinfo(event.info);
  }
  fabric_.release();
}

void EventQueue::acquire() {
  const std::lock_guard lock(mutex_);
  ++users_;
}

void EventQueue::release() {
  const std::lock_guard lock(mutex_);
  --users_;
}

int EventQueue::close(struct fid* fid) {
  auto& queue = object_of<EventQueue, fid_eq>(fid);
  {
    const std::lock_guard lock(queue.mutex_);
    if (queue.users_ != 0) return -FI_EBUSY;
  }
  delete &queue;
  return 0;
}

int EventQueue::control(struct fid* fid, int command, void* argument) {
  return object_of<EventQueue, fid_eq>(fid).wait_.control(command, argument);
}

// ------------------------------------------------------------------------------------ events

void EventQueue::add(Event&& event) {
  const std::lock_guard lock(mutex_);
  events_.push_back(std::move(event));
  wait_.signal.raise();
  news_.notify_all();
}

void EventQueue::connection(std::uint32_t kind, struct fid* fid, fi_info* info, const void* data,
                            std::size_t bytes) {
  Event event;
  event.kind = kind;
  event.fid = fid;
  event.info = info;
  const fi_eq_cm_entry entry{fid, info};
  event.body.resize(sizeof entry + bytes);
  std::memcpy(event.body.data(), &entry, sizeof entry);
  if (bytes != 0) std::memcpy(event.body.data() + sizeof entry, data, bytes);
  add(std::move(event));
}

void EventQueue::error(struct fid* fid, int error, const void* data, std::size_t bytes) {
  Event event;
  event.fid = fid;
  event.error = error;
  const auto* first = static_cast<const unsigned char*>(data);
  event.body.assign(first, first + bytes);
  add(std::move(event));
}

void EventQueue::forget(const struct fid* fid) {
  const std::lock_guard lock(mutex_);
  std::erase_if(events_, [fid](Event& event) {
    if (event.fid != fid) return false;
    if (event.info != nullptr) fi_freeinfo(event.info);
    return true;
  });
  if (events_.empty()) wait_.signal.lower();
}

int EventQueue::try_wait() {
  const std::lock_guard lock(mutex_);
  if (wait_.kind != FI_WAIT_FD) return -FI_EINVAL;
  return events_.empty() ? 0 : -FI_EAGAIN;
}

// ------------------------------------------------------------------------------------ reading

ssize_t EventQueue::take(std::uint32_t* event, void* buffer, std::size_t length,
                         std::uint64_t flags) {
  error_data_.clear();
  if (events_.empty()) return -FI_EAGAIN;
  Event& next = events_.front();
  if (next.error != 0) return -FI_EAVAIL;
  const std::size_t least =
      next.kind == FI_NOTIFY ? next.body.size() : std::min(next.body.size(), sizeof(fi_eq_cm_entry));
  if (length < least) return -FI_ETOOSMALL;
  *event = next.kind;
  const std::size_t bytes = std::min(length, next.body.size());
  if (bytes != 0) std::memcpy(buffer, next.body.data(), bytes);
  if ((flags & FI_PEEK) == 0) {
    events_.pop_front();
    if (events_.empty()) wait_.signal.lower();
  }
  return static_cast<ssize_t>(bytes);
}

ssize_t EventQueue::read(fid_eq* eq, std::uint32_t* event, void* buffer, std::size_t length,
                         std::uint64_t flags) {
  auto& queue = object<EventQueue>(eq);
  const std::lock_guard lock(queue.mutex_);
  return queue.take(event, buffer, length, flags);
}

ssize_t EventQueue::readerr(fid_eq* eq, fi_eq_err_entry* entry, std::uint64_t) {
  auto& queue = object<EventQueue>(eq);
  const std::lock_guard lock(queue.mutex_);
  if (queue.events_.empty() || queue.events_.front().error == 0) return -FI_EAGAIN;
  Event& next = queue.events_.front();
  // The data is copied into the room that the program gives; without room it may look at our copy until the next
  // read.
  void* room = entry->err_data;
  const std::size_t room_bytes = entry->err_data_size;
  entry->fid = next.fid;
  entry->context = next.fid != nullptr ? next.fid->context : nullptr;
  entry->data = 0;
  entry->err = next.error;
  entry->prov_errno = 0;
  queue.error_data_ = std::move(next.body);
  if (room_bytes != 0 && room != nullptr) {
    entry->err_data_size = std::min(room_bytes, queue.error_data_.size());
    if (entry->err_data_size != 0) std::memcpy(room, queue.error_data_.data(), entry->err_data_size);
  } else {
    entry->err_data = queue.error_data_.data();
    entry->err_data_size = queue.error_data_.size();
  }
  queue.events_.pop_front();
  if (queue.events_.empty()) queue.wait_.signal.lower();
  return sizeof *entry;
}

ssize_t EventQueue::write(fid_eq* eq, std::uint32_t kind, const void* buffer, std::size_t length,
                          std::uint64_t) {
  Event event;
  event.kind = kind;
  const auto* first = static_cast<const unsigned char*>(buffer);
  event.body.assign(first, first + length);
  object<EventQueue>(eq).add(std::move(event));
  return static_cast<ssize_t>(length);
}

ssize_t EventQueue::sread(fid_eq* eq, std::uint32_t* event, void* buffer, std::size_t length,
                          int timeout, std::uint64_t flags) {
  auto& queue = object<EventQueue>(eq);
  std::unique_lock lock(queue.mutex_);
  const auto something = [&queue] { return !queue.events_.empty(); };
  if (timeout < 0) {
    queue.news_.wait(lock, something);
  } else {
    queue.news_.wait_for(lock, std::chrono::milliseconds(timeout), something);
  }
  return queue.take(event, buffer, length, flags);
}

const char* EventQueue::strerror(fid_eq*, int, const void*, char* buffer, std::size_t length) {
  if (buffer != nullptr && length != 0) *buffer = '\0';
  return "the connection could not be made";
}

}  // namespace viaduct::fabric
