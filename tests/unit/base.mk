# Unit tests of the wire format, the simulated network and the timers.

base_tests = tests/unit/wire_test tests/unit/sim_port_test tests/unit/timer_wheel_test
check_PROGRAMS += $(base_tests)
TESTS += $(base_tests)

tests_unit_wire_test_SOURCES = tests/unit/wire_test.cc
tests_unit_wire_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_wire_test_LDADD = libviaduct_stack.la libviaduct_sim.la $(TEST_LIBS)

tests_unit_sim_port_test_SOURCES = tests/unit/sim_port_test.cc
tests_unit_sim_port_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sim_port_test_LDADD = libviaduct_sim.la $(TEST_LIBS)

tests_unit_timer_wheel_test_SOURCES = tests/unit/timer_wheel_test.cc
tests_unit_timer_wheel_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_timer_wheel_test_LDADD = $(TEST_LIBS)
