#include "tests/sim/world/client.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>

#include "tests/sim/world/failure.h"

namespace viaduct::sim {
namespace {

// The completion of a slot that is free contains these.
constexpr std::uint32_t kFreeStatus = 0xf4ee0001;
constexpr std::uint32_t kFreeLength = 0xf4ee0002;

}  // namespace

// ---------------------------------------------------------------------------- a VI

Vi::Vi(Client& its_client, std::uint32_t its_index, std::uint32_t its_generation,
       std::uint16_t its_level, bool send_cq, bool receive_cq)
    : client(its_client), index(its_index), generation(its_generation), level(its_level) {
  queue_[0].cq = send_cq;
  queue_[1].cq = receive_cq;
}

void Vi::set_patient(bool patient) { client.view_.vi(index).send.patient.store(patient ? generation : 0); }

std::uint32_t Vi::state() const { return client.view_.vi(index).status.state.load(); }

std::atomic<std::uint32_t>& Vi::sleepers(bool receive) const {
  layout::Vi& shared = client.view_.vi(index);
  return receive ? shared.receive.sleepers : shared.send.sleepers;
}

void Vi::post(bool receive, const Work& work) {
  const std::uint32_t index_of_slot = client.take_slot();
  layout::Slot& slot = client.view_.slot(index_of_slot);
  slot.completion.status.store(0);
  layout::SlotRequest& request = slot.request;
  request.op = receive ? std::uint16_t{layout::kOpReceive} : std::uint16_t{work.op};
  request.flags = work.immediate ? layout::kSlotImmediate : std::uint16_t{0};
  request.length = work.length;
  request.immediate = work.immediate.value_or(0);
  request.descriptor = reinterpret_cast<std::uint64_t>(client.descriptors_->data);
  request.descriptor_handle = client.descriptors_->handle;
  std::uint16_t count = 0;
  if (work.op == layout::kOpRdmaRead || work.op == layout::kOpRdmaWrite) {
    request.payload.segments[count++] = {work.remote, work.remote_handle, 0};
  }
  std::uint32_t at = 0;
  for (unsigned left = work.pieces; at < work.length; --left) {
    const std::uint32_t piece = left > 1 ? (work.length - at) / left : work.length - at;
    if (piece == 0) continue;
    request.payload.segments[count++] = {
        reinterpret_cast<std::uint64_t>(work.buffer->data + work.from + at), work.buffer->handle,
        piece};
    at += piece;
  }
  request.segment_count = count;
  if (work.beyond != 0 && count != 0) {
    request.payload.segments[count - 1].length += work.beyond;
    request.length += work.beyond;
  }
  if (work.in_slot) {
    request.flags |= layout::kSlotInline;
    std::memcpy(request.payload.inline_data + count * sizeof(layout::Segment),
                work.buffer->data + work.from, work.length);
  } else if (work.buffer != nullptr) {
    if (work.buffer->status != nullptr) fail("the simulation posts a buffer twice");
    work.buffer->status = &slot.completion.status;
    work.buffer->posted = work.from + work.length;
    work.buffer->incoming = receive || work.op == layout::kOpRdmaRead;
  }
  Queue& queue = queue_[receive];
  queue.posted.push_back({index_of_slot, work, 0, 0, 0});
  layout::RingEntry* const ring =
      receive ? client.view_.receive_ring(index) : client.view_.send_ring(index);
  ring[queue.position % layout::kRingEntries].word.store(
      layout::ring_word(index_of_slot, queue.position, generation));
  ++queue.position;
  if (!receive || state() == vip::kError) client.ring(layout::vi_bit(index));
}

bool Vi::ready(bool receive) const {
  const Queue& queue = queue_[receive];
  if (queue.posted.empty()) return false;
  if (queue.cq) return queue.announced > queue.taken;
  return client.view_.slot(queue.posted.front().slot).completion.status.load() != 0;
}

std::size_t Vi::incomplete(bool receive) {
  observe(receive);
  return queue_[receive].posted.size() - queue_[receive].seen;
}

std::optional<Done> Vi::done(bool receive) {
  Queue& queue = queue_[receive];
  if (!ready(receive)) return std::nullopt;
  observe(receive);
  if (queue.seen == 0) fail("a completion queue told of a descriptor that has not completed");
  const Posted posted = queue.posted.front();
  const layout::Slot& slot = client.view_.slot(posted.slot);
  const layout::SlotCompletion& completion = slot.completion;
  if (completion.status.load() != posted.status || completion.length != posted.length ||
      completion.immediate != posted.immediate) {
    fail("a descriptor was completed a second time: status %x and then %x", posted.status,
         completion.status.load());
  }
  Buffer* const buffer = posted.work.buffer;
  if (receive && completion.inline_length != 0) {
    if (buffer == nullptr || completion.inline_length > posted.work.length) {
      fail("more data inline than the receive has room for");
    }
    std::memcpy(buffer->data + posted.work.from, slot.inline_data, completion.inline_length);
  }
  if (buffer != nullptr && !posted.work.in_slot) buffer->status = nullptr;
  queue.posted.pop_front();
  --queue.seen;
  ++queue.taken;
  client.give_slot(posted.slot);
  return Done{posted.status, posted.length, posted.immediate, posted.work.tag, buffer};
}

void Vi::observe(bool receive) {
  Queue& queue = queue_[receive];
  while (queue.seen < queue.posted.size()) {
    Posted& next = queue.posted[queue.seen];
    const layout::SlotCompletion& completion = client.view_.slot(next.slot).completion;
    next.status = completion.status.load();
    if (next.status == 0) break;
    next.length = completion.length;
    next.immediate = completion.immediate;
    if ((next.status & vip::kDone) == 0) fail("a status without the done bit: %x", next.status);
    const bool counts = receive || next.work.op == layout::kOpSend || next.work.immediate;
    if ((next.status & vip::kErrorMask) == 0 && counts) ++queue.succeeded;
    ++queue.seen;
  }
  // Of those behind none may be done.
  for (std::size_t ahead = queue.seen + 1; ahead < queue.posted.size(); ahead += 1 + ahead / 2) {
    if (client.view_.slot(queue.posted[ahead].slot).completion.status.load() != 0) {
      fail("a descriptor was completed before one that was posted earlier");
    }
  }
}

void Vi::observe() {
  observe(false);
  observe(true);
}

// ---------------------------------------------------------------------------- a session

Client::Client(Host& its_host, Memory& its_memory, Manner manner, bool with_cq, bool& rang)
    : host(its_host), memory(its_memory), manner_(manner), rang_(rang) {
  bytes_ = layout::Offsets(host.stack->capacity()).total;
  void* const got = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) fail("no memory for a session");
  segment_ = static_cast<std::byte*>(got);
  const auto session = host.stack->open_session(segment_);
  if (!session) fail("no session left");
  session_ = *session;
  view_ = layout::View(segment_, host.stack->capacity());
  descriptors_ = &memory.allocate(1024, false);
  if (!register_buffer(*descriptors_, 1024)) fail("no region for descriptors");
  if (with_cq) {
    layout::CommandBody body{};
    body.op = layout::Op::kCreateCq;
    body.entries = 1024;
    body = now(body);
    if (body.result == vip::kSuccess) cq_ = body.handle, cq_generation_ = body.generation;
  }
}

