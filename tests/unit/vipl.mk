# Tests of vipl.h and libvipl.
TESTS += tests/unit/vipl/build_test.sh
EXTRA_DIST += tests/unit/vipl/build_test.sh \
  tests/unit/vipl/header_layout.c \
  tests/unit/vipl/header_styles.c

check_PROGRAMS += tests/unit/vipl/vipl_test
TESTS += tests/unit/vipl/vipl_test
vipl_tests = \
  tests/sim/sim_port.h \
  $(agent_fixture) \
  tests/unit/vipl/callback_thread_test.cc \
  tests/unit/vipl/calls.h \
  tests/unit/vipl/claims_test.cc \
  tests/unit/vipl/control_test.cc \
  tests/unit/vipl/cq_test.cc \
  tests/unit/vipl/data_test.cc \
  tests/unit/vipl/exit_drain_test.cc \
  tests/unit/vipl/fixture.h \
  tests/unit/vipl/handlers_test.cc \
  tests/unit/vipl/hello_relay.h \
  tests/unit/vipl/poll_test.cc \
  tests/unit/vipl/races_test.cc \
  tests/unit/vipl/session_test.cc \
  tests/unit/vipl/shared_segment.cc tests/unit/vipl/shared_segment.h \
  tests/unit/vipl/test_agent.cc tests/unit/vipl/test_agent.h \
  tests/unit/vipl/threads_test.cc
if FAST_BUILD
tests_unit_vipl_vipl_test_SOURCES =
nodist_tests_unit_vipl_vipl_test_SOURCES = tests/unit/vipl_together.cc
EXTRA_DIST += $(vipl_tests)
else
tests_unit_vipl_vipl_test_SOURCES = $(vipl_tests)
endif
CLEANFILES += tests/unit/vipl_together.cc
tests/unit/vipl_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter %.cc,$(vipl_tests))
tests_unit_vipl_vipl_test_CPPFLAGS = $(TEST_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_unit_vipl_vipl_test_LDADD = \
  libvipl.la libviaduct_sim.la libviaduct_agent.la libviaduct_xdp.la $(TEST_LIBS)

check_PROGRAMS += tests/unit/contract/idle_test
TESTS += tests/unit/contract/idle_test
tests_unit_contract_idle_test_SOURCES = tests/unit/contract/idle_test.cc kagent/contract/idle.h
tests_unit_contract_idle_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_contract_idle_test_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/unit/contract/spin_time_test
TESTS += tests/unit/contract/spin_time_test
tests_unit_contract_spin_time_test_SOURCES = tests/unit/contract/spin_time_test.cc kagent/contract/spin_time.h
tests_unit_contract_spin_time_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_contract_spin_time_test_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/unit/vipl/post_batching_test
TESTS += tests/unit/vipl/post_batching_test
tests_unit_vipl_post_batching_test_SOURCES = tests/unit/vipl/post_batching_test.cc vipl/session/post_batching.h
tests_unit_vipl_post_batching_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_vipl_post_batching_test_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/unit/vipl/polled_elsewhere_test
TESTS += tests/unit/vipl/polled_elsewhere_test
tests_unit_vipl_polled_elsewhere_test_SOURCES = \
  tests/unit/vipl/polled_elsewhere_test.cc vipl/granted/polled_elsewhere.h
tests_unit_vipl_polled_elsewhere_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_vipl_polled_elsewhere_test_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/unit/vipl/sleep_timer_test
TESTS += tests/unit/vipl/sleep_timer_test
tests_unit_vipl_sleep_timer_test_SOURCES = \
  tests/unit/vipl/sleep_timer_test.cc \
  vipl/granted/sleep_timer.cc vipl/granted/sleep_timer.h
tests_unit_vipl_sleep_timer_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_vipl_sleep_timer_test_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/unit/vipl/guarded_copy_test
TESTS += tests/unit/vipl/guarded_copy_test
tests_unit_vipl_guarded_copy_test_SOURCES = \
  tests/unit/vipl/guarded_copy_test.cc \
  vipl/granted/guarded_copy.cc vipl/granted/guarded_copy.h
tests_unit_vipl_guarded_copy_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_vipl_guarded_copy_test_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/unit/vipl/lanevi_test
TESTS += tests/unit/vipl/lanevi_test
tests_unit_vipl_lanevi_test_SOURCES = tests/unit/vipl/lanevi_test.cc $(lanevid_parts)
tests_unit_vipl_lanevi_test_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/vipl
tests_unit_vipl_lanevi_test_LDADD = $(TEST_LIBS)

# viabench's computations with figures.
check_PROGRAMS += tests/unit/examples/viabench_test
TESTS += tests/unit/examples/viabench_test
tests_unit_examples_viabench_test_SOURCES = tests/unit/examples/viabench_test.cc \
  examples/common/nic.cc \
  examples/viabench/bars.cc \
  examples/viabench/case.cc \
  examples/viabench/json.cc \
  examples/viabench/paper_figures.cc \
  examples/viabench/papers.cc \
  examples/viabench/results.cc
tests_unit_examples_viabench_test_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/vipl
tests_unit_examples_viabench_test_LDADD = libvipl.la $(TEST_LIBS)
