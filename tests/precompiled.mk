# GoogleTest takes a second of each file that includes it. GCC takes NAME.h.gch for NAME.h if it was made with
# the same flags: all have -pthread for that. One made with others can crash it, so the Makefile counts too.
EXTRA_DIST += tests/precompiled.h
if PRECOMPILE
BUILT_SOURCES += tests/precompiled.h.gch
CLEANFILES += tests/precompiled.h.gch
TEST_CPPFLAGS += -pthread -include tests/precompiled.h
tests/precompiled.h.gch: tests/precompiled.h Makefile
	$(AM_V_GEN)$(MKDIR_P) tests && rm -rf $@ && $(CXX) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(GTEST_CFLAGS) \
	  $(CPPFLAGS) -pthread $(AM_CXXFLAGS) $(CXXFLAGS) $(TEST_CXXFLAGS) -x c++-header \
	  $(srcdir)/tests/precompiled.h -o $@
endif
