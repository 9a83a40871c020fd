# Unit tests of SOVIA without a NIC.
sovia_unit_tests = tests/unit/sovia/lane_price_test tests/unit/sovia/lane_test tests/unit/sovia/listener_test tests/unit/sovia/lock_test tests/unit/sovia/peer_history_test \
	tests/unit/sovia/readiness_test tests/unit/sovia/registrations_test tests/unit/sovia/spin_time_test
check_PROGRAMS += $(sovia_unit_tests)
TESTS += $(sovia_unit_tests)

lane_tests = \
	sovia/process/counters.cc sovia/process/libc.cc sovia/lane/control_sender.cc sovia/lane/lane.cc \
	sovia/lane/lane_control.cc sovia/lane/lane_greeting.cc sovia/lane/lane_options.cc sovia/lane/lane_remote.cc \
	sovia/lane/lane_rx.cc sovia/lane/lane_send_ring.cc sovia/lane/lane_sinks.cc sovia/lane/lane_tx.cc sovia/process/own_descriptors.cc \
	tests/unit/sovia/fake_transport.h \
	tests/unit/sovia/lane_pair.h \
	tests/unit/sovia/lane_data_test.cc \
	tests/unit/sovia/lane_direct_test.cc \
	tests/unit/sovia/lane_hostile_test.cc \
	tests/unit/sovia/lane_paper_test.cc \
	tests/unit/sovia/lane_random_test.cc \
	tests/unit/sovia/lane_sinks_test.cc \
	tests/unit/sovia/lane_stays_test.cc \
	tests/unit/sovia/lane_test.cc
if FAST_BUILD
tests_unit_sovia_lane_test_SOURCES =
nodist_tests_unit_sovia_lane_test_SOURCES = tests/unit/sovia/lane_together.cc
EXTRA_DIST += $(lane_tests)
else
tests_unit_sovia_lane_test_SOURCES = $(lane_tests)
endif
CLEANFILES += tests/unit/sovia/lane_together.cc
tests/unit/sovia/lane_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter %.cc,$(lane_tests))
tests_unit_sovia_lane_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_lane_test_LDADD = $(TEST_LIBS)

tests_unit_sovia_listener_test_SOURCES = sovia/lane/listener.cc sovia/lane/listener.h \
	sovia/process/clock.cc sovia/process/libc.cc sovia/process/own_descriptors.cc \
	tests/unit/sovia/listener_test.cc
tests_unit_sovia_listener_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_listener_test_LDADD = $(TEST_LIBS)

tests_unit_sovia_readiness_test_SOURCES = sovia/socket/readiness.cc sovia/socket/readiness.h \
	tests/unit/sovia/readiness_test.cc
tests_unit_sovia_readiness_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_readiness_test_LDADD = $(TEST_LIBS)

tests_unit_sovia_lock_test_SOURCES = sovia/process/lock.cc sovia/process/lock.h tests/unit/sovia/lock_test.cc
tests_unit_sovia_lock_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_lock_test_LDADD = $(TEST_LIBS)

tests_unit_sovia_peer_history_test_SOURCES = \
	sovia/socket/peer_history.cc sovia/socket/peer_history.h \
	tests/unit/sovia/peer_history_test.cc
tests_unit_sovia_peer_history_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_peer_history_test_LDADD = $(TEST_LIBS)

tests_unit_sovia_spin_time_test_SOURCES = sovia/lane/spin_time.h tests/unit/sovia/spin_time_test.cc
tests_unit_sovia_spin_time_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_spin_time_test_LDADD = $(TEST_LIBS)

tests_unit_sovia_lane_price_test_SOURCES = sovia/background/lane_price.h tests/unit/sovia/lane_price_test.cc
tests_unit_sovia_lane_price_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_lane_price_test_LDADD = $(TEST_LIBS)

tests_unit_sovia_registrations_test_SOURCES = \
	sovia/lane/registrations.cc sovia/process/counters.cc sovia/process/libc.cc sovia/process/own_descriptors.cc \
	tests/unit/sovia/registrations_test.cc
tests_unit_sovia_registrations_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_registrations_test_LDADD = $(TEST_LIBS)
