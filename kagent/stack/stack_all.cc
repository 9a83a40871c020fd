// All of the stack as one translation unit, so that the compiler sees the whole data path at once.
#include "kagent/stack/stack.cc"
#include "kagent/stack/stack_ack.cc"
#include "kagent/stack/stack_claims.cc"
#include "kagent/stack/stack_commands.cc"
#include "kagent/stack/stack_complete.cc"
#include "kagent/stack/stack_congestion.cc"
#include "kagent/stack/stack_connect.cc"
#include "kagent/stack/stack_credit.cc"
#include "kagent/stack/stack_requests.cc"
#include "kagent/stack/stack_disconnect.cc"
#include "kagent/stack/stack_names.cc"
#include "kagent/stack/stack_peer.cc"
#include "kagent/stack/stack_receive.cc"
#include "kagent/stack/stack_divert.cc"  // after stack_receive.cc
#include "kagent/stack/stack_family.cc"  // after stack_receive.cc
#include "kagent/stack/stack_redirect.cc"
#include "kagent/stack/stack_send.cc"
#include "kagent/stack/stack_stopped.cc"
#include "kagent/stack/stack_packed.cc"  // after stack_send.cc
