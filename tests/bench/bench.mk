# tests/bench: `make bench` measures in full and writes the figures into doc/performance.md. It takes
# some ten minutes, and wants root and a quiet machine. BENCH_FLAGS are handed to viabench.

EXTRA_DIST += tests/bench/bench tests/bench/pictures doc/performance.md doc/papers.md doc/latency.svg doc/bandwidth.svg

phony_targets += bench
bench: all
	VIADUCT_BUILD=$(abs_builddir) $(srcdir)/tests/bench/bench $(BENCH_FLAGS)

# `make bench-sovia`: sockets over VIA beside VIPL and kernel TCP.
EXTRA_DIST += tests/bench/sovia
phony_targets += bench-sovia
bench-sovia: all
	VIADUCT_BUILD=$(abs_builddir) $(srcdir)/tests/bench/sovia
