// From one connection to the next.
#include "tests/sim/world/library_side.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

#include "tests/sim/world/failure.h"
#include "tests/sim/world/library_job.h"
#include "tests/sim/world/pattern.h"
#include "vipl/vipl_ext.h"

namespace viaduct::sim {
namespace {

constexpr std::uint32_t kDescriptorRoom = 128;  // for two segments more than VIP_DESCRIPTOR has
constexpr std::uint32_t kAddressRoom = 128;
constexpr std::uint32_t kNarrow = 64;
constexpr std::uint32_t kConstant = 4096;
constexpr std::uint32_t kFewRequests = 8;
constexpr unsigned kMostAsked = 500;  // the library holds 1,024 for a NIC

bool has_cq(LibraryManner manner) {
  return manner == LibraryManner::kCqPolls || manner == LibraryManner::kCqWaits ||
         manner == LibraryManner::kCqSleeps || manner == LibraryManner::kCqNotified;
}

}  // namespace

LibrarySide::LibrarySide(LibraryJob& job, LibraryProgram& program, unsigned side)
    : job_(job),
      program_(program),
      side_(side),
      options_(job.options),
      manner_(job.options.manners[side]) {}

std::string LibrarySide::text() const {
  char line[160];
  std::snprintf(line, sizeof line,
                "(manner %d%s%s%s, batch %u, sent %u, got %u of %u, posted %zu and %zu, calls %u of %u)",
                static_cast<int>(manner_), up_ ? ", up" : "", over_ ? ", over" : "",
                gone_ ? ", gone" : "", batch_, sent_, got_, due_, queue_[0].size(),
                queue_[1].size(), called_, asked_);
  return line;
}

bool LibrarySide::finished() const { return job_.finished(); }

LibrarySide& LibrarySide::other() const { return *job_.sides[1 - side_]; }

bool LibrarySide::leaves() const { return gone_ || program_.closing || job_.finished(); }

void LibrarySide::nap(std::uint64_t least, std::uint64_t most) {
  Kernel::the().sleep(program_.random.magnitude(least, most));
}

// Whether a call has returned one of these codes. If not, its NIC must have gone.
bool LibrarySide::check(VIP_RETURN got, const char* call,
                        std::initializer_list<VIP_RETURN> allowed) {
  const bool lost = program_.lost() && got == VIP_ERROR_RESOURCE;
  if (!lost && std::find(allowed.begin(), allowed.end(), got) != allowed.end()) return true;
  const bool closed = program_.closing && (got == VIP_INVALID_PARAMETER ||
                                           got == VIP_ERROR_RESOURCE || got == VIP_INVALID_PTAG);
  if (!closed && !lost) {
    fail("job %u side %u: %s says %d (%s)", options_.job, side_, call, got, VipxReturnText(got));
  }
  gone_ = over_ = true;
  return false;
}

// ---------------------------------------------------------------------------- lives

void LibrarySide::died() {
  if (connection_ != nullptr) {
    note_end();
    connection_->gone[side_] = true;
  }
  nic_closed();
  equipped_ = false;
  descriptors_ = narrow_ = target_ = constant_ = nullptr;
  descriptors_used_ = 0;
  buffers_.clear();
  items_.clear();
  free_in_.clear();
  free_out_.clear();
}

// All that was made with it is gone, and its memory is no longer in use.
void LibrarySide::nic_closed() {
  if (connection_ != nullptr) connection_->gone[side_] = true;
  // The other side may have found this one just when it closed.
  if (program_.closing && other().connection_ != nullptr) other().connection_->ended = true;
  connection_ = peers_ = nullptr;
  gone_ = up_ = over_ = false;
  tag_ = nullptr;
  cq_ = nullptr;
  vi_ = nullptr;
  asked_ = called_ = 0;
  receiver_runs_ = false;
  posting_ = 0;
  for (const bool receive : {false, true}) {
    for (Item* const item : queue_[receive]) come_back(*item, receive);
    queue_[receive].clear();
  }
  for (Buffer* const buffer : buffers_) {
    buffer->handle = 0;
    buffer->remote_write = buffer->remote_read = false;
  }
}

void LibrarySide::run() {
  if (equip()) {
    while (!leaves()) {
      if (vi_ == nullptr && !create()) {
        if (!gone_) nap(kMsec, 20 * kMsec);
        continue;
      }
      offer_all();
      if (leaves()) break;
      if (!connect()) {
        if (gone_) break;
        if (program_.random.chance(0.3)) destroy();
        if (!gone_) nap(10 * kUs, 100 * kMsec);
        continue;
      }
      transfer();
      end_connection();
      if (!leaves()) nap(kUs, 20 * kMsec);
    }
    clean_up();
  }
  --program_.running;
  program_.word.fetch_add(1);
  Kernel::the().fibers.wake(&program_.word, 1);
}

// ---------------------------------------------------------------------------- what it needs

LibrarySide::Item* LibrarySide::new_item(std::uint32_t bytes) {
  Item& item = items_.emplace_back();
  item.descriptor = reinterpret_cast<VIP_DESCRIPTOR*>(descriptors_->data + descriptors_used_);
  descriptors_used_ += kDescriptorRoom;
  item.buffer = &program_.memory->allocate(bytes);
  buffers_.push_back(item.buffer);
  return &item;
}

bool LibrarySide::register_buffer(Buffer& buffer, std::uint32_t bytes, bool write, bool read) {
  VIP_MEM_ATTRIBUTES attributes{tag_, write, read};
  VIP_MEM_HANDLE handle = 0;
  const VIP_RETURN result = VipRegisterMem(program_.nic, buffer.data, bytes, &attributes, &handle);
  if (!check(result, "VipRegisterMem", {VIP_SUCCESS})) return false;
  if (handle == 0) fail("a memory handle is 0");
  buffer.handle = handle;
  buffer.region = bytes;
  buffer.remote_write = write;
  buffer.remote_read = read;
  return true;
}

bool LibrarySide::equip() {
  const unsigned receives = 2 * options_.window;
  const std::uint32_t largest = options_.largest + 32;
  if (!equipped_) {
    equipped_ = true;
    Memory& memory = *program_.memory;
    descriptors_ = &memory.allocate((receives + options_.window + 1) * kDescriptorRoom + 64);
    const auto at = reinterpret_cast<std::uintptr_t>(descriptors_->data);
    descriptors_used_ = (64 - at % 64) % 64;
    narrow_ = &memory.allocate(kNarrow + 64);
    target_ = &memory.allocate(receives * options_.largest);
    constant_ = &memory.allocate(kConstant);
    Pattern(options_.job, side_).fill(constant_->data, kConstant);
    buffers_ = {descriptors_, narrow_, target_, constant_};
    for (unsigned i = 0; i < receives; ++i) free_in_.push_back(new_item(largest));
    for (unsigned i = 0; i < options_.window; ++i) free_out_.push_back(new_item(largest));
  }
  if (program_.random.chance(0.5)) {
    if (!check(VipCreatePtag(program_.nic, &tag_), "VipCreatePtag",
               {VIP_SUCCESS, VIP_ERROR_RESOURCE})) {
      return false;
    }
  }
  const bool reads = options_.level != vip::kUnreliable;
  bool well = register_buffer(*descriptors_, descriptors_->size, false, false) &&
              register_buffer(*narrow_, kNarrow, false, false) &&
              register_buffer(*target_, target_->size, true, false) &&
              register_buffer(*constant_, kConstant, false, reads);
  for (Item& item : items_) {
    well = well && register_buffer(*item.buffer, item.buffer->size, false, false);
  }
  return well;
}

bool LibrarySide::create() {
  if (has_cq(manner_) && cq_ == nullptr) {
    const VIP_RETURN made =
        VipCreateCQ(program_.nic, 1 + program_.random.below(64), &cq_);
    if (!check(made, "VipCreateCQ", {VIP_SUCCESS, VIP_ERROR_RESOURCE})) return false;
    if (made != VIP_SUCCESS) {
      cq_ = nullptr;
      return false;
    }
    asked_of_cq_ = 0;
  }
  VIP_VI_ATTRIBUTES attributes{};
  attributes.ReliabilityLevel = options_.level;
  attributes.MaxTransferSize = 65536;
  attributes.Ptag = tag_;
  attributes.EnableRdmaWrite = VIP_TRUE;
  attributes.EnableRdmaRead = options_.level != vip::kUnreliable;
  const VIP_RETURN made = VipCreateVi(program_.nic, &attributes, cq_, cq_, &vi_);
  if (!check(made, "VipCreateVi", {VIP_SUCCESS, VIP_ERROR_RESOURCE})) return false;
  if (made != VIP_SUCCESS) vi_ = nullptr;
  asked_ = called_ = 0;
  return made == VIP_SUCCESS;
}

// With what is still posted.
void LibrarySide::destroy() {
  if (vi_ == nullptr || program_.closing) return;
  const VIP_VI_HANDLE vi = vi_;
  // Handlers know the VI no more.
  vi_ = nullptr;
  if (!check(VipDestroyVi(vi), "VipDestroyVi", {VIP_SUCCESS})) return;
  for (const bool receive : {false, true}) {
    for (Item* const item : queue_[receive]) come_back(*item, receive);
    queue_[receive].clear();
  }
  // Calls that were asked for completions of this VI are due still, and a NIC has no room for very many.
  if (asked_of_cq_ >= kMostAsked && check(VipDestroyCQ(cq_), "VipDestroyCQ", {VIP_SUCCESS})) {
    cq_ = nullptr;
    asked_of_cq_ = 0;
  }
  VIP_DESCRIPTOR* descriptor = nullptr;
  if (VipRecvDone(vi, &descriptor) != VIP_INVALID_PARAMETER) fail("a destroyed VI is still there");
}

void LibrarySide::clean_up() {
  if (program_.closing) return;
  // At times that is left to VipCloseNic; the slots then too.
  destroy();
  if (cq_ != nullptr) check(VipDestroyCQ(cq_), "VipDestroyCQ", {VIP_SUCCESS});
  cq_ = nullptr;
  for (Buffer* const buffer : buffers_) {
    if (buffer->handle == 0 || program_.closing) continue;
    check(VipDeregisterMem(program_.nic, buffer->data, buffer->handle), "VipDeregisterMem",
          {VIP_SUCCESS});
    buffer->handle = 0;
  }
  if (tag_ != nullptr) check(VipDestroyPtag(program_.nic, tag_), "VipDestroyPtag", {VIP_SUCCESS});
  tag_ = nullptr;
}

// ---------------------------------------------------------------------------- connecting

VIP_NET_ADDRESS* LibrarySide::address(std::byte* room, const MacAddress& host, unsigned side,
                                      const std::uint32_t* number) const {
  auto* const out = reinterpret_cast<VIP_NET_ADDRESS*>(room);
  std::memset(room, 0, kAddressRoom);
  out->HostAddressLen = 6;
  std::uint8_t* at = out->HostAddress;
  std::memcpy(at, host.data(), 6);
  std::memcpy(at + 6, &options_.job, 4);
  at[10] = static_cast<std::uint8_t>(side);
  out->DiscriminatorLen = 5;
  if (number != nullptr) {
    std::memcpy(at + 11, number, 4);
    out->DiscriminatorLen = 9;
  }
  return out;
}

bool LibrarySide::connect() {
  batch_ = 0;
  sent_ = got_ = due_ = 0;
  over_ = false;
  peers_ = nullptr;
  // Handlers may be called for the first messages before we know that they can come.
  up_ = true;
  const bool connected = options_.peers ? meet() : side_ == 0 ? ask() : wait_and_accept();
  if (connected) return stands();
  up_ = false;
  if (connection_ != nullptr) {
    note_end();
    connection_->gone[side_] = true;
  }
  connection_ = nullptr;
  return false;
}

bool LibrarySide::ask() {
  alignas(8) std::byte here[kAddressRoom], there[kAddressRoom];
  Simulation& world = job_.world;
  connection_ = &world.new_connection(options_.level);
  address(here, world.address(program_.host), side_, &connection_->number);
  address(there, world.address(other().program_.host), 1 - side_, nullptr);
  VIP_VI_ATTRIBUTES peer{};
  const VIP_ULONG timeout = world.is_calm() ? 5000 : program_.random.magnitude(20, 10'000);
  const VIP_RETURN result =
      VipConnectRequest(vi_, reinterpret_cast<VIP_NET_ADDRESS*>(here),
                        reinterpret_cast<VIP_NET_ADDRESS*>(there), timeout, &peer);
  if (!check(result, "VipConnectRequest",
             {VIP_SUCCESS, VIP_REJECT, VIP_NO_MATCH, VIP_TIMEOUT, VIP_ERROR_RESOURCE})) {
    return false;
  }
  if (result != VIP_SUCCESS) tell("job %u: not connected: %s", options_.job, VipxReturnText(result));
  if (result == VIP_SUCCESS && peer.ReliabilityLevel != options_.level) {
    fail("connected with another level");
  }
  return result == VIP_SUCCESS;
}

bool LibrarySide::wait_and_accept() {
  alignas(8) std::byte here[kAddressRoom], there[kAddressRoom];
  address(here, job_.world.address(program_.host), side_, nullptr);
  VIP_VI_ATTRIBUTES peer{};
  VIP_CONN_HANDLE request = nullptr;
  VIP_RETURN result = VipConnectWait(
      program_.nic, reinterpret_cast<VIP_NET_ADDRESS*>(here), program_.random.between(0, 2000),
      reinterpret_cast<VIP_NET_ADDRESS*>(there), &peer, &request);
  if (!check(result, "VipConnectWait", {VIP_SUCCESS, VIP_TIMEOUT})) return false;
  if (result != VIP_SUCCESS) return false;
  const auto* const from = reinterpret_cast<const VIP_NET_ADDRESS*>(there);
  if (from->DiscriminatorLen != 9) fail("a request with another discriminator");
  std::uint32_t number = 0;
  std::memcpy(&number, from->HostAddress + 11, 4);
  Connection* const asked = job_.world.connection(number);
  if (asked == nullptr) fail("a request that nobody has made: %u", number);
  // Where there is room for few requests, one that is over is forgotten although a program has its handle.
  const VIP_RETURN forgotten =
      job_.world.plan.limits.requests <= kFewRequests ? VIP_INVALID_PARAMETER : VIP_TIMEOUT;
  if (program_.random.chance(0.05)) {
    result = VipConnectReject(request);
    check(result, "VipConnectReject", {VIP_SUCCESS, VIP_TIMEOUT, forgotten});
    return false;
  }
  connection_ = asked;
  result = VipConnectAccept(request, vi_);
  return check(result, "VipConnectAccept", {VIP_SUCCESS, VIP_TIMEOUT, VIP_ERROR_RESOURCE, forgotten}) &&
         result == VIP_SUCCESS;
}

bool LibrarySide::meet() {
  alignas(8) std::byte here[kAddressRoom], there[kAddressRoom];
  Simulation& world = job_.world;
  connection_ = &world.new_connection(options_.level);
  connection_->one_sided = true;
  address(here, world.address(program_.host), side_, nullptr);
  address(there, world.address(other().program_.host), 1 - side_, nullptr);
  const VIP_ULONG timeout = program_.random.magnitude(200, 10'000);
  meets_until_ = world.now() + timeout * kMsec;
  VIP_RETURN result = VipConnectPeerRequest(vi_, reinterpret_cast<VIP_NET_ADDRESS*>(here),
                                            reinterpret_cast<VIP_NET_ADDRESS*>(there), timeout);
  if (!check(result, "VipConnectPeerRequest", {VIP_SUCCESS, VIP_ERROR_RESOURCE})) return false;
  if (result != VIP_SUCCESS) return false;
  VIP_VI_ATTRIBUTES peer{};
  const bool polls = program_.random.chance(0.3);
  do {
    if (polls) nap(10 * kUs, 10 * kMsec);
    result = polls ? VipConnectPeerDone(vi_, &peer) : VipConnectPeerWait(vi_, &peer);
  } while (polls && result == VIP_NOT_DONE);
  return check(result, polls ? "VipConnectPeerDone" : "VipConnectPeerWait",
               {VIP_SUCCESS, VIP_TIMEOUT, VIP_REJECT, VIP_ERROR_RESOURCE}) &&
         result == VIP_SUCCESS;
}

bool LibrarySide::stands() {
  if (connection_->stood[side_]) fail("connection %u was made twice", connection_->number);
  connection_->stood[side_] = true;
  tell("job %u side %u: connection %u is up", options_.job, side_, connection_->number);
  VIP_VI_STATE state{};
  VIP_VI_ATTRIBUTES attributes{};
  VIP_BOOLEAN no_sends = 0, no_receives = 0;
  const VIP_RETURN result = VipQueryVi(vi_, &state, &attributes, &no_sends, &no_receives);
  if (!check(result, "VipQueryVi", {VIP_SUCCESS})) return true;
  if (state != VIP_STATE_CONNECTED && state != VIP_STATE_ERROR) fail("connected, in state %d", state);
  if (attributes.ReliabilityLevel != options_.level) fail("a VI with another level");
  if (no_sends != queue_[0].empty()) fail("a send queue that is not as it should be");
  return true;
}

// ---------------------------------------------------------------------------- a connection

void LibrarySide::ask_around() {
  char name[2] = {static_cast<char>('a' + program_.random.below(job_.world.plan.hosts)), '\0'};
  alignas(8) std::byte room[kAddressRoom] = {};
  auto* const address = reinterpret_cast<VIP_NET_ADDRESS*>(room);
  const VIP_RETURN result = VipNSGetHostByName(program_.nic, name, address, 0);
  if (!check(result, "VipNSGetHostByName", {VIP_SUCCESS, VIP_ERROR_NAMESERVICE, VIP_ERROR_RESOURCE})) return;
  // Answers carry no key: spoilt or forged ones are believed.
  if (result != VIP_SUCCESS || job_.world.plan.corrupts || job_.world.plan.forges) return;
  const MacAddress right = job_.world.address(static_cast<unsigned>(name[0] - 'a'));
  if (std::memcmp(address->HostAddress, right.data(), right.size()) != 0) {
    fail("a name with another host's address");
  }
}

void LibrarySide::transfer() {
  if (manner_ == Manner::kThreads && !gone_) {
    receiver_runs_ = true;
    program_.spawn("receiver", [this] { be_the_receiver(); });
  }
  while (!leaves() && !over_) {
    if (!batch()) return;
    ++batch_;
    ++batches_;
    if (churns_ != 0 && program_.random.chance(options_.churn)) {
      --churns_;
      return;
    }
    if (program_.random.chance(0.03)) ask_around();
    if (options_.pause != 0 && !leaves()) {
      Kernel::the().sleep(program_.random.below(2 * options_.pause + 20 * kUs));
    }
  }
}

void LibrarySide::note_end() {
  if (connection_ == nullptr) return;
  connection_->ended = true;
  if (connection_->one_sided && other().connection_ != nullptr) other().connection_->ended = true;
}

// Whether the other side closes its NIC or has died, or its attempt to meet this one has just timed out, of which its program does
// not know yet.
bool LibrarySide::is_left() const {
  if (other().program_.is_leaving()) return true;
  const Connection* const c = other().connection_;
  return connection_->one_sided && c != nullptr && !c->stood[1 - side_] && job_.world.now() >= other().meets_until_;
}

void LibrarySide::end_connection() {
  Connection& c = *connection_;
  if (over_ && !gone_ && !program_.lost() && !c.spoilt && !c.ended && !is_left() && job_.world.is_calm()) {
    fail("connection %u was lost for no reason", c.number);
  }
  note_end();
  tell("job %u side %u: connection %u is over", options_.job, side_, c.number);
  bool drained = false;
  // Descriptors posted on an Idle VI stay there, so no thread may be about to post.
  up_ = false;
  while (posting_ != 0) Kernel::the().sleep(kUs);
  if (vi_ != nullptr && !program_.closing && check(VipDisconnect(vi_), "VipDisconnect", {VIP_SUCCESS})) {
    drained = manner_ == Manner::kThreads || !program_.random.chance(0.2);
    if (drained) drain();
    drained = drained && empty();
  }
  while (receiver_runs_) Kernel::the().wait(&program_.word, ~0ull);
  if (!drained) c.gone[side_] = true;
  if (drained && !c.gone[side_] && !c.one_sided && options_.level != vip::kUnreliable) {
    // Whichever side comes last knows of both.
    if (c.drained[1 - side_] && !c.gone[1 - side_]) {
      for (const unsigned s : {0u, 1u}) {
        if (c.sent[s] <= c.received[1 - s]) continue;
        fail("connection %u: %llu sends have succeeded, but only %llu receives", c.number,
             static_cast<unsigned long long>(c.sent[s]),
             static_cast<unsigned long long>(c.received[1 - s]));
      }
    }
    c.drained[side_] = true;
  }
  connection_ = nullptr;
  if (drained && !program_.random.chance(0.5)) return;
  destroy();
  // Notifications asked for on it and not served stay asked for.
  if (!drained && manner_ == Manner::kCqNotified && cq_ != nullptr && !program_.closing) {
    check(VipDestroyCQ(cq_), "VipDestroyCQ", {VIP_SUCCESS});
    cq_ = nullptr;
  }
}

}  // namespace viaduct::sim
