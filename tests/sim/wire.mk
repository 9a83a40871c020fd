# What the protocol makes of links that lose, share and corrupt frames, and of strangers on them.

check_PROGRAMS += tests/sim/link_test
TESTS += tests/sim/link_test
tests_sim_link_test_SOURCES = \
	tests/sim/link_flows.h \
	tests/sim/link_test.cc \
	tests/sim/loss_test.cc \
	tests/sim/pair.h \
	tests/sim/wire_test.cc
tests_sim_link_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_sim_link_test_LDADD = libsim_hosts.la libviaduct_stack.la libviaduct_sim.la $(TEST_LIBS)
