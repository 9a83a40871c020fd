// The sending of what is left when the process is gone: it was killed, has crashed, or has ended before a slow peer had all.
#ifndef VIADUCT_SOVIA_BACKGROUND_LANE_FINISHER_H
#define VIADUCT_SOVIA_BACKGROUND_LANE_FINISHER_H

namespace viaduct::sovia::background {

// A step of VIPL's finisher (VipxSetFinisher): sends the data of all lanes, and FIN behind it. A lane that a
// thread was changing when it was killed is given up.
int finish_lanes(void* context);

}  // namespace viaduct::sovia::background

#endif
