// The samples over kernel TCP.
#ifndef VIADUCT_EXAMPLES_VIABENCH_TCP_H
#define VIADUCT_EXAMPLES_VIABENCH_TCP_H

#include <string>

#include "examples/viabench/measure.h"

namespace viabench {

void tcp_near(const Case& c, const Site& site, const std::string& where, const Reporter& report);
void tcp_far(const Case& c, const Site& site, const Reporter& report);

}  // namespace viabench

#endif
