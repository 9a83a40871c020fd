# tests/sovia: the sockets layer's duties. The semantics suite is run, at two hosts, by
# tests/integration/sovia_semantics.test; it knows nothing of SOVIA and is linked with libc only.

check_PROGRAMS += tests/sovia/semantics/sovia-semantics

sovia_semantics_framework = \
	tests/sovia/semantics/calls.cc tests/sovia/semantics/calls.h \
	tests/sovia/semantics/case.cc tests/sovia/semantics/case.h \
	tests/sovia/semantics/fd.h \
	tests/sovia/semantics/helper.cc tests/sovia/semantics/helper.h \
	tests/sovia/semantics/main.cc \
	tests/sovia/semantics/options.cc tests/sovia/semantics/options.h \
	tests/sovia/semantics/peer.cc tests/sovia/semantics/peer.h \
	tests/sovia/semantics/processes.cc \
	tests/sovia/semantics/raw.cc tests/sovia/semantics/raw.h \
	tests/sovia/semantics/transcript.cc tests/sovia/semantics/transcript.h \
	tests/sovia/semantics/warm_up.cc \
	tests/sovia/semantics/worker.cc tests/sovia/semantics/worker.h

sovia_semantics_cases = \
	tests/sovia/semantics/cases_answers.cc \
	tests/sovia/semantics/cases_io.cc \
	tests/sovia/semantics/cases_flags.cc \
	tests/sovia/semantics/cases_errors.cc \
	tests/sovia/semantics/cases_pointers.cc \
	tests/sovia/semantics/cases_urgent.cc \
	tests/sovia/semantics/cases_nonblocking.cc \
	tests/sovia/semantics/cases_shutdown.cc \
	tests/sovia/semantics/cases_closing.cc \
	tests/sovia/semantics/cases_ends.cc \
	tests/sovia/semantics/cases_time.cc \
	tests/sovia/semantics/cases_handlers.cc \
	tests/sovia/semantics/cases_waiting.cc \
	tests/sovia/semantics/cases_options.cc \
	tests/sovia/semantics/cases_poll.cc \
	tests/sovia/semantics/cases_epoll.cc \
	tests/sovia/semantics/cases_epoll_processes.cc tests/sovia/semantics/epoll_set.h \
	tests/sovia/semantics/cases_copies.cc \
	tests/sovia/semantics/cases_fork.cc \
	tests/sovia/semantics/cases_exec.cc \
	tests/sovia/semantics/cases_stdio.cc \
	tests/sovia/semantics/cases_threads.cc \
	tests/sovia/semantics/cases_connect.cc \
	tests/sovia/semantics/cases_ipv6.cc \
	tests/sovia/semantics/cases_bulk.cc

# One parses options, the other has a name in common with others.
sovia_semantics_apart = tests/sovia/semantics/options.cc tests/sovia/semantics/peer.cc
if FAST_BUILD
tests_sovia_semantics_sovia_semantics_SOURCES = $(sovia_semantics_apart)
nodist_tests_sovia_semantics_sovia_semantics_SOURCES = \
	tests/sovia/semantics/framework_all.cc tests/sovia/semantics/cases_all.cc
EXTRA_DIST += $(sovia_semantics_framework) $(sovia_semantics_cases)
else
tests_sovia_semantics_sovia_semantics_SOURCES = $(sovia_semantics_framework) $(sovia_semantics_cases)
endif
CLEANFILES += tests/sovia/semantics/framework_all.cc tests/sovia/semantics/cases_all.cc
tests/sovia/semantics/framework_all.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(sovia_semantics_apart),$(filter %.cc,$(sovia_semantics_framework)))
tests/sovia/semantics/cases_all.cc: Makefile
	$(COMPILED_TOGETHER) $(sovia_semantics_cases)
tests_sovia_semantics_sovia_semantics_CXXFLAGS = $(AM_CXXFLAGS) -pthread
EXTRA_DIST += tests/sovia/semantics/README.md

EXTRA_DIST += tests/sovia/semantics/differences

# Random programs of socket calls over kernel TCP and on SOVIA, held against a model of TCP.
check_PROGRAMS += tests/sovia/model/sovia-model
tests_sovia_model_sovia_model_SOURCES = \
	tests/sovia/model/call.h \
	tests/sovia/model/check.cc tests/sovia/model/check.h \
	tests/sovia/model/execute.cc tests/sovia/model/execute.h \
	tests/sovia/model/execute_calls.cc tests/sovia/model/execute_ready.cc \
	tests/sovia/model/generate.cc \
	tests/sovia/model/hosts.cc tests/sovia/model/hosts.h \
	tests/sovia/model/main.cc \
	tests/sovia/model/options.cc tests/sovia/model/options.h \
	tests/sovia/model/pattern.h \
	tests/sovia/model/program.cc tests/sovia/model/program.h \
	tests/sovia/model/tcp_model.cc tests/sovia/model/tcp_model.h \
	tests/sovia/model/worker.cc tests/sovia/model/worker.h \
	tests/sovia/model/worker_data.cc tests/sovia/model/worker_descriptors.cc \
	tests/sovia/semantics/raw.cc tests/sovia/semantics/raw.h
tests_sovia_model_sovia_model_CXXFLAGS = $(AM_CXXFLAGS) -pthread
EXTRA_DIST += tests/sovia/model/README.md
