# Tools for operators: viactl, viadump, metrics.

# Looks into the agent. It shares little with the agent, so it needs few of the agent's libraries.
noinst_LTLIBRARIES += libviaduct_tool.la
libviaduct_tool_la_CXXFLAGS = $(AM_CXXFLAGS) -static
tool_sources = \
	kagent/tools/viactl/agent_client.cc kagent/tools/viactl/agent_client.h \
	kagent/tools/viactl/doctor.cc kagent/tools/viactl/doctor.h kagent/tools/viactl/doctor_gather.cc \
	kagent/tools/viactl/events.cc kagent/tools/viactl/events.h \
	kagent/tools/viactl/table.cc kagent/tools/viactl/table.h \
	kagent/tools/viactl/top.cc kagent/tools/viactl/top.h \
	kagent/tools/viactl/views.cc kagent/tools/viactl/views.h \
	kagent/tools/viactl/words.cc kagent/tools/viactl/words.h
if FAST_BUILD
libviaduct_tool_la_SOURCES =
nodist_libviaduct_tool_la_SOURCES = kagent/tools/viactl/viactl_together.cc
EXTRA_DIST += $(tool_sources)
else
libviaduct_tool_la_SOURCES = $(tool_sources)
endif
CLEANFILES += kagent/tools/viactl/viactl_together.cc
kagent/tools/viactl/viactl_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter %.cc,$(tool_sources))
libviaduct_tool_la_LIBADD = libviaduct_agent.la

bin_PROGRAMS += viactl
viactl_SOURCES = kagent/tools/viactl/viactl_main.cc
viactl_LDFLAGS = $(AM_LDFLAGS) -Wl,--as-needed
viactl_LDADD = libviaduct_tool.la

# Captures frames and reads captures. Parts that need no agent are by themselves: the simulation writes captures too.
noinst_LTLIBRARIES += libviaduct_dump.la
libviaduct_dump_la_CXXFLAGS = $(AM_CXXFLAGS) -static
dump_sources = \
	kagent/tools/viadump/agent_programs.cc kagent/tools/viadump/agent_programs.h \
	kagent/tools/viadump/capture_reader.cc kagent/tools/viadump/capture_reader.h \
	kagent/tools/viadump/endpoints.cc kagent/tools/viadump/endpoints.h \
	kagent/tools/viadump/extcap.cc kagent/tools/viadump/extcap.h \
	kagent/tools/viadump/filter.cc kagent/tools/viadump/filter.h \
	kagent/tools/viadump/found_frames.cc kagent/tools/viadump/found_frames.h \
	kagent/tools/viadump/frame_fields.cc \
	kagent/tools/viadump/frame_reading.cc kagent/tools/viadump/frame_reading.h \
	kagent/tools/viadump/live_capture.cc kagent/tools/viadump/live_capture.h \
	kagent/tools/viadump/local_capture.cc kagent/tools/viadump/local_capture.h \
	kagent/tools/viadump/packet.h \
	kagent/tools/viadump/pcapng_format.h \
	kagent/tools/viadump/pcapng_writer.cc kagent/tools/viadump/pcapng_writer.h \
	kagent/tools/viadump/pipeline.cc kagent/tools/viadump/pipeline.h \
	kagent/tools/viadump/printer.cc kagent/tools/viadump/printer.h
# Apart: as above.
dump_apart = kagent/tools/viadump/frame_reading.cc kagent/tools/viadump/live_capture.cc \
  kagent/tools/viadump/local_capture.cc kagent/tools/viadump/pipeline.cc kagent/tools/viadump/printer.cc
if FAST_BUILD
libviaduct_dump_la_SOURCES = $(dump_apart)
nodist_libviaduct_dump_la_SOURCES = kagent/tools/viadump/viadump_together.cc
EXTRA_DIST += $(dump_sources)
else
libviaduct_dump_la_SOURCES = $(dump_sources)
endif
CLEANFILES += kagent/tools/viadump/viadump_together.cc
kagent/tools/viadump/viadump_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(dump_apart),$(filter %.cc,$(dump_sources)))
libviaduct_dump_la_CPPFLAGS = $(AM_CPPFLAGS) $(PCAP_CFLAGS)
libviaduct_dump_la_LIBADD = libviaduct_tool.la libviaduct_xdp.la

