# The agent: viad, its units and its configuration file. The rooms stand in the order of tests/tree/rules.py: each
# includes those before it.

noinst_LTLIBRARIES += libviaduct_agent.la
libviaduct_agent_la_CXXFLAGS = $(AM_CXXFLAGS) -static
agent_sources = \
	kagent/agent/process/hang_guard.cc kagent/agent/process/hang_guard.h \
	kagent/agent/process/descriptor_table.cc kagent/agent/process/descriptor_table.h \
	kagent/agent/process/event_loop.cc kagent/agent/process/event_loop.h \
	kagent/agent/process/log.cc kagent/agent/process/log.h \
	kagent/agent/process/pid_file.cc kagent/agent/process/pid_file.h \
	kagent/agent/process/privileges.cc kagent/agent/process/privileges.h \
	kagent/agent/process/seccomp.cc kagent/agent/process/seccomp.h \
	kagent/agent/process/supervisor.cc kagent/agent/process/supervisor.h \
	kagent/agent/process/user_threads.cc kagent/agent/process/user_threads.h \
	kagent/agent/process/worker.cc kagent/agent/process/worker.h \
	kagent/agent/control/ask_agent.cc kagent/agent/control/ask_agent.h \
	kagent/agent/control/control_messages.cc kagent/agent/control/control_messages.h \
	kagent/agent/control/control_socket.cc kagent/agent/control/control_socket.h \
	kagent/agent/control/counters_client.cc kagent/agent/control/counters_client.h \
	kagent/agent/control/listen_socket.cc kagent/agent/control/listen_socket.h \
	kagent/agent/control/log_limit.h \
	kagent/agent/control/peer.cc kagent/agent/control/peer.h \
	kagent/agent/control/refused.h \
	kagent/agent/control/request_listener.cc kagent/agent/control/request_listener.h \
	kagent/agent/control/service_counters.h \
	kagent/agent/control/user_rate.h \
	kagent/agent/control/user_share.h \
	kagent/agent/config/config.cc kagent/agent/config/config.h \
	kagent/agent/config/config_text.h \
	kagent/agent/config/config_values.cc \
	kagent/agent/config/device_names.cc kagent/agent/config/device_names.h \
	kagent/agent/config/options.cc kagent/agent/config/options.h \
	kagent/agent/programs/granted_segment.cc kagent/agent/programs/granted_segment.h \
	kagent/agent/programs/heartbeat.h \
	kagent/agent/programs/host_names.cc kagent/agent/programs/host_names.h \
	kagent/agent/programs/program_environment.cc kagent/agent/programs/program_environment.h \
	kagent/agent/programs/program_files.cc kagent/agent/programs/program_files.h \
	kagent/agent/programs/program_memories.cc kagent/agent/programs/program_memories.h \
	kagent/agent/programs/program_memory.cc kagent/agent/programs/program_memory.h \
	kagent/agent/programs/session_users.h \
	kagent/agent/programs/slow_memory.cc kagent/agent/programs/slow_memory.h \
	kagent/agent/programs/socket_owners.cc kagent/agent/programs/socket_owners.h \
	kagent/agent/nic/granter.h \
	kagent/agent/nic/agent_nic.cc kagent/agent/nic/agent_nic.h \
	kagent/agent/nic/nic_report.h \
	kagent/agent/grants/grants.cc kagent/agent/grants/grants.h \
	kagent/agent/grants/macvlan_ports.cc kagent/agent/grants/macvlan_ports.h \
	kagent/agent/grants/port_maker.cc kagent/agent/grants/port_maker.h \
	kagent/agent/sessions/attached.cc kagent/agent/sessions/attached.h \
	kagent/agent/sessions/hello_answer.cc kagent/agent/sessions/hello_answer.h \
	kagent/agent/sessions/local_paths.cc kagent/agent/sessions/local_paths.h \
	kagent/agent/sessions/session.cc kagent/agent/sessions/session.h \
	kagent/agent/sessions/user_sessions.h \
	kagent/agent/reports/counter_table.cc kagent/agent/reports/counter_table.h \
	kagent/agent/reports/event_log.cc kagent/agent/reports/event_log.h \
	kagent/agent/reports/report_budget.h \
	kagent/agent/reports/reports.cc kagent/agent/reports/reports.h \
	kagent/agent/reports/vi_report.cc kagent/agent/reports/vi_report.h \
	kagent/agent/service/service.cc kagent/agent/service/service.h \
	kagent/agent/service/session_server.cc kagent/agent/service/session_server.h \
	kagent/agent/service/session_server_attach.cc \
	kagent/agent/service/session_server_report.cc
