# sovia: sockets over VIA. libsovia for programs that are linked with it, libsovia-preload for those
# that are not, the program sovia.

sovia_sources = \
	sovia/api.h \
	sovia/api_connection.cc \
	sovia/api_data.cc \
	sovia/api_descriptors.cc \
	sovia/api_epoll.cc \
	sovia/api_files.cc \
	sovia/api_options.cc \
	sovia/api_process.cc \
	sovia/api_stdio.cc \
	sovia/background.cc sovia/background_lanes.cc sovia/background_state.h sovia/background.h \
	sovia/counters.cc sovia/counters.h \
	sovia/direct_receive.cc sovia/direct_receive.h \
	sovia/engine.cc sovia/engine.h \
	sovia/epoll_registration.h \
	sovia/epoll_set.cc sovia/epoll_set.h \
	sovia/epoll_sets.cc \
	sovia/epoll_wait.cc \
	sovia/event_bits.h \
	sovia/fork.cc sovia/fork.h \
	sovia/guard.h \
	sovia/inheritance.cc sovia/inheritance.h \
	sovia/kernel.cc sovia/kernel.h \
	sovia/lane.cc sovia/lane.h sovia/packet.h sovia/wire.h \
	sovia/lane_end.h \
	sovia/link.cc sovia/link.h \
	sovia/lock.cc sovia/lock.h \
	sovia/nic.cc sovia/nic.h \
	sovia/options.cc sovia/options.h \
	sovia/own_descriptors.cc sovia/own_descriptors.h \
	sovia/passing.cc sovia/passing.h \
	sovia/poll_set.cc sovia/poll_set.h \
	sovia/process.cc sovia/process.h \
	sovia/ready.h \
	sovia/ready_poll.cc \
	sovia/ready_select.cc \
	sovia/reason.cc sovia/reason.h \
	sovia/registrations.cc sovia/registrations.h \
	sovia/residue.cc sovia/residue.h \
	sovia/signals.cc sovia/signals.h \
	sovia/socket.cc sovia/socket_ready.cc sovia/socket_fallback.cc sovia/socket_leave.cc sovia/socket_share.cc sovia/socket.h \
	sovia/socket_io.cc sovia/socket_receive.cc sovia/socket_send.cc sovia/socket_pieces.h \
	sovia/socket_pool.cc sovia/socket_pool.h \
	sovia/stdio_streams.cc sovia/stdio_streams.h \
	sovia/table.cc sovia/table.h \
	sovia/threads.h \
	sovia/waiting.h

# Everything but the names. One build of it is in both libraries.
noinst_LTLIBRARIES += libsovia_parts.la
libsovia_parts_la_SOURCES = $(sovia_sources)
libsovia_parts_la_CXXFLAGS = $(AM_CXXFLAGS) -ftls-model=initial-exec

lib_LTLIBRARIES += libsovia.la
include_HEADERS += sovia/sovia.h sovia/sovia_names.h
pkgconfig_DATA += sovia/sovia.pc
libsovia_la_SOURCES =
# C++, though it has no file of its own.
nodist_EXTRA_libsovia_la_SOURCES = none.cc
libsovia_la_LIBADD = libsovia_parts.la libvipl.la -lpthread
# The library's thread and handlers outlive dlclose(): nodelete.
libsovia_la_LDFLAGS = $(AM_LDFLAGS) -version-info 0:0:0 -export-symbols-regex '^sovia_' \
	-no-undefined -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,now

# The C++ library is a part of it: programs with another one of their own run it too.
lib_LTLIBRARIES += libsovia-preload.la
libsovia_preload_la_SOURCES = sovia/preload/preload.cc sovia/preload/symbols.h sovia/argument_array.h
libsovia_preload_la_LIBADD = libsovia_parts.la libvipl.la -lpthread
libsovia_preload_la_LDFLAGS = $(AM_LDFLAGS) -module -avoid-version -shared -no-undefined \
	-export-symbols sovia/preload/exports -Wl,$(STATIC_CXX_LIBRARY) -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,now
libsovia_preload_la_LINK = $(LIBTOOL) $(AM_V_lt) --tag=CC $(AM_LIBTOOLFLAGS) $(LIBTOOLFLAGS) \
	--mode=link $(CC) $(AM_CFLAGS) $(CFLAGS) $(libsovia_preload_la_LDFLAGS) $(LDFLAGS) -o $@
libsovia_preload_la_DEPENDENCIES = libsovia_parts.la libvipl.la sovia/preload/exports

# The names that the library has: those of the list, and those of sovia.h.
CLEANFILES += sovia/preload/exports
sovia/preload/exports: $(srcdir)/sovia/preload/symbols.h $(srcdir)/sovia/sovia.h
	$(AM_V_GEN)$(MKDIR_P) sovia/preload && \
	  { printf '%s\n' '#include "sovia/preload/symbols.h"' '#define X(name, ...) name' \
	      'SOVIA_PRELOAD_SYMBOLS(X) SOVIA_PRELOAD_SYMBOLS_BY_HAND(X)' | \
	      $(CXX) -E -P -I$(srcdir) -x c++ - | tr ' ' '\n' | grep '^[a-zA-Z_]' && \
	    grep -o 'sovia_[a-zA-Z0-9_]*(' $(srcdir)/sovia/sovia.h | tr -d '('; } | sort -u >$@.tmp && \
	  mv $@.tmp $@

# In a folder of its own, as its name is that of this one.
bin_PROGRAMS += sovia/launcher/sovia
sovia_launcher_sovia_SOURCES = \
	sovia/counters.cc \
	sovia/launcher/call_kinds.cc sovia/launcher/call_kinds.h \
	sovia/launcher/counters_reader.cc sovia/launcher/counters_reader.h \
	sovia/launcher/elf_file.cc sovia/launcher/elf_file.h \
	sovia/launcher/explain.cc sovia/launcher/explain.h \
	sovia/launcher/main.cc \
	sovia/launcher/preload_library.cc sovia/launcher/preload_library.h \
	sovia/launcher/stat.cc sovia/launcher/stat.h \
	sovia/own_descriptors.cc \
	sovia/preload/not_needed.h \
	sovia/reason.cc
sovia_launcher_sovia_CPPFLAGS = $(AM_CPPFLAGS) -DSOVIA_LIBDIR='"$(libdir)"'
