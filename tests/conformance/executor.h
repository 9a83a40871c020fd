// One end of the tests: makes VIPL calls in its process, for a test that may run on another host. One VIPL function
// each, and helpers that tests need: memory to register, descriptors, the handlers' reports.
//
// Descriptors lie in memory of the executor's own, registered (with NULL attributes, once for each NIC handle, at the
// first post) when it is needed, and are numbered. Each NIC that is opened gets an error handler that keeps its
// reports.
//
// All functions may be called by any thread; nothing is locked during a VIPL call. An executor is
// never destroyed: handlers of the provider may come late. finish() gives its memory back.
#ifndef CONFORMANCE_EXECUTOR_H
#define CONFORMANCE_EXECUTOR_H

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "records.h"
#include "types.h"

namespace conformance {

class Executor {
 public:
  static std::shared_ptr<Executor> make();

  // NIC
  Made<NicHandle> open_nic(const std::string& device, Nulls nulls);
  Result close_nic(NicHandle nic);
  NicAnswer query_nic(NicHandle nic, Nulls nulls);
  // Protection tags
  Made<PtagHandle> create_ptag(NicHandle nic, Nulls nulls);
  Result destroy_ptag(NicHandle nic, PtagHandle ptag);
  // Memory; register_mem with NULL attributes: null(4)
  Made<VIP_MEM_HANDLE> register_mem(NicHandle nic, std::uint64_t address, std::uint64_t length,
                                    const MemAttributes& attributes, Nulls nulls);
  Result deregister_mem(NicHandle nic, std::uint64_t address, VIP_MEM_HANDLE handle);
  MemAnswer query_mem(NicHandle nic, std::uint64_t address, VIP_MEM_HANDLE handle, Nulls nulls);
  Result set_mem_attributes(NicHandle nic, std::uint64_t address, VIP_MEM_HANDLE handle,
                            const MemAttributes& attributes, Nulls nulls);
  // VIs
  Made<ViHandle> create_vi(NicHandle nic, const ViAttributes& attributes, CqHandle send_cq,
                           CqHandle recv_cq, Nulls nulls);
  Result destroy_vi(ViHandle vi);
  ViAnswer query_vi(ViHandle vi, Nulls nulls);
  Result set_vi_attributes(ViHandle vi, const ViAttributes& attributes, Nulls nulls);
  // Connections. connect_wait fills the room for RemoteAddr with `prefill` first
  Incoming connect_wait(NicHandle nic, const Address& local, std::uint64_t timeout,
                        std::uint8_t prefill, Nulls nulls);
  Result connect_accept(ConnHandle conn, ViHandle vi);
  Result connect_reject(ConnHandle conn);
  Outgoing connect_request(ViHandle vi, const Address& local, const Address& remote,
                           std::uint64_t timeout, Nulls nulls);
  Result disconnect(ViHandle vi);
  Result connect_peer_request(ViHandle vi, const Address& local, const Address& remote,
                              std::uint64_t timeout, Nulls nulls);
  Outgoing connect_peer_done(ViHandle vi, Nulls nulls);
  Outgoing connect_peer_wait(ViHandle vi, Nulls nulls);
  // Data
  Posted post_send(ViHandle vi, const Descriptor& descriptor, Nulls nulls);
  Posted post_recv(ViHandle vi, const Descriptor& descriptor, Nulls nulls);
  Completion send_done(ViHandle vi, Nulls nulls);
  Completion recv_done(ViHandle vi, Nulls nulls);
  Completion send_wait(ViHandle vi, std::uint64_t timeout, Nulls nulls);
  Completion recv_wait(ViHandle vi, std::uint64_t timeout, Nulls nulls);
  Notify send_notify(ViHandle vi, Nulls nulls);
  Notify recv_notify(ViHandle vi, Nulls nulls);
  // Completion queues
  Made<CqHandle> create_cq(NicHandle nic, std::uint64_t entries, Nulls nulls);
  Result destroy_cq(CqHandle cq);
  Result resize_cq(CqHandle cq, std::uint64_t entries);
  CqEntry cq_done(CqHandle cq, Nulls nulls);
  CqEntry cq_wait(CqHandle cq, std::uint64_t timeout, Nulls nulls);
  Notify cq_notify(CqHandle cq, Nulls nulls);
  // Names. get_host_by_name fills the room with `prefill` first
  Result ns_init(NicHandle nic);
  NameAnswer ns_get_host_by_name(NicHandle nic, const std::string& name, std::uint64_t index,
                                 std::uint8_t prefill, Nulls nulls);
  NameAnswer ns_get_host_by_addr(NicHandle nic, const Address& address, std::uint64_t room,
                                 Nulls nulls);
  Result ns_shutdown(NicHandle nic);
  // Errors and management
  Result error_callback(NicHandle nic, OnError what);
  Discovery query_system_management_info(NicHandle nic, std::uint64_t type, Nulls nulls);