Client::~Client() {
  if (open_) close();
  munmap(segment_, bytes_);
}

void Client::close() {
  check_slots();
  host.stack->close_session(session_, host.network.now());
  rang_ = true;
  open_ = false;
}

void Client::ring(std::uint32_t bit) {
  view_.header().doorbells.ring(bit);
  if (view_.header().driver_sleeps.load() != 0) {
    view_.header().driver_sleeps.store(0);
    rang_ = true;
  }
}

std::uint32_t Client::take_slot() {
  // Old ones and new ones by turns, so that a slot is both soon and late used again.
  if (!free_slots_.empty() && (fresh_slots_ >= 64 || free_slots_.size() > 16)) {
    const std::uint32_t slot = free_slots_.front();
    free_slots_.pop_front();
    const layout::SlotCompletion& completion = view_.slot(slot).completion;
    if (completion.status.load() != kFreeStatus || completion.length != kFreeLength) {
      fail("a descriptor that was dequeued was completed again");
    }
    return slot;
  }
  if (fresh_slots_ == host.stack->limits().slots) fail("no slots left");
  return fresh_slots_++;
}

void Client::give_slot(std::uint32_t slot) {
  layout::SlotCompletion& completion = view_.slot(slot).completion;
  completion.status.store(kFreeStatus);
  completion.length = kFreeLength;
  free_slots_.push_back(slot);
}

