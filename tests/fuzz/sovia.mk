# Fuzz targets of SOVIA.

check_PROGRAMS += tests/fuzz/fuzz_lane
tests_fuzz_fuzz_lane_SOURCES = \
	tests/fuzz/fuzz_lane.cc tests/fuzz/fuzz_input.h tests/unit/sovia/fake_transport.h \
	sovia/process/counters.cc sovia/process/libc.cc sovia/lane/control_sender.cc sovia/lane/lane.cc \
	sovia/lane/lane_control.cc sovia/lane/lane_greeting.cc sovia/lane/lane_options.cc \
	sovia/lane/lane_remote.cc sovia/lane/lane_rx.cc sovia/lane/lane_send_ring.cc sovia/lane/lane_sinks.cc \
	sovia/lane/lane_tx.cc sovia/process/own_descriptors.cc $(fuzz_main)
tests_fuzz_fuzz_lane_CPPFLAGS = $(TEST_CPPFLAGS)
tests_fuzz_fuzz_lane_LDADD = $(TEST_LIBS)
tests_fuzz_fuzz_lane_LDFLAGS = $(AM_LDFLAGS) $(fuzz_link)
