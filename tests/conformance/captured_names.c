/* Functions with names of the C library's and meanings of their own, as old programs define them. A
 * library that reaches one of these has captured the program's name. */
#include <stdio.h>
#include <stdlib.h>

int sem_wait(void *nothing);
int sem_open(void *nothing);
int sem_close(void *nothing);
int sem_op(void *nothing);
int post(void *nothing);

static int captured(const char *name)
{
  fprintf(stderr, "the library has called the program's own %s()\n", name);
  abort();
}

int sem_wait(void *nothing) { (void)nothing; return captured("sem_wait"); }
int sem_open(void *nothing) { (void)nothing; return captured("sem_open"); }
int sem_close(void *nothing) { (void)nothing; return captured("sem_close"); }
int sem_op(void *nothing) { (void)nothing; return captured("sem_op"); }
int post(void *nothing) { (void)nothing; return captured("post"); }
