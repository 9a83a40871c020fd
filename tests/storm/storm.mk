# `make storm`: kill -9 of programs and agents at random moments under a verified load. `make soak`: the
# same load for long, on four hosts with faults. `make outages`, `make upgrades`: connections that live on. See the
# scripts.

# adopt.test uses it too.
check_PROGRAMS += tests/storm/load_tool tests/storm/socket_load_tool
tests_storm_load_tool_SOURCES = tests/storm/load_tool.cc tests/storm/load_message.h
tests_storm_load_tool_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
tests_storm_load_tool_LDADD = libvipl.la
tests_storm_socket_load_tool_SOURCES = tests/storm/socket_load_tool.cc tests/storm/load_message.h
EXTRA_DIST += tests/storm/storm tests/storm/soak tests/storm/loads.py tests/storm/outages tests/storm/upgrades
# The storm compiles it with Open MPI's compiler, where there is one.
EXTRA_DIST += tests/storm/mpi_jobs.py tests/storm/mpi_load.cc

STORM_KILLS = 2000
STORM_SEED = 1
STORM_MPI = 3
SOAK_MINUTES = 60
OUTAGES_COUNT = 20
UPGRADES_COUNT = 200
phony_targets += storm soak outages upgrades
upgrades: viad viaping
	VIADUCT_BUILD=. $(srcdir)/tests/storm/upgrades --count $(UPGRADES_COUNT)
outages: viad libsovia-preload.la sovia/launcher/sovia
	VIADUCT_BUILD=. $(srcdir)/tests/storm/outages $(OUTAGES_COUNT)
storm: viad tests/storm/load_tool tests/storm/socket_load_tool libsovia-preload.la sovia/launcher/sovia
	VIADUCT_BUILD=. $(srcdir)/tests/storm/storm --kills $(STORM_KILLS) --seed $(STORM_SEED) --mpi $(STORM_MPI)
soak: viad tests/storm/load_tool
	VIADUCT_BUILD=. $(srcdir)/tests/storm/soak --minutes $(SOAK_MINUTES)

# A share of the simulation, the storm, upgrades, outages and fuzz targets that fits the time; doc/results/proof.json keeps the sums.
PROOF_MINUTES = 60
phony_targets += proof
if WITH_LIBFABRIC
storm proof: vipl/fabric/libviaduct-fi.la
endif
proof: viad viaping viactl tests/sim/simulation tests/storm/load_tool tests/storm/socket_load_tool libsovia-preload.la \
		sovia/launcher/sovia
	python3 -B $(srcdir)/tests/proof --minutes $(PROOF_MINUTES)
EXTRA_DIST += tests/proof/__main__.py tests/proof/parts.py
