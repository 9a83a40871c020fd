// Sockets and fork. Before it, each socket leaves its lane and becomes shared; the child's copy
// then needs nothing of the parent. The three functions are handlers of pthread_atfork, so that
// they see the forks of the C library too (forkpty and the like).
#ifndef VIADUCT_SOVIA_PROGRAM_FORK_H
#define VIADUCT_SOVIA_PROGRAM_FORK_H

namespace viaduct::sovia::fork {

void before();
void in_parent();
void in_child();

// To be called after in_parent(), if the fork has made no child after all.
void failed();

// Lives while a program is started in a child, without a fork that the handlers see. Sockets that the program inherits
// leave their lanes and become shared; sockets that close on exec stay as they are.
class Spawning {
 public:
  Spawning();
  ~Spawning();  // keeps errno
  Spawning(const Spawning&) = delete;

  // No child was made, or it has ended: the sockets are not shared any more.
  void undo();

  // The environment for the child's program: `own`, with the library's additions.
  char* const* environment(char* const own[]);

 private:
  struct Shared;
  Shared* shared_ = nullptr;
};

}  // namespace viaduct::sovia::fork

#endif
