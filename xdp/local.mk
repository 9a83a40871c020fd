# Ports. libviaduct_xdp: real interfaces; libviaduct_sim: the simulated network.

# Only programs link with them, so one kind of object is enough: -static is libtool's word for that.
noinst_LTLIBRARIES += libviaduct_xdp.la libviaduct_sim.la
libviaduct_xdp_la_CXXFLAGS = $(AM_CXXFLAGS) -static
libviaduct_sim_la_CXXFLAGS = $(AM_CXXFLAGS) -static

# A granted port: compiled into libvipl as well.
granted_port_sources = \
	xdp/grant/granted_layout.h \
	xdp/grant/granted_paths.h \
	xdp/grant/granted_port.cc xdp/grant/granted_port.h \
	xdp/local/local_peers.cc xdp/local/local_peers.h xdp/local/local_ring.h xdp/local/local_tap.h \
	xdp/train/train_address.h \
	xdp/train/train_pages.cc xdp/train/train_pages.h \
	xdp/train/outgoing_train.cc xdp/train/outgoing_train.h \
	xdp/train/train_socket.cc xdp/train/train_socket.h \
	xdp/xsk/system_calls.h \
	xdp/xsk/xsk_queue.cc xdp/xsk/xsk_queue.h xdp/xsk/xsk_queue_parts.cc \
	xdp/xsk/xsk_rings.cc xdp/xsk/xsk_rings.h

xdp_sources = $(granted_port_sources) \
	xdp/xsk/af_xdp_port.cc xdp/xsk/af_xdp_port.h \
	xdp/xsk/af_xdp_queue.cc xdp/xsk/af_xdp_queue.h \
	xdp/grant/child_programs.cc xdp/grant/child_programs.h \
	xdp/xsk/chunk.h \
	xdp/grant/filter_hook.cc xdp/grant/filter_hook.h \
	xdp/grant/grant.cc xdp/grant/grant.h \
	xdp/grant/grant_entry.h \
	xdp/grant/grant_filter.cc xdp/grant/grant_filter.h \
	xdp/grant/grant_remains.cc xdp/grant/grant_remains.h \
	xdp/interface.cc xdp/interface.h \
	xdp/interface_lock.cc xdp/interface_lock.h \
	xdp/root_folder.h \
	xdp/bulk_path.h \
	xdp/grant/child_set.h \
	xdp/host_port.cc xdp/host_port.h \
	xdp/mutex.h \
	xdp/own_frames.h \
	xdp/thread_annotations.h \
	xdp/grant/macvlan.cc xdp/grant/macvlan.h \
	xdp/grant/macvlan_relay.cc xdp/grant/macvlan_relay.h \
	xdp/open_port.cc xdp/open_port.h \
	xdp/train/open_train_socket.cc xdp/train/open_train_socket.h \
	xdp/port_error.h xdp/port_options.h xdp/ether_type.h \
	xdp/clock.h \
	xdp/descriptor.h \
	xdp/table_use.h \
	xdp/grant/filter_entry.h xdp/grant/granted_child.h \
	xdp/port.h \
	xdp/bpf/steering.cc xdp/bpf/steering.h \
	xdp/bpf/attachment.h \
	xdp/bpf/tcx_attachment.cc xdp/bpf/tcx_attachment.h \
	xdp/bpf/xdp_attachment.cc xdp/bpf/xdp_attachment.h \
	xdp/xsk/xsk_socket.cc xdp/xsk/xsk_socket.h
if WITH_PCAP
xdp_sources += xdp/pcap_port.cc xdp/pcap_port.h
endif
# A fast build compiles them as one; apart stay those that have names in common with others.
xdp_apart = xdp/bpf/tcx_attachment.cc xdp/train/outgoing_train.cc xdp/train/train_socket.cc
if WITH_PCAP
xdp_apart += xdp/pcap_port.cc
endif
nodist_libviaduct_xdp_la_SOURCES = $(xdp_skeletons)
if FAST_BUILD
libviaduct_xdp_la_SOURCES = $(xdp_apart)
nodist_libviaduct_xdp_la_SOURCES += xdp/xdp_together.cc
EXTRA_DIST += $(xdp_sources)
else
libviaduct_xdp_la_SOURCES = $(xdp_sources)
endif
CLEANFILES += xdp/xdp_together.cc
xdp/xdp_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(xdp_apart),$(filter %.cc,$(xdp_sources)))
libviaduct_xdp_la_CPPFLAGS = $(AM_CPPFLAGS) $(XDP_CFLAGS) $(PCAP_CFLAGS) $(NL_CFLAGS) \
	-DVIADUCT_LIBEXECDIR='"$(pkglibexecdir)"'
