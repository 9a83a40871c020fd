# tests/fabric: of the provider for libfabric (vipl/fabric).
if WITH_LIBFABRIC
check_PROGRAMS += tests/fabric/flow_test
TESTS += tests/fabric/flow_test
tests_fabric_flow_test_SOURCES = tests/fabric/credits_test.cc tests/fabric/pieces_test.cc
tests_fabric_flow_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_fabric_flow_test_LDADD = $(TEST_LIBS)

# Knows nothing of Viaduct: any provider of FI_EP_MSG could be tried with it. It runs on a host of a lab,
# in tests/integration/fabric.test.
check_PROGRAMS += tests/fabric/contract_test
contract_tests = \
	tests/fabric/connection_contract.cc \
	tests/fabric/ends.cc tests/fabric/ends.h \
	tests/fabric/interface_contract.cc \
	tests/fabric/message_contract.cc \
	tests/fabric/rma_contract.cc \
	tests/fabric/waiting_contract.cc
if FAST_BUILD
tests_fabric_contract_test_SOURCES =
nodist_tests_fabric_contract_test_SOURCES = tests/fabric/contract_together.cc
EXTRA_DIST += $(contract_tests)
else
tests_fabric_contract_test_SOURCES = $(contract_tests)
endif
CLEANFILES += tests/fabric/contract_together.cc
tests/fabric/contract_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter %.cc,$(contract_tests))
tests_fabric_contract_test_CPPFLAGS = $(TEST_CPPFLAGS) $(LIBFABRIC_CFLAGS)
tests_fabric_contract_test_LDADD = $(LIBFABRIC_LIBS) $(TEST_LIBS)

# Skipped, with a reason, where a program is missing.
TESTS += tests/integration/fabric.test
more_programs_tests += tests/integration/mpi_programs.test tests/integration/mpi_faults.test \
	tests/integration/mpich.test

# Many beginnings and ends of MPI in a row: hours of them are for a machine that has nothing else to do.
MPI_INITS = 1000
phony_targets += soak-mpi
soak-mpi: all
	VIADUCT_BUILD=$(abs_builddir) MPI_INITS=$(MPI_INITS) $(srcdir)/tests/integration/mpi_faults.test

phony_targets += bench-mpi
bench-mpi: all
	VIADUCT_BUILD=$(abs_builddir) $(srcdir)/tests/bench/mpi
endif
EXTRA_DIST += tests/integration/fabric.test tests/integration/mpi_programs.test \
	tests/integration/mpi_faults.test tests/integration/mpich.test tests/bench/mpi \
	tests/fabric/mpi_program.c tests/fabric/mpi_pingpong.c tests/fabric/mpi_spawn.c tests/fabric/mpich \
	tests/lab/mpi
