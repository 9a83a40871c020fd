# The stack, which knows nothing but xdp/port.h, and the agent around it.

noinst_LTLIBRARIES += libviaduct_stack.la libviaduct_agent.la
libviaduct_stack_la_CXXFLAGS = $(AM_CXXFLAGS) -static
libviaduct_agent_la_CXXFLAGS = $(AM_CXXFLAGS) -static
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
	kagent/contract/iovec_cursor.h \
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
	kagent/stack/verdict.h \
	kagent/stack/vi_state.h \
	kagent/stack/vi_table.h \
	kagent/stack/virtual_interfaces.h \
	kagent/stack/wakeups.h \
	kagent/stack/remains.cc \
	kagent/stack/tables.cc \
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
libviaduct_stack_la_SOURCES = $(stack_sources) kagent/agent/hosted_stack.cc kagent/agent/hosted_stack.h \
	kagent/stack/history_reader.cc kagent/stack/history_reader.h

agent_sources = \
	kagent/agent/seccomp.cc kagent/agent/seccomp.h \
	kagent/agent/ask_agent.cc kagent/agent/ask_agent.h \
	kagent/agent/attached.cc kagent/agent/attached.h \
	kagent/agent/carriers.cc kagent/agent/carriers.h \
	kagent/agent/config.cc kagent/agent/config_values.cc kagent/agent/config_text.h kagent/agent/config.h \
	kagent/agent/control_socket.cc kagent/agent/control_socket.h \
	kagent/agent/peer.cc kagent/agent/peer.h \
	kagent/agent/counter_table.cc kagent/agent/counter_table.h \
	kagent/agent/counters_client.cc kagent/agent/counters_client.h \
	kagent/agent/device_names.cc kagent/agent/device_names.h \
	kagent/agent/event_log.cc kagent/agent/event_log.h \
	kagent/agent/event_loop.cc kagent/agent/event_loop.h \
	kagent/agent/granter.h \
	kagent/agent/grants.cc kagent/agent/grants.h \
	kagent/agent/heartbeat.h \
	kagent/agent/granted_segment.cc kagent/agent/granted_segment.h \
	kagent/agent/listen_socket.cc kagent/agent/listen_socket.h \
	kagent/agent/local_paths.cc kagent/agent/local_paths.h \
	kagent/agent/log_limit.h \
	kagent/agent/user_rate.h kagent/agent/user_sessions.h \
	kagent/agent/report_budget.h \
	kagent/agent/reports.cc kagent/agent/reports.h \
	kagent/agent/request_listener.cc kagent/agent/request_listener.h \
	kagent/agent/log.cc kagent/agent/log.h \
	kagent/agent/nic.cc kagent/agent/nic.h \
	kagent/agent/macvlan_ports.cc kagent/agent/macvlan_ports.h \
	kagent/agent/options.cc kagent/agent/options.h \
	kagent/agent/pid_file.cc kagent/agent/pid_file.h \
	kagent/agent/privileges.cc kagent/agent/privileges.h \
	kagent/agent/program_environment.cc kagent/agent/program_environment.h \
	kagent/agent/program_files.cc kagent/agent/program_files.h \
	kagent/agent/program_memory.cc kagent/agent/program_memory.h \
	kagent/agent/control_messages.cc kagent/agent/control_messages.h \
	kagent/agent/service.cc kagent/agent/service.h \
	kagent/agent/service_counters.h \
	kagent/agent/session.cc kagent/agent/session.h \
	kagent/agent/session_server.cc kagent/agent/session_server_attach.cc kagent/agent/session_server_report.cc \
	kagent/agent/session_server.h \
	kagent/agent/socket_owners.cc kagent/agent/socket_owners.h \
	kagent/agent/supervisor.cc kagent/agent/supervisor.h \
	kagent/agent/slow_memory.cc kagent/agent/slow_memory.h \
	kagent/agent/user_threads.cc kagent/agent/user_threads.h \
	kagent/agent/vi_report.cc kagent/agent/vi_report.h \
	kagent/agent/worker.cc kagent/agent/worker.h
# A fast build compiles them as one. Apart stay what viactl is linked with, what parses options, and sources that give a
# name of their own to something else than another does.
agent_apart = kagent/agent/ask_agent.cc kagent/agent/config.cc kagent/agent/config_values.cc \
  kagent/agent/control_socket.cc kagent/agent/counters_client.cc kagent/agent/event_loop.cc \
  kagent/agent/listen_socket.cc kagent/agent/options.cc kagent/agent/privileges.cc kagent/agent/reports.cc \
  kagent/agent/service.cc kagent/agent/supervisor.cc
