// Calls by which programs reach the kernel past the functions of sovia.h, for the preload library.
#ifndef VIADUCT_SOVIA_API_API_PASSING_H
#define VIADUCT_SOVIA_API_API_PASSING_H

#include <linux/aio_abi.h>

namespace viaduct::sovia::passing {

// Requests are about to be given to the kernel by io_submit(2): their sockets leave their lanes.
void before_submit(long count, iocb* const* requests);

// A system call that a program makes by number. True: it has been made, and this is its result.
bool makes_call(long number, const unsigned long* arguments, long& result);

}  // namespace viaduct::sovia::passing

#endif