  // Not VIPL: errors reported to handlers of `nic` and not taken yet. With `any`, the oldest; else the oldest with
  // this code, the others stay. Waits at most `timeout` ms.
  ErrorEvent await_error(NicHandle nic, bool any, VIP_ERROR_CODE error, std::uint64_t timeout);
  std::vector<ErrorEvent> errors(NicHandle nic);
  void release_handlers();
  // Whether the handler of a Vip*Notify ran, and with what.
  Notification await_notification(std::uint64_t ticket, std::uint64_t timeout);

  // Memory in this process: zeroed, `offset` bytes past a page boundary.
  std::uint64_t allocate(std::uint64_t length, std::uint64_t offset);
  // Takes the pages away from under it.
  void unmap(std::uint64_t address);
  // A pattern that depends on `seed`: written, and compared (the first byte that differs, or
  // kMatches). The byte at `from + i` of the pattern is at `address + i`.
  void fill(std::uint64_t address, std::uint64_t length, std::uint32_t seed, std::uint64_t from);
  std::uint64_t mismatch(std::uint64_t address, std::uint64_t length, std::uint32_t seed,
                         std::uint64_t from);
  void write(std::uint64_t address, const std::string& bytes);
  std::string read(std::uint64_t address, std::uint64_t length);
  // Spins until the 4 bytes at `flag` (a multiple of 4) are `value`, and compares at once.
  Watched watch(std::uint64_t flag, std::uint32_t value, std::uint64_t address,
                std::uint64_t length, std::uint32_t seed, std::uint64_t timeout);

  // Closes all that is open, and gives memory back. Returns counts of the provider's behaviour in this process.
  Counts finish();
  // The process ends at once, with everything open; where it is the tests' own, throws.
  Counts die();
  bool dying() const { return dying_; }
  // Posts this send `count` times; then the process ends as one that calls exit, with everything open.
  Counts post_and_leave(ViHandle vi, const Descriptor& descriptor, std::uint32_t count);
  bool leaving() const { return leaving_; }
  void may_die() { may_die_ = true; }

 private:
  struct OpenNic;
  struct Slab;
  struct Image;
  struct Pending;

  Executor() = default;
  OpenNic* find(NicHandle nic);
  template <class Post>
  Posted post(Function function, ViHandle vi, const Descriptor& descriptor, Nulls nulls, Post call);
  std::unique_ptr<Image> make_image(ViHandle vi, const Descriptor& descriptor);
  void take_slot(OpenNic& nic, std::size_t bytes, Image* image);
  void take_back(VIP_DESCRIPTOR* descriptor, Completion* completion);
  template <class Call>
  Completion dequeue(Call call, unsigned out_argument, Nulls nulls);
  template <class Call>
  Notify notify(Call call);

  static void VI_CALL on_error(VIP_PVOID context, VIP_ERROR_DESCRIPTOR* error);
  static void VI_CALL on_vi(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
                            VIP_DESCRIPTOR* descriptor);
  static void VI_CALL on_cq(VIP_PVOID context, VIP_NIC_HANDLE nic, VIP_VI_HANDLE vi,
                            VIP_BOOLEAN recv_queue);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<OpenNic>> nics_;
  std::map<ViHandle, OpenNic*> nic_of_;
  std::map<void*, std::unique_ptr<Image>> posted_;
  std::map<void*, std::uint64_t> last_at_;  // which was the last to be posted there
  std::uint64_t last_id_ = 0;
  std::deque<std::unique_ptr<Pending>> notifications_;               // ticket = index + 1
  std::map<std::uint64_t, std::pair<void*, std::size_t>> mappings_;  // by what allocate() gave
  bool handlers_released_ = false;
  bool may_die_ = false;
  bool dying_ = false;
  bool leaving_ = false;
};

}  // namespace conformance

#endif