if FAST_BUILD
libviaduct_agent_la_SOURCES = $(agent_apart)
nodist_libviaduct_agent_la_SOURCES = kagent/agent_together.cc
EXTRA_DIST += $(agent_sources)
else
libviaduct_agent_la_SOURCES = $(agent_sources)
endif
CLEANFILES += kagent/agent_together.cc
kagent/agent_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(agent_apart),$(filter %.cc,$(agent_sources)))
libviaduct_agent_la_CPPFLAGS = $(AM_CPPFLAGS) $(SPDLOG_CFLAGS) $(TOML_CFLAGS) $(SECCOMP_CFLAGS)
libviaduct_agent_la_LIBADD = libviaduct_stack.la $(SPDLOG_LIBS) $(TOML_LIBS) $(SECCOMP_LIBS)

sbin_PROGRAMS += viad
viad_SOURCES = kagent/agent/viad_main.cc
viad_CPPFLAGS = $(AM_CPPFLAGS) $(SPDLOG_CFLAGS)
viad_LDADD = libviaduct_agent.la libviaduct_xdp.la

# Looks into the agent. It shares little with the agent, so it needs few of the agent's libraries.
noinst_LTLIBRARIES += libviaduct_tool.la
libviaduct_tool_la_CXXFLAGS = $(AM_CXXFLAGS) -static
tool_sources = \
	kagent/tool/agent_client.cc kagent/tool/agent_client.h \
	kagent/tool/doctor.cc kagent/tool/doctor.h kagent/tool/doctor_gather.cc \
	kagent/tool/events.cc kagent/tool/events.h \
	kagent/tool/table.cc kagent/tool/table.h \
	kagent/tool/top.cc kagent/tool/top.h \
	kagent/tool/views.cc kagent/tool/views.h \
	kagent/tool/words.cc kagent/tool/words.h
if FAST_BUILD
libviaduct_tool_la_SOURCES =
nodist_libviaduct_tool_la_SOURCES = kagent/tool_together.cc
EXTRA_DIST += $(tool_sources)
else
libviaduct_tool_la_SOURCES = $(tool_sources)
endif
CLEANFILES += kagent/tool_together.cc
kagent/tool_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter %.cc,$(tool_sources))
libviaduct_tool_la_LIBADD = libviaduct_agent.la

bin_PROGRAMS += viactl
viactl_SOURCES = kagent/tool/viactl_main.cc
viactl_LDFLAGS = $(AM_LDFLAGS) -Wl,--as-needed
viactl_LDADD = libviaduct_tool.la

# Captures frames and reads captures. Parts that need no agent are by themselves: the simulation writes captures too.
noinst_LTLIBRARIES += libviaduct_dump.la
libviaduct_dump_la_CXXFLAGS = $(AM_CXXFLAGS) -static
dump_sources = \
	kagent/dump/agent_programs.cc kagent/dump/agent_programs.h \
	kagent/dump/capture_reader.cc kagent/dump/capture_reader.h \
	kagent/dump/endpoints.cc kagent/dump/endpoints.h \
	kagent/dump/extcap.cc kagent/dump/extcap.h \
	kagent/dump/filter.cc kagent/dump/filter.h \
	kagent/dump/found_frames.cc kagent/dump/found_frames.h \
	kagent/dump/frame_fields.cc \
	kagent/dump/frame_reading.cc kagent/dump/frame_reading.h \
	kagent/dump/live_capture.cc kagent/dump/live_capture.h \
	kagent/dump/local_capture.cc kagent/dump/local_capture.h \
	kagent/dump/packet.h \
	kagent/dump/pcapng_format.h \
	kagent/dump/pcapng_writer.cc kagent/dump/pcapng_writer.h \
	kagent/dump/pipeline.cc kagent/dump/pipeline.h \
	kagent/dump/printer.cc kagent/dump/printer.h
# Apart: as above.
dump_apart = kagent/dump/frame_reading.cc kagent/dump/live_capture.cc kagent/dump/local_capture.cc \
  kagent/dump/pipeline.cc kagent/dump/printer.cc
if FAST_BUILD
libviaduct_dump_la_SOURCES = $(dump_apart)
nodist_libviaduct_dump_la_SOURCES = kagent/dump_together.cc
EXTRA_DIST += $(dump_sources)
else
libviaduct_dump_la_SOURCES = $(dump_sources)
endif
CLEANFILES += kagent/dump_together.cc
kagent/dump_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(dump_apart),$(filter %.cc,$(dump_sources)))
libviaduct_dump_la_CPPFLAGS = $(AM_CPPFLAGS) $(PCAP_CFLAGS)
libviaduct_dump_la_LIBADD = libviaduct_tool.la libviaduct_xdp.la

