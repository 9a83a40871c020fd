# vipl: vipl.h, vipl_ext.h, libvipl.
lib_LTLIBRARIES += libvipl.la
include_HEADERS += vipl/vipl.h vipl/vipl_ext.h
pkgconfig_DATA += vipl/vipl.pc

# The program's own stack is a part of the library, in a build of its own (stack_binding.h).
libvipl_la_SOURCES = \
  $(stack_sources) \
  $(granted_port_sources) \
  vipl/api.h \
  vipl/attributes.cc vipl/attributes.h \
  vipl/caller.cc vipl/caller.h \
  vipl/claims.cc \
  vipl/cancellable.h \
  vipl/command.cc vipl/command.h \
  vipl/completion_queue.cc vipl/completion_queue.h \
  vipl/connection.cc \
  vipl/copy.cc \
  vipl/cq.cc \
  vipl/discovery.cc vipl/discovery.h \
  vipl/driver.cc vipl/driver.h \
  vipl/environment.cc vipl/environment.h \
  vipl/granted_environment.cc kagent/granted_environment.h \
  vipl/guarded_copy.cc vipl/guarded_copy.h \
  vipl/company.cc vipl/company.h \
  vipl/family.cc vipl/family.h \
  vipl/outgoing.cc vipl/outgoing.h \
  vipl/farewell.cc vipl/farewell.h \
  vipl/habit.h \
  vipl/handle.h \
  vipl/adrift.cc vipl/adrift.h \
  vipl/hello.cc \
  vipl/idle.cc vipl/idle.h \
  vipl/lock.cc vipl/lock.h \
  vipl/management.cc \
  vipl/memory.cc \
  vipl/message.cc vipl/message.h \
  vipl/name_service.cc \
  vipl/nic.cc \
  vipl/poll.cc \
  vipl/pollers.cc vipl/pollers.h \
  vipl/presence.cc vipl/presence.h \
  vipl/region_table.h \
  vipl/session.cc vipl/session.h \
  vipl/slot_pool.h \
  vipl/stand_in.cc \
  vipl/standard_error.cc vipl/standard_error.h \
  vipl/sys.h \
  vipl/text.cc \
  vipl/thread.cc vipl/thread.h \
  vipl/vi.cc \
  vipl/wait.h \
  vipl/watcher.cc vipl/watcher.h \
  vipl/work_queue.cc vipl/work_queue.h

# C programs link with the library, statically too, so it needs the C library alone.
libvipl_la_CPPFLAGS = $(AM_CPPFLAGS) -DVIADUCT_GRANTED_STACK
libvipl_la_CXXFLAGS = $(AM_CXXFLAGS) -fno-exceptions -fno-rtti -fno-threadsafe-statics \
  -ftls-model=initial-exec
# The library's thread outlives dlclose(): nodelete.
libvipl_la_LDFLAGS = $(AM_LDFLAGS) -version-info 1:0:0 -export-symbols-regex '^Vip' \
  -no-undefined -Wl,-Bsymbolic -Wl,-z,nodelete -Wl,-z,now
libvipl_la_LIBADD = -lpthread
libvipl_la_LINK = $(LIBTOOL) $(AM_V_lt) --tag=CC $(AM_LIBTOOLFLAGS) $(LIBTOOLFLAGS) --mode=link \
  $(CC) $(AM_CFLAGS) $(CFLAGS) $(libvipl_la_LDFLAGS) $(LDFLAGS) -o $@

# Programs exist that load "vipl.so" by name. In the build tree it lies beside the library, where those that
# run there look.
noinst_DATA += vipl/vipl.so.stamp
vipl/vipl.so.stamp: libvipl.la
	test ! -e .libs/libvipl.so || $(LN_S) -f libvipl.so .libs/vipl.so
	@touch $@
CLEANFILES += vipl/vipl.so.stamp .libs/vipl.so
install-exec-hook: vipl-install-alias
vipl-install-alias:
	cd $(DESTDIR)$(libdir) && { test ! -e libvipl.so || $(LN_S) -f libvipl.so vipl.so; }
uninstall-hook: vipl-uninstall-alias
vipl-uninstall-alias:
	rm -f $(DESTDIR)$(libdir)/vipl.so
.PHONY: vipl-install-alias vipl-uninstall-alias
