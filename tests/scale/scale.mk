# tests/scale: many operations, many objects. `make scale` is the long version of scale.test and
# prints the ratios; it takes some minutes and wants a quiet machine.

check_PROGRAMS += tests/scale/vipl-scale
tests_scale_vipl_scale_SOURCES = \
	tests/scale/client.cc \
	tests/scale/limits.cc tests/scale/limits.h \
	tests/scale/link.cc tests/scale/link.h \
	tests/scale/main.cc \
	tests/scale/meter.cc tests/scale/meter.h \
	tests/scale/modes.h tests/scale/options.h tests/scale/protocol.h \
	tests/scale/server.cc
tests_scale_vipl_scale_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
tests_scale_vipl_scale_LDADD = libvipl.la

TESTS += tests/scale/scale.test
EXTRA_DIST += tests/scale/scale.test

scale: all tests/scale/vipl-scale
	VIADUCT_SCALE=full $(srcdir)/tests/scale/scale.test
