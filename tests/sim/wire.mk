# The protocol on links that lose, share and corrupt frames, and with strangers on them.

check_PROGRAMS += tests/sim/link_test
TESTS += tests/sim/link_test
link_tests = \
	tests/sim/link_flows.h \
	tests/sim/link_test.cc \
	tests/sim/loss_test.cc \
	tests/sim/pair.h \
	tests/sim/wire_test.cc
if FAST_BUILD
tests_sim_link_test_SOURCES =
nodist_tests_sim_link_test_SOURCES = tests/sim/link_together.cc
EXTRA_DIST += $(link_tests)
else
tests_sim_link_test_SOURCES = $(link_tests)
endif
CLEANFILES += tests/sim/link_together.cc
tests/sim/link_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter %.cc,$(link_tests))
tests_sim_link_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_sim_link_test_LDADD = libsim_hosts.la libviaduct_stack.la libviaduct_sim.la $(TEST_LIBS)
