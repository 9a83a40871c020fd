# The stack, which knows nothing but xdp/port.h, and the agent around it.

noinst_LTLIBRARIES += libviaduct_stack.la libviaduct_agent.la
libviaduct_stack_la_CXXFLAGS = $(AM_CXXFLAGS) -static
libviaduct_agent_la_CXXFLAGS = $(AM_CXXFLAGS) -static
# One translation unit, so that the compiler sees the whole data path at once.
stack_sources = \
	kagent/stack/stack_all.cc \
	kagent/contract/charged.h \
	kagent/stack/counters.h \
	kagent/contract/crc32c.cc kagent/contract/crc32c.h \
	kagent/stack/siphash.h \
	kagent/stack/environment.h vipl/granted/granted_environment.h \
	kagent/contract/flow.h \
	kagent/contract/idle.h kagent/contract/slice.h \
	kagent/contract/iovec_cursor.h kagent/contract/random_pool.h \
	kagent/stack/pool.h \
	kagent/stack/repeat.h \
	kagent/contract/session_layout.h \
	kagent/stack/stack.h kagent/stack/stack_binding.h kagent/stack/stack_state.h \
	kagent/stack/timer_wheel.h \
	kagent/contract/vip_codes.h \
	kagent/contract/wire.cc kagent/contract/wire.h \
	xdp/port.h
EXTRA_DIST += \
	kagent/stack/stack.cc \
	kagent/stack/stack_ack.cc \
	kagent/stack/stack_claims.cc \
	kagent/stack/stack_stopped.cc \
	kagent/stack/stack_commands.cc \
	kagent/stack/stack_complete.cc \
	kagent/stack/stack_congestion.cc \
	kagent/stack/stack_credit.cc \
	kagent/stack/stack_connect.cc \
	kagent/stack/stack_requests.cc \
	kagent/stack/stack_disconnect.cc \
	kagent/stack/stack_divert.cc \
	kagent/stack/stack_family.cc \
	kagent/stack/stack_names.cc \
	kagent/stack/stack_packed.cc \
	kagent/stack/stack_peer.cc \
	kagent/stack/stack_receive.cc \
	kagent/stack/stack_redirect.cc \
	kagent/stack/stack_send.cc
libviaduct_stack_la_SOURCES = $(stack_sources)

libviaduct_agent_la_SOURCES = \
	kagent/agent/seccomp.cc kagent/agent/seccomp.h \
	kagent/agent/attached.cc kagent/agent/attached.h \
	kagent/agent/carriers.cc kagent/agent/carriers.h \
	kagent/agent/config.cc kagent/agent/config_values.cc kagent/agent/config_text.h kagent/agent/config.h \
	kagent/contract/control.h \
	kagent/agent/control_socket.cc kagent/agent/control_socket.h \
	kagent/agent/counter_table.cc kagent/agent/counter_table.h \
	kagent/agent/counters_client.cc kagent/agent/counters_client.h \
	kagent/agent/device_names.cc kagent/agent/device_names.h \
	kagent/agent/event_loop.cc kagent/agent/event_loop.h \
	kagent/contract/granted_home.h \
	kagent/agent/granter.h \
	kagent/agent/grants.cc kagent/agent/grants.h \
	kagent/agent/heartbeat.h \
	kagent/agent/home.cc kagent/agent/home.h \
	kagent/agent/listen_socket.cc kagent/agent/listen_socket.h \
	kagent/agent/log_limit.h \
	kagent/agent/user_sessions.h \
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
	kagent/agent/session_server.cc kagent/agent/session_server_attach.cc kagent/agent/session_server.h \
	kagent/agent/socket_owners.cc kagent/agent/socket_owners.h \
	kagent/agent/supervisor.cc kagent/agent/supervisor.h \
	kagent/agent/slow_memory.cc kagent/agent/slow_memory.h \
	kagent/agent/user_threads.cc kagent/agent/user_threads.h \
	kagent/agent/worker.cc kagent/agent/worker.h
libviaduct_agent_la_CPPFLAGS = $(AM_CPPFLAGS) $(SPDLOG_CFLAGS) $(TOML_CFLAGS) $(SECCOMP_CFLAGS)
libviaduct_agent_la_LIBADD = libviaduct_stack.la $(SPDLOG_LIBS) $(TOML_LIBS) $(SECCOMP_LIBS)

sbin_PROGRAMS += viad
viad_SOURCES = kagent/agent/viad_main.cc
viad_CPPFLAGS = $(AM_CPPFLAGS) $(SPDLOG_CFLAGS)
viad_LDADD = libviaduct_agent.la libviaduct_xdp.la

# Neither is put where it would take effect by itself, unless configure was told to.
if WITH_SYSTEMD_UNIT
systemdsystemunit_DATA = kagent/viad.service
else
pkgdata_DATA = kagent/viad.service
endif
dist_pkgdata_DATA = kagent/viad.conf
EXTRA_DIST += kagent/viad.service.in
CLEANFILES += kagent/viad.service

kagent/viad.service: $(srcdir)/kagent/viad.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) kagent && sed -e 's|@sbindir[@]|$(sbindir)|g' \
	  $(srcdir)/kagent/viad.service.in >$@.tmp && mv $@.tmp $@