bin_PROGRAMS += viadump
viadump_SOURCES = kagent/tools/viadump/viadump_main.cc
viadump_LDFLAGS = $(AM_LDFLAGS) -Wl,--as-needed
viadump_LDADD = libviaduct_dump.la

# Wireshark's dissector, made of the description of frames; and viadump where Wireshark looks for programs that
# capture.
wiresharkdir = $(WIRESHARK_PLUGINS)
nodist_wireshark_DATA = kagent/tools/viadump/viaduct.lua
EXTRA_DIST += kagent/contract/wire.fields kagent/tools/viadump/dissector.lua.in kagent/tools/viadump/make_dissector
CLEANFILES += kagent/tools/viadump/viaduct.lua
kagent/tools/viadump/viaduct.lua: $(srcdir)/kagent/contract/wire.fields \
		$(srcdir)/kagent/tools/viadump/dissector.lua.in $(srcdir)/kagent/tools/viadump/make_dissector
	$(AM_V_GEN)$(MKDIR_P) kagent/dump && $(PERL) $(srcdir)/kagent/tools/viadump/make_dissector \
	  $(srcdir)/kagent/contract/wire.fields $(srcdir)/kagent/tools/viadump/dissector.lua.in >$@.tmp && mv $@.tmp $@

# bash looks for a file with the name of the program.
EXTRA_DIST += kagent/tools/viactl/completion.bash
completiondir = $(datadir)/bash-completion/completions
completed_programs = viad viadump viaping viabench vialab lanevid
if WITH_SOVIA
completed_programs += sovia
endif
install-data-local:
	$(MKDIR_P) '$(DESTDIR)$(completiondir)'
	$(INSTALL_DATA) $(srcdir)/kagent/tools/viactl/completion.bash '$(DESTDIR)$(completiondir)/viactl'
	cd '$(DESTDIR)$(completiondir)' && for program in $(completed_programs); do \
	  rm -f $$program && $(LN_S) viactl $$program || exit; done
	$(MKDIR_P) '$(DESTDIR)$(WIRESHARK_EXTCAP)'
	cd '$(DESTDIR)$(WIRESHARK_EXTCAP)' && rm -f viadump && $(LN_S) '$(bindir)/viadump' viadump
uninstall-local:
	cd '$(DESTDIR)$(completiondir)' && rm -f viactl $(completed_programs)
	rm -f '$(DESTDIR)$(WIRESHARK_EXTCAP)/viadump'

# The table of counters in a file, for Prometheus' node exporter.
metrics_units = kagent/tools/metrics/viaduct-metrics.service kagent/tools/metrics/viaduct-metrics.timer
if WITH_SYSTEMD_UNIT
systemdsystemunit_DATA += $(metrics_units)
else
pkgdata_DATA += $(metrics_units)
endif
EXTRA_DIST += kagent/tools/metrics/viaduct-metrics.service.in kagent/tools/metrics/viaduct-metrics.timer.in
CLEANFILES += $(metrics_units)
kagent/tools/metrics/viaduct-metrics.service: $(srcdir)/kagent/tools/metrics/viaduct-metrics.service.in Makefile
	$(unit_of) $(srcdir)/kagent/tools/metrics/viaduct-metrics.service.in >$@.tmp && mv $@.tmp $@
kagent/tools/metrics/viaduct-metrics.timer: $(srcdir)/kagent/tools/metrics/viaduct-metrics.timer.in Makefile
	$(unit_of) $(srcdir)/kagent/tools/metrics/viaduct-metrics.timer.in >$@.tmp && mv $@.tmp $@

# For Prometheus and Grafana.
metricsdir = $(pkgdatadir)/metrics
dist_metrics_DATA = kagent/tools/metrics/alerts.yml kagent/tools/metrics/dashboard.json
