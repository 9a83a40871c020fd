# The stack, which knows nothing but xdp/port.h, and what programs share with it (kagent/contract/).

noinst_LTLIBRARIES += libviaduct_stack.la
libviaduct_stack_la_CXXFLAGS = $(AM_CXXFLAGS) -static
# What programs and stack share, and the stack: in libvipl too. The stack's parts are templates, of which
# hosted_stack.cc here and vipl/granted/granted_stack.cc make the two stacks, each in one translation unit, so
# that the compiler sees the whole data path at once.
stack_sources = \
	kagent/contract/quota.h \
	kagent/contract/control.h \
	kagent/contract/default_agent.h \
	kagent/contract/crc32c.cc \
	kagent/contract/crc32c.h \
	kagent/contract/flow.h \
	kagent/contract/granted_segment.h \
	kagent/contract/idle.h \
	kagent/contract/spin_time.h \
	kagent/contract/iovec_cursor.h \
	kagent/contract/lock_word.h \
	kagent/contract/random_pool.h \
	kagent/contract/report.h \
	kagent/contract/session_layout.h \
	kagent/contract/slice.h \
	kagent/contract/stack_limits.h \
	kagent/contract/vip_codes.h \
	kagent/contract/wire.cc \
	kagent/contract/wire.h \
	kagent/stack/acknowledger.h \
	kagent/stack/backoff.h \
	kagent/stack/budget.h \
	kagent/stack/claim_table.h \
	kagent/stack/command_slots.h \
	kagent/stack/command_state.h \
	kagent/stack/commands.h \
	kagent/stack/completions.h \
	kagent/stack/congestion.h \
	kagent/stack/delay.h \
	kagent/stack/delay_state.h \
	kagent/stack/link_state.h \
	kagent/stack/connect_body.h \
	kagent/stack/connect_requests.h \
	kagent/stack/connection_state.h \
	kagent/stack/connections.h \
	kagent/stack/counters.h \
	kagent/stack/credit_grants.h \
	kagent/stack/disconnects.h \
	kagent/stack/environment.h \
	kagent/stack/forwarding.h \
	kagent/stack/frames_in.h \
	kagent/stack/frames_out.h \
	kagent/stack/history.h \
	kagent/stack/history_state.h \
	kagent/stack/keepalive.h \
	kagent/stack/loss_recovery.h \
	kagent/stack/memory_table.h \
	kagent/stack/message.h \
	kagent/stack/message_state.h \
	kagent/stack/name_service.h \
	kagent/stack/peer_table.h \
	kagent/stack/placer.h \
	kagent/stack/pool.h \
	kagent/stack/processes.h \
	kagent/stack/psn_set.h \
	kagent/stack/receiver.h \
	kagent/stack/remains.h \
	kagent/stack/request_proof.h \
	kagent/stack/request_targets.h \
	kagent/stack/root_state.h \
	kagent/stack/segments.h \
	kagent/stack/send_credit.h \
	kagent/stack/send_queue.h \
	kagent/stack/session_state.h \
	kagent/stack/program_proof.h kagent/stack/siphash.h \
	kagent/stack/stack.h \
	kagent/stack/stack_all.h \
	kagent/stack/stack_parts.h \
	kagent/stack/stopped_peers.h \
	kagent/stack/state.h \
	kagent/stack/tables.h \
	kagent/stack/target.h \
	kagent/stack/timer_wheel.h \
	kagent/stack/timers.h \
	kagent/stack/trains.h \
	kagent/stack/transmitter.h \
	kagent/stack/pending_disconnect.h \
	kagent/stack/vi_state.h \
	kagent/stack/vi_table.h \
	kagent/stack/virtual_interfaces.h \
	kagent/stack/wakeups.h \
	kagent/stack/remains.cc \
	kagent/stack/tables.cc \
	xdp/bulk_path.h \
	xdp/port.h
EXTRA_DIST += \
	kagent/stack/acknowledger.cc \
	kagent/stack/claim_table.cc \
	kagent/stack/command_slots.cc \
	kagent/stack/commands.cc \
	kagent/stack/completions.cc \
	kagent/stack/connect_requests.cc \
	kagent/stack/connections.cc \
	kagent/stack/connections_peer.cc \
	kagent/stack/credit_grants.cc \
	kagent/stack/disconnects.cc \
	kagent/stack/forwarding.cc \
	kagent/stack/frames_in.cc \
	kagent/stack/frames_out.cc \
	kagent/stack/keepalive.cc \
	kagent/stack/loss_recovery.cc \
	kagent/stack/memory_table.cc \
	kagent/stack/name_service.cc \
	kagent/stack/peer_table.cc \
	kagent/stack/placer.cc \
	kagent/stack/processes.cc \
	kagent/stack/receiver.cc \
	kagent/stack/request_proof.cc \
	kagent/stack/request_targets.cc \
	kagent/stack/send_credit.cc \
	kagent/stack/send_queue.cc \
	kagent/stack/stack.cc \
	kagent/stack/stopped_peers.cc \
	kagent/stack/trains.cc \
	kagent/stack/transmitter.cc \
	kagent/stack/virtual_interfaces.cc \
	kagent/stack/wakeups.cc
libviaduct_stack_la_SOURCES = $(stack_sources) kagent/stack/hosted_stack.cc kagent/stack/hosted_stack.h \
	kagent/stack/history_reader.cc kagent/stack/history_reader.h
