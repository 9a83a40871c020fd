// Captures what granted programs of this host exchange through memory (the local path): the agent hands out the files
// of their rings, and a thread reads along (xdp/local/local_tap.h). The programs do nothing for it.
//
//   rings of pairs --thread--> queue of `buffer_bytes` --next()--> the caller
//
// Frames that the thread does not read before a program has written over them, or that the queue has no room for,
// are lost to the capture and counted.
#ifndef VIADUCT_KAGENT_TOOLS_VIADUMP_LOCAL_CAPTURE_H
#define VIADUCT_KAGENT_TOOLS_VIADUMP_LOCAL_CAPTURE_H

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <list>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kagent/tools/viadump/packet.h"
#include "kagent/tools/viactl/agent_client.h"
#include "xdp/local/local_ring.h"
#include "xdp/local/local_tap.h"

namespace viaduct::dump {

struct LocalOptions {
  std::string socket_name;   // of the agent
  std::string interface;     // whose programs
  std::uint32_t number = 1;  // Packet::interface
  std::uint32_t snap_length = 0;  // 0: whole frames
  std::uint64_t buffer_bytes = 32 << 20;
};

class LocalCapture {
 public:
  struct Counts {
    std::uint64_t received = 0;
    std::uint64_t missed = 0;   // written over before they were read
    std::uint64_t no_room = 0;  // of those received: the queue was full
    std::uint64_t broken = 0;   // rings in which there was nonsense: they were given up
  };

  // Throws std::runtime_error: there is no agent, or it does not hand the files out.
  explicit LocalCapture(LocalOptions options);
  ~LocalCapture();
  LocalCapture(const LocalCapture&) = delete;
  LocalCapture& operator=(const LocalCapture&) = delete;

  // Takes the next frame without waiting. False: nothing has come.
  bool next(Packet& packet);
  // Ends the capture: frames that are in the rings now are read, and none after them.
  void stop();
  Counts counts() const;

 private:
  using From = local::RingTap::From;

  // A pair's rings, mapped for reading.
  class Pair {
   public:
    Pair(const Descriptor& rings, From from);  // throws std::runtime_error
    ~Pair();
    Pair(const Pair&) = delete;
    Pair& operator=(const Pair&) = delete;

    local::RingTap taps[2];

   private:
    const std::byte* memory_;
  };

  void run();
  void find_pairs(From from);
  std::size_t read_pairs();
  bool read(local::RingTap& tap);
  void put(const std::byte* frame, std::uint32_t length);

  LocalOptions options_;
  tool::AgentClient agent_;
  std::uint32_t nic_ = 0;
  std::uint64_t next_pair_ = 0;
  std::list<Pair> pairs_;             // used by the thread only
  std::uint64_t gone_lost_ = 0;       // by pairs that have ended
  std::vector<std::byte> room_;       // for a frame
  std::atomic<bool> stopping_ = false;
  mutable std::mutex mutex_;
  std::deque<Packet> queue_;
  std::uint64_t queued_bytes_ = 0;
  Counts counts_;
  std::thread thread_;
};

}  // namespace viaduct::dump

#endif
