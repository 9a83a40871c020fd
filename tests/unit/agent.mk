# Unit tests of the agent service.

kagent_tests = \
	tests/unit/agent/adoption_test \
	tests/unit/agent/carriers_test \
	tests/unit/agent/config_test \
	tests/unit/agent/counter_table_test \
	tests/unit/agent/device_names_test \
	tests/unit/agent/grants_test \
	tests/unit/agent/program_environment_test \
	tests/unit/agent/session_server_test
check_PROGRAMS += $(kagent_tests)
TESTS += $(kagent_tests)

kagent_test_libs = libviaduct_agent.la libviaduct_xdp.la $(TEST_LIBS)

tests_unit_agent_adoption_test_SOURCES = tests/unit/agent/agent_fixture.h tests/unit/agent/adoption_test.cc
tests_unit_agent_adoption_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_agent_adoption_test_LDADD = $(kagent_test_libs)

tests_unit_agent_carriers_test_SOURCES = tests/unit/agent/carriers_test.cc
tests_unit_agent_carriers_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_agent_carriers_test_LDADD = $(kagent_test_libs)

tests_unit_agent_config_test_SOURCES = tests/unit/agent/config_test.cc
tests_unit_agent_config_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_agent_config_test_LDADD = $(kagent_test_libs)

tests_unit_agent_counter_table_test_SOURCES = tests/unit/agent/counter_table_test.cc
tests_unit_agent_counter_table_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_agent_counter_table_test_LDADD = $(kagent_test_libs)

tests_unit_agent_device_names_test_SOURCES = tests/unit/agent/device_names_test.cc
tests_unit_agent_device_names_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_agent_device_names_test_LDADD = $(kagent_test_libs)

tests_unit_agent_grants_test_SOURCES = \
	tests/sim/pair.h tests/sim/sim_host.cc tests/sim/sim_host.h \
	tests/unit/agent/agent_fixture.h \
	tests/unit/agent/grants_test.cc
tests_unit_agent_grants_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_agent_grants_test_LDADD = libviaduct_sim.la $(kagent_test_libs)

tests_unit_agent_program_environment_test_SOURCES = tests/unit/agent/program_environment_test.cc
tests_unit_agent_program_environment_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_agent_program_environment_test_LDADD = $(kagent_test_libs)

tests_unit_agent_session_server_test_SOURCES = \
	tests/unit/agent/agent_fixture.h \
	tests/unit/agent/attach_test.cc \
	tests/unit/agent/session_server_test.cc
tests_unit_agent_session_server_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_agent_session_server_test_LDADD = $(kagent_test_libs)
