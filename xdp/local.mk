# Ports. libviaduct_xdp: real interfaces; libviaduct_sim: the simulated network.

# Only programs link with them, so one kind of object is enough: -static is libtool's word for that.
noinst_LTLIBRARIES += libviaduct_xdp.la libviaduct_sim.la
libviaduct_xdp_la_CXXFLAGS = $(AM_CXXFLAGS) -static
libviaduct_sim_la_CXXFLAGS = $(AM_CXXFLAGS) -static
libviaduct_xdp_la_SOURCES = \
	xdp/af_xdp_port.cc xdp/af_xdp_port.h \
	xdp/af_xdp_queue.cc xdp/af_xdp_queue.h \
	xdp/interface.cc xdp/interface.h \
	xdp/interface_lock.cc xdp/interface_lock.h \
	xdp/loopback_port.cc xdp/loopback_port.h \
	xdp/null_port.cc xdp/null_port.h \
	xdp/open_port.cc xdp/open_port.h \
	xdp/pcap_port.cc xdp/pcap_port.h \
	xdp/port.h \
	xdp/steering.cc xdp/steering.h \
	xdp/xdp_attachment.cc xdp/xdp_attachment.h
nodist_libviaduct_xdp_la_SOURCES = xdp/steer.skel.h
libviaduct_xdp_la_CPPFLAGS = $(AM_CPPFLAGS) $(XDP_CFLAGS) $(PCAP_CFLAGS) \
	-DVIADUCT_LIBEXECDIR='"$(pkglibexecdir)"'
libviaduct_xdp_la_LIBADD = $(XDP_LIBS) $(PCAP_LIBS)

libviaduct_sim_la_SOURCES = xdp/sim_port.cc xdp/sim_port.h xdp/port.h

pkglibexec_PROGRAMS += xdp-guard
xdp_guard_SOURCES = xdp/guard_main.cc xdp/steering.cc xdp/steering.h
xdp_guard_CPPFLAGS = $(AM_CPPFLAGS) $(XDP_CFLAGS)
xdp_guard_LDADD = $(XDP_LIBS)

EXTRA_DIST += xdp/steer.bpf.c
BUILT_SOURCES += xdp/steer.skel.h
CLEANFILES += xdp/steer.skel.h xdp/steer.bpf.o

xdp/steer.bpf.o: $(srcdir)/xdp/steer.bpf.c
	$(AM_V_GEN)$(MKDIR_P) xdp && $(CLANG) -O2 -g -Wall -Werror -target bpf $(BPF_INCLUDES) \
	  -c $(srcdir)/xdp/steer.bpf.c -o $@

xdp/steer.skel.h: xdp/steer.bpf.o
	$(AM_V_GEN)$(BPFTOOL) gen skeleton xdp/steer.bpf.o name steer_bpf >$@.tmp && mv $@.tmp $@
