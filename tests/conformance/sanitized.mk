# The same suite on a libvipl that AddressSanitizer and UBSan watch; ordinary objects of the suite will do.

# Where all is watched it would be watched twice.
if SANITIZED
EXTRA_LTLIBRARIES = libvipl_asan.la
EXTRA_PROGRAMS += tests/conformance/vipl-conformance-asan
else
check_LTLIBRARIES += libvipl_asan.la
check_PROGRAMS += tests/conformance/vipl-conformance-asan
endif
libvipl_asan_la_SOURCES = $(libvipl_la_SOURCES)
nodist_libvipl_asan_la_SOURCES = $(nodist_libvipl_la_SOURCES)
libvipl_asan_la_CXXFLAGS = $(libvipl_la_CXXFLAGS) -fsanitize=address,undefined -static
libvipl_asan_la_LIBADD = -lpthread

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
