# Fuzz targets. Built here with replay_main, which runs the corpus that make_*_corpus writes and
# seeded mutations of it; a short run of each belongs to "make check" (fuzz.test), "make fuzz" runs
# them for FUZZ_COUNT mutations. With clang's libFuzzer:
#   clang++ -std=c++20 -fsanitize=fuzzer,address -I. tests/fuzz/fuzz_wire.cc kagent/wire.cc

include tests/fuzz/kagent.mk

check_PROGRAMS += tests/fuzz/fuzz_wire tests/fuzz/make_wire_corpus
tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.cc tests/fuzz/replay_main.cc
tests_fuzz_fuzz_wire_LDADD = libviaduct_stack.la
tests_fuzz_make_wire_corpus_SOURCES = tests/fuzz/make_wire_corpus.cc
tests_fuzz_make_wire_corpus_LDADD = libviaduct_stack.la

TESTS += tests/fuzz/fuzz.test
EXTRA_DIST += tests/fuzz/fuzz.test

FUZZ_COUNT = 20000000
.PHONY: fuzz
fuzz: $(check_PROGRAMS)
	FUZZ_COUNT=$(FUZZ_COUNT) $(srcdir)/tests/fuzz/fuzz.test
