// All of the stack as one translation unit, so that the compiler sees the whole data path at once.
#include "kagent/stack.cc"
#include "kagent/stack_ack.cc"
#include "kagent/stack_claims.cc"
#include "kagent/stack_commands.cc"
#include "kagent/stack_complete.cc"
#include "kagent/stack_congestion.cc"
#include "kagent/stack_connect.cc"
#include "kagent/stack_credit.cc"
#include "kagent/stack_requests.cc"
#include "kagent/stack_disconnect.cc"
#include "kagent/stack_names.cc"
#include "kagent/stack_peer.cc"
#include "kagent/stack_receive.cc"
#include "kagent/stack_divert.cc"  // after stack_receive.cc
#include "kagent/stack_family.cc"  // after stack_receive.cc
#include "kagent/stack_redirect.cc"
#include "kagent/stack_send.cc"
#include "kagent/stack_stopped.cc"
#include "kagent/stack_packed.cc"  // after stack_send.cc
