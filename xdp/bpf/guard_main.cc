// xdp-guard IFINDEX: takes the steering program off an interface when the agent has died.
//
// Descriptor 3 is the read end of a pipe that ends when the agent does. Descriptor 4 is the
// interface's lock, which goes with us, so that a new agent starts only when the interface is
// clean. Started by XdpAttachment; not for people.
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <initializer_list>

#include "xdp/bpf/steering.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  // A supervisor that stops the agent sends these signals to the guard too, which must stay until the agent has
  // ended.
  for (const int s : {SIGTERM, SIGINT, SIGHUP, SIGPIPE}) signal(s, SIG_IGN);
  closefrom(5);
  viaduct::silence_xdp_libraries();
  char byte;
  while (read(3, &byte, 1) < 0 && errno == EINTR) {}
  viaduct::remove_steering(std::atoi(argv[1]));
  return 0;
}
