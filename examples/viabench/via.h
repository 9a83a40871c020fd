// The samples over VIPL, hosted and granted.
#ifndef VIADUCT_EXAMPLES_VIABENCH_VIA_H
#define VIADUCT_EXAMPLES_VIABENCH_VIA_H

#include <string>

#include "examples/viabench/measure.h"

namespace viabench {

void via_near(const Case& c, const Site& site, const std::string& where, const Reporter& report);
void via_far(const Case& c, const Site& site, const Reporter& report);

// Connections, one after the other.
void via_connect_near(const Case& c, const Site& site, const std::string& where,
                      const Reporter& report);
void via_connect_far(const Case& c, const Site& site, const Reporter& report);

// Many client processes, one receiver with a completion queue.
void via_senders_near(const Case& c, const Site& site, const std::string& where,
                      const Reporter& report);
void via_senders_far(const Case& c, const Site& site, const Reporter& report);

// Without another end: registering memory, and how much a program with VIs needs.
void via_register(const Case& c, const Site& site, const Reporter& report);
void via_memory(const Case& c, const Site& site, const Reporter& report);

// The reference for registering: copying.
void copy_memory(const Case& c, const Reporter& report);

}  // namespace viabench

#endif
