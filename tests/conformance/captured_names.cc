// Functions with names of the C library's and meanings of their own, as old programs define them. A
// library that reaches one of these has captured the program's name.
#include <cstdio>
#include <cstdlib>

namespace {

int captured(const char* name) {
  std::fprintf(stderr, "the library has called the program's own %s()\n", name);
  std::abort();
}

}  // namespace

extern "C" {
int sem_wait(void*) { return captured("sem_wait"); }
int sem_open(void*) { return captured("sem_open"); }
int sem_close(void*) { return captured("sem_close"); }
int sem_op(void*) { return captured("sem_op"); }
int post(void*) { return captured("post"); }
}
