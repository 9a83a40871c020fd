# vipl/fabric: the provider of libfabric's. Its sources use vipl.h and vipl_ext.h alone.
if WITH_LIBFABRIC
noinst_LTLIBRARIES += vipl/fabric/libprovider.la
provider_sources = \
  vipl/fabric/addresses.cc vipl/fabric/addresses.h \
  vipl/fabric/completion.h \
  vipl/fabric/completion_queue.cc vipl/fabric/completion_queue.h \
  vipl/fabric/counter.cc vipl/fabric/counter.h \
  vipl/fabric/credits.h \
  vipl/fabric/domain.cc vipl/fabric/domain.h \
  vipl/fabric/endpoint.cc vipl/fabric/endpoint_data.cc vipl/fabric/endpoint.h \
  vipl/fabric/event_queue.cc vipl/fabric/event_queue.h \
  vipl/fabric/fabric.cc vipl/fabric/fabric.h \
  vipl/fabric/info.cc vipl/fabric/info.h \
  vipl/fabric/missing_agent.cc vipl/fabric/missing_agent.h \
  vipl/fabric/link.cc vipl/fabric/link.h \
  vipl/fabric/link_memory.cc vipl/fabric/link_memory.h \
  vipl/fabric/link_state.h \
  vipl/fabric/memory.cc vipl/fabric/memory.h \
  vipl/fabric/names.cc vipl/fabric/names.h \
  vipl/fabric/shared_nic.cc vipl/fabric/shared_nic.h \
  vipl/fabric/operations.cc \
  vipl/fabric/passive_endpoint.cc vipl/fabric/passive_endpoint.h \
  vipl/fabric/pieces.h \
  vipl/fabric/provider.cc vipl/fabric/provider.h \
  vipl/fabric/receives.cc vipl/fabric/receives.h \
  vipl/fabric/regions.cc vipl/fabric/regions.h \
  vipl/fabric/request.h \
  vipl/fabric/selection.cc vipl/fabric/selection.h \
  vipl/fabric/send_ring.cc vipl/fabric/send_ring.h \
  vipl/fabric/signal.h \
  vipl/fabric/transfers.cc vipl/fabric/transfers.h \
  vipl/fabric/wire.h \
  vipl/fabric/workers.cc vipl/fabric/workers.h
# Those that have names in common with others.
provider_apart = vipl/fabric/counter.cc vipl/fabric/shared_nic.cc
if FAST_BUILD
vipl_fabric_libprovider_la_SOURCES = $(provider_apart)
nodist_vipl_fabric_libprovider_la_SOURCES = vipl/fabric/provider_together.cc
EXTRA_DIST += $(provider_sources)
else
vipl_fabric_libprovider_la_SOURCES = $(provider_sources)
endif
CLEANFILES += vipl/fabric/provider_together.cc
vipl/fabric/provider_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(provider_apart),$(filter %.cc,$(provider_sources)))
vipl_fabric_libprovider_la_CXXFLAGS = $(AM_CXXFLAGS) $(LIBFABRIC_CFLAGS)

# libfabric looks for files whose names end in "fi.so". It may unload them, and the provider's threads
# outlive that: nodelete.
fabricproviderdir = $(LIBFABRIC_PROVIDERS)
fabricprovider_LTLIBRARIES = vipl/fabric/libviaduct-fi.la
vipl_fabric_libviaduct_fi_la_SOURCES =
nodist_EXTRA_vipl_fabric_libviaduct_fi_la_SOURCES = vipl/fabric/linked_as_cxx.cc
vipl_fabric_libviaduct_fi_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared \
  -export-symbols-regex '^fi_prov_ini$$' -no-undefined -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,now
vipl_fabric_libviaduct_fi_la_LIBADD = vipl/fabric/libprovider.la libvipl.la $(LIBFABRIC_LIBS) -lpthread

dist_man_MANS += man/fi_viaduct.7
endif

EXTRA_DIST += vipl/fabric/local.mk
