# The same suite on a libvipl that the compiler's sanitizers watch. The thread sanitizer must know what
# the suite itself does with threads; for the other one its ordinary objects will do.

#
# The thread sanitizer's takes as long to build as all else that ./check runs: `make check-threads`.

# Where all is watched they would be watched twice.
EXTRA_LTLIBRARIES = libvipl_tsan.la
EXTRA_PROGRAMS += tests/conformance/vipl-conformance-tsan
if SANITIZED
EXTRA_LTLIBRARIES += libvipl_asan.la
EXTRA_PROGRAMS += tests/conformance/vipl-conformance-asan
else
check_LTLIBRARIES += libvipl_asan.la
check_PROGRAMS += tests/conformance/vipl-conformance-asan
endif
libvipl_tsan_la_SOURCES = $(libvipl_la_SOURCES)
nodist_libvipl_tsan_la_SOURCES = $(nodist_libvipl_la_SOURCES)
libvipl_tsan_la_CXXFLAGS = $(libvipl_la_CXXFLAGS) -fsanitize=thread -Wno-tsan -static
libvipl_tsan_la_LIBADD = -lpthread
libvipl_asan_la_SOURCES = $(libvipl_la_SOURCES)
nodist_libvipl_asan_la_SOURCES = $(nodist_libvipl_la_SOURCES)
libvipl_asan_la_CXXFLAGS = $(libvipl_la_CXXFLAGS) -fsanitize=address,undefined -static
libvipl_asan_la_LIBADD = -lpthread

tests_conformance_vipl_conformance_tsan_SOURCES = \
	$(tests_conformance_vipl_conformance_SOURCES) tests/conformance/sanitizer_options.cc
nodist_tests_conformance_vipl_conformance_tsan_SOURCES = $(nodist_tests_conformance_vipl_conformance_SOURCES)
tests_conformance_vipl_conformance_tsan_CPPFLAGS = $(tests_conformance_vipl_conformance_CPPFLAGS)
tests_conformance_vipl_conformance_tsan_CXXFLAGS = \
	$(tests_conformance_vipl_conformance_CXXFLAGS) -fsanitize=thread -Wno-tsan
tests_conformance_vipl_conformance_tsan_LDFLAGS = $(AM_LDFLAGS) -export-dynamic -fsanitize=thread
tests_conformance_vipl_conformance_tsan_LDADD = libvipl_tsan.la $(TEST_LIBS)
tests_conformance_vipl_conformance_asan_SOURCES = tests/conformance/sanitizer_options.cc
tests_conformance_vipl_conformance_asan_LDFLAGS = $(AM_LDFLAGS) -export-dynamic -fsanitize=address,undefined
tests_conformance_vipl_conformance_asan_LDADD = \
	$(tests_conformance_vipl_conformance_OBJECTS) libvipl_asan.la $(TEST_LIBS)

# All integration tests that can run so.
phony_targets += check-sanitized
check-sanitized:
	$(srcdir)/tests/sanitized/check_sanitized
	$(srcdir)/tests/sanitized/check_sanitized --threads
EXTRA_DIST += tests/sanitized/check_sanitized

phony_targets += check-threads
check-threads: all tests/conformance/vipl-conformance-tsan
	SANITIZERS=threads VIADUCT_BUILD=$(abs_builddir) \
		$(srcdir)/tests/integration/conformance_sanitized.test
