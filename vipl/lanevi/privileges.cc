#include "vipl/lanevi/privileges.h"

#include <grp.h>
#include <linux/capability.h>
#include <pwd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "vipl/lanevi/failure.h"

namespace viaduct::lanevi {
namespace {

void become(const std::string& user) {
  errno = 0;
  const passwd* const entry = getpwnam(user.c_str());
  if (entry == nullptr) throw Failure("there is no user called " + user);
  if (setgroups(0, nullptr) != 0 || setresgid(entry->pw_gid, entry->pw_gid, entry->pw_gid) != 0 ||
      setresuid(entry->pw_uid, entry->pw_uid, entry->pw_uid) != 0) {
    fail("becoming the user " + user);
  }
  // The agent asks the kernel about programs that it serves. Of a process that has changed its user it could not
  // otherwise.
  prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
}

}  // namespace

void drop_privileges(const std::string& user) {
  // Drop capabilities that exec() could give back; this takes CAP_SETPCAP, and without it there is no_new_privs.
  for (int c = 0; prctl(PR_CAPBSET_READ, c, 0, 0, 0) >= 0; ++c) prctl(PR_CAPBSET_DROP, c, 0, 0, 0);
  if (!user.empty()) become(user);
  prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  const __user_cap_data_struct none[2]{};
  if (syscall(SYS_capset, &header, none) != 0) fail("giving up capabilities");
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) fail("giving up new privileges");
}

}  // namespace viaduct::lanevi