libviaduct_xdp_la_LIBADD = $(XDP_LIBS) $(PCAP_LIBS) $(NL_LIBS)

libviaduct_sim_la_SOURCES = \
	kagent/tools/viadump/packet.h kagent/tools/viadump/pcapng_format.h kagent/tools/viadump/pcapng_writer.cc kagent/tools/viadump/pcapng_writer.h \
	tests/sim/sim_capture.cc tests/sim/sim_capture.h \
	tests/sim/sim_port.cc tests/sim/sim_port.h xdp/bulk_path.h xdp/port.h

pkglibexec_PROGRAMS += xdp-guard
xdp_guard_SOURCES = xdp/bpf/guard_main.cc xdp/bpf/steering.cc xdp/bpf/steering.h
xdp_guard_CPPFLAGS = $(AM_CPPFLAGS) $(XDP_CFLAGS)
xdp_guard_LDADD = $(XDP_LIBS)

# BPF programs and their skeletons.
xdp_skeletons = xdp/bpf/redirect.skel.h xdp/bpf/steer.skel.h xdp/bpf/granted.skel.h xdp/bpf/grant_filter.skel.h
EXTRA_DIST += $(xdp_skeletons:.skel.h=.bpf.c)
BUILT_SOURCES += $(xdp_skeletons)
CLEANFILES += $(xdp_skeletons) $(xdp_skeletons:.skel.h=.bpf.o)
BPF_COMPILE = $(AM_V_GEN)$(MKDIR_P) xdp/bpf && $(CLANG) -O2 -g -Wall -Werror -target bpf \
  -I$(srcdir) $(BPF_INCLUDES) -c
BPF_SKELETON = $(AM_V_GEN)$(BPFTOOL) gen skeleton

xdp/bpf/steer.bpf.o: $(srcdir)/xdp/bpf/steer.bpf.c
	$(BPF_COMPILE) $(srcdir)/xdp/bpf/steer.bpf.c -o $@
xdp/bpf/redirect.bpf.o: $(srcdir)/xdp/bpf/redirect.bpf.c
	$(BPF_COMPILE) $(srcdir)/xdp/bpf/redirect.bpf.c -o $@
xdp/bpf/granted.bpf.o: $(srcdir)/xdp/bpf/granted.bpf.c
	$(BPF_COMPILE) $(srcdir)/xdp/bpf/granted.bpf.c -o $@
xdp/bpf/grant_filter.bpf.o: $(srcdir)/xdp/bpf/grant_filter.bpf.c $(srcdir)/xdp/grant/grant_entry.h
	$(BPF_COMPILE) $(srcdir)/xdp/bpf/grant_filter.bpf.c -o $@

xdp/bpf/steer.skel.h: xdp/bpf/steer.bpf.o
	$(BPF_SKELETON) xdp/bpf/steer.bpf.o name steer_bpf >$@.tmp && mv $@.tmp $@
xdp/bpf/redirect.skel.h: xdp/bpf/redirect.bpf.o
	$(BPF_SKELETON) xdp/bpf/redirect.bpf.o name redirect_bpf >$@.tmp && mv $@.tmp $@
xdp/bpf/granted.skel.h: xdp/bpf/granted.bpf.o
	$(BPF_SKELETON) xdp/bpf/granted.bpf.o name granted_bpf >$@.tmp && mv $@.tmp $@
xdp/bpf/grant_filter.skel.h: xdp/bpf/grant_filter.bpf.o
	$(BPF_SKELETON) xdp/bpf/grant_filter.bpf.o name grant_filter_bpf >$@.tmp && mv $@.tmp $@

# Also when make is asked for no more than this library.
$(libviaduct_xdp_la_OBJECTS): | $(xdp_skeletons)
