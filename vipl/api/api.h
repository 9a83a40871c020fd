// The library's own view of its interface: what these headers declare is exported, nothing else.
#ifndef VIADUCT_VIPL_API_API_H
#define VIADUCT_VIPL_API_API_H

#pragma GCC visibility push(default)
#include "vipl/vipl.h"
#include "vipl/vipl_ext.h"
#pragma GCC visibility pop

#endif
