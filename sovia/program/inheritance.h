// The unread bytes of connections that go on in a program's successor (exec) or child. They are in files without
// names, which a variable of the environment lists.
#ifndef VIADUCT_SOVIA_PROGRAM_INHERITANCE_H
#define VIADUCT_SOVIA_PROGRAM_INHERITANCE_H

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "sovia/socket/socket.h"

namespace viaduct::sovia {

// For one exec or spawn. The files stay open over exec while it lives.
class Inheritance {
 public:
  Inheritance() = default;
  ~Inheritance();  // keeps errno
  Inheritance(const Inheritance&) = delete;

  // A socket that the next program gets. Lane left. More than once does no harm.
  void add(int fd, Socket& socket);

  bool empty() const { return items_.empty(); }
  // The next program's environment, if the caller's would be `own`.
  char* const* environment(char* const own[]);

 private:
  struct Item {
    ino_t socket;
    int file;
  };
  std::vector<Item> items_;
  std::vector<char> variable_;
  std::vector<char*> environment_;
};

// All sockets of this process, for exec, while it lives: they leave their lanes, those that close on exec are given
// up, and data sent on closed ones has arrived.
class Succession {
 public:
  Succession();
  ~Succession();  // there is no successor. Keeps errno
  Succession(const Succession&) = delete;

  char* const* environment(char* const own[]) { return inheritance_.environment(own); }

 private:
  Inheritance inheritance_;
};

// At the start of a program: takes the bytes that the one before has left, and removes the variable.
void take_inheritance();

}  // namespace viaduct::sovia

#endif
