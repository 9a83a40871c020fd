// The table at the end: the results seen, and the expected ones that were not.
#ifndef CONFORMANCE_COVERAGE_H
#define CONFORMANCE_COVERAGE_H

#include <string>

#include "types.h"

namespace conformance {

// Which NICs the run is about: decides what is excused. The last word counts.
void note_nics(const NicAttributes& near, const NicAttributes& far);
// A test that passed covers an item of the checklist.
void note_checklist(int number, const std::string& test);

// Prints it. Returns how many things are missing without an excuse.
int print_coverage();

}  // namespace conformance

#endif
