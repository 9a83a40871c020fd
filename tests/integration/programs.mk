# Other people's programs on SOVIA.

programs_tests = \
	tests/integration/sovia_broken.test tests/integration/sovia_outage.test \
	tests/integration/sovia_killed.test \
	tests/integration/sovia_scarce.test \
	tests/integration/sovia_descriptors.test \
	tests/integration/sovia_ends.test tests/integration/sovia_errno.test tests/integration/sovia_polling.test \
	tests/integration/sovia_pure.test \
	tests/integration/sovia_sandbox.test \
	tests/integration/sovia_exhausted.test \
	tests/integration/sovia_filters.test \
	tests/integration/sovia_calls.test \
	tests/integration/sovia_configurations.test \
	tests/integration/sovia_counters.test \
	tests/integration/sovia_crowd.test \
	tests/integration/sovia_dropped.test \
	tests/integration/sovia_ftp.test \
	tests/integration/sovia_impostor.test \
	tests/integration/sovia_instructions.test \
	tests/integration/sovia_switches.test \
	tests/integration/sovia_local.test \
	tests/integration/sovia_messages.test \
	tests/integration/sovia_ready.test \
	tests/integration/sovia_route.test \
	tests/integration/sovia_tags.test \
	tests/integration/sovia_udp.test \
	tests/integration/sovia_watch.test

# These take some ten minutes, one test at a time: `make check-programs`.
more_programs_tests += \
	tests/integration/sovia_languages.test \
	tests/integration/sovia_model.test \
	tests/integration/sovia_programs.test \
	tests/integration/sovia_ssh.test \
	tests/integration/sovia_measuring.test \
	tests/integration/sovia_servers.test \
	tests/integration/sovia_many.test

TESTS += tests/integration/sovia_semantics.test $(programs_tests)
EXTRA_DIST += tests/integration/sovia_semantics.test
EXTRA_DIST += $(more_programs_tests)
phony_targets += check-programs
check-programs: all
	$(MAKE) -j1 check-TESTS TESTS="$(programs_tests) $(more_programs_tests)"
EXTRA_DIST += $(programs_tests) tests/integration/programs.sh tests/integration/echo_programs.py \
	tests/integration/impostor_client.py tests/integration/many_programs.py \
	tests/integration/end_programs.py tests/integration/errno_programs.py tests/integration/polling_programs.py tests/integration/counted_programs.py tests/integration/crowd_programs.py tests/integration/signal_files.py tests/integration/sandbox_programs.py \
	tests/integration/ready_programs.py tests/integration/thread_failures.py tests/integration/unseen_programs.py tests/integration/route_programs.py tests/integration/broken_programs.py \
	tests/integration/killed_programs.py tests/integration/scarce_programs.py tests/integration/outage.sh tests/integration/outage_programs.py \
	tests/integration/message_programs.py tests/integration/tag_programs.py tests/integration/udp_programs.py \
	tests/integration/descriptor_programs.py tests/integration/dropped_programs.py \
	tests/integration/echo_programs.go tests/integration/echo_programs.js tests/integration/echo_programs.php \
	tests/integration/EchoPrograms.java

# 100,000 programs of tests/sovia/model: MODEL_ARGUMENTS="--seeds 1-1000", for example, makes fewer.
phony_targets += model
MODEL_ARGUMENTS = --seeds 1-100000 --jobs 4 --lanes 40 --output model.json
model: all tests/sovia/model/sovia-model
	VIADUCT_BUILD=$(abs_builddir) $(SHELL) -c 'exec bash $(srcdir)/tests/integration/sovia_model.test $(MODEL_ARGUMENTS)'

check_PROGRAMS += tests/integration/impostor_tool
tests_integration_impostor_tool_SOURCES = tests/integration/impostor_tool.cc
tests_integration_impostor_tool_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
tests_integration_impostor_tool_CXXFLAGS = $(AM_CXXFLAGS) -pthread
# Another user, without write access to the tree, runs it.
tests_integration_impostor_tool_LDFLAGS = -no-install
tests_integration_impostor_tool_LDADD = libsovia_parts.la libvipl.la -lpthread

check_PROGRAMS += tests/integration/udp_impostor_tool
tests_integration_udp_impostor_tool_SOURCES = tests/integration/udp_impostor_tool.cc
tests_integration_udp_impostor_tool_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
tests_integration_udp_impostor_tool_CXXFLAGS = $(AM_CXXFLAGS) -pthread
# As impostor_tool.
tests_integration_udp_impostor_tool_LDFLAGS = -no-install
tests_integration_udp_impostor_tool_LDADD = libsovia_parts.la libvipl.la -lpthread

check_PROGRAMS += tests/integration/names_tool
tests_integration_names_tool_SOURCES = tests/integration/names_tool.c
tests_integration_names_tool_LDFLAGS = -no-install -export-dynamic
