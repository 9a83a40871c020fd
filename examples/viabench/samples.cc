#include "examples/viabench/samples.h"

#include "examples/viabench/lanevi.h"
#include "examples/viabench/raw.h"
#include "examples/viabench/sovia.h"
#include "examples/viabench/tcp.h"
#include "examples/viabench/via.h"

namespace viabench {

void near_sample(const Case& c, const Site& site, const std::string& where,
                 const Reporter& report) {
  if (c.transport == "raw") return raw_near(c, site, where, report);
  if (c.transport == "tcp") return tcp_near(c, site, where, report);
  if (c.transport == "lanevi") return lanevi_near(c, site, where, report);
  if (c.transport == "sovia") sovia_near(c, site, where, report);
  if (c.transport == "copy") return copy_memory(c, report);
  if (c.what == "connect") return via_connect_near(c, site, where, report);
  if (c.what == "senders") return via_senders_near(c, site, where, report);
  if (c.what == "register") return via_register(c, site, report);
  if (c.what == "memory") return via_memory(c, site, report);
  via_near(c, site, where, report);
}

void far_sample(const Case& c, const Site& site, const Reporter& report) {
  if (c.transport == "raw") return raw_far(c, site, report);
  if (c.transport == "tcp") return tcp_far(c, site, report);
  if (c.transport == "lanevi") return lanevi_far(c, site, report);
  if (c.transport == "sovia") sovia_far(c, site, report);
  if (c.what == "connect") return via_connect_far(c, site, report);
  if (c.what == "senders") return via_senders_far(c, site, report);
  via_far(c, site, report);
}

}  // namespace viabench
