// A granted port on the agent's side: the macvlan child, the AF_XDP socket on it and its buffers,
// for as long as this object lives. When it goes, the port is dead at once and its interface a
// little later. Only one that has been left behind (leave()), or whose agent was killed, stays for
// the next agent: nothing of it needs a process but the program's own socket.
//
// The program that gets the socket and the buffers (GrantedPort) can receive what is addressed to
// the child and send what the filter lets through, and nothing else.
#ifndef VIADUCT_XDP_GRANT_GRANT_H
#define VIADUCT_XDP_GRANT_GRANT_H

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "xdp/grant/grant_filter.h"
#include "xdp/grant/grant_remains.h"
#include "xdp/grant/granted_layout.h"
#include "xdp/ether_type.h"

namespace viaduct {

class Grant {
 public:
  struct Options {
    GrantFilter& filter;  // of the interface; must outlive the grant
    std::uint16_t ether_type = VIADUCT_ETHER_TYPE;
    // A quarter of it is for sending. With chunks of 4096 bytes (MTU beyond 1774) half as many
    // frames fit: 5 MiB let the program keep more frames than a connection has under way.
    std::size_t umem_bytes = std::size_t{4} << 20;
    std::uint32_t ring = 1024;  // entries of each ring
    bool parts = true;          // frames of several chunks, where the interface has such frames
    bool agents_own = false;    // not for a program: may send frames of every type
    std::function<void(std::string_view)> note = [](std::string_view) {};
  };

  // Throws PortError.
  explicit Grant(const Options& options);
  // A port that an earlier agent has made. `filter` has taken the place of that agent's.
  Grant(GrantFilter& filter, GrantRemains::Port&& left);
  ~Grant();
  Grant(const Grant&) = delete;
  Grant& operator=(const Grant&) = delete;

  // Descriptors for the program, which gets copies of them; they stay ours to close. -1: an earlier agent has them.
  int socket() const { return socket_; }
  int umem() const { return umem_; }
  const GrantedLayout& layout() const { return layout_; }

  MacAddress address() const { return layout_.address; }
  int ifindex() const { return ifindex_; }
  const std::string& name() const { return name_; }
  // Frames of the program that the filter has seen.
  GrantFilter::Counts counts() const { return filter_.counts(entry_); }

  // Sends a frame in the program's stead, for one that has died: the child's address is its source.
  // Not through the program's rings. False if the kernel refuses.
  bool say(std::span<const std::byte> frame);

  // Notes in the filter's table, for the next agent, whose port it is.
  void enter_holder(const GrantFilter::Holder& holder);
  // The buffers of an earlier agent's port.
  void take_umem(int umem) { umem_ = umem; }
  // The whole port stays, and the filter with it, when this object goes.
  void leave();

  // Takes child, socket and buffers away, and waits for that, some tens of ms. Afterwards is_kept() tells whether a
  // program still has a copy of the socket, which only a program that means harm does: its buffers stay in memory,
  // and locked, until the copy is closed too.
  void end();
  bool is_kept() const;
  // Frees the port's number; to be called when no program keeps the socket any more. The destructor does that too.
  void release();

 private:
  void make_port(const Options& options);
  void open_port(const Options& options, bool parts);
  void open_socket(const Options& options, bool parts);
  void undo();
  void close_all();
  [[noreturn]] void fail(const char* what, int error) const;
  std::string explain(const char* what, int error) const;

  GrantFilter& filter_;
  GrantFilter::Entry entry_;
  GrantedLayout layout_{};
  std::string name_;
  int ifindex_ = 0;
  int umem_ = -1;
  int socket_ = -1;
  int program_ = -1;  // the program on the child
  int packets_ = -1;  // the socket of say()
  bool ended_ = false;
  bool entry_settled_ = false;
};

}  // namespace viaduct

#endif
