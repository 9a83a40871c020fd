// lanevid: IP over VIA.
//
//     programs                                                    programs
//        | sockets                                                   |
//     kernel: TCP, UDP, IP                                        kernel
//        | interface lanevi0 (TUN)                                   |
//     lanevid ===== one VI for each pair of hosts, unreliable ==== lanevid
//
// Uses nothing of VIA but vipl.h and vipl_ext.h.
#include <cstdio>
#include <exception>

#include "vipl/lanevi/options.h"
#include "vipl/lanevi/privileges.h"
#include "vipl/lanevi/service.h"
#include "vipl/lanevi/tun.h"

int main(int argc, char** argv) {
  using namespace viaduct::lanevi;
  try {
    Options options;
    if (const int code = parse_options(argc, argv, options); code >= 0) return code;
    Tun tun(options);
    drop_privileges(options.user);
    std::fputs("lanevid: programs of all users that may open a NIC on a host of this link (see [access] in "
               "viad.conf(5); by default all users) can exchange packets with this interface\n", stderr);
    Service(options, tun).run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lanevid: %s\n", error.what());
    return 1;
  }
  return 0;
}
