// Tables of descriptors. Threads of a process share one, and the kernel closes what is in it when the last of them has
// ended. A thread that hangs in the kernel survives even kill -9, and would keep the agent's sockets and locks from the
// next agent. So threads that may hang have tables of their own, and the loop leaves a thread that hangs alone with its
// table, which is emptied.
#ifndef VIADUCT_KAGENT_AGENT_PROCESS_DESCRIPTOR_TABLE_H
#define VIADUCT_KAGENT_AGENT_PROCESS_DESCRIPTOR_TABLE_H

#include <vector>

namespace viaduct {

// The calling thread goes on with a table of its own that has only `kept`. False: the kernel can't do that (before
// Linux 5.9), and the table is shared as before.
bool leave_table(int kept);

// The calling thread goes on with a copy of the table, and the one that it has left is emptied, but for `kept` and the
// standard descriptors. No other thread that goes on may use the descriptors meanwhile or afterwards. False: nothing has
// changed.
bool empty_table(std::vector<int> kept);

}  // namespace viaduct

#endif
