# Fuzz targets of the agent service, built with replay_main.

check_PROGRAMS += tests/fuzz/fuzz_config tests/fuzz/fuzz_control \
	tests/fuzz/make_config_corpus tests/fuzz/make_control_corpus

tests_fuzz_fuzz_config_SOURCES = tests/fuzz/fuzz_config.cc tests/fuzz/replay_main.cc
tests_fuzz_fuzz_config_LDADD = libviaduct_agent.la libviaduct_xdp.la

tests_fuzz_fuzz_control_SOURCES = \
	tests/fuzz/fuzz_control.cc tests/fuzz/replay_main.cc tests/unit/agent_fixture.h
tests_fuzz_fuzz_control_CPPFLAGS = $(AM_CPPFLAGS) $(SPDLOG_CFLAGS)
tests_fuzz_fuzz_control_LDADD = libviaduct_agent.la libviaduct_xdp.la

tests_fuzz_make_config_corpus_SOURCES = tests/fuzz/make_config_corpus.cc
tests_fuzz_make_control_corpus_SOURCES = tests/fuzz/make_control_corpus.cc
