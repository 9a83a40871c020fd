# Unit tests of viadump, and the frames that its other tests are made of.

check_PROGRAMS += tests/unit/viadump/viadump_test tests/unit/viadump/random_frames
TESTS += tests/unit/viadump/viadump_test
tests_unit_viadump_viadump_test_SOURCES = \
	tests/unit/viadump/capture_file_test.cc \
	tests/unit/viadump/endpoints_test.cc \
	tests/unit/viadump/found_frames_test.cc \
	tests/unit/viadump/frame_reading_test.cc \
	tests/unit/viadump/pipeline_test.cc \
	tests/unit/viadump/random_frames.cc tests/unit/viadump/random_frames.h \
	tests/unit/viadump/sim_capture_test.cc
tests_unit_viadump_viadump_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_viadump_viadump_test_LDADD = libviaduct_dump.la libviaduct_sim.la $(TEST_LIBS)

tests_unit_viadump_random_frames_SOURCES = \
	tests/unit/viadump/random_frames.cc tests/unit/viadump/random_frames.h \
	tests/unit/viadump/random_frames_main.cc
tests_unit_viadump_random_frames_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_viadump_random_frames_LDADD = libviaduct_stack.la libviaduct_sim.la
