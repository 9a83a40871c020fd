# vipl: vipl.h, vipl_ext.h, libvipl.
lib_LTLIBRARIES += libvipl.la
include_HEADERS += vipl/vipl.h vipl/vipl_ext.h
pkgconfig_DATA += vipl/vipl.pc

libvipl_sources = \
  $(stack_sources) \
  $(granted_port_sources) \
  vipl/api/api.h \
  vipl/granted/admission.cc vipl/granted/admission.h \
  vipl/api/attributes.cc vipl/api/attributes.h \
  vipl/session/callback_thread.cc vipl/session/callback_thread.h \
  vipl/api/claims.cc \
  vipl/process/cancellable.h \
  vipl/session/command.cc vipl/session/command.h \
  vipl/session/completion_queue.cc vipl/session/completion_queue.h \
  vipl/process/confinement.cc vipl/process/confinement.h \
  vipl/session/finisher.cc vipl/session/finisher.h \
  vipl/api/connection.cc \
  vipl/api/copy.cc \
  vipl/api/cq.cc \
  vipl/api/discovery.cc vipl/api/discovery.h \
  vipl/granted/driver.cc vipl/granted/driver.h \
  vipl/process/environment.cc vipl/process/environment.h \
  vipl/granted/granted_environment.cc vipl/granted/granted_environment.h \
  vipl/granted/granted_stack.cc vipl/granted/granted_stack.h \
  vipl/granted/local_path.cc vipl/granted/local_path.h \
  vipl/granted/library_thread.cc vipl/granted/library_thread.h \
  vipl/granted/port_watch.cc vipl/granted/port_watch.h \
  vipl/granted/polled_elsewhere.h \
  vipl/granted/sleep_timer.cc vipl/granted/sleep_timer.h \
  vipl/granted/turn_lock.h \
  vipl/granted/guarded_copy.cc vipl/granted/guarded_copy.h \
  vipl/process/attached_processes.cc vipl/process/attached_processes.h \
  vipl/process/family.cc vipl/process/family.h \
  vipl/session/outgoing.cc vipl/session/outgoing.h \
  vipl/process/exit_drain.cc vipl/process/exit_drain.h \
  vipl/session/post_batching.h \
  vipl/session/handle.h \
  vipl/session/reattach.cc vipl/session/reattach.h \
  vipl/session/debug_log.cc vipl/session/debug_log.h \
  vipl/session/discovery_answers.h \
  vipl/session/handshake.cc vipl/session/handshake.h \
  vipl/session/hello.h \
  vipl/session/registry.cc vipl/session/registry.h \
  vipl/session/registry_lock.h \
  vipl/session/session_guard.h \
  vipl/session/session_table.cc vipl/session/session_table.h \
  vipl/process/idle.cc vipl/process/idle.h \
  vipl/process/lock.cc vipl/process/lock.h \
  vipl/api/management.cc \
  vipl/api/memory.cc \
  vipl/session/message.cc vipl/session/message.h \
  vipl/api/name_service.cc \
  vipl/api/nic.cc \
  vipl/api/poll.cc \
  vipl/session/pollers.cc vipl/session/pollers.h \
  vipl/session/thread_registry.cc vipl/session/thread_registry.h \
  vipl/session/region_table.h \
  vipl/session/session.cc vipl/session/session.h \
  vipl/session/slot_pool.h \
  vipl/granted/progress_thread.cc \
  vipl/process/standard_error.cc vipl/process/standard_error.h \
  vipl/process/sys.h \
  vipl/api/text.cc \
  vipl/process/thread.cc vipl/process/thread.h \
  vipl/api/vi.cc \
  vipl/session/wait.h \
  vipl/session/agent_monitor.cc vipl/session/agent_monitor.h \
  vipl/session/work_queue.cc vipl/session/work_queue.h

# A fast build compiles them as one. Apart stay the stack, which is one by itself, and sources that give a name of
# their own to something else than another does.
libvipl_apart = kagent/contract/crc32c.cc vipl/granted/granted_stack.cc vipl/session/handshake.cc
if FAST_BUILD
libvipl_la_SOURCES = $(libvipl_apart)
nodist_libvipl_la_SOURCES = vipl/libvipl_together.cc
EXTRA_DIST += $(libvipl_sources)
else
libvipl_la_SOURCES = $(libvipl_sources)
endif
CLEANFILES += vipl/libvipl_together.cc
vipl/libvipl_together.cc: Makefile
	$(COMPILED_TOGETHER) $(filter-out $(libvipl_apart),$(filter %.cc,$(libvipl_sources)))

# C programs link with the library, statically too, so it needs the C library alone.
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
phony_targets += vipl-install-alias vipl-uninstall-alias
