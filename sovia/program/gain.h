// The gain of a program, printed at its end if SOVIA_STATS is 1.
#ifndef VIADUCT_SOVIA_PROGRAM_GAIN_H
#define VIADUCT_SOVIA_PROGRAM_GAIN_H

namespace viaduct::sovia::gain {

// A line on stderr; nothing if the program had no TCP connection.
void tell();

}  // namespace viaduct::sovia::gain

#endif
