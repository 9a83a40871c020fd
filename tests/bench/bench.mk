# tests/bench: `make bench` measures in full and writes doc/results/viabench.json. It takes
# some ten minutes, and wants root and a quiet machine. BENCH_FLAGS are handed to viabench.

EXTRA_DIST += tests/bench/bench tests/bench/pictures tests/bench/result doc/performance.md doc/papers.md doc/latency.svg doc/bandwidth.svg

phony_targets += bench
bench: all
	VIADUCT_BUILD=$(abs_builddir) $(srcdir)/tests/bench/bench $(BENCH_FLAGS)

# `make bench-sovia`: sockets over VIA beside VIPL and kernel TCP.
EXTRA_DIST += tests/bench/sovia
phony_targets += bench-sovia
bench-sovia: all
	VIADUCT_BUILD=$(abs_builddir) $(srcdir)/tests/bench/sovia

# `make bench-papers`: the papers' figures, on a veth pair and on a switch of 1 Gb/s. BENCH_FLAGS are handed to viabench.
EXTRA_DIST += tests/bench/papers
phony_targets += bench-papers
bench-papers: all
	VIADUCT_BUILD=$(abs_builddir) $(srcdir)/tests/bench/papers $(BENCH_FLAGS)

# `make bench-loss`: streams on links that lose frames.
EXTRA_DIST += tests/bench/loss
phony_targets += bench-loss
bench-loss: all
	VIADUCT_BUILD=$(abs_builddir) $(srcdir)/tests/bench/loss

# `make bench-programs`: other people's programs over kernel TCP and on SOVIA, see tests/README.md. `make bench-cost`: what a
# request costs. `make bench-tables`: the documents' tables from doc/results.
TESTS += tests/bench/programs.test
EXTRA_DIST += tests/bench/programs.test tests/bench/tables doc/results \
	tests/bench/programs/__main__.py \
	tests/bench/programs/against.py \
	tests/bench/programs/applications.py \
	tests/bench/programs/bench-programs \
	tests/bench/programs/benches.py \
	tests/bench/programs/cost.py \
	tests/bench/programs/figures.py \
	tests/bench/programs/idle.py \
	tests/bench/programs/lab.py \
	tests/bench/programs/loads.py \
	tests/bench/programs/servers.py \
	tests/bench/programs/outputs.py \
	tests/bench/programs/papers.py \
	tests/bench/programs/proof.py \
	tests/bench/programs/own/exchanges.py \
	tests/bench/programs/own/stream_end.py \
	tests/bench/programs/results.py \
	tests/bench/programs/rows.py \
	tests/bench/programs/tables.py \
	tests/bench/programs/unit_tests.py \
	tests/bench/programs/markdown.py \
	tests/bench/programs/viabench.py \
	tests/bench/programs/ways.py
phony_targets += bench-programs bench-cost bench-tables
bench-programs: all
	VIADUCT_BUILD=$(abs_builddir) $(srcdir)/tests/bench/programs/bench-programs $(BENCH_FLAGS)
bench-cost: all
	VIADUCT_BUILD=$(abs_builddir) $(srcdir)/tests/bench/programs/bench-programs cost $(BENCH_FLAGS)
bench-tables:
	$(srcdir)/tests/bench/tables

# `make bench-applications`: the applications of the papers over kernel TCP and on SOVIA.
EXTRA_DIST += tests/bench/applications/__main__.py \
	tests/bench/applications/apache.py \
	tests/bench/applications/application.py \
	tests/bench/applications/bench-applications \
	tests/bench/applications/datacentre.py \
	tests/bench/applications/datacutter.py \
	tests/bench/applications/filesystem.py \
	tests/bench/applications/ksovia.py \
	tests/bench/applications/rpc.py \
	tests/bench/applications/rpc_calls.c \
	tests/bench/applications/web_trace.py
phony_targets += bench-applications
bench-applications: all
	VIADUCT_BUILD=$(abs_builddir) $(srcdir)/tests/bench/applications/bench-applications $(BENCH_FLAGS)
