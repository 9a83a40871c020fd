# Ports. libviaduct_xdp: real interfaces; libviaduct_sim: the simulated network.

# Only programs link with them, so one kind of object is enough: -static is libtool's word for that.
noinst_LTLIBRARIES += libviaduct_xdp.la libviaduct_sim.la
libviaduct_xdp_la_CXXFLAGS = $(AM_CXXFLAGS) -static
libviaduct_sim_la_CXXFLAGS = $(AM_CXXFLAGS) -static

# A granted port: compiled into libvipl as well.
granted_port_sources = \
	xdp/granted_layout.h \
	xdp/granted_port.cc xdp/granted_port.h \
	xdp/system_calls.h \
	xdp/xsk_queue.cc xdp/xsk_queue.h xdp/xsk_queue_parts.cc \
	xdp/xsk_rings.cc xdp/xsk_rings.h

libviaduct_xdp_la_SOURCES = $(granted_port_sources) \
	xdp/af_xdp_port.cc xdp/af_xdp_port.h \
	xdp/af_xdp_queue.cc xdp/af_xdp_queue.h \
	xdp/child_programs.cc xdp/child_programs.h \
	xdp/chunk.h \
	xdp/grant.cc xdp/grant.h \
	xdp/grant_entry.h \
	xdp/grant_filter.cc xdp/grant_filter.h \
	xdp/grant_remains.cc xdp/grant_remains.h \
	xdp/interface.cc xdp/interface.h \
	xdp/interface_lock.cc xdp/interface_lock.h \
	xdp/loopback_port.cc xdp/loopback_port.h \
	xdp/local_port.cc xdp/local_port.h \
	xdp/macvlan.cc xdp/macvlan.h \
	xdp/null_port.cc xdp/null_port.h \
	xdp/open_port.cc xdp/open_port.h \
	xdp/pcap_port.cc xdp/pcap_port.h \
	xdp/port.h \
	xdp/steering.cc xdp/steering.h \
	xdp/xdp_attachment.cc xdp/xdp_attachment.h \
	xdp/xsk_socket.cc xdp/xsk_socket.h
nodist_libviaduct_xdp_la_SOURCES = $(xdp_skeletons)
libviaduct_xdp_la_CPPFLAGS = $(AM_CPPFLAGS) $(XDP_CFLAGS) $(PCAP_CFLAGS) $(NL_CFLAGS) \
	-DVIADUCT_LIBEXECDIR='"$(pkglibexecdir)"'
libviaduct_xdp_la_LIBADD = $(XDP_LIBS) $(PCAP_LIBS) $(NL_LIBS)

libviaduct_sim_la_SOURCES = xdp/sim_port.cc xdp/sim_port.h xdp/port.h

pkglibexec_PROGRAMS += xdp-guard
xdp_guard_SOURCES = xdp/guard_main.cc xdp/steering.cc xdp/steering.h
xdp_guard_CPPFLAGS = $(AM_CPPFLAGS) $(XDP_CFLAGS)
xdp_guard_LDADD = $(XDP_LIBS)

# BPF programs and their skeletons.
xdp_skeletons = xdp/steer.skel.h xdp/granted.skel.h xdp/grant_filter.skel.h
EXTRA_DIST += $(xdp_skeletons:.skel.h=.bpf.c)
BUILT_SOURCES += $(xdp_skeletons)
CLEANFILES += $(xdp_skeletons) $(xdp_skeletons:.skel.h=.bpf.o)
BPF_COMPILE = $(AM_V_GEN)$(MKDIR_P) xdp && $(CLANG) -O2 -g -Wall -Werror -target bpf \
  -I$(srcdir) $(BPF_INCLUDES) -c
BPF_SKELETON = $(AM_V_GEN)$(BPFTOOL) gen skeleton

xdp/steer.bpf.o: $(srcdir)/xdp/steer.bpf.c
	$(BPF_COMPILE) $(srcdir)/xdp/steer.bpf.c -o $@
xdp/granted.bpf.o: $(srcdir)/xdp/granted.bpf.c
	$(BPF_COMPILE) $(srcdir)/xdp/granted.bpf.c -o $@
xdp/grant_filter.bpf.o: $(srcdir)/xdp/grant_filter.bpf.c $(srcdir)/xdp/grant_entry.h
	$(BPF_COMPILE) $(srcdir)/xdp/grant_filter.bpf.c -o $@

xdp/steer.skel.h: xdp/steer.bpf.o
	$(BPF_SKELETON) xdp/steer.bpf.o name steer_bpf >$@.tmp && mv $@.tmp $@
xdp/granted.skel.h: xdp/granted.bpf.o
	$(BPF_SKELETON) xdp/granted.bpf.o name granted_bpf >$@.tmp && mv $@.tmp $@
xdp/grant_filter.skel.h: xdp/grant_filter.bpf.o
	$(BPF_SKELETON) xdp/grant_filter.bpf.o name grant_filter_bpf >$@.tmp && mv $@.tmp $@

# Also when make is asked for no more than this library.
$(libviaduct_xdp_la_OBJECTS): | $(xdp_skeletons)
