// Sockets and fork. Before it, each socket leaves its lane and becomes shared; the child's copy
// then needs nothing of the parent. The three functions are handlers of pthread_atfork, so that
// they see the forks of the C library too (forkpty and the like).
#ifndef VIADUCT_SOVIA_PROGRAM_FORK_H
#define VIADUCT_SOVIA_PROGRAM_FORK_H

namespace viaduct::sovia::fork {

void before();
void in_parent();
void in_child();

// After in_parent(), if there was no child after all.
void failed();

// A program is about to be run in a child, without a fork that is seen here. Sockets that it inherits leave their
// lanes and become shared; descriptors that close on exec stay as they are.
class Spawning {
 public:
  Spawning();
  ~Spawning();  // keeps errno
  Spawning(const Spawning&) = delete;

  // It did not happen, or the child has come and gone.
  void undo();

  // The program's environment, if it would be `own` without us.
  char* const* environment(char* const own[]);

 private:
  struct Shared;
  Shared* shared_ = nullptr;
};

}  // namespace viaduct::sovia::fork

#endif
