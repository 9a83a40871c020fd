# Tests of vipl.h and libvipl.
TESTS += tests/unit/vipl_build_test.sh tests/unit/man_pages.test
EXTRA_DIST += tests/unit/vipl_build_test.sh \
  tests/unit/man_pages.test tests/unit/vipl_header_layout.c \
  tests/unit/vipl_header_styles.c

check_PROGRAMS += tests/unit/vipl_test
TESTS += tests/unit/vipl_test
tests_unit_vipl_test_SOURCES = \
  tests/unit/vipl_caller_test.cc \
  tests/unit/vipl_calls.h \
  tests/unit/vipl_claims_test.cc \
  tests/unit/vipl_control_test.cc \
  tests/unit/vipl_cq_test.cc \
  tests/unit/vipl_data_test.cc \
  tests/unit/vipl_fake_agent.cc tests/unit/vipl_fake_agent.h \
  tests/unit/vipl_farewell_test.cc \
  tests/unit/vipl_fixture.h \
  tests/unit/vipl_handlers_test.cc \
  tests/unit/vipl_poll_test.cc \
  tests/unit/vipl_races_test.cc \
  tests/unit/vipl_session_test.cc \
  tests/unit/vipl_threads_test.cc
tests_unit_vipl_test_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/tests/unit
tests_unit_vipl_test_LDADD = libvipl.la $(TEST_LIBS)

check_PROGRAMS += tests/unit/idle_test
TESTS += tests/unit/idle_test
tests_unit_idle_test_SOURCES = tests/unit/idle_test.cc kagent/contract/idle.h
tests_unit_idle_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_idle_test_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/unit/vipl_habit_test
TESTS += tests/unit/vipl_habit_test
tests_unit_vipl_habit_test_SOURCES = tests/unit/vipl_habit_test.cc vipl/session/post_batching.h
tests_unit_vipl_habit_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_vipl_habit_test_LDADD = $(TEST_LIBS)

check_PROGRAMS += tests/unit/vipl_guarded_copy_test
TESTS += tests/unit/vipl_guarded_copy_test
tests_unit_vipl_guarded_copy_test_SOURCES = \
  tests/unit/vipl_guarded_copy_test.cc \
  vipl/granted/guarded_copy.cc vipl/granted/guarded_copy.h
tests_unit_vipl_guarded_copy_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_vipl_guarded_copy_test_LDADD = $(TEST_LIBS)

# What viabench does with figures.
check_PROGRAMS += tests/unit/viabench_test
TESTS += tests/unit/viabench_test
tests_unit_viabench_test_SOURCES = tests/unit/viabench_test.cc \
  examples/common/nic.cc \
  examples/viabench/bars.cc \
  examples/viabench/case.cc \
  examples/viabench/json.cc \
  examples/viabench/results.cc
tests_unit_viabench_test_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/vipl
tests_unit_viabench_test_LDADD = libvipl.la $(TEST_LIBS)
