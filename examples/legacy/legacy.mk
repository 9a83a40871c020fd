# examples/legacy: programs as they were written for VIA in its days, in C and with the flags of then.
noinst_PROGRAMS += \
	examples/legacy/onesided \
	examples/legacy/rdma_stream \
	examples/legacy/manyregions \
	examples/legacy/threads_cq \
	examples/legacy/loadgen
EXTRA_DIST += examples/legacy/README.md

# Neither AM_CPPFLAGS nor AM_CFLAGS: these programs know nothing of Viaduct, and each says by itself
# which system interfaces it wants.
legacy_cppflags = -I$(top_srcdir)/vipl
legacy_cflags = $(SANITIZE) -pedantic-errors -Wall -Wstrict-prototypes -Wmissing-prototypes -Wshadow \
	-Wpointer-arith

examples_legacy_onesided_SOURCES = examples/legacy/onesided.c
examples_legacy_onesided_CPPFLAGS = $(legacy_cppflags)
examples_legacy_onesided_CFLAGS = -std=c89 $(legacy_cflags)
examples_legacy_onesided_LDADD = libvipl.la -lpthread
examples_legacy_rdma_stream_SOURCES = examples/legacy/rdma_stream.c
examples_legacy_rdma_stream_CPPFLAGS = $(legacy_cppflags)
examples_legacy_rdma_stream_CFLAGS = -ansi $(legacy_cflags)
examples_legacy_rdma_stream_LDADD = libvipl.la -lpthread
examples_legacy_manyregions_SOURCES = examples/legacy/manyregions.c
examples_legacy_manyregions_CPPFLAGS = $(legacy_cppflags)
examples_legacy_manyregions_CFLAGS = -std=gnu89 $(legacy_cflags)
examples_legacy_manyregions_LDADD = libvipl.la -lpthread
examples_legacy_threads_cq_SOURCES = examples/legacy/threads_cq.c
examples_legacy_threads_cq_CPPFLAGS = $(legacy_cppflags)
examples_legacy_threads_cq_CFLAGS = -std=c89 $(legacy_cflags)
examples_legacy_threads_cq_LDADD = libvipl.la -lpthread

# Finds the library by name at run time.
examples_legacy_loadgen_SOURCES = examples/legacy/loadgen.c
examples_legacy_loadgen_CPPFLAGS = $(legacy_cppflags)
examples_legacy_loadgen_CFLAGS = -ansi $(legacy_cflags)
examples_legacy_loadgen_LDADD = -ldl -lpthread
