# Unit tests of the wire format, the simulated network and the timers.

base_tests = tests/unit/wire_test tests/unit/sim_port_test tests/unit/timer_wheel_test
check_PROGRAMS += $(base_tests)
TESTS += $(base_tests)

tests_unit_wire_test_SOURCES = tests/unit/wire_test.cc
tests_unit_wire_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_wire_test_LDADD = libviaduct_stack.la libviaduct_sim.la $(TEST_LIBS)

tests_unit_sim_port_test_SOURCES = \
	tests/unit/sim_port_buffers_test.cc \
	tests/unit/sim_port_fixture.h \
	tests/unit/sim_port_test.cc
tests_unit_sim_port_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sim_port_test_LDADD = libviaduct_sim.la $(TEST_LIBS)

tests_unit_timer_wheel_test_SOURCES = tests/unit/timer_wheel_test.cc
tests_unit_timer_wheel_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_timer_wheel_test_LDADD = $(TEST_LIBS)

# Ports on interfaces of their own network namespaces; they need root and are skipped without it.
xdp_tests = tests/unit/xdp_steer_test tests/unit/xdp_attachment_test tests/unit/xdp_port_test \
	tests/unit/xdp_granted_test tests/unit/xdp_jumbo_test \
	tests/unit/xdp_parts_test \
	tests/unit/xdp_remains_test
check_PROGRAMS += $(xdp_tests)
TESTS += $(xdp_tests)
xdp_test_cppflags = $(TEST_CPPFLAGS) $(XDP_CFLAGS) -DXDP_GUARD='"$(abs_top_builddir)/xdp-guard"'

tests_unit_xdp_steer_test_SOURCES = tests/unit/xdp_steer_test.cc tests/unit/xdp_fixture.h
tests_unit_xdp_steer_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_steer_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_attachment_test_SOURCES = tests/unit/xdp_attachment_test.cc tests/unit/xdp_fixture.h
tests_unit_xdp_attachment_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_attachment_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_port_test_SOURCES = tests/unit/xdp_port_test.cc tests/unit/xdp_fixture.h
tests_unit_xdp_port_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_port_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_granted_test_SOURCES = tests/unit/xdp_granted_test.cc tests/unit/xdp_fixture.h
tests_unit_xdp_granted_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_granted_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_remains_test_SOURCES = tests/unit/xdp_remains_test.cc tests/unit/xdp_fixture.h
tests_unit_xdp_remains_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_remains_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_jumbo_test_SOURCES = tests/unit/xdp_jumbo_test.cc tests/unit/xdp_fixture.h
tests_unit_xdp_jumbo_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_jumbo_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_parts_test_SOURCES = tests/unit/xdp_parts_test.cc tests/unit/xdp_fixture.h
tests_unit_xdp_parts_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_parts_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)
