# GoogleTest takes a second of each file that includes it. GCC looks for a header's precompiled form in
# the directory NAME.h.gch and takes the one that was made with the same flags, or else none.
EXTRA_DIST += tests/precompiled.h
if PRECOMPILE
precompiled = tests/precompiled.h.gch/plain tests/precompiled.h.gch/threads
BUILT_SOURCES += $(precompiled)
CLEANFILES += $(precompiled)
TEST_CPPFLAGS += -include tests/precompiled.h
precompile = $(AM_V_GEN)$(MKDIR_P) tests/precompiled.h.gch && $(CXX) $(DEFS) $(DEFAULT_INCLUDES) \
	$(AM_CPPFLAGS) $(GTEST_CFLAGS) $(CPPFLAGS) $(AM_CXXFLAGS) $(CXXFLAGS) -x c++-header \
	$(srcdir)/tests/precompiled.h
tests/precompiled.h.gch/plain: tests/precompiled.h
	$(precompile) -o $@
tests/precompiled.h.gch/threads: tests/precompiled.h
	$(precompile) -pthread -o $@
endif
