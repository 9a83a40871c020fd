# vipl/lanevi: IP over VIA. Its sources use vipl.h and vipl_ext.h alone.
sbin_PROGRAMS += lanevid
lanevid_parts = \
  vipl/lanevi/counters.cc vipl/lanevi/counters.h \
  vipl/lanevi/failure.h \
  vipl/lanevi/ip_address.cc vipl/lanevi/ip_address.h \
  vipl/lanevi/message.cc vipl/lanevi/message.h \
  vipl/lanevi/options.cc vipl/lanevi/options.h \
  vipl/lanevi/routes.cc vipl/lanevi/routes.h
lanevid_sources = $(lanevid_parts) \
  vipl/lanevi/directory.cc vipl/lanevi/directory.h \
  vipl/lanevi/link.cc vipl/lanevi/link.h \
  vipl/lanevi/main.cc \
  vipl/lanevi/link_nic.cc vipl/lanevi/link_nic.h \
  vipl/lanevi/peer.cc vipl/lanevi/peer.h \
  vipl/lanevi/privileges.cc vipl/lanevi/privileges.h \
  vipl/lanevi/service.cc vipl/lanevi/service.h \
  vipl/lanevi/tun.cc vipl/lanevi/tun.h
lanevid_apart = vipl/lanevi/options.cc
if FAST_BUILD
lanevid_SOURCES = $(lanevid_apart)
nodist_lanevid_SOURCES = vipl/lanevi_together.cc
EXTRA_DIST += $(lanevid_sources)
else
lanevid_SOURCES = $(lanevid_sources)
endif
CLEANFILES += vipl/lanevi_together.cc
vipl/lanevi_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(lanevid_apart),$(filter %.cc,$(lanevid_sources)))
lanevid_CPPFLAGS = $(AM_CPPFLAGS) -I$(top_srcdir)/vipl
lanevid_CXXFLAGS = $(AM_CXXFLAGS) -pthread
lanevid_LDADD = libvipl.la

dist_man_MANS += man/lanevid.8
EXTRA_DIST += vipl/lanevi/local.mk vipl/lanevi/lanevid.service.in

if WITH_SYSTEMD_UNIT
systemdsystemunit_DATA += vipl/lanevi/lanevid.service
else
pkgdata_DATA += vipl/lanevi/lanevid.service
endif
CLEANFILES += vipl/lanevi/lanevid.service
vipl/lanevi/lanevid.service: $(srcdir)/vipl/lanevi/lanevid.service.in Makefile
	$(AM_V_GEN)$(MKDIR_P) vipl/lanevi && sed -e 's|@sbindir[@]|$(sbindir)|g' \
	  $(srcdir)/vipl/lanevi/lanevid.service.in >$@.tmp && mv $@.tmp $@
