#include "executor.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <stdexcept>

#include "executor_parts.h"

namespace conformance {
namespace {

// All executors of the process.
std::mutex all_mutex;
std::vector<std::shared_ptr<Executor>>& all() {
  static auto* const list = new std::vector<std::shared_ptr<Executor>>;
  return *list;
}

std::uint8_t pattern(std::uint32_t seed, std::uint64_t i) {
  const std::uint64_t mixed = (i + 1) * 0x9e3779b97f4a7c15 ^ seed * 0x2545f4914f6cdd1dULL;
  return static_cast<std::uint8_t>(mixed >> 40);
}

std::size_t page() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

std::shared_ptr<Executor> Executor::make() {
  const std::shared_ptr<Executor> made(new Executor);
  const std::lock_guard lock(all_mutex);
  all().push_back(made);
  return made;
}

Executor::OpenNic* Executor::find(NicHandle nic) {
  const std::lock_guard lock(mutex_);
  for (auto it = nics_.rbegin(); it != nics_.rend(); ++it) {
    if ((*it)->handle == nic) return it->get();
  }
  return nullptr;
}

// ------------------------------------------------------------------ NIC

Made<NicHandle> Executor::open_nic(const std::string& device, Nulls nulls) {
  Made<NicHandle> made;
  VIP_NIC_HANDLE nic = reinterpret_cast<VIP_NIC_HANDLE>(kUntouched);
  RUN(made, OpenNic, nulls.has(1) ? nullptr : device.c_str(), nulls.has(2) ? nullptr : &nic);
  made.handle = from_pointer<NicHandle>(nic);
  if (made.code != VIP_SUCCESS || nulls.has(2)) return made;
  {
    const std::lock_guard lock(mutex_);
    nics_.push_back(std::make_unique<OpenNic>());
    nics_.back()->executor = this;
    nics_.back()->handle = made.handle;
  }
  error_callback(made.handle, OnError::kKeep);
  return made;
}

Result Executor::close_nic(NicHandle nic) {
  Result result;
  RUN(result, CloseNic, to_pointer(nic));
  OpenNic* const known = find(nic);
  const std::lock_guard lock(mutex_);
  if (result.code == VIP_SUCCESS && known != nullptr) known->open = false;
  return result;
}

NicAnswer Executor::query_nic(NicHandle nic, Nulls nulls) {
  NicAnswer answer;
  VIP_NIC_ATTRIBUTES a;
  std::memset(&a, 0, sizeof a);
  std::memset(a.Name, 0x5a, sizeof a.Name);
  RUN(answer, QueryNic, to_pointer(nic), nulls.has(2) ? nullptr : &a);
  if (answer.code != VIP_SUCCESS || nulls.has(2)) return answer;
  const std::size_t name = strnlen(a.Name, sizeof a.Name);
  answer.attributes = {
      std::string(a.Name, name),
      name < sizeof a.Name,
      a.HardwareVersion,
      a.ProviderVersion,
      {},
      a.ThreadSafe,
      a.MaxDiscriminatorLen,
      a.MaxRegisterBytes,
      a.MaxRegisterRegions,
      a.MaxRegisterBlockBytes,
      a.MaxVI,
      a.MaxDescriptorsPerQueue,
      a.MaxSegmentsPerDesc,
      a.MaxCQ,
      a.MaxCQEntries,
      a.MaxTransferSize,
      a.NativeMTU,
      a.MaxPtags,
      a.ReliabilityLevelSupport,
      a.RDMAReadSupport,
  };
  if (a.LocalNicAddress != nullptr) {
    answer.attributes.address.assign(a.LocalNicAddress, a.LocalNicAddress + a.NicAddressLen);
  }
  return answer;
}

// ------------------------------------------------------------------ tags and memory

Made<PtagHandle> Executor::create_ptag(NicHandle nic, Nulls nulls) {
  Made<PtagHandle> made;
  VIP_PROTECTION_HANDLE ptag = reinterpret_cast<VIP_PROTECTION_HANDLE>(kUntouched);
  RUN(made, CreatePtag, to_pointer(nic), nulls.has(2) ? nullptr : &ptag);
  made.handle = from_pointer<PtagHandle>(ptag);
  return made;
}

Result Executor::destroy_ptag(NicHandle nic, PtagHandle ptag) {
  Result result;
  RUN(result, DestroyPtag, to_pointer(nic), to_pointer(ptag));
  return result;
}

Made<VIP_MEM_HANDLE> Executor::register_mem(NicHandle nic, std::uint64_t address,
                                            std::uint64_t length, const MemAttributes& attributes,
                                            Nulls nulls) {
  Made<VIP_MEM_HANDLE> made;
  VIP_MEM_ATTRIBUTES a = to_vipl(attributes);
  VIP_MEM_HANDLE handle = kUntouchedMem;
  RUN(made, RegisterMem, to_pointer(nic), nulls.has(2) ? nullptr : to_address(address), length,
      nulls.has(4) ? nullptr : &a, nulls.has(5) ? nullptr : &handle);
  made.handle = handle;
  return made;
}

Result Executor::deregister_mem(NicHandle nic, std::uint64_t address, VIP_MEM_HANDLE handle) {
  Result result;
  RUN(result, DeregisterMem, to_pointer(nic), to_address(address), handle);
  return result;
}

MemAnswer Executor::query_mem(NicHandle nic, std::uint64_t address, VIP_MEM_HANDLE handle,
                              Nulls nulls) {
  MemAnswer answer;
  VIP_MEM_ATTRIBUTES a = {};
  RUN(answer, QueryMem, to_pointer(nic), to_address(address), handle, nulls.has(4) ? nullptr : &a);
  answer.attributes = {from_pointer<PtagHandle>(a.Ptag), a.EnableRdmaWrite, a.EnableRdmaRead};
  return answer;
}

Result Executor::set_mem_attributes(NicHandle nic, std::uint64_t address, VIP_MEM_HANDLE handle,
                                    const MemAttributes& attributes, Nulls nulls) {
  Result result;
  VIP_MEM_ATTRIBUTES a = to_vipl(attributes);
  RUN(result, SetMemAttributes, to_pointer(nic), to_address(address), handle,
      nulls.has(4) ? nullptr : &a);
  return result;
}

// ------------------------------------------------------------------ VIs

Made<ViHandle> Executor::create_vi(NicHandle nic, const ViAttributes& attributes, CqHandle send_cq,
                                   CqHandle recv_cq, Nulls nulls) {
  Made<ViHandle> made;
  VIP_VI_ATTRIBUTES a = to_vipl(attributes);
  VIP_VI_HANDLE vi = reinterpret_cast<VIP_VI_HANDLE>(kUntouched);
  RUN(made, CreateVi, to_pointer(nic), nulls.has(2) ? nullptr : &a, to_pointer(send_cq),
      to_pointer(recv_cq), nulls.has(5) ? nullptr : &vi);
  made.handle = from_pointer<ViHandle>(vi);
  OpenNic* const known = find(nic);
  const std::lock_guard lock(mutex_);
  if (made.code == VIP_SUCCESS && known != nullptr) nic_of_[made.handle] = known;
  return made;
}

Result Executor::destroy_vi(ViHandle vi) {
  Result result;
  RUN(result, DestroyVi, to_pointer(vi));
  return result;
}

ViAnswer Executor::query_vi(ViHandle vi, Nulls nulls) {
  ViAnswer answer;
  VIP_VI_ATTRIBUTES a = {};
  VIP_VI_STATE state = VIP_STATE_IDLE;
  VIP_BOOLEAN send_empty = -1, recv_empty = -1;
  RUN(answer, QueryVi, to_pointer(vi), nulls.has(2) ? nullptr : &state, nulls.has(3) ? nullptr : &a,
      nulls.has(4) ? nullptr : &send_empty, nulls.has(5) ? nullptr : &recv_empty);
  answer.state = state;
  answer.attributes = from_vipl(a);
  answer.send_empty = send_empty;
  answer.recv_empty = recv_empty;
  return answer;
}

Result Executor::set_vi_attributes(ViHandle vi, const ViAttributes& attributes, Nulls nulls) {
  Result result;
  VIP_VI_ATTRIBUTES a = to_vipl(attributes);
  RUN(result, SetViAttributes, to_pointer(vi), nulls.has(2) ? nullptr : &a);
  return result;
}

// ------------------------------------------------------------------ completion queues

Made<CqHandle> Executor::create_cq(NicHandle nic, std::uint64_t entries, Nulls nulls) {
  Made<CqHandle> made;
  VIP_CQ_HANDLE cq = reinterpret_cast<VIP_CQ_HANDLE>(kUntouched);
  RUN(made, CreateCQ, to_pointer(nic), entries, nulls.has(3) ? nullptr : &cq);
  made.handle = from_pointer<CqHandle>(cq);
  return made;
}

Result Executor::destroy_cq(CqHandle cq) {
  Result result;
  RUN(result, DestroyCQ, to_pointer(cq));
  return result;
}

Result Executor::resize_cq(CqHandle cq, std::uint64_t entries) {
  Result result;
  RUN(result, ResizeCQ, to_pointer(cq), entries);
  return result;
}

CqEntry Executor::cq_done(CqHandle cq, Nulls nulls) {
  CqEntry entry;
  VIP_VI_HANDLE vi = nullptr;
  VIP_BOOLEAN recv_queue = -1;
  RUN(entry, CQDone, to_pointer(cq), nulls.has(2) ? nullptr : &vi,
      nulls.has(3) ? nullptr : &recv_queue);
  entry.vi = from_pointer<ViHandle>(vi);
  entry.recv_queue = recv_queue;
  return entry;
}

CqEntry Executor::cq_wait(CqHandle cq, std::uint64_t timeout, Nulls nulls) {
  CqEntry entry;
  VIP_VI_HANDLE vi = nullptr;
  VIP_BOOLEAN recv_queue = -1;
  RUN(entry, CQWait, to_pointer(cq), timeout, nulls.has(3) ? nullptr : &vi,
      nulls.has(4) ? nullptr : &recv_queue);
  entry.vi = from_pointer<ViHandle>(vi);
  entry.recv_queue = recv_queue;
  return entry;
}

// ------------------------------------------------------------------ memory of the process

std::uint64_t Executor::allocate(std::uint64_t length, std::uint64_t offset) {
  const std::size_t size = (length + offset + page() - 1) / page() * page();
  void* const base =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED) throw std::runtime_error("no memory for the test");
  const std::uint64_t address = reinterpret_cast<std::uintptr_t>(base) + offset;
  const std::lock_guard lock(mutex_);
  mappings_[address] = {base, size};
  return address;
}

void Executor::unmap(std::uint64_t address) {
  const std::lock_guard lock(mutex_);
  const auto found = mappings_.find(address);
  if (found == mappings_.end()) throw std::runtime_error("unmap: not what allocate gave");
  // Map an empty file in its place: the next allocation might reuse addresses that are only unmapped.
  const int empty = memfd_create("gone", MFD_CLOEXEC);
  if (empty < 0 || mmap(found->second.first, found->second.second, PROT_READ | PROT_WRITE,
                        MAP_SHARED | MAP_FIXED, empty, 0) == MAP_FAILED) {
    throw std::runtime_error("unmap: the memory can't be taken away");
  }
  close(empty);
}

void Executor::fill(std::uint64_t address, std::uint64_t length, std::uint32_t seed,
                    std::uint64_t from) {
  auto* const bytes = static_cast<std::uint8_t*>(to_address(address));
  for (std::uint64_t i = 0; i < length; ++i) bytes[i] = pattern(seed, from + i);
}

std::uint64_t Executor::mismatch(std::uint64_t address, std::uint64_t length, std::uint32_t seed,
                                 std::uint64_t from) {
  const auto* const bytes = static_cast<const std::uint8_t*>(to_address(address));
  for (std::uint64_t i = 0; i < length; ++i) {
    if (bytes[i] != pattern(seed, from + i)) return i;
  }
  return kMatches;
}

void Executor::write(std::uint64_t address, const std::string& bytes) {
  std::memcpy(to_address(address), bytes.data(), bytes.size());
}

std::string Executor::read(std::uint64_t address, std::uint64_t length) {
  return {static_cast<const char*>(to_address(address)), length};
}

Watched Executor::watch(std::uint64_t flag, std::uint32_t value, std::uint64_t address,
                        std::uint64_t length, std::uint32_t seed, std::uint64_t timeout) {
  auto* const word = static_cast<std::uint32_t*>(to_address(flag));
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout);
  std::uint32_t turns = 0;
  while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value) {
    if (++turns % 64 != 0) continue;
    if (std::chrono::steady_clock::now() > end) return {};
    sched_yield();
  }
  return {true, mismatch(address, length, seed, 0)};
}

// ------------------------------------------------------------------ the end

Counts Executor::finish() {
  std::vector<NicHandle> open;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& nic : nics_) {
      if (nic->open) open.push_back(nic->handle);
    }
  }
  release_handlers();
  for (const NicHandle nic : open) close_nic(nic);
  const std::lock_guard lock(mutex_);
  for (const auto& [address, mapping] : mappings_) munmap(mapping.first, mapping.second);
  mappings_.clear();
  posted_.clear();
  for (const auto& nic : nics_) nic->slabs.clear();
  return recorded();
}

Counts Executor::die() {
  if (!may_die_) throw std::runtime_error("the peer is this process: it can't be ended");
  dying_ = true;
  return recorded();
}

Counts Executor::post_and_leave(ViHandle vi, const Descriptor& descriptor, std::uint32_t count) {
  if (!may_die_) throw std::runtime_error("the peer is this process: it can't be ended");
  for (std::uint32_t i = 0; i < count; ++i) {
    if (post_send(vi, descriptor, {}).code != VIP_SUCCESS) throw std::runtime_error("not posted");
  }
  leaving_ = true;
  return recorded();
}

}  // namespace conformance
