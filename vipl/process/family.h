// Families: a process that has been forked takes part in a session of the process that it comes from.
//
//   hosted    its own connection to the agent, the same segment
//   granted   that too, for the control session; and over a link, which the agent makes, the first process lets it
//             have its granted segment: the first process's driver serves it as an agent serves its programs
#ifndef VIADUCT_VIPL_PROCESS_FAMILY_H
#define VIADUCT_VIPL_PROCESS_FAMILY_H

#include "vipl/session/hello.h"

namespace viaduct::vipl {

struct Session;

// Makes of a session that was left behind at a fork, and of what the agent has answered, one that this
// process is part of, up to and with Session::family.joined. Takes over the descriptors of the hello in
// any case. May wait for the first process. False: explained.
bool join_family(Session& session, Hello& hello);

}  // namespace viaduct::vipl

#endif
