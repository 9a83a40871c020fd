// Two endpoints in one process, connected over the NIC's own address, by libfabric's interface alone.
#ifndef VIADUCT_TESTS_FABRIC_ENDS_H
#define VIADUCT_TESTS_FABRIC_ENDS_H

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <string>
#include <vector>

// A fabric with a domain, an event queue and a passive endpoint that listens. One for all tests: it
// takes a port of the agent's.
class World {
 public:
  static World& get();

  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_eq* events = nullptr;
  fid_pep* listener = nullptr;
  sockaddr_in address{};

 private:
  World();
};

// Memory that is registered for everything.
class Buffer {
 public:
  explicit Buffer(std::size_t bytes, unsigned char fill = 0);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  unsigned char* data() { return bytes_.data(); }
  std::size_t size() const { return bytes_.size(); }
  void* desc() { return fi_mr_desc(mr_); }
  std::uint64_t key() { return fi_mr_key(mr_); }
  std::uint64_t address() { return reinterpret_cast<std::uintptr_t>(bytes_.data()); }
  void number(unsigned seed);
  bool numbered(unsigned seed, std::size_t bytes) const;

 private:
  std::vector<unsigned char> bytes_;
  fid_mr* mr_ = nullptr;
};

// One endpoint with a queue of its own.
struct End {
  fid_cq* queue = nullptr;
  fid_ep* ep = nullptr;

  void open(fi_info* info, std::uint64_t bind_flags = 0);
  void close();
  ~End() { close(); }

  // The next completion; fails the test after ten seconds.
  fi_cq_data_entry next();
  // The next one is to be an error.
  fi_cq_err_entry next_error();
  // Until the call succeeds, looking at the queue meanwhile, which is to stay empty.
  template <class Call>
  ssize_t insist(Call&& call);
  // One look; completions are kept for `next`.
  void look();
  std::vector<fi_cq_data_entry> kept;
};

// The next event of the World's queue.
struct Told {
  std::uint32_t kind = 0;
  fid_t fid = nullptr;
  fi_info* info = nullptr;
  std::string data;
  int error = 0;  // instead of a kind
};
Told next_event(int milliseconds = 10000);

// A pair that is connected.
struct Pair {
  explicit Pair(std::uint64_t bind_flags = 0, std::size_t size = 0);
  End a;  // asked
  End b;  // accepted
};

template <class Call>
ssize_t End::insist(Call&& call) {
  for (;;) {
    const ssize_t result = call();
    if (result != -FI_EAGAIN) return result;
    look();
  }
}

#endif
