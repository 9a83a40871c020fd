# Unit tests of the sockets layer around the lanes.

check_PROGRAMS += tests/sovia/unit/api_test tests/sovia/unit/receive_test
TESTS += tests/sovia/unit/api_test tests/sovia/unit/receive_test \
	tests/sovia/symbols.test tests/sovia/names.test \
	tests/sovia/pages.test tests/sovia/launcher.test
EXTRA_DIST += tests/sovia/symbols.test tests/sovia/names.test tests/sovia/pages.test \
	tests/sovia/launcher.test
tests_sovia_unit_api_test_SOURCES = \
	sovia/launcher/counters_reader.cc \
	tests/sovia/unit/counters_test.cc \
	tests/sovia/unit/connection.h \
	tests/sovia/unit/link_test.cc \
	tests/sovia/unit/loopback.h \
	tests/sovia/unit/options_test.cc \
	tests/sovia/unit/reset_test.cc \
	tests/sovia/unit/residue_test.cc \
	tests/sovia/unit/stdio_test.cc \
	tests/sovia/unit/table_test.cc
tests_sovia_unit_api_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_sovia_unit_api_test_LDADD = libsovia_parts.la libvipl.la $(TEST_LIBS)

# By itself: it begins with one thread, and counts the kernel's calls.
tests_sovia_unit_receive_test_SOURCES = tests/sovia/unit/receive_test.cc
tests_sovia_unit_receive_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_sovia_unit_receive_test_LDADD = libsovia_parts.la libvipl.la $(TEST_LIBS)
