// `sovia explain PROGRAM`: whether a program can use VIA without being compiled anew, and where its
// calls would go.
#ifndef VIADUCT_SOVIA_LAUNCHER_EXPLAIN_H
#define VIADUCT_SOVIA_LAUNCHER_EXPLAIN_H

#include <ostream>
#include <string>

namespace viaduct::sovia::launcher {

// `program` as a shell takes it: with a slash a path, else looked for in PATH. Returns 0 if `sovia
// run` does something for it, 1 if not. Throws std::runtime_error if there is no such program.
int explain(const std::string& program, std::ostream& out);

}  // namespace viaduct::sovia::launcher

#endif