# A fast build compiles them as one. Apart stay what viactl is linked with, what parses options, and sources that give a
# name of their own to something else than another does.
agent_apart = kagent/agent/process/event_loop.cc kagent/agent/process/privileges.cc \
  kagent/agent/process/supervisor.cc kagent/agent/control/ask_agent.cc kagent/agent/control/control_socket.cc \
  kagent/agent/control/counters_client.cc kagent/agent/control/listen_socket.cc kagent/agent/config/config.cc \
  kagent/agent/config/config_values.cc kagent/agent/config/options.cc kagent/agent/reports/reports.cc \
  kagent/agent/service/service.cc
if FAST_BUILD
libviaduct_agent_la_SOURCES = $(agent_apart)
nodist_libviaduct_agent_la_SOURCES = kagent/agent/agent_together.cc
EXTRA_DIST += $(agent_sources)
else
libviaduct_agent_la_SOURCES = $(agent_sources)
endif
CLEANFILES += kagent/agent/agent_together.cc
kagent/agent/agent_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(agent_apart),$(filter %.cc,$(agent_sources)))
libviaduct_agent_la_CPPFLAGS = $(AM_CPPFLAGS) $(SPDLOG_CFLAGS) $(TOML_CFLAGS) $(SECCOMP_CFLAGS)
libviaduct_agent_la_LIBADD = libviaduct_stack.la $(SPDLOG_LIBS) $(TOML_LIBS) $(SECCOMP_LIBS)

sbin_PROGRAMS += viad
viad_SOURCES = kagent/agent/viad_main.cc
viad_CPPFLAGS = $(AM_CPPFLAGS) $(SPDLOG_CFLAGS)
viad_LDADD = libviaduct_agent.la libviaduct_xdp.la

# None of the units is put where it would take effect by itself, unless configure was told to.
agent_units = kagent/agent/viad.service kagent/agent/viad@.service
if WITH_SYSTEMD_UNIT
systemdsystemunit_DATA = $(agent_units)
else
pkgdata_DATA = $(agent_units)
endif
dist_pkgdata_DATA = kagent/agent/config/viad.conf
EXTRA_DIST += kagent/agent/service/viad.service.in
CLEANFILES += $(agent_units)

# viad.service serves what viad.conf names, viad@INTERFACE.service one interface.
unit_of = $(AM_V_GEN)$(MKDIR_P) $(@D) && sed -e 's|@sbindir[@]|$(sbindir)|g; s|@bindir[@]|$(bindir)|g'
kagent/agent/viad.service: $(srcdir)/kagent/agent/service/viad.service.in Makefile
	$(unit_of) -e '/^@instance[@]/d; s/^@whole[@]//; s/ *@arguments[@]//; s/@of[@]//' \
	  $(srcdir)/kagent/agent/service/viad.service.in >$@.tmp && mv $@.tmp $@
kagent/agent/viad@.service: $(srcdir)/kagent/agent/service/viad.service.in Makefile
	$(unit_of) -e '/^@whole[@]/d; s/^@instance[@]//; s/@arguments[@]/--interface %i/; s/@of[@]/ on %i/' \
	  $(srcdir)/kagent/agent/service/viad.service.in >$@.tmp && mv $@.tmp $@
