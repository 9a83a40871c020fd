/* Preloaded into an agent: a kernel before Linux 6.6, which has no TCX. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <linux/bpf.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { TCX_INGRESS = 46, TCX_EGRESS = 47 };

static uint32_t word(const void *attributes, int at)
{
  uint32_t out;
  memcpy(&out, (const char *)attributes + 4 * at, sizeof out);
  return out;
}

static int is_for_tcx(long command, const void *attributes)
{
  uint32_t type;
  if (command == BPF_PROG_QUERY)
    type = word(attributes, 1);
  else if (command == BPF_PROG_ATTACH || command == BPF_PROG_DETACH || command == BPF_LINK_CREATE)
    type = word(attributes, 2);
  else
    return 0;
  return type == TCX_INGRESS || type == TCX_EGRESS;
}

// It reads more arguments than some callers pass, as the C library's does.
__attribute__((no_sanitize("address"))) long syscall(long number, ...)
{
  static long (*next)(long, ...);
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; ++i) a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_bpf && is_for_tcx(a[0], (const void *)a[1])) {
    errno = EINVAL;
    return -1;
  }
  if (next == NULL) *(void **)&next = dlsym(RTLD_NEXT, "syscall");
  return next(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
