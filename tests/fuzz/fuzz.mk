# Fuzz targets. Built here with replay_main, which runs a corpus (what make_*_corpus writes, and the
# inputs of tests/fuzz/corpus) and seeded mutations of it; a short run of each belongs to "make
# check" (fuzz.test). "make fuzz" runs each for FUZZ_MINUTES with clang's libFuzzer and sanitizers,
# in a build tree of its own (build/fuzz), "make fuzz-on" goes on for as long in all; doc/results/fuzz.json says for
# how long each has run. "make fuzz-coverage" says which lines that corpus reaches.

if LIBFUZZER
fuzz_main =
fuzz_link = -fsanitize=fuzzer
else
fuzz_main = tests/fuzz/replay_main.cc
fuzz_link =
endif

include tests/fuzz/kagent.mk

check_PROGRAMS += tests/fuzz/fuzz_wire tests/fuzz/make_wire_corpus
tests_fuzz_fuzz_wire_SOURCES = tests/fuzz/fuzz_wire.cc $(fuzz_main)
tests_fuzz_fuzz_wire_LDADD = libviaduct_stack.la
tests_fuzz_fuzz_wire_LDFLAGS = $(AM_LDFLAGS) $(fuzz_link)
tests_fuzz_make_wire_corpus_SOURCES = tests/fuzz/make_wire_corpus.cc
tests_fuzz_make_wire_corpus_LDADD = libviaduct_stack.la

# The stack: words that programs write to their segments, and frames from the wire.
check_PROGRAMS += tests/fuzz/fuzz_rings tests/fuzz/fuzz_frames
fuzz_hosts = \
	tests/fuzz/fuzz_hosts.cc tests/fuzz/fuzz_hosts.h tests/fuzz/fuzz_input.h
tests_fuzz_fuzz_rings_SOURCES = tests/fuzz/fuzz_rings.cc $(fuzz_hosts) $(fuzz_main)
tests_fuzz_fuzz_rings_LDADD = libsim_hosts.la libviaduct_stack.la libviaduct_sim.la
tests_fuzz_fuzz_rings_LDFLAGS = $(AM_LDFLAGS) $(fuzz_link)
tests_fuzz_fuzz_frames_SOURCES = tests/fuzz/fuzz_frames.cc $(fuzz_hosts) $(fuzz_main)
tests_fuzz_fuzz_frames_LDADD = libsim_hosts.la libviaduct_stack.la libviaduct_sim.la
tests_fuzz_fuzz_frames_LDFLAGS = $(AM_LDFLAGS) $(fuzz_link)

# Sources that are compiled with a kernel, or an agent, of the fuzz target's own: headers in tests/fuzz/seam are found
# before those of the same names.
fuzz_seam = -iquote $(srcdir)/tests/fuzz/seam $(AM_CPPFLAGS)

# Frames of a train that the stack takes in a loop.
check_PROGRAMS += tests/fuzz/fuzz_runs
tests_fuzz_fuzz_runs_SOURCES = tests/fuzz/fuzz_runs.cc tests/fuzz/fuzz_input.h $(fuzz_main)
tests_fuzz_fuzz_runs_LDADD = libsim_hosts.la libviaduct_stack.la libviaduct_sim.la
tests_fuzz_fuzz_runs_LDFLAGS = $(AM_LDFLAGS) $(fuzz_link)

# Trains.
check_PROGRAMS += tests/fuzz/fuzz_trains
tests_fuzz_fuzz_trains_SOURCES = \
	tests/fuzz/fuzz_trains.cc tests/fuzz/fuzz_input.h tests/fuzz/seam/xdp/xsk/system_calls.h \
	xdp/train/outgoing_train.cc xdp/train/train_pages.cc xdp/train/train_socket.cc $(fuzz_main)
tests_fuzz_fuzz_trains_CPPFLAGS = $(fuzz_seam)
tests_fuzz_fuzz_trains_LDFLAGS = $(AM_LDFLAGS) $(fuzz_link)

# Rings in memory between programs of one host.
check_PROGRAMS += tests/fuzz/fuzz_local
tests_fuzz_fuzz_local_SOURCES = \
	tests/fuzz/fuzz_local.cc tests/fuzz/fuzz_input.h xdp/local/local_peers.cc $(fuzz_main)
tests_fuzz_fuzz_local_LDFLAGS = $(AM_LDFLAGS) $(fuzz_link)

# Captures that viadump reads.
check_PROGRAMS += tests/fuzz/fuzz_captures
tests_fuzz_fuzz_captures_SOURCES = \
	tests/fuzz/fuzz_captures.cc tests/fuzz/fuzz_input.h $(fuzz_main)
tests_fuzz_fuzz_captures_LDADD = libviaduct_dump.la
tests_fuzz_fuzz_captures_LDFLAGS = $(AM_LDFLAGS) $(fuzz_link)

if WITH_SOVIA
include tests/fuzz/sovia.mk
endif

TESTS += tests/fuzz/fuzz.test
EXTRA_DIST += tests/fuzz/fuzz.test tests/fuzz/fuzz_long tests/fuzz/corpus

FUZZ_MINUTES = 30
phony_targets += fuzz fuzz-on fuzz-coverage
fuzz:
	$(srcdir)/tests/fuzz/fuzz_long run $(FUZZ_MINUTES)
fuzz-on:
	$(srcdir)/tests/fuzz/fuzz_long go-on $(FUZZ_MINUTES)
fuzz-coverage:
	$(srcdir)/tests/fuzz/fuzz_long coverage
