# The stack on a simulated network. VIADUCT_SEED and VIADUCT_SEEDS choose the seeds.

# Hosts that the tests, the simulation and the fuzzers have in common.
check_LTLIBRARIES += libsim_hosts.la
libsim_hosts_la_SOURCES = \
	tests/sim/borrowed_port.h \
	tests/sim/granted_host.cc tests/sim/granted_host.h \
	tests/sim/sim_host.cc tests/sim/sim_host.h \
	tests/sim/sim_paths.h \
	xdp/host_port.cc xdp/host_port.h \
	xdp/local/local_peers.cc xdp/local/local_peers.h xdp/local/local_ring.h \
	xdp/train/train_pages.cc xdp/train/train_pages.h \
	xdp/train/outgoing_train.cc xdp/train/train_socket.cc xdp/train/train_socket.h
libsim_hosts_la_CXXFLAGS = $(AM_CXXFLAGS) -static

check_PROGRAMS += tests/sim/sim_test
TESTS += tests/sim/sim_test
sim_tests = \
	tests/sim/bundles_test.cc \
	tests/sim/claims_test.cc \
	tests/sim/connection_test.cc \
	tests/sim/counter_tally.h tests/sim/counters_test.cc \
	tests/sim/credit_test.cc \
	tests/sim/delivery_test.cc \
	tests/sim/drain_test.cc \
	tests/sim/redirect_test.cc \
	tests/sim/events_test.cc \
	tests/sim/fairness_test.cc \
	tests/sim/family_test.cc \
	tests/sim/history_test.cc \
	tests/sim/hostile_test.cc \
	tests/sim/local_test.cc \
	tests/sim/packing_test.cc \
	tests/sim/patience_test.cc \
	tests/sim/reply_test.cc \
	tests/sim/proof_test.cc \
	tests/sim/peer_test.cc \
	tests/sim/rdma_test.cc \
	tests/sim/forward_hostile_test.cc \
	tests/sim/forward_test.cc \
	tests/sim/remains_test.cc \
	tests/sim/slow_test.cc \
	tests/sim/stopped_test.cc \
	tests/sim/trains_test.cc
tests_sim_sim_test_SOURCES = tests/sim/pair.h tests/sim/commands.h tests/sim/forward.h
if FAST_BUILD
nodist_tests_sim_sim_test_SOURCES = tests/sim/sim_tests_all.cc
EXTRA_DIST += $(sim_tests)
else
tests_sim_sim_test_SOURCES += $(sim_tests)
endif
CLEANFILES += tests/sim/sim_tests_all.cc
tests/sim/sim_tests_all.cc: Makefile
	$(COMPILED_TOGETHER) $(sim_tests)
tests_sim_sim_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_sim_sim_test_LDADD = libsim_hosts.la libviaduct_stack.la libviaduct_sim.la $(TEST_LIBS)

# Instructions of the stack for each message; see the file.
EXTRA_PROGRAMS += tests/sim/stack_bench
tests_sim_stack_bench_SOURCES = tests/sim/stack_bench.cc
tests_sim_stack_bench_CPPFLAGS = $(TEST_CPPFLAGS)
tests_sim_stack_bench_LDADD = libsim_hosts.la libviaduct_stack.la libviaduct_sim.la

# Whole worlds with faults, one for each seed, and an oracle; see the file.
check_PROGRAMS += tests/sim/simulation
TESTS += tests/sim/simulation
world_sources = \
	tests/sim/simulation.cc \
	tests/sim/world/client.cc tests/sim/world/client.h \
	tests/sim/world/connection.h \
	tests/sim/world/failure.cc tests/sim/world/failure.h \
	tests/sim/world/jobs.cc \
	tests/sim/world/lane_job.cc tests/sim/world/lane_job.h \
	tests/sim/world/less.cc tests/sim/world/less.h \
	tests/sim/world/library.cc tests/sim/world/library.h \
	tests/sim/world/library_exchange.cc \
	tests/sim/world/library_job.cc tests/sim/world/library_job.h \
	tests/sim/world/library_program.cc \
	tests/sim/world/library_side.cc tests/sim/world/library_side.h \
	tests/sim/world/link.cc tests/sim/world/link.h \
	tests/sim/world/memory.cc tests/sim/world/memory.h \
	tests/sim/world/pattern.h \
	tests/sim/world/plan.cc tests/sim/world/plan.h \
	tests/sim/world/rings.cc tests/sim/world/rings.h \
	tests/sim/world/rdma_job.cc tests/sim/world/rdma_job.h \
	tests/sim/world/stream_job.cc tests/sim/world/stream_job.h \
	tests/sim/world/trouble.cc \
	tests/sim/world/world.cc tests/sim/world/world.h
world_apart = tests/sim/world/stream_job.cc tests/sim/world/world.cc
tests_sim_simulation_SOURCES = \
	sovia/process/counters.cc sovia/process/libc.cc sovia/lane/control_sender.cc sovia/lane/lane.cc \
	sovia/lane/lane_control.cc sovia/lane/lane_greeting.cc sovia/lane/lane_options.cc sovia/lane/lane_remote.cc \
	sovia/lane/lane_rx.cc sovia/lane/lane_send_ring.cc sovia/lane/lane_sinks.cc sovia/lane/lane_tx.cc sovia/process/own_descriptors.cc \
	sovia/lane/lane.h sovia/lane/packet.h sovia/lane/ring.h sovia/lane/transport.h
