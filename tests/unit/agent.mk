# Unit tests of the agent service.

kagent_tests = \
	tests/unit/agent/adoption_test \
	tests/unit/agent/hang_guard_test \
	tests/unit/agent/slow_memory_test \
	tests/unit/agent/user_threads_test \
	tests/unit/agent/config_test \
	tests/unit/agent/counter_table_test \
	tests/unit/agent/device_names_test \
	tests/unit/agent/grants_test \
	tests/unit/agent/local_paths_test \
	tests/unit/agent/peer_test \
	tests/unit/agent/program_environment_test \
	tests/unit/agent/reports_test \
	tests/unit/agent/service_test \
	tests/unit/agent/session_server_test \
	tests/unit/viactl/viactl_test
check_PROGRAMS += $(kagent_tests)
TESTS += $(kagent_tests)

agent_fixture = tests/unit/agent/agent_fixture.h tests/unit/agent/counter_tally.h
kagent_test_libs = libviaduct_agent.la libviaduct_xdp.la $(TEST_LIBS)

tests_unit_agent_adoption_test_SOURCES = \
	$(agent_fixture) tests/unit/agent/every_counter.h \
	tests/unit/agent/adoption_test.cc
tests_unit_agent_adoption_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_agent_adoption_test_LDADD = $(kagent_test_libs)

tests_unit_agent_hang_guard_test_SOURCES = tests/unit/agent/hang_guard_test.cc
tests_unit_agent_hang_guard_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_agent_hang_guard_test_LDADD = $(kagent_test_libs)
tests_unit_agent_slow_memory_test_SOURCES = tests/unit/agent/slow_memory_test.cc
tests_unit_agent_slow_memory_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_agent_slow_memory_test_LDADD = $(kagent_test_libs)
tests_unit_agent_user_threads_test_SOURCES = tests/unit/agent/user_threads_test.cc
tests_unit_agent_user_threads_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_agent_user_threads_test_LDADD = $(kagent_test_libs)

tests_unit_agent_config_test_SOURCES = tests/unit/agent/config_test.cc
tests_unit_agent_config_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_agent_config_test_LDADD = $(kagent_test_libs)

tests_unit_agent_counter_table_test_SOURCES = tests/unit/agent/counter_table_test.cc
tests_unit_agent_counter_table_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_agent_counter_table_test_LDADD = $(kagent_test_libs)

tests_unit_agent_device_names_test_SOURCES = tests/unit/agent/device_names_test.cc
tests_unit_agent_device_names_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_agent_device_names_test_LDADD = $(kagent_test_libs)

tests_unit_agent_local_paths_test_SOURCES = \
	$(agent_fixture) tests/unit/agent/every_counter.h \
	tests/unit/agent/local_paths_test.cc
tests_unit_agent_local_paths_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_agent_local_paths_test_LDADD = $(kagent_test_libs)

tests_unit_agent_peer_test_SOURCES = tests/unit/agent/peer_test.cc
tests_unit_agent_peer_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_agent_peer_test_LDADD = $(kagent_test_libs)

tests_unit_agent_grants_test_SOURCES = \
	tests/sim/pair.h tests/sim/sim_host.cc tests/sim/sim_host.h \
	$(agent_fixture) tests/unit/agent/every_counter.h \
	tests/unit/agent/grants_test.cc
tests_unit_agent_grants_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_agent_grants_test_LDADD = libviaduct_sim.la $(kagent_test_libs)

tests_unit_agent_program_environment_test_SOURCES = tests/unit/agent/program_environment_test.cc
tests_unit_agent_program_environment_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_agent_program_environment_test_LDADD = $(kagent_test_libs)

tests_unit_agent_service_test_SOURCES = \
	$(agent_fixture) tests/unit/agent/every_counter.h \
	tests/unit/agent/service_test.cc
tests_unit_agent_service_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_agent_service_test_LDADD = $(kagent_test_libs)

tests_unit_agent_session_server_test_SOURCES = \
	$(agent_fixture) tests/unit/agent/every_counter.h \
	tests/unit/agent/attach_test.cc \
	tests/unit/agent/session_server_test.cc
tests_unit_agent_session_server_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_agent_session_server_test_LDADD = $(kagent_test_libs)

reports_tests = \
	$(agent_fixture) tests/unit/agent/every_counter.h \
	tests/unit/agent/event_log_test.cc \
	tests/unit/agent/reports_test.cc
if FAST_BUILD
tests_unit_agent_reports_test_SOURCES =
nodist_tests_unit_agent_reports_test_SOURCES = tests/unit/agent/reports_together.cc
EXTRA_DIST += $(reports_tests)
else
tests_unit_agent_reports_test_SOURCES = $(reports_tests)
endif
CLEANFILES += tests/unit/agent/reports_together.cc
tests/unit/agent/reports_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter %.cc,$(reports_tests))
tests_unit_agent_reports_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_agent_reports_test_LDADD = libviaduct_tool.la $(kagent_test_libs)

viactl_tests = \
	tests/unit/viactl/doctor_test.cc \
	tests/unit/viactl/events_test.cc \
	tests/unit/viactl/table_test.cc \
	tests/unit/viactl/top_test.cc
if FAST_BUILD
tests_unit_viactl_viactl_test_SOURCES =
nodist_tests_unit_viactl_viactl_test_SOURCES = tests/unit/viactl/viactl_together.cc
EXTRA_DIST += $(viactl_tests)
else
tests_unit_viactl_viactl_test_SOURCES = $(viactl_tests)
endif
CLEANFILES += tests/unit/viactl/viactl_together.cc
tests/unit/viactl/viactl_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter %.cc,$(viactl_tests))
tests_unit_viactl_viactl_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_viactl_viactl_test_LDADD = libviaduct_tool.la $(kagent_test_libs)
