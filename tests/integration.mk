# tests/integration: whole programs on hosts that tests/lab/vialab makes. They need root and are skipped
# without it.

integration_tests = \
	tests/integration/conformance_hosted.test \
	tests/integration/conformance.test \
	tests/integration/conformance_local.test \
	tests/integration/port.test \
	tests/integration/granted.test \
	tests/integration/trains.test \
	tests/integration/unreliable.test \
	tests/integration/adopt.test \
	tests/integration/lab.test \
	tests/integration/viaping.test \
	tests/integration/viaping_hosted.test \
	tests/integration/examples.test \
	tests/integration/examples_hosted.test \
	tests/integration/local.test \
	tests/integration/crash.test \
	tests/integration/crash_hosted.test \
	tests/integration/agent.test \
	tests/integration/socket.test \
	tests/integration/viactl.test \
	tests/integration/viadump.test \
	tests/integration/dissector.test \
	tests/integration/hang.test \
	tests/integration/privileges.test \
	tests/integration/coexist.test \
	tests/integration/datagrams.test \
	tests/integration/containers.test \
	tests/integration/conformance_sanitized.test \
	tests/integration/legacy.test \
	tests/integration/ext.test tests/integration/finisher.test \
	tests/integration/fork.test \
	tests/integration/jumbo.test \
	tests/integration/lanevi.test \
	tests/integration/lanevi_hosted.test \
	tests/integration/pipeline.test \
	tests/integration/viabench.test

TESTS += $(integration_tests)
EXTRA_DIST += $(integration_tests) tests/integration/common.sh tests/integration/copy_stream.py tests/integration/uncut_udp.py tests/integration/unix_sockets.py tests/integration/dissector.py \
	tests/integration/datagrams.py tests/integration/egress_programs.py \
	tests/integration/conformance.sh tests/lab/setup.sh

# ./check runs these first: see tests/weights.
EXTRA_DIST += tests/weights
phony_targets += list-tests
list-tests:
	@for test in $(TESTS); do echo $$test; done

# For preloading: with -rpath it is shared.
check_LTLIBRARIES += tests/integration/libbefore_tcx.la
tests_integration_libbefore_tcx_la_SOURCES = tests/integration/before_tcx.c
tests_integration_libbefore_tcx_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere

check_PROGRAMS += tests/integration/port_tool
tests_integration_port_tool_SOURCES = tests/integration/port_tool.cc
tests_integration_port_tool_LDADD = libviaduct_xdp.la

check_PROGRAMS += tests/integration/privileges_tool
tests_integration_privileges_tool_SOURCES = tests/integration/privileges_tool.cc
tests_integration_privileges_tool_LDADD = libviaduct_agent.la libviaduct_xdp.la

check_PROGRAMS += tests/integration/socket_tool
tests_integration_socket_tool_SOURCES = tests/integration/socket_tool.cc
tests_integration_socket_tool_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
tests_integration_socket_tool_LDADD = libvipl.la

check_PROGRAMS += tests/integration/stuck_tool
tests_integration_stuck_tool_SOURCES = tests/integration/stuck_tool.cc
tests_integration_stuck_tool_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
tests_integration_stuck_tool_CXXFLAGS = $(AM_CXXFLAGS) -pthread
tests_integration_stuck_tool_LDADD = libvipl.la
check_PROGRAMS += tests/integration/hang_tool
tests_integration_hang_tool_SOURCES = tests/integration/hang_tool.cc
tests_integration_hang_tool_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
tests_integration_hang_tool_CXXFLAGS = $(AM_CXXFLAGS) -pthread
tests_integration_hang_tool_LDADD = libvipl.la

check_PROGRAMS += tests/integration/granted_tool
tests_integration_granted_tool_SOURCES = tests/integration/granted_tool.cc
tests_integration_granted_tool_LDADD = libviaduct_agent.la libviaduct_xdp.la

check_PROGRAMS += tests/integration/reattach_tool
tests_integration_reattach_tool_SOURCES = tests/integration/reattach_tool.cc
tests_integration_reattach_tool_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
tests_integration_reattach_tool_LDADD = libvipl.la

check_PROGRAMS += tests/integration/unreliable_tool
tests_integration_unreliable_tool_SOURCES = tests/integration/unreliable_tool.c
tests_integration_unreliable_tool_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
tests_integration_unreliable_tool_LDADD = libvipl.la

check_PROGRAMS += tests/integration/instructions_tool
tests_integration_instructions_tool_SOURCES = tests/integration/instructions_tool.cc

check_PROGRAMS += tests/integration/ext_tool
tests_integration_ext_tool_SOURCES = tests/integration/ext_tool.cc
tests_integration_ext_tool_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
tests_integration_ext_tool_CXXFLAGS = $(AM_CXXFLAGS) -pthread
tests_integration_ext_tool_LDADD = libvipl.la

check_PROGRAMS += tests/integration/finisher_tool
tests_integration_finisher_tool_SOURCES = tests/integration/finisher_tool.cc
tests_integration_finisher_tool_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
tests_integration_finisher_tool_LDADD = libvipl.la

check_PROGRAMS += tests/integration/calls_tool
tests_integration_calls_tool_SOURCES = tests/integration/calls_tool.cc
tests_integration_calls_tool_CXXFLAGS = $(AM_CXXFLAGS) -pthread
check_LTLIBRARIES += calls_plugin.la
calls_plugin_la_SOURCES = tests/integration/calls_plugin.cc
calls_plugin_la_LDFLAGS = -module -avoid-version -shared -rpath /nowhere

check_PROGRAMS += tests/integration/filter_tool
tests_integration_filter_tool_SOURCES = tests/integration/filter_tool.cc

check_PROGRAMS += tests/integration/fork_tool
tests_integration_fork_tool_SOURCES = tests/integration/fork_tool.cc \
	tests/integration/fork_rules.cc tests/integration/fork_end.h
tests_integration_fork_tool_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
tests_integration_fork_tool_CXXFLAGS = $(AM_CXXFLAGS) -pthread
tests_integration_fork_tool_LDADD = libvipl.la

if WITH_SOVIA
include tests/integration/programs.mk
endif
