# Unit tests of poll, select and epoll, over sockets whose lanes do what a test says.

check_LTLIBRARIES += libsovia_ready.la
libsovia_ready_la_SOURCES = \
	sovia/api/api_epoll.cc \
	sovia/poll/epoll_set.cc \
	sovia/poll/epoll_sets.cc \
	sovia/poll/epoll_wait.cc \
	sovia/poll/ready_list.cc \
	sovia/poll/registration_table.cc \
	sovia/lane/watchers.cc \
	sovia/process/clock.cc \
	sovia/process/libc.cc \
	sovia/poll/poll_set.cc \
	sovia/poll/ready_poll.cc \
	sovia/poll/ready_select.cc \
	tests/unit/sovia/fake.cc tests/unit/sovia/fake.h
libsovia_ready_la_CPPFLAGS = $(TEST_CPPFLAGS)
libsovia_ready_la_CXXFLAGS = $(AM_CXXFLAGS) -static

sovia_ready_tests = tests/unit/sovia/poll_test tests/unit/sovia/select_test \
	tests/unit/sovia/epoll_test tests/unit/sovia/epoll_threads_test
check_PROGRAMS += $(sovia_ready_tests)
TESTS += $(sovia_ready_tests)

tests_unit_sovia_poll_test_SOURCES = tests/unit/sovia/poll_test.cc
tests_unit_sovia_poll_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_poll_test_LDADD = libsovia_ready.la libvipl.la $(TEST_LIBS)

tests_unit_sovia_select_test_SOURCES = tests/unit/sovia/select_test.cc
tests_unit_sovia_select_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_select_test_LDADD = libsovia_ready.la libvipl.la $(TEST_LIBS)

tests_unit_sovia_epoll_test_SOURCES = tests/unit/sovia/epoll_sets_test.cc tests/unit/sovia/epoll_test.cc
tests_unit_sovia_epoll_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_epoll_test_LDADD = libsovia_ready.la libvipl.la $(TEST_LIBS)

tests_unit_sovia_epoll_threads_test_SOURCES = tests/unit/sovia/epoll_threads_test.cc
tests_unit_sovia_epoll_threads_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_epoll_threads_test_LDADD = libsovia_ready.la libvipl.la $(TEST_LIBS)
