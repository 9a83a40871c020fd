# Unit tests of the sockets layer around the lanes.

check_PROGRAMS += tests/unit/sovia/api_test tests/unit/sovia/receive_test
TESTS += tests/unit/sovia/api_test tests/unit/sovia/receive_test \
	tests/sovia/symbols.test tests/sovia/names.test tests/sovia/handlers.test \
	tests/sovia/pages.test tests/sovia/launcher.test
EXTRA_DIST += tests/sovia/symbols.test tests/sovia/names.test tests/sovia/handlers.test tests/sovia/pages.test \
	tests/sovia/launcher.test
api_tests = \
	sovia/launcher/counters_reader.cc \
	tests/unit/sovia/counters_test.cc \
	tests/unit/sovia/connection.h \
	tests/unit/sovia/tcp_route_test.cc \
	tests/unit/sovia/loopback.h \
	tests/unit/sovia/options_test.cc \
	tests/unit/sovia/reset_test.cc \
	tests/unit/sovia/burst_test.cc \
	tests/unit/sovia/inherited_bytes_test.cc \
	tests/unit/sovia/owed_bytes_test.cc \
	tests/unit/sovia/resume_record_test.cc \
	tests/unit/sovia/stdio_test.cc \
	tests/unit/sovia/table_test.cc
api_apart = tests/unit/sovia/stdio_test.cc
if FAST_BUILD
tests_unit_sovia_api_test_SOURCES = $(api_apart)
nodist_tests_unit_sovia_api_test_SOURCES = tests/unit/sovia/api_together.cc
EXTRA_DIST += $(api_tests)
else
tests_unit_sovia_api_test_SOURCES = $(api_tests)
endif
CLEANFILES += tests/unit/sovia/api_together.cc
tests/unit/sovia/api_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(api_apart),$(filter %.cc,$(api_tests)))
tests_unit_sovia_api_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_api_test_LDADD = libsovia_parts.la libvipl.la $(TEST_LIBS)

# By itself: it begins with one thread, and counts the kernel's calls.
tests_unit_sovia_receive_test_SOURCES = tests/unit/sovia/receive_test.cc
tests_unit_sovia_receive_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_receive_test_LDADD = libsovia_parts.la libvipl.la $(TEST_LIBS)

# UDP sockets on lanes, without a NIC.
sovia_datagram_tests = tests/unit/sovia/datagram_test
check_PROGRAMS += $(sovia_datagram_tests)
TESTS += $(sovia_datagram_tests)
tests_unit_sovia_datagram_test_SOURCES = \
	tests/unit/sovia/datagram_socket_test.cc \
	tests/unit/sovia/handshake_test.cc \
	tests/unit/sovia/peer_counts_test.cc
tests_unit_sovia_datagram_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_datagram_test_LDADD = libsovia_parts.la libvipl.la $(TEST_LIBS)
