# Unit tests of the wire format, the simulated network and the timers.

base_tests = tests/unit/contract/wire_test tests/sim/sim_port_test tests/unit/stack/timer_wheel_test
check_PROGRAMS += $(base_tests)
TESTS += $(base_tests)

tests_unit_contract_wire_test_SOURCES = tests/unit/contract/wire_test.cc
tests_unit_contract_wire_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_contract_wire_test_LDADD = libviaduct_stack.la libviaduct_sim.la $(TEST_LIBS)

tests_sim_sim_port_test_SOURCES = \
	tests/sim/sim_port_buffers_test.cc \
	tests/sim/sim_port_fixture.h \
	tests/sim/sim_port_test.cc
tests_sim_sim_port_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_sim_sim_port_test_LDADD = libviaduct_sim.la $(TEST_LIBS)

tests_unit_stack_timer_wheel_test_SOURCES = tests/unit/stack/timer_wheel_test.cc
tests_unit_stack_timer_wheel_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_stack_timer_wheel_test_LDADD = $(TEST_LIBS)

# Ports on interfaces of their own network namespaces; they need root and are skipped without it.
xdp_tests = tests/unit/xdp/steer_test tests/unit/xdp/attachment_test tests/unit/xdp/port_test \
	tests/unit/xdp/granted_test tests/unit/xdp/jumbo_test \
	tests/unit/xdp/parts_test \
	tests/unit/xdp/remains_test tests/unit/xdp/train_socket_test tests/unit/xdp/train_port_test
check_PROGRAMS += $(xdp_tests)
TESTS += $(xdp_tests)
xdp_test_cppflags = $(TEST_CPPFLAGS) $(XDP_CFLAGS) -DXDP_GUARD='"$(abs_top_builddir)/xdp-guard"'

tests_unit_xdp_steer_test_SOURCES = tests/unit/xdp/steer_test.cc tests/unit/xdp/fixture.h
tests_unit_xdp_steer_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_steer_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_attachment_test_SOURCES = tests/unit/xdp/attachment_test.cc tests/unit/xdp/fixture.h
tests_unit_xdp_attachment_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_attachment_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_port_test_SOURCES = tests/unit/xdp/port_test.cc tests/unit/xdp/fixture.h
tests_unit_xdp_port_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_port_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_granted_test_SOURCES = tests/unit/xdp/granted_test.cc tests/unit/xdp/fixture.h
tests_unit_xdp_granted_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_granted_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_remains_test_SOURCES = tests/unit/xdp/remains_test.cc tests/unit/xdp/fixture.h
tests_unit_xdp_remains_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_remains_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_train_socket_test_SOURCES = tests/unit/xdp/train_socket_test.cc
tests_unit_xdp_train_socket_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_train_socket_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_train_port_test_SOURCES = tests/unit/xdp/train_port_test.cc tests/unit/xdp/fixture.h
tests_unit_xdp_train_port_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_train_port_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_jumbo_test_SOURCES = tests/unit/xdp/jumbo_test.cc tests/unit/xdp/fixture.h
tests_unit_xdp_jumbo_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_jumbo_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

tests_unit_xdp_parts_test_SOURCES = tests/unit/xdp/parts_test.cc tests/unit/xdp/fixture.h
tests_unit_xdp_parts_test_CPPFLAGS = $(xdp_test_cppflags)
tests_unit_xdp_parts_test_LDADD = libviaduct_xdp.la $(TEST_LIBS)

# Local paths, with sanitizers: a hostile peer's writes must not matter.
check_PROGRAMS += tests/unit/xdp/local_test
TESTS += tests/unit/xdp/local_test
tests_unit_xdp_local_test_SOURCES = tests/unit/xdp/local_tap_test.cc tests/unit/xdp/local_test.cc \
	xdp/local/local_peers.cc xdp/local/local_peers.h xdp/local/local_ring.h xdp/local/local_tap.h
tests_unit_xdp_local_test_CPPFLAGS = $(TEST_CPPFLAGS)
if !SANITIZED
tests_unit_xdp_local_test_CXXFLAGS = $(AM_CXXFLAGS) -fsanitize=address,undefined -fno-sanitize-recover=all
tests_unit_xdp_local_test_LDFLAGS = $(AM_LDFLAGS) -fsanitize=address,undefined
endif
tests_unit_xdp_local_test_LDADD = $(TEST_LIBS)
