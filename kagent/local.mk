# The stack, which knows nothing but xdp/port.h, and the agent around it.

noinst_LTLIBRARIES += libviaduct_stack.la libviaduct_agent.la
libviaduct_stack_la_CXXFLAGS = $(AM_CXXFLAGS) -static
libviaduct_agent_la_CXXFLAGS = $(AM_CXXFLAGS) -static
# One translation unit, so that the compiler sees the whole data path at once.
stack_sources = \
	kagent/stack_all.cc \
	kagent/charged.h \
	kagent/counters.h \
	kagent/crc32c.cc kagent/crc32c.h \
	kagent/siphash.h \
	kagent/environment.h kagent/granted_environment.h \
	kagent/flow.h \
	kagent/idle.h kagent/slice.h \
	kagent/pool.h \
	kagent/repeat.h \
	kagent/session_layout.h \
	kagent/stack.h kagent/stack_binding.h kagent/stack_state.h \
	kagent/timer_wheel.h \
	kagent/vip_codes.h \
	kagent/wire.cc kagent/wire.h \
	xdp/port.h
EXTRA_DIST += \
	kagent/stack.cc \
	kagent/stack_ack.cc \
	kagent/stack_claims.cc \
	kagent/stack_stopped.cc \
	kagent/stack_commands.cc \
	kagent/stack_complete.cc \
	kagent/stack_congestion.cc \
	kagent/stack_credit.cc \
	kagent/stack_connect.cc \
	kagent/stack_requests.cc \
	kagent/stack_disconnect.cc \
	kagent/stack_divert.cc \
	kagent/stack_family.cc \
	kagent/stack_names.cc \
	kagent/stack_packed.cc \
	kagent/stack_peer.cc \
	kagent/stack_receive.cc \
	kagent/stack_redirect.cc \
	kagent/stack_send.cc
libviaduct_stack_la_SOURCES = $(stack_sources)

libviaduct_agent_la_SOURCES = \
	kagent/call_filter.cc kagent/call_filter.h \
	kagent/attached.cc kagent/attached.h \
	kagent/carriers.cc kagent/carriers.h \
	kagent/clock.h \
	kagent/config.cc kagent/config_values.cc kagent/config_text.h kagent/config.h \
	kagent/control.h \
	kagent/control_socket.cc kagent/control_socket.h \
	kagent/counter_table.cc kagent/counter_table.h \
	kagent/counters_client.cc kagent/counters_client.h \
	kagent/descriptor.h \
	kagent/device_names.cc kagent/device_names.h \
	kagent/event_loop.cc kagent/event_loop.h \
	kagent/granted_home.h \
	kagent/granter.h \
	kagent/grants.cc kagent/grants.h \
	kagent/heartbeat.h \
	kagent/home.cc kagent/home.h \
	kagent/listen_socket.cc kagent/listen_socket.h \
	kagent/log.cc kagent/log.h \
	kagent/nic.cc kagent/nic.h \
	kagent/nic_granter.cc kagent/nic_granter.h \
	kagent/options.cc kagent/options.h \
	kagent/pid_file.cc kagent/pid_file.h \
	kagent/privileges.cc kagent/privileges.h \
	kagent/program_environment.cc kagent/program_environment.h \
	kagent/program_files.cc kagent/program_files.h \
	kagent/program_memory.cc kagent/program_memory.h \
	kagent/requests.cc kagent/requests.h \
	kagent/service.cc kagent/service.h \
	kagent/service_counters.h \
	kagent/session.cc kagent/session.h \
	kagent/session_server.cc kagent/session_server_attach.cc kagent/session_server.h \
	kagent/socket_owners.cc kagent/socket_owners.h \
	kagent/supervisor.cc kagent/supervisor.h \
	kagent/slow_memory.cc kagent/slow_memory.h \
	kagent/user_threads.cc kagent/user_threads.h \
	kagent/workshop.cc kagent/workshop.h
libviaduct_agent_la_CPPFLAGS = $(AM_CPPFLAGS) $(SPDLOG_CFLAGS) $(TOML_CFLAGS) $(SECCOMP_CFLAGS)
libviaduct_agent_la_LIBADD = libviaduct_stack.la $(SPDLOG_LIBS) $(TOML_LIBS) $(SECCOMP_LIBS)

sbin_PROGRAMS += viad
viad_SOURCES = kagent/viad_main.cc
viad_CPPFLAGS = $(AM_CPPFLAGS) $(SPDLOG_CFLAGS)
viad_LDADD = libviaduct_agent.la libviaduct_xdp.la

# For whoever wants them: neither is put where it would take effect by itself.
pkgdata_DATA = kagent/viad.service
dist_pkgdata_DATA = kagent/viad.conf
EXTRA_DIST += kagent/viad.service.in
CLEANFILES += kagent/viad.service

kagent/viad.service: $(srcdir)/kagent/viad.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) kagent && sed -e 's|@sbindir[@]|$(sbindir)|g' \
	  $(srcdir)/kagent/viad.service.in >$@.tmp && mv $@.tmp $@
