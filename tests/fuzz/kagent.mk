# Fuzz targets of the agent service.

check_PROGRAMS += tests/fuzz/fuzz_config tests/fuzz/fuzz_control tests/fuzz/fuzz_names tests/fuzz/fuzz_reports \
	tests/fuzz/make_config_corpus tests/fuzz/make_control_corpus

tests_fuzz_fuzz_config_SOURCES = tests/fuzz/fuzz_config.cc $(fuzz_main)
tests_fuzz_fuzz_config_LDADD = libviaduct_agent.la libviaduct_xdp.la
tests_fuzz_fuzz_config_LDFLAGS = $(AM_LDFLAGS) $(fuzz_link)

tests_fuzz_fuzz_control_SOURCES = \
	tests/fuzz/fuzz_control.cc tests/fuzz/fuzz_input.h $(agent_fixture) $(fuzz_main)
tests_fuzz_fuzz_control_CPPFLAGS = $(AM_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_fuzz_fuzz_control_LDADD = libviaduct_agent.la libviaduct_xdp.la
tests_fuzz_fuzz_control_LDFLAGS = $(AM_LDFLAGS) $(fuzz_link)

tests_fuzz_fuzz_reports_SOURCES = \
	tests/fuzz/fuzz_reports.cc tests/fuzz/fuzz_input.h $(agent_fixture) $(fuzz_main)
tests_fuzz_fuzz_reports_CPPFLAGS = $(AM_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_fuzz_fuzz_reports_LDADD = libviaduct_tool.la libviaduct_agent.la libviaduct_xdp.la
tests_fuzz_fuzz_reports_LDFLAGS = $(AM_LDFLAGS) $(fuzz_link)

tests_fuzz_fuzz_names_SOURCES = \
	tests/fuzz/fuzz_names.cc tests/fuzz/fuzz_input.h $(fuzz_main)
tests_fuzz_fuzz_names_LDADD = libviaduct_agent.la libviaduct_xdp.la libviaduct_sim.la
tests_fuzz_fuzz_names_LDFLAGS = $(AM_LDFLAGS) $(fuzz_link)

tests_fuzz_make_config_corpus_SOURCES = tests/fuzz/make_config_corpus.cc
tests_fuzz_make_control_corpus_SOURCES = tests/fuzz/make_control_corpus.cc
