# tests/conformance: the VIPL conformance suite. It needs a peer, so it is run by
# tests/integration/conformance*.test. Tests run in the order of the files: those that end the
# provider (conformance_last) come after all others.

check_PROGRAMS += tests/conformance/vipl-conformance

conformance_framework = \
	tests/conformance/archive.h \
	tests/conformance/control_channel.h \
	tests/conformance/coverage.cc tests/conformance/coverage.h \
	tests/conformance/executor.cc tests/conformance/executor.h \
	tests/conformance/executor_connect.cc \
	tests/conformance/executor_parts.h \
	tests/conformance/executor_transfer.cc \
	tests/conformance/expected.cc tests/conformance/expected.h \
	tests/conformance/host.h \
	tests/conformance/local_host.cc \
	tests/conformance/main.cc \
	tests/conformance/objects.cc tests/conformance/objects.h \
	tests/conformance/operations.h \
	tests/conformance/options.cc tests/conformance/options.h \
	tests/conformance/printing.cc tests/conformance/printing.h \
	tests/conformance/records.cc tests/conformance/records.h \
	tests/conformance/remote_host.cc \
	tests/conformance/server.cc \
	tests/conformance/started.cc tests/conformance/started.h \
	tests/conformance/suite.cc tests/conformance/suite.h \
	tests/conformance/types.h

conformance_functions = \
	tests/conformance/function_nic.cc \
	tests/conformance/function_ptag.cc \
	tests/conformance/function_memory.cc \
	tests/conformance/function_vi.cc \
	tests/conformance/function_connect.cc \
	tests/conformance/function_peer.cc \
	tests/conformance/function_transfer.cc \
	tests/conformance/function_cq.cc \
	tests/conformance/function_notify.cc \
	tests/conformance/function_names.cc \
	tests/conformance/function_errors.cc

conformance_semantics = \
	tests/conformance/semantics_state.cc \
	tests/conformance/semantics_order.cc \
	tests/conformance/semantics_outgoing.cc \
	tests/conformance/semantics_reliability.cc \
	tests/conformance/semantics_levels.cc \
	tests/conformance/semantics_rdma.cc \
	tests/conformance/semantics_protection.cc \
	tests/conformance/semantics_descriptor.cc \
	tests/conformance/semantics_cq.cc \
	tests/conformance/semantics_threads.cc \
	tests/conformance/checklist.cc

conformance_last = \
	tests/conformance/last_provider.cc

tests_conformance_vipl_conformance_SOURCES = \
	$(conformance_last) tests/conformance/captured_names.c
if FAST_BUILD
nodist_tests_conformance_vipl_conformance_SOURCES = tests/conformance/framework_all.cc \
	tests/conformance/functions_all.cc tests/conformance/semantics_all.cc
EXTRA_DIST += $(conformance_framework) $(conformance_functions) $(conformance_semantics)
else
tests_conformance_vipl_conformance_SOURCES += \
	$(conformance_framework) $(conformance_functions) $(conformance_semantics)
endif
CLEANFILES += tests/conformance/framework_all.cc tests/conformance/functions_all.cc tests/conformance/semantics_all.cc
tests/conformance/framework_all.cc: Makefile
	$(COMPILED_TOGETHER) $(filter %.cc,$(conformance_framework))
tests/conformance/functions_all.cc: Makefile
	$(COMPILED_TOGETHER) $(conformance_functions)
tests/conformance/semantics_all.cc: Makefile
	$(COMPILED_TOGETHER) $(conformance_semantics)
tests_conformance_vipl_conformance_CPPFLAGS = $(TEST_CPPFLAGS) -I$(top_srcdir)/vipl
tests_conformance_vipl_conformance_CXXFLAGS = $(AM_CXXFLAGS) -pthread
tests_conformance_vipl_conformance_LDADD = libvipl.la $(TEST_LIBS)
EXTRA_DIST += tests/conformance/README.md