void Client::check_slots() const {
  for (const std::uint32_t slot : free_slots_) {
    const layout::SlotCompletion& completion = view_.slot(slot).completion;
    if (completion.status.load() != kFreeStatus || completion.length != kFreeLength) {
      fail("a descriptor that was dequeued was completed again");
    }
  }
}

void Client::command(const layout::CommandBody& body, Answer answer) {
  for (std::uint32_t c = 0; c < layout::kCommands; ++c) {
    layout::Command& slot = view_.command(c);
    const bool taken = std::any_of(commands_.begin(), commands_.end(),
                                   [c](const Pending& one) { return one.command == c; });
    if (taken) continue;
    slot.body = body;
    slot.state.store(layout::kSubmitted);
    commands_.push_back({c, std::move(answer)});
    ring(layout::command_bit(c));
    return;
  }
  fail("no command slot left");
}

layout::CommandBody Client::now(const layout::CommandBody& body) {
  std::optional<layout::CommandBody> answer;
  command(body, [&answer](const layout::CommandBody& b) { answer = b; });
  const std::uint32_t mine = commands_.back().command;
  host.stack->progress(host.network.now());
  rang_ = true;  // its driver has something new to wait for
  layout::Command& slot = view_.command(mine);
  if (slot.state.load() != layout::kFinished) fail("a command did not finish at once");
  const layout::CommandBody out = slot.body;
  slot.state.store(layout::kIdle);
  std::erase_if(commands_, [mine](const Pending& one) { return one.command == mine; });
  return out;
}

bool Client::register_buffer(Buffer& buffer, std::uint32_t length, bool remote_write,
                             bool remote_read) {
  layout::CommandBody body{};
  body.op = layout::Op::kRegisterMemory;
  body.memory.address = reinterpret_cast<std::uint64_t>(buffer.data);
  body.memory.length = length;
  body.memory.enable_write = remote_write;
  body.memory.enable_read = remote_read;
  body = now(body);
  if (body.result != vip::kSuccess) return false;
  buffer.handle = body.handle;
  buffer.region = length;
  buffer.remote_write = remote_write;
  buffer.remote_read = remote_read;
  return true;
}

void Client::deregister(Buffer& buffer) {
  if (buffer.handle == 0) return;
  layout::CommandBody body{};
  body.op = layout::Op::kDeregisterMemory;
  body.memory.address = reinterpret_cast<std::uint64_t>(buffer.data);
  body.handle = buffer.handle;
  if (now(body).result != vip::kSuccess) fail("memory can't be deregistered");
  buffer.handle = 0;
  buffer.remote_write = buffer.remote_read = false;
}

Vi* Client::create_vi(std::uint16_t level, std::uint32_t max_transfer, bool rdma) {
  layout::CommandBody body{};
  body.op = layout::Op::kCreateVi;
  body.vi_attributes.reliability = level;
  body.vi_attributes.max_transfer = max_transfer;
  body.vi_attributes.enable_write = rdma;
  body.vi_attributes.enable_read = rdma && level != vip::kUnreliable;
  const std::uint32_t cq = cq_ ? *cq_ + 1 : 0;
  body.send_cq = body.receive_cq = cq;
  body = now(body);
  if (body.result != vip::kSuccess) return nullptr;
  vis_.push_back(std::make_unique<Vi>(*this, body.vi, body.generation, level, cq != 0, cq != 0));
  return vis_.back().get();
}

