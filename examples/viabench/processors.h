// Two hosts on one machine: each keeps to processors of its own, as hosts do. Else what is measured
// depends on where the scheduler happens to put its programs; two ends of a TCP connection on one
// processor, for example, need no wake-up of another.
#ifndef VIADUCT_EXAMPLES_VIABENCH_PROCESSORS_H
#define VIADUCT_EXAMPLES_VIABENCH_PROCESSORS_H

namespace viabench {

// Keeps this process, those that it starts, and the agent of this network namespace to the first
// half of the processors (`host` 0) or the second (1). Does nothing where there is only one.
void keep_to_half(int host);

}  // namespace viabench

#endif
