# examples: the installed measuring programs, and small programs that show how VIPL is used

# Shared by the measuring programs.
via_common = \
	examples/common/endpoint.cc examples/common/endpoint.h \
	examples/common/messages.h \
	examples/common/nic.cc examples/common/nic.h \
	examples/common/stream.cc examples/common/stream.h

bin_PROGRAMS += viaping viabench
viaping_SOURCES = $(via_common) \
	examples/viaping/client.cc examples/viaping/client.h \
	examples/viaping/main.cc \
	examples/viaping/messages.h \
	examples/viaping/server.cc examples/viaping/server.h
viaping_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
viaping_CXXFLAGS = $(AM_CXXFLAGS) -pthread
viaping_LDADD = libvipl.la

viabench_sources = $(via_common) \
	examples/viabench/bars.cc examples/viabench/bars.h \
	examples/viabench/case.cc examples/viabench/case.h \
	examples/viabench/json.cc examples/viabench/json.h \
	examples/viabench/lab_run.cc examples/viabench/lab_run.h \
	examples/viabench/lanevi.cc examples/viabench/lanevi.h \
	examples/viabench/lines.cc examples/viabench/lines.h \
	examples/viabench/main.cc \
	examples/viabench/measure.cc examples/viabench/measure.h \
	examples/viabench/near_end.cc examples/viabench/near_end.h \
	examples/viabench/options.cc examples/viabench/options.h \
	examples/viabench/paper_figures.cc examples/viabench/paper_figures.h \
	examples/viabench/paper_tables.cc examples/viabench/paper_tables.h \
	examples/viabench/papers.cc examples/viabench/papers.h \
	examples/viabench/plan.cc examples/viabench/plan.h \
	examples/viabench/plots.cc examples/viabench/plots.h \
	examples/viabench/processors.cc examples/viabench/processors.h \
	examples/viabench/raw.cc examples/viabench/raw.h \
	examples/viabench/raw_socket.cc examples/viabench/raw_socket.h \
	examples/viabench/results.cc examples/viabench/results.h \
	examples/viabench/samples.cc examples/viabench/samples.h \
	examples/viabench/senders.cc examples/viabench/senders.h \
	examples/viabench/server.cc examples/viabench/server.h \
	examples/viabench/socket_crowd.cc examples/viabench/socket_crowd.h \
	examples/viabench/socket_transfer.cc examples/viabench/socket_transfer.h \
	examples/viabench/socket_web.cc examples/viabench/socket_web.h \
	examples/viabench/sovia.cc examples/viabench/sovia.h \
	examples/viabench/table.h \
	examples/viabench/tables.cc examples/viabench/tables.h \
	examples/viabench/tcp.cc examples/viabench/tcp.h \
	examples/viabench/tcp_socket.cc examples/viabench/tcp_socket.h \
	examples/viabench/via.h \
	examples/viabench/via_connect.cc \
	examples/viabench/via_link.cc examples/viabench/via_link.h \
	examples/viabench/via_local.cc \
	examples/viabench/via_senders.cc \
	examples/viabench/via_transfer.cc \
	examples/viabench/worker.cc examples/viabench/worker.h
# Those that have names in common with others.
viabench_apart = examples/viabench/options.cc examples/viabench/paper_tables.cc examples/viabench/papers.cc \
	examples/viabench/sovia.cc examples/viabench/tables.cc
if FAST_BUILD
viabench_SOURCES = $(viabench_apart)
nodist_viabench_SOURCES = examples/viabench_together.cc
EXTRA_DIST += $(viabench_sources)
else
viabench_SOURCES = $(viabench_sources)
endif
CLEANFILES += examples/viabench_together.cc
examples/viabench_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(viabench_apart),$(filter %.cc,$(viabench_sources)))
viabench_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl $(XDP_CFLAGS)
viabench_LDADD = libvipl.la $(XDP_LIBS)

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

# An application in plain sockets.
noinst_PROGRAMS += examples/pipeline
examples_pipeline_SOURCES = \
	examples/datacutter/filter.c \
	examples/datacutter/main.c \
	examples/datacutter/repository.c \
	examples/datacutter/sink.c \
	examples/datacutter/source.c \
	examples/datacutter/stages.h \
	examples/datacutter/viewer.c \
	examples/datacutter/wire.c examples/datacutter/wire.h
examples_pipeline_CFLAGS = $(AM_CFLAGS) -pthread
EXTRA_DIST += examples/datacutter/README.md

# Hosts on one machine, for users as much as for tests.
dist_bin_SCRIPTS = tests/lab/vialab
dist_pkglibexec_SCRIPTS = tests/lab/mpi
bin_PROGRAMS += tests/lab/lab-faults
tests_lab_lab_faults_SOURCES = \
	xdp/clock.h xdp/descriptor.h \
	tests/lab/fault_line.cc tests/lab/fault_line.h \
	tests/lab/faults.cc tests/lab/faults.h \
	tests/lab/lab_faults.cc \
	tests/lab/port_ring.cc tests/lab/port_ring.h

include examples/legacy/legacy.mk
if WITH_SOVIA
noinst_PROGRAMS += examples/tagged
examples_tagged_SOURCES = examples/tagged.c
examples_tagged_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/sovia
examples_tagged_LDADD = libsovia.la
include examples/ftp/ftp.mk
endif
