// Which hosts of the link there are to connect to. Asking the link blocks, so it has a thread.
#ifndef VIADUCT_VIPL_LANEVI_DIRECTORY_H
#define VIADUCT_VIPL_LANEVI_DIRECTORY_H

#include <condition_variable>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "vipl/lanevi/link_nic.h"
#include "vipl/lanevi/options.h"
#include "xdp/mutex.h"

namespace viaduct::lanevi {

struct FoundHost {
  std::string name;
  MacAddress address;
};

class Directory {
 public:
  // Looks for the hosts that the options name, else for all hosts of the link.
  Directory(const LinkNic& nic, const Options& options);
  ~Directory();
  Directory(const Directory&) = delete;
  Directory& operator=(const Directory&) = delete;

  // A descriptor that is readable when there is something to take.
  int news() const { return news_; }
  // Hosts that were found, or found at another address, since the last call.
  std::vector<FoundHost> take();

 private:
  void run();
  void look_for_told();
  void look_for_all();
  void found(const std::string& name, const MacAddress& address);
  std::string name_of(VIP_NET_ADDRESS* address, const MacAddress& host) const;

  const VIP_NIC_HANDLE nic_;
  const MacAddress own_;
  const Options& options_;
  const int news_;
  std::map<std::string, MacAddress> known_;  // the thread's alone
  Mutex mutex_;
  std::condition_variable_any ending_;
  bool stopping_ VIADUCT_GUARDED_BY(mutex_) = false;
  std::vector<FoundHost> found_ VIADUCT_GUARDED_BY(mutex_);
  std::thread thread_;
};

}  // namespace viaduct::lanevi

#endif