bin_PROGRAMS += viadump
viadump_SOURCES = kagent/dump/viadump_main.cc
viadump_LDFLAGS = $(AM_LDFLAGS) -Wl,--as-needed
viadump_LDADD = libviaduct_dump.la

# Wireshark's dissector, made of the description of frames; and viadump where Wireshark looks for programs that
# capture.
wiresharkdir = $(WIRESHARK_PLUGINS)
nodist_wireshark_DATA = kagent/dump/viaduct.lua
EXTRA_DIST += kagent/contract/wire.fields kagent/dump/dissector.lua.in kagent/dump/make_dissector
CLEANFILES += kagent/dump/viaduct.lua
kagent/dump/viaduct.lua: $(srcdir)/kagent/contract/wire.fields $(srcdir)/kagent/dump/dissector.lua.in \
		$(srcdir)/kagent/dump/make_dissector
	$(AM_V_GEN)$(MKDIR_P) kagent/dump && $(PERL) $(srcdir)/kagent/dump/make_dissector \
	  $(srcdir)/kagent/contract/wire.fields $(srcdir)/kagent/dump/dissector.lua.in >$@.tmp && mv $@.tmp $@

# bash looks for a file with the name of the program.
EXTRA_DIST += kagent/tool/completion.bash
completiondir = $(datadir)/bash-completion/completions
completed_programs = viad viadump viaping viabench vialab lanevid
if WITH_SOVIA
completed_programs += sovia
endif
install-data-local:
	$(MKDIR_P) '$(DESTDIR)$(completiondir)'
	$(INSTALL_DATA) $(srcdir)/kagent/tool/completion.bash '$(DESTDIR)$(completiondir)/viactl'
	cd '$(DESTDIR)$(completiondir)' && for program in $(completed_programs); do \
	  rm -f $$program && $(LN_S) viactl $$program || exit; done
	$(MKDIR_P) '$(DESTDIR)$(WIRESHARK_EXTCAP)'
	cd '$(DESTDIR)$(WIRESHARK_EXTCAP)' && rm -f viadump && $(LN_S) '$(bindir)/viadump' viadump
uninstall-local:
	cd '$(DESTDIR)$(completiondir)' && rm -f viactl $(completed_programs)
	rm -f '$(DESTDIR)$(WIRESHARK_EXTCAP)/viadump'

# None of them is put where it would take effect by itself, unless configure was told to.
units = kagent/viad.service kagent/viad@.service kagent/viaduct-metrics.service kagent/viaduct-metrics.timer
if WITH_SYSTEMD_UNIT
systemdsystemunit_DATA = $(units)
else
pkgdata_DATA = $(units)
endif
dist_pkgdata_DATA = kagent/viad.conf
EXTRA_DIST += kagent/viad.service.in kagent/viaduct-metrics.service.in kagent/viaduct-metrics.timer.in
CLEANFILES += $(units)

# viad.service serves what viad.conf names, viad@INTERFACE.service one interface.
unit_of = $(AM_V_GEN)$(MKDIR_P) kagent && sed -e 's|@sbindir[@]|$(sbindir)|g; s|@bindir[@]|$(bindir)|g'
kagent/viad.service: $(srcdir)/kagent/viad.service.in Makefile
	$(unit_of) -e '/^@instance[@]/d; s/^@whole[@]//; s/ *@arguments[@]//; s/@of[@]//' \
	  $(srcdir)/kagent/viad.service.in >$@.tmp && mv $@.tmp $@
kagent/viad@.service: $(srcdir)/kagent/viad.service.in Makefile
	$(unit_of) -e '/^@whole[@]/d; s/^@instance[@]//; s/@arguments[@]/--interface %i/; s/@of[@]/ on %i/' \
	  $(srcdir)/kagent/viad.service.in >$@.tmp && mv $@.tmp $@
kagent/viaduct-metrics.service: $(srcdir)/kagent/viaduct-metrics.service.in Makefile
	$(unit_of) $(srcdir)/kagent/viaduct-metrics.service.in >$@.tmp && mv $@.tmp $@
kagent/viaduct-metrics.timer: $(srcdir)/kagent/viaduct-metrics.timer.in Makefile
	$(unit_of) $(srcdir)/kagent/viaduct-metrics.timer.in >$@.tmp && mv $@.tmp $@

# For Prometheus and Grafana.
metricsdir = $(pkgdatadir)/metrics
dist_metrics_DATA = kagent/metrics/alerts.yml kagent/metrics/dashboard.json
