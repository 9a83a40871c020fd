# sovia: sockets over VIA. libsovia for programs that are linked with it, libsovia-preload for those
# that are not, the program sovia.

sovia_sources = \
	sovia/api/api.h \
	sovia/api/api_connection.cc \
	sovia/api/api_data.cc \
	sovia/api/api_descriptors.cc \
	sovia/api/api_epoll.cc \
	sovia/api/api_files.cc \
	sovia/api/api_messages.cc sovia/api/api_messages.h \
	sovia/api/api_options.cc \
	sovia/api/api_passing.cc sovia/api/api_passing.h \
	sovia/api/api_process.cc \
	sovia/api/api_stdio.cc \
	sovia/api/api_tags.cc \
	sovia/background/background.cc sovia/background/background.h \
	sovia/background/background_lanes.cc \
	sovia/background/dear_lanes.cc sovia/background/dear_lanes.h \
	sovia/background/lane_family.cc sovia/background/lane_family.h \
	sovia/background/kernel_watch.cc sovia/background/kernel_watch.h \
	sovia/background/lane_finisher.cc sovia/background/lane_finisher.h \
	sovia/background/lane_price.h \
	sovia/background/background_state.h \
	sovia/background/requests.cc sovia/background/requests.h \
	sovia/background/rest.cc sovia/background/rest.h \
	sovia/datagram/datagram_calls.cc sovia/datagram/datagram_calls.h \
	sovia/datagram/datagram_control.cc sovia/datagram/datagram_control.h \
	sovia/datagram/datagram_lane.h \
	sovia/datagram/datagram_requests.h \
	sovia/datagram/datagram_socket.cc sovia/datagram/datagram_socket.h \
	sovia/datagram/datagram_table.cc sovia/datagram/datagram_table.h \
	sovia/datagram/datagram_vi.cc sovia/datagram/datagram_vi.h \
	sovia/datagram/datagram_transport.h \
	sovia/datagram/handshake.h \
	sovia/datagram/peer_counts.h \
	sovia/lane/arrival_threads.cc sovia/lane/arrival_threads.h \
	sovia/lane/engine.cc sovia/lane/engine.h \
	sovia/lane/flow.h \
	sovia/lane/lane.cc sovia/lane/lane.h \
	sovia/lane/control_sender.cc sovia/lane/control_sender.h \
	sovia/lane/credits.h \
	sovia/lane/lane_control.cc sovia/lane/lane_control.h \
	sovia/lane/lane_greeting.cc sovia/lane/lane_greeting.h \
	sovia/lane/lane_options.cc sovia/lane/lane_options.h \
	sovia/lane/lane_pieces.h \
	sovia/lane/lane_remote.cc sovia/lane/lane_remote.h \
	sovia/lane/lane_rx.cc sovia/lane/lane_rx.h \
	sovia/lane/lane_send_ring.cc sovia/lane/lane_send_ring.h \
	sovia/lane/lane_sinks.cc sovia/lane/lane_sinks.h \
	sovia/lane/lane_tx.cc sovia/lane/lane_tx.h \
	sovia/lane/process_nic.cc sovia/lane/process_nic.h \
	sovia/lane/listener.cc sovia/lane/listener.h \
	sovia/lane/packet.h \
	sovia/lane/registrations.cc sovia/lane/registrations.h \
	sovia/lane/ring.h \
	sovia/lane/spin_time.h \
	sovia/lane/tcp_route.cc sovia/lane/tcp_route.h \
	sovia/lane/waiting.cc sovia/lane/waiting.h \
	sovia/lane/watchers.cc sovia/lane/watchers.h \
	sovia/lane/lane_vi.h \
	sovia/lane/remote_memory.h \
	sovia/lane/transport.h \
	sovia/lane/turn.h \
	sovia/lane/vi_calls.cc sovia/lane/vi_calls.h \
	sovia/lane/vi_remote_memory.cc sovia/lane/vi_remote_memory.h \
	sovia/lane/vi_transport.cc sovia/lane/vi_transport.h \
	sovia/lane/lane_pages.cc sovia/lane/lane_pages.h \
	sovia/message/frame.h \
	sovia/message/lane_condition.h \
	sovia/message/message_control.cc \
	sovia/message/message_failure.h \
	sovia/message/message_memory.h \
	sovia/message/message_receiver.cc sovia/message/message_receiver.h \
	sovia/message/message_sender.cc sovia/message/message_sender.h \
	sovia/message/message_socket.cc sovia/message/message_socket.h \
	sovia/message/peer_buffers.cc sovia/message/peer_buffers.h \
	sovia/message/read_ahead.h \
	sovia/message/spill.h \
	sovia/message/rendezvous.cc sovia/message/rendezvous.h \
	sovia/message/tag_frames.h \
	sovia/message/tag_table.cc sovia/message/tag_table.h \
	sovia/message/tag_transfer.cc sovia/message/tag_transfer.h \
	sovia/message/tagged_buffers.cc sovia/message/tagged_buffers.h \
	sovia/poll/kernel_only_poll.h \
	sovia/poll/epoll_registration.h \
	sovia/poll/epoll_set.cc sovia/poll/epoll_set.h \
	sovia/poll/epoll_sets.cc \
	sovia/poll/epoll_wait.cc \
	sovia/poll/event_bits.h \
	sovia/poll/poll_set.cc sovia/poll/poll_set.h \
	sovia/poll/ready_arguments.h \
	sovia/poll/ready_list.cc sovia/poll/ready_list.h \
	sovia/poll/ready_poll.cc \
	sovia/poll/ready_select.cc \
	sovia/poll/registration_table.cc sovia/poll/registration_table.h \
	sovia/process/clock.cc sovia/process/clock.h \
	sovia/process/counters.cc sovia/process/counters.h \
	sovia/process/guarded_copy.h \
	sovia/process/libc.cc sovia/process/libc.h \
	sovia/process/lock.cc sovia/process/lock.h sovia/process/lock_order.h \
	sovia/process/once.h \
	sovia/process/options.cc sovia/process/options.h \
	sovia/process/own_descriptors.cc sovia/process/own_descriptors.h \
	sovia/process/reason.cc sovia/process/reason.h \
	sovia/process/rings.cc sovia/process/rings.h \
	sovia/process/seccomp.h \
	sovia/process/signals.cc sovia/process/signals.h \
	sovia/process/threads.h \
	sovia/process/units.h \
	sovia/process/wake_event.h \
	sovia/program/fork.cc sovia/program/fork.h \
	sovia/program/inheritance.cc sovia/program/inheritance.h \
	sovia/program/gain.cc sovia/program/gain.h \
	sovia/program/process.cc sovia/program/process.h \
	sovia/program/scm_rights.cc sovia/program/scm_rights.h \
	sovia/program/fd_relocation.cc sovia/program/fd_relocation.h \
	sovia/program/seccomp_filter.cc sovia/program/seccomp_filter.h \
	sovia/program/stdio_streams.cc sovia/program/stdio_streams.h \
	sovia/socket/background_requests.h \
	sovia/socket/peer_history.cc sovia/socket/peer_history.h \
	sovia/socket/readiness.cc sovia/socket/readiness.h \
	sovia/socket/redirected_receive.cc sovia/socket/redirected_receive.h \
	sovia/socket/rx_sources.cc sovia/socket/rx_sources.h \
	sovia/socket/inherited_bytes.cc sovia/socket/inherited_bytes.h \
	sovia/socket/attempt.h \
	sovia/socket/burst.h \
	sovia/socket/connection_reset.h \
	sovia/socket/fallback.cc sovia/socket/fallback.h \
	sovia/socket/fallback_state.h \
	sovia/socket/fork_handoff.cc sovia/socket/fork_handoff.h \
	sovia/socket/handoff_state.h \
	sovia/socket/quick_bypass.cc sovia/socket/quick_bypass.h \
	sovia/socket/held_sends.cc sovia/socket/held_sends.h \
	sovia/socket/lane_demand.cc sovia/socket/lane_demand.h \
	sovia/socket/lane_life.cc sovia/socket/lane_life.h \
	sovia/socket/lane_link.cc sovia/socket/lane_link.h \
	sovia/socket/rx_stream.h \
	sovia/socket/stream_locks.h \
	sovia/socket/tx_stream.h \
	sovia/socket/owed_bytes.cc sovia/socket/owed_bytes.h \
	sovia/socket/waiters.h \
	sovia/socket/waiting_call.cc sovia/socket/waiting_call.h \
	sovia/socket/socket_leave.cc \
	sovia/socket/socket_ready.cc \
	sovia/socket/socket_receive.cc \
	sovia/socket/socket_send.cc \
	sovia/socket/lane_endpoint.cc sovia/socket/lane_endpoint.h \
	sovia/socket/lane_pin.cc sovia/socket/lane_pin.h \
	sovia/socket/message_layer.h \
	sovia/socket/socket.cc sovia/socket/socket.h \
	sovia/socket/socket_modes.cc sovia/socket/socket_modes.h \
	sovia/socket/socket_pieces.h \
	sovia/socket/socket_pool.cc sovia/socket/socket_pool.h \
	sovia/socket/socket_ref.h \
	sovia/socket/resume_record.cc sovia/socket/resume_record.h \
	sovia/socket/shown_socket.h \
	sovia/socket/table.cc sovia/socket/table.h

