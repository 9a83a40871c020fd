# Unit tests of viadump, and the frames that its other tests are made of.

check_PROGRAMS += tests/unit/dump/dump_test tests/unit/dump/random_frames
TESTS += tests/unit/dump/dump_test
tests_unit_dump_dump_test_SOURCES = \
	tests/unit/dump/capture_file_test.cc \
	tests/unit/dump/endpoints_test.cc \
	tests/unit/dump/found_frames_test.cc \
	tests/unit/dump/frame_reading_test.cc \
	tests/unit/dump/pipeline_test.cc \
	tests/unit/dump/random_frames.cc tests/unit/dump/random_frames.h \
	tests/unit/dump/sim_capture_test.cc
tests_unit_dump_dump_test_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_dump_dump_test_LDADD = libviaduct_dump.la libviaduct_sim.la $(TEST_LIBS)

tests_unit_dump_random_frames_SOURCES = \
	tests/unit/dump/random_frames.cc tests/unit/dump/random_frames.h \
	tests/unit/dump/random_frames_main.cc
tests_unit_dump_random_frames_CPPFLAGS = $(TEST_CPPFLAGS)
tests_unit_dump_random_frames_LDADD = libviaduct_stack.la libviaduct_sim.la
