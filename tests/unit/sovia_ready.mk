# Unit tests of poll, select and epoll, over sockets whose lanes do what a test says.

sovia_ready_tests = tests/unit/sovia_poll_test tests/unit/sovia_select_test \
	tests/unit/sovia_epoll_test tests/unit/sovia_epoll_threads_test
check_PROGRAMS += $(sovia_ready_tests)
TESTS += $(sovia_ready_tests)

sovia_ready_sources = \
	sovia/api_epoll.cc \
	sovia/epoll_set.cc \
	sovia/epoll_sets.cc \
	sovia/epoll_wait.cc \
	sovia/kernel.cc \
	sovia/poll_set.cc \
	sovia/ready_poll.cc \
	sovia/ready_select.cc \
	tests/unit/sovia_fake.cc tests/unit/sovia_fake.h

tests_unit_sovia_poll_test_SOURCES = tests/unit/sovia_poll_test.cc $(sovia_ready_sources)
tests_unit_sovia_poll_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_poll_test_LDADD = $(TEST_LIBS)

tests_unit_sovia_select_test_SOURCES = tests/unit/sovia_select_test.cc $(sovia_ready_sources)
tests_unit_sovia_select_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_select_test_LDADD = $(TEST_LIBS)

tests_unit_sovia_epoll_test_SOURCES = tests/unit/sovia_epoll_test.cc $(sovia_ready_sources)
tests_unit_sovia_epoll_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_epoll_test_LDADD = $(TEST_LIBS)

tests_unit_sovia_epoll_threads_test_SOURCES = \
	tests/unit/sovia_epoll_threads_test.cc $(sovia_ready_sources)
tests_unit_sovia_epoll_threads_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_sovia_epoll_threads_test_LDADD = $(TEST_LIBS)