# Everything but the names. One build of it is in both libraries.
noinst_LTLIBRARIES += libsovia_parts.la
# Not as one in a fast build: unit tests are linked without the sources that start the background thread.
libsovia_parts_la_SOURCES = $(sovia_sources)
libsovia_parts_la_CXXFLAGS = $(AM_CXXFLAGS) -ftls-model=initial-exec

lib_LTLIBRARIES += libsovia.la
include_HEADERS += sovia/sovia.h sovia/sovia_names.h
pkgconfig_DATA += sovia/sovia.pc
libsovia_la_SOURCES =
# C++, though it has no file of its own.
nodist_EXTRA_libsovia_la_SOURCES = none.cc
libsovia_la_LIBADD = libsovia_parts.la libvipl.la -lpthread
# The library's thread and handlers outlive dlclose(): nodelete.
libsovia_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 -export-symbols-regex '^sovia_' \
	-no-undefined -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,now

# The C++ library is a part of it: it also serves programs with another C++ library.
lib_LTLIBRARIES += libsovia-preload.la
libsovia_preload_la_SOURCES = sovia/preload/preload.cc sovia/preload/symbols.h sovia/api/argument_array.h
libsovia_preload_la_LIBADD = libsovia_parts.la libvipl.la -lpthread
libsovia_preload_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -no-undefined \
	-export-symbols sovia/preload/exports -Wl,$(STATIC_CXX_LIBRARY) -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,now
