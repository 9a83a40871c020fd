# Unit tests of poll, select and epoll, over sockets whose lanes do what a test says.

check_LTLIBRARIES += libsovia_ready.la
libsovia_ready_la_SOURCES = \
	tests/unit/sovia/fake_transport.h \
	tests/unit/sovia/laned_connection.cc tests/unit/sovia/laned_connection.h
libsovia_ready_la_CPPFLAGS = $(TEST_CPPFLAGS)
libsovia_ready_la_CXXFLAGS = $(AM_CXXFLAGS) -static

sovia_ready_tests = tests/unit/sovia/poll_test tests/unit/sovia/select_test \
	tests/unit/sovia/epoll_test tests/unit/sovia/epoll_threads_test \
	tests/unit/sovia/broken_lane_test tests/unit/sovia/messages_test tests/unit/sovia/bypass_test tests/unit/sovia/tags_test \
	tests/unit/sovia/held_sends_test tests/unit/sovia/stays_test
check_PROGRAMS += $(sovia_ready_tests)
TESTS += $(sovia_ready_tests)

tests_unit_sovia_poll_test_SOURCES = tests/unit/sovia/poll_test.cc
tests_unit_sovia_poll_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_poll_test_LDADD = libsovia_ready.la libsovia_parts.la libvipl.la $(TEST_LIBS)

tests_unit_sovia_select_test_SOURCES = tests/unit/sovia/select_test.cc
tests_unit_sovia_select_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_select_test_LDADD = libsovia_ready.la libsovia_parts.la libvipl.la $(TEST_LIBS)

tests_unit_sovia_epoll_test_SOURCES = tests/unit/sovia/epoll_sets_test.cc tests/unit/sovia/epoll_test.cc
tests_unit_sovia_epoll_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_epoll_test_LDADD = libsovia_ready.la libsovia_parts.la libvipl.la $(TEST_LIBS)

tests_unit_sovia_epoll_threads_test_SOURCES = sovia/launcher/counters_reader.cc tests/unit/sovia/epoll_threads_test.cc
tests_unit_sovia_epoll_threads_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_epoll_threads_test_LDADD = libsovia_ready.la libsovia_parts.la libvipl.la $(TEST_LIBS)

tests_unit_sovia_broken_lane_test_SOURCES = tests/unit/sovia/broken_lane_test.cc
tests_unit_sovia_broken_lane_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_broken_lane_test_LDADD = libsovia_ready.la libsovia_parts.la libvipl.la $(TEST_LIBS)

tests_unit_sovia_stays_test_SOURCES = tests/unit/sovia/stays_test.cc
tests_unit_sovia_stays_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_stays_test_LDADD = libsovia_ready.la libsovia_parts.la libvipl.la $(TEST_LIBS)

tests_unit_sovia_tags_test_SOURCES = tests/unit/sovia/loopback.h tests/unit/sovia/tags_test.cc
tests_unit_sovia_tags_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_tags_test_LDADD = libsovia_ready.la libsovia_parts.la libvipl.la $(TEST_LIBS)

tests_unit_sovia_messages_test_SOURCES = tests/unit/sovia/loopback.h tests/unit/sovia/messages_test.cc
tests_unit_sovia_messages_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_messages_test_LDADD = libsovia_ready.la libsovia_parts.la libvipl.la $(TEST_LIBS)

tests_unit_sovia_bypass_test_SOURCES = sovia/launcher/counters_reader.cc sovia/launcher/sockets.cc \
	tests/unit/sovia/bypass_test.cc tests/unit/sovia/shown_test.cc
tests_unit_sovia_bypass_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_bypass_test_LDADD = libsovia_ready.la libsovia_parts.la libvipl.la $(TEST_LIBS)

tests_unit_sovia_held_sends_test_SOURCES = tests/unit/sovia/held_sends_test.cc tests/unit/sovia/quick_bypass_test.cc
tests_unit_sovia_held_sends_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_held_sends_test_LDADD = libsovia_ready.la libsovia_parts.la libvipl.la $(TEST_LIBS)

# The sources that a send() and a recv() on a lane enter.
TESTS += tests/unit/sovia/path.test
EXTRA_DIST += tests/unit/sovia/path.test
check_PROGRAMS += tests/unit/sovia/path_tool
tests_unit_sovia_path_tool_SOURCES = tests/unit/sovia/path_tool.cc
tests_unit_sovia_path_tool_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_path_tool_LDADD = libsovia_ready.la libsovia_parts.la libvipl.la $(TEST_LIBS)
