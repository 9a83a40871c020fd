// The steering program as it stands on an interface, whichever process has put it there.
#ifndef VIADUCT_XDP_BPF_STEERING_H
#define VIADUCT_XDP_BPF_STEERING_H

namespace viaduct {

// The name by which the program is found.
inline constexpr char kSteerName[] = "viaduct_steer";

// Silences the messages of libbpf and libxdp; what matters is in the errors that we report.
void silence_xdp_libraries();

// Takes our program off the interface, out of the dispatcher or attached alone, if it is there.
// Other programs stay, and so does a program that hangs on a link: its owner lives. The caller
// must hold the interface's lock.
void remove_steering(int ifindex);

}  // namespace viaduct

#endif
