# Unit tests of the agent service.

kagent_tests = \
	tests/unit/adoption_test \
	tests/unit/carriers_test \
	tests/unit/config_test \
	tests/unit/counter_table_test \
	tests/unit/device_names_test \
	tests/unit/grants_test \
	tests/unit/program_environment_test \
	tests/unit/session_server_test
check_PROGRAMS += $(kagent_tests)
TESTS += $(kagent_tests)

kagent_test_libs = libviaduct_agent.la libviaduct_xdp.la $(TEST_LIBS)

tests_unit_adoption_test_SOURCES = tests/unit/agent_fixture.h tests/unit/adoption_test.cc
tests_unit_adoption_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_adoption_test_LDADD = $(kagent_test_libs)

tests_unit_carriers_test_SOURCES = tests/unit/carriers_test.cc
tests_unit_carriers_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_carriers_test_LDADD = $(kagent_test_libs)

tests_unit_config_test_SOURCES = tests/unit/config_test.cc
tests_unit_config_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_config_test_LDADD = $(kagent_test_libs)

tests_unit_counter_table_test_SOURCES = tests/unit/counter_table_test.cc
tests_unit_counter_table_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_counter_table_test_LDADD = $(kagent_test_libs)

tests_unit_device_names_test_SOURCES = tests/unit/device_names_test.cc
tests_unit_device_names_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_device_names_test_LDADD = $(kagent_test_libs)

tests_unit_grants_test_SOURCES = \
	tests/sim/pair.h tests/sim/sim_host.cc tests/sim/sim_host.h \
	tests/unit/agent_fixture.h \
	tests/unit/grants_test.cc
tests_unit_grants_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_grants_test_LDADD = libviaduct_sim.la $(kagent_test_libs)

tests_unit_program_environment_test_SOURCES = tests/unit/program_environment_test.cc
tests_unit_program_environment_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_program_environment_test_LDADD = $(kagent_test_libs)

tests_unit_session_server_test_SOURCES = \
	tests/unit/agent_fixture.h \
	tests/unit/attach_test.cc \
	tests/unit/session_server_test.cc
tests_unit_session_server_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_session_server_test_LDADD = $(kagent_test_libs)
