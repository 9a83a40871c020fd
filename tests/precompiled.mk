# GoogleTest takes a second of each file that includes it, the C++ library up to two. GCC takes NAME.h.gch for
# NAME.h if it was made with the same flags: all have -pthread for that. One made with others can crash it, so
# the Makefile counts too. (What automake calls the objects of a/b-c.la is a_b_c_la_OBJECTS.)
EXTRA_DIST += tests/precompiled.h tests/precompiled_options.h tests/precompiled_std.h
objects_of = $(foreach one,$(subst -,_,$(subst /,_,$(subst .,_,$(1)))),$($(one)_OBJECTS))
# An object of several programs once, or it would get the flags below several times.
test_objects = $(sort $(call objects_of,$(check_PROGRAMS) $(check_LTLIBRARIES)))

# The objects of tests alone have TEST_CXXFLAGS behind the flags that all have.
$(test_objects): CXXFLAGS += $(TEST_CXXFLAGS)

# The library that parses options takes longer to optimize than all else of a program, and its speed does not matter.
if FAST_BUILD
command_line_objects = $(filter %-options.lo %-options.o %-main.o %/viactl_main.o %/viadump_main.o, \
  $(call objects_of,viactl viadump viaping viabench lanevid sovia/launcher/sovia libviaduct_agent.la tests/scale/vipl-scale \
    tests/sovia/semantics/sovia-semantics tests/unit/vipl/lanevi_test))
$(command_line_objects): CXXFLAGS += -O0
# The sanitizers' own code takes three times as long to optimize as the rest.
$(call objects_of,libvipl_asan.la): CXXFLAGS += -O0
endif

PRECOMPILED = $(AM_V_GEN)$(MKDIR_P) $(@D) && $(CXX) $(DEFS) $(DEFAULT_INCLUDES) $(AM_CPPFLAGS) $(CPPFLAGS) -pthread \
  $(AM_CXXFLAGS) $(CXXFLAGS) -x c++-header

if PRECOMPILE
BUILT_SOURCES += tests/precompiled.h.gch
CLEANFILES += tests/precompiled.h.gch
tests/precompiled.h.gch: tests/precompiled.h Makefile
	$(PRECOMPILED) $(TEST_CXXFLAGS) $(GTEST_CFLAGS) $(srcdir)/tests/precompiled.h -o $@
endif

# It must be the first thing that is included, and not be included twice.
if PRECOMPILE
if !PRECOMPILE_ALL
TEST_CPPFLAGS += -pthread -include tests/precompiled.h
endif
endif

# A fast build has one for all tests that no sanitizer watches, and one for each kind of object of the
# programs and libraries, and one for what parses options. The compiler need not save memory.
if PRECOMPILE_ALL
AM_CXXFLAGS += --param ggc-min-heapsize=524288
plain_test_objects = $(filter-out $(command_line_objects) $(call objects_of,libvipl_asan.la tests/conformance/vipl-conformance-asan \
    tests/unit/xdp/local_test), $(test_objects))
$(plain_test_objects): CPPFLAGS += $(GTEST_CFLAGS) -pthread -include tests/precompiled.h
$(plain_test_objects): | tests/precompiled.h.gch

standard_objects = $(filter-out $(command_line_objects), \
  $(call objects_of,viad viaping viabench xdp-guard sovia/launcher/sovia tests/lab/lab-faults libviaduct_agent.la \
    libviaduct_xdp.la libviaduct_sim.la libviaduct_tool.la libviaduct_dump.la lanevid libsovia_parts.la \
    vipl/fabric/libprovider.la))
standard_headers = $(addprefix tests/precompiled_std.h.gch/,plain pic tls)
$(standard_objects): CPPFLAGS += -pthread -include tests/precompiled_std.h
$(standard_objects): | $(standard_headers)
$(command_line_objects): CPPFLAGS += -pthread -include tests/precompiled_options.h
$(command_line_objects): | tests/precompiled_options.h.gch
BUILT_SOURCES += $(standard_headers) tests/precompiled_options.h.gch
CLEANFILES += $(standard_headers) tests/precompiled_options.h.gch
tests/precompiled_options.h.gch: tests/precompiled_options.h Makefile
	$(PRECOMPILED) -O0 $(srcdir)/tests/precompiled_options.h -o $@
tests/precompiled_std.h.gch/plain: tests/precompiled_std.h Makefile
	$(PRECOMPILED) $(srcdir)/tests/precompiled_std.h -o $@
tests/precompiled_std.h.gch/pic: tests/precompiled_std.h Makefile
	$(PRECOMPILED) -fPIC -DPIC $(srcdir)/tests/precompiled_std.h -o $@
tests/precompiled_std.h.gch/tls: tests/precompiled_std.h Makefile
	$(PRECOMPILED) -ftls-model=initial-exec -fPIC -DPIC $(srcdir)/tests/precompiled_std.h -o $@
endif

# The sources of a large test as one, for what they all include and instantiate.
COMPILED_TOGETHER = $(AM_V_GEN)together() { for each; do echo "\#include \"$$each\""; done; }; \
  $(MKDIR_P) $(@D) && exec >$@ && together