if FAST_BUILD
tests_sim_simulation_SOURCES += $(world_apart)
nodist_tests_sim_simulation_SOURCES = tests/sim/world_together.cc
EXTRA_DIST += $(world_sources)
else
tests_sim_simulation_SOURCES += $(world_sources)
endif
CLEANFILES += tests/sim/world_together.cc
tests/sim/world_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(world_apart),$(filter %.cc,$(world_sources)))
tests_sim_simulation_CPPFLAGS = $(TEST_CPPFLAGS)
tests_sim_simulation_LDADD = libvipl_simulated.la libsim_hosts.la libviaduct_stack.la libviaduct_sim.la $(TEST_LIBS)

# libvipl and a granted program's stack once more, upon a kernel and ports of the simulation's: headers
# in tests/sim/seam are found before those of the same names.
check_LTLIBRARIES += libvipl_simulated.la
simulated_sources = \
	$(stack_sources) \
	tests/sim/seam/vipl/process/sys.h \
	tests/sim/seam/xdp/grant/granted_port.h \
	tests/sim/world/fibers.cc tests/sim/world/fibers.h \
	tests/sim/world/kernel.cc tests/sim/world/kernel.h \
	tests/sim/world/simulated_finisher.cc \
	tests/sim/world/simulated_globals.cc \
	tests/sim/world/simulated_sys.cc \
	vipl/session/reattach.cc \
	vipl/api/attributes.cc \
	vipl/session/callback_thread.cc \
	vipl/api/claims.cc \
	vipl/session/command.cc \
	vipl/process/attached_processes.cc \
	vipl/session/completion_queue.cc \
	vipl/api/connection.cc \
	vipl/api/copy.cc \
	vipl/api/cq.cc \
	vipl/api/discovery.cc \
	vipl/granted/admission.cc \
	vipl/granted/driver.cc \
	vipl/granted/library_thread.cc \
	vipl/granted/port_watch.cc \
	vipl/granted/sleep_timer.cc \
	vipl/process/environment.cc \
	vipl/process/family.cc \
	vipl/process/exit_drain.cc \
	vipl/session/outgoing.cc \
	vipl/granted/granted_environment.cc \
	vipl/granted/granted_stack.cc \
	vipl/session/debug_log.cc \
	vipl/session/handshake.cc \
	vipl/session/session.cc \
	vipl/session/session_table.cc \
	vipl/process/idle.cc \
	vipl/process/lock.cc \
	vipl/api/management.cc \
	vipl/api/memory.cc \
	vipl/session/message.cc \
	vipl/api/name_service.cc \
	vipl/api/nic.cc \
	vipl/api/poll.cc \
	vipl/session/pollers.cc \
	vipl/session/thread_registry.cc \
	vipl/granted/local_path.cc vipl/granted/local_path.h \
	vipl/granted/progress_thread.cc \
	vipl/process/standard_error.cc \
	vipl/api/text.cc \
	vipl/api/vi.cc \
	vipl/session/work_queue.cc
# A fast build compiles them as one; apart stay those that tests/sim/mutations replaces.
simulated_apart = $(libvipl_apart) tests/sim/world/simulated_globals.cc \
	vipl/session/callback_thread.cc \
	vipl/session/command.cc \
	vipl/session/completion_queue.cc \
	vipl/session/pollers.cc \
	vipl/session/session_table.cc \
	vipl/session/work_queue.cc
if FAST_BUILD
libvipl_simulated_la_SOURCES = $(simulated_apart)
nodist_libvipl_simulated_la_SOURCES = tests/sim/simulated_together.cc
EXTRA_DIST += $(simulated_sources)
else
libvipl_simulated_la_SOURCES = $(simulated_sources)
endif
CLEANFILES += tests/sim/simulated_together.cc
tests/sim/simulated_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(simulated_apart),$(filter %.cc,$(simulated_sources)))
libvipl_simulated_la_CPPFLAGS = -iquote $(srcdir)/tests/sim/seam $(AM_CPPFLAGS)
libvipl_simulated_la_CXXFLAGS = $(AM_CXXFLAGS) -static
EXTRA_DIST += doc/reliability_simulation.md tests/sim/regressions.inc tests/sim/mutations

# Seeds that were not run on this code, for SEEDS_MINUTES on all processors; doc/results/simulation.json keeps count.
SEEDS_TO = 1000000
SEEDS_MINUTES = 60
phony_targets += simulation-seeds
simulation-seeds: tests/sim/simulation
	python3 -B $(srcdir)/tests/sim/seeds tests/sim/simulation --to $(SEEDS_TO) --minutes $(SEEDS_MINUTES)
TESTS += tests/sim/seeds.test
EXTRA_DIST += tests/sim/seeds/__main__.py tests/sim/seeds/ledger.py tests/sim/seeds/shrink.py \
	tests/sim/seeds/world.py tests/sim/seeds.test

# Plants bugs in copies of the sources, one at a time, and expects the simulation to find each.
# It asks for what the simulation is linked of.
phony_targets += check-mutations simulation-parts
check-mutations: tests/sim/simulation
	+CXX="$(CXX)" $(srcdir)/tests/sim/mutations $(srcdir) .
simulation-parts:
	@echo $(tests_sim_simulation_OBJECTS) $(tests_sim_simulation_LDADD)