libsovia_preload_la_LINK = $(LIBTOOL) $(AM_V_lt) --tag=CC $(AM_LIBTOOLFLAGS) $(LIBTOOLFLAGS) \
	--mode=link $(CC) $(AM_CFLAGS) $(CFLAGS) $(libsovia_preload_la_LDFLAGS) $(LDFLAGS) -o $@
libsovia_preload_la_DEPENDENCIES = libsovia_parts.la libvipl.la sovia/preload/exports

# The names that the library has: those of the list, and those of sovia.h.
CLEANFILES += sovia/preload/exports
sovia/preload/exports: $(srcdir)/sovia/preload/symbols.h $(srcdir)/sovia/sovia.h
	$(AM_V_GEN)$(MKDIR_P) sovia/preload && \
	  { printf '%s\n' '#include "sovia/preload/symbols.h"' '#define X(name, ...) name' \
	      'SOVIA_PRELOAD_SYMBOLS(X) SOVIA_PRELOAD_SYMBOLS_BY_HAND(X)' | \
	      $(CXX) -E -P -I$(srcdir) -x c++ - | tr ' ' '\n' | grep '^[a-zA-Z_]' && \
	    grep -o 'sovia_[a-zA-Z0-9_]*(' $(srcdir)/sovia/sovia.h | tr -d '('; } | sort -u >$@.tmp && \
	  mv $@.tmp $@

# In a folder of its own, as its name is that of this one.
bin_PROGRAMS += sovia/launcher/sovia
launcher_sources = \
	sovia/process/counters.cc \
	sovia/launcher/call_kinds.cc sovia/launcher/call_kinds.h \
	sovia/launcher/counters_reader.cc sovia/launcher/counters_reader.h \
	sovia/launcher/elf_file.cc sovia/launcher/elf_file.h \
	sovia/launcher/explain.cc sovia/launcher/explain.h \
	sovia/launcher/main.cc \
	sovia/launcher/preload_library.cc sovia/launcher/preload_library.h \
	sovia/launcher/json_text.h \
	sovia/launcher/sockets.cc sovia/launcher/sockets.h \
	sovia/launcher/stat.cc sovia/launcher/stat.h \
	sovia/process/libc.cc sovia/process/own_descriptors.cc \
	sovia/preload/not_needed.h \
	sovia/process/reason.cc
launcher_apart = sovia/launcher/main.cc
if FAST_BUILD
sovia_launcher_sovia_SOURCES = $(launcher_apart)
nodist_sovia_launcher_sovia_SOURCES = sovia/launcher_together.cc
EXTRA_DIST += $(launcher_sources)
else
sovia_launcher_sovia_SOURCES = $(launcher_sources)
endif
CLEANFILES += sovia/launcher_together.cc
sovia/launcher_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(launcher_apart),$(filter %.cc,$(launcher_sources)))
sovia_launcher_sovia_CPPFLAGS = $(AM_CPPFLAGS) -DSOVIA_LIBDIR='"$(libdir)"'
