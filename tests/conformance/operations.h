// The functions of Executor that can be called from the other host, numbered in this order. Those
// marked Blocks may take long and get a thread of their own.
#ifndef CONFORMANCE_OPERATIONS_H
#define CONFORMANCE_OPERATIONS_H

#include <cstddef>
#include <functional>
#include <string>
#include <tuple>
#include <type_traits>

#include "archive.h"
#include "executor.h"

namespace conformance {

enum class Takes { Short, Blocks };

#define CONFORMANCE_OPERATIONS(O)                                                                  \
  O(open_nic, Blocks)                                                                              \
  O(close_nic, Blocks)                                                                             \
  O(query_nic, Short)                                                                              \
  O(create_ptag, Short) O(destroy_ptag, Short) O(register_mem, Short) O(deregister_mem, Short)     \
      O(query_mem, Short) O(set_mem_attributes, Short) O(create_vi, Short) O(destroy_vi, Short) O( \
          query_vi, Short) O(set_vi_attributes, Short) O(connect_wait, Blocks)                     \
          O(connect_accept, Blocks) O(connect_reject, Blocks) O(connect_request, Blocks) O(        \
              disconnect, Blocks) O(connect_peer_request, Short) O(connect_peer_done, Short)       \
              O(connect_peer_wait, Blocks) O(post_send, Short) O(post_recv, Short) O(              \
                  send_done, Short) O(recv_done, Short) O(send_wait, Blocks) O(recv_wait, Blocks)  \
                  O(send_notify, Short) O(recv_notify, Short) O(create_cq, Short) O(               \
                      destroy_cq, Short) O(resize_cq, Short) O(cq_done, Short) O(cq_wait, Blocks)  \
                      O(cq_notify, Short) O(ns_init, Short) O(ns_get_host_by_name, Blocks)         \
                          O(ns_get_host_by_addr, Blocks) O(ns_shutdown, Short)                     \
                              O(error_callback, Short) O(query_system_management_info, Blocks)     \
                                  O(await_error, Blocks) O(errors, Short)                          \
                                      O(release_handlers, Short) O(await_notification, Blocks)     \
                                          O(allocate, Short) O(unmap, Short) O(fill, Short)        \
                                              O(mismatch, Short) O(write, Short) O(read, Short)    \
                                                  O(watch, Blocks) O(finish, Blocks) O(die, Short)       \
                                                      O(post_and_leave, Short)

enum class OpNumber : std::uint16_t {
#define O(name, takes) name,
  CONFORMANCE_OPERATIONS(O)
#undef O
      count_
};

template <class Method>
struct Signature;
template <class R, class... A>
struct Signature<R (Executor::*)(A...)> {
  using Return = R;
  using Arguments = std::tuple<std::decay_t<A>...>;
};

// One of them, as a type.
template <auto Method, OpNumber Number>
struct Operation {
  static constexpr auto kMethod = Method;
  static constexpr OpNumber kNumber = Number;
  using Return = typename Signature<decltype(Method)>::Return;
  using Arguments = typename Signature<decltype(Method)>::Arguments;
};

namespace op {
#define O(name, takes) using name = Operation<&Executor::name, OpNumber::name>;
CONFORMANCE_OPERATIONS(O)
#undef O
}  // namespace op

struct OperationEntry {
  const char* name;
  Takes takes;
  std::string (*perform)(Executor& executor, const std::string& arguments);
};

template <class Op>
std::string perform(Executor& executor, const std::string& bytes) {
  typename Op::Arguments arguments;
  Reader{bytes}(arguments);
  Writer answer;
  const auto call = [&](auto&... each) { return std::invoke(Op::kMethod, executor, each...); };
  if constexpr (std::is_void_v<typename Op::Return>) {
    std::apply(call, arguments);
  } else {
    answer(std::apply(call, arguments));
  }
  return answer.bytes;
}

inline const OperationEntry& operation(OpNumber number) {
  static constexpr OperationEntry kTable[] = {
#define O(name, takes) {#name, Takes::takes, &perform<op::name>},
      CONFORMANCE_OPERATIONS(O)
#undef O
  };
  return kTable[static_cast<std::size_t>(number)];
}

}  // namespace conformance

#endif
