# examples: the installed measuring programs, and small programs that show how VIPL is used

# What the measuring programs share.
via_common = \
	examples/common/endpoint.cc examples/common/endpoint.h \
	examples/common/messages.h \
	examples/common/nic.cc examples/common/nic.h \
	examples/common/stream.cc examples/common/stream.h

bin_PROGRAMS += viaping
viaping_SOURCES = $(via_common) \
	examples/viaping/client.cc examples/viaping/client.h \
	examples/viaping/main.cc \
	examples/viaping/messages.h \
	examples/viaping/server.cc examples/viaping/server.h
viaping_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
viaping_CXXFLAGS = $(AM_CXXFLAGS) -pthread
viaping_LDADD = libvipl.la

noinst_PROGRAMS += examples/pingpong examples/stream examples/filecopy examples/tcpping
examples_pingpong_SOURCES = examples/pingpong.c
examples_pingpong_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
examples_pingpong_LDADD = libvipl.la
examples_stream_SOURCES = examples/stream.c
examples_stream_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
examples_stream_LDADD = libvipl.la
examples_filecopy_SOURCES = examples/filecopy.c
examples_filecopy_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
examples_filecopy_LDADD = libvipl.la
examples_tcpping_SOURCES = examples/tcpping.c

# Hosts on one machine, for users as much as for tests.
dist_bin_SCRIPTS = tests/lab/lab

include examples/legacy/legacy.mk