std::vector<std::pair<bool, Done>> Client::destroy_vi(Vi* vi) {
  layout::CommandBody body{};
  body.op = layout::Op::kDestroyVi;
  body.vi = vi->index;
  body.generation = vi->generation;
  if (now(body).result != vip::kSuccess) fail("a VI can't be destroyed");
  std::vector<std::pair<bool, Done>> dropped;
  for (const bool receive : {false, true}) {
    for (const Vi::Posted& posted : vi->queue_[receive].posted) {
      if (posted.work.buffer != nullptr && !posted.work.in_slot)
        posted.work.buffer->status = nullptr;
      give_slot(posted.slot);
      dropped.push_back({receive, Done{vip::kDone | vip::kFlushedError, 0, 0, posted.work.tag,
                                       posted.work.buffer}});
    }
  }
  std::erase_if(vis_, [vi](const auto& one) { return one.get() == vi; });
  return dropped;
}

Vi* Client::vi_of(std::uint32_t index, std::uint32_t generation) {
  for (const auto& vi : vis_) {
    if (vi->index == index && vi->generation == generation) return vi.get();
  }
  return nullptr;
}

bool Client::poll() {
  bool any = false;
  if (manner_ == Manner::kIsCalled) view_.header().alert.store(0);
  for (std::size_t i = 0; i < commands_.size();) {
    layout::Command& slot = view_.command(commands_[i].command);
    if (slot.state.load() != layout::kFinished) {
      ++i;
      continue;
    }
    const layout::CommandBody body = slot.body;
    slot.state.store(layout::kIdle);
    const Answer answer = std::move(commands_[i].answer);
    commands_.erase(commands_.begin() + static_cast<std::ptrdiff_t>(i));
    any = true;
    if (answer) answer(body);
  }
  while (cq_) {
    const layout::CqEntry& entry = view_.cq_ring(*cq_)[cq_taken_ % layout::kCqRingEntries];
    if (entry.tag.load() != layout::cq_tag(cq_taken_, cq_generation_)) break;
    any = true;
    if (Vi* const vi = vi_of(entry.vi, entry.vi_generation)) {
      Vi::Queue& queue = vi->queue_[entry.receive != 0];
      vi->observe(entry.receive != 0);
      if (entry.sequence != queue.announced) {
        fail("a completion queue told of completion %u after %u", entry.sequence, queue.announced);
      }
      if (++queue.announced > queue.taken + queue.seen) {
        fail("a completion queue told of a completion that is none");
      }
    }
    view_.cq(*cq_).consumed.store(++cq_taken_);
    if (view_.cq(*cq_).starved.load() != 0) ring(layout::cq_bit(host.stack->capacity(), *cq_));
  }
  return any;
}

bool Client::something_to_see() const {
  for (const Pending& one : commands_) {
    if (view_.command(one.command).state.load() == layout::kFinished) return true;
  }
  if (cq_) {
    const layout::CqEntry& entry = view_.cq_ring(*cq_)[cq_taken_ % layout::kCqRingEntries];
    if (entry.tag.load() == layout::cq_tag(cq_taken_, cq_generation_)) return true;
  }
  return std::any_of(vis_.begin(), vis_.end(),
                     [](const auto& vi) { return vi->ready(false) || vi->ready(true); });
}

bool Client::sleep() {
  if (manner_ == Manner::kSpins) return false;
  const std::uint32_t bit = manner_ == Manner::kSleeps  ? layout::kSleeper
                            : manner_ == Manner::kPolls ? layout::kPoller
                                                        : layout::kCallbackThread;
  for (const Pending& one : commands_) view_.command(one.command).sleepers.fetch_or(bit);
  if (cq_) view_.cq(*cq_).sleepers.fetch_or(bit);
  for (const auto& vi : vis_) {
    for (const bool receive : {false, true}) {
      if (!cq_) vi->sleepers(receive).fetch_or(bit);
    }
  }
  if (something_to_see()) return false;
  return asleep_ = true;
}

bool Client::is_word(const std::atomic<std::uint32_t>& word) const {
  const auto* const at = reinterpret_cast<const std::byte*>(&word);
  return at >= segment_ && at < segment_ + bytes_;
}

void Client::observe() {
  for (const auto& vi : vis_) vi->observe();
}

}  // namespace viaduct::sim
