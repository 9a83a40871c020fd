// The stdio streams that fdopen has made on sockets of ours.
#ifndef VIADUCT_SOVIA_PROGRAM_STDIO_STREAMS_H
#define VIADUCT_SOVIA_PROGRAM_STDIO_STREAMS_H

#include <stdio.h>

namespace viaduct::sovia::streams {

// As fdopen. The stream's functions are those of sovia.h.
FILE* open(int fd, const char* mode);

// The descriptor, or -1 if the stream is not one of these.
int descriptor(FILE* stream);

// As freopen, for a stream of open(): the C library's freopen can't handle them. The stream keeps its direction.
FILE* reopen(const char* path, const char* mode, FILE* stream);

// Writes out all that is buffered.
void flush_all();

}  // namespace viaduct::sovia::streams

#endif
