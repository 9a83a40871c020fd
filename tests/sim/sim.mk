# The stack on a simulated network. VIADUCT_SEED and VIADUCT_SEEDS choose the seeds.

check_PROGRAMS += tests/sim/sim_test
TESTS += tests/sim/sim_test
tests_sim_sim_test_SOURCES = \
	tests/sim/claims_test.cc \
	tests/sim/connection_test.cc \
	tests/sim/delivery_test.cc \
	tests/sim/divert_test.cc \
	tests/sim/events_test.cc \
	tests/sim/granted_host.cc tests/sim/granted_host.h \
	tests/sim/hostile_test.cc \
	tests/sim/packing_test.cc \
	tests/sim/pair.h \
	tests/sim/peer_test.cc \
	tests/sim/rdma_test.cc \
	tests/sim/redirect_test.cc \
	tests/sim/remains_test.cc \
	tests/sim/sim_host.cc tests/sim/sim_host.h \
	xdp/loopback_port.cc xdp/loopback_port.h
tests_sim_sim_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_sim_sim_test_LDADD = libviaduct_stack.la libviaduct_sim.la $(TEST_LIBS)

# Instructions of the stack for each message; see the file.
EXTRA_PROGRAMS += tests/sim/stack_bench
tests_sim_stack_bench_SOURCES = tests/sim/stack_bench.cc \
	tests/sim/sim_host.cc tests/sim/sim_host.h
tests_sim_stack_bench_CPPFLAGS = $(TEST_CPPFLAGS)
tests_sim_stack_bench_LDADD = libviaduct_stack.la libviaduct_sim.la
