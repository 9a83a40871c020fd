// Threads that take in what comes on lanes in place of the program's: column M of the paper's table 4.
#ifndef VIADUCT_SOVIA_LANE_ARRIVAL_THREADS_H
#define VIADUCT_SOVIA_LANE_ARRIVAL_THREADS_H

#include "sovia/lane/process_nic.h"

namespace viaduct::sovia {

// Starts what options().handling asks for, once for each NIC that engine::set_nic() was given.
void start_arrival_threads(ProcessNic& nic);

}  // namespace viaduct::sovia

#endif
