# Tests. Those with GoogleTest are left out where it is missing.

# Other programs' tests that take long: `make check-programs`.
more_programs_tests =
include tests/integration.mk
include tests/models/models.mk
include tests/scale/scale.mk
include tests/storm/storm.mk
include tests/packages/packages.mk
include tests/tree/tree.mk
include tests/bench/bench.mk
if WITH_SOVIA
include tests/sovia/sovia.mk
endif
TEST_CPPFLAGS = $(AM_CPPFLAGS) $(GTEST_CFLAGS)
TEST_LIBS = $(GTEST_LIBS) -lpthread
if HAVE_GTEST
include tests/unit/base.mk
include tests/unit/agent.mk
include tests/unit/viadump.mk
include tests/unit/vipl.mk
if WITH_SOVIA
include tests/unit/sovia.mk
include tests/unit/sovia_ready.mk
include tests/unit/sovia_api.mk
endif
include tests/fabric/fabric.mk
include tests/sim/sim.mk
include tests/sim/wire.mk
include tests/fuzz/fuzz.mk
include tests/conformance/conformance.mk
include tests/conformance/sanitized.mk
endif
include tests/precompiled.mk

# All that there is, the tests without running them: ./check.
phony_targets += everything
everything: $(BUILT_SOURCES)
	$(MAKE) all-am $(check_LTLIBRARIES) $(check_PROGRAMS) $(check_SCRIPTS)
