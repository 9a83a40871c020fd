// The unread bytes of connections that go on in a program's successor (exec) or child. They are in files without
// names, which a variable of the environment lists.
#ifndef VIADUCT_SOVIA_PROGRAM_INHERITANCE_H
#define VIADUCT_SOVIA_PROGRAM_INHERITANCE_H

#include <sys/types.h>

#include <cstddef>
#include <vector>

#include "sovia/socket/socket.h"

namespace viaduct::sovia {

// The files for one exec or spawn. They stay open over exec while this lives.
class Inheritance {
 public:
  Inheritance() = default;
  ~Inheritance();  // keeps errno
  Inheritance(const Inheritance&) = delete;

  // Adds a socket that the next program gets. Its lane has been left. A second call does no harm.
  void add(int fd, Socket& socket);

  bool empty() const { return items_.empty(); }
  // The next program's environment: `own`, with the variable that lists the files.
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

// Lives during an exec. All sockets of this process leave their lanes, sockets that close on exec are detached, and
// data sent on closed sockets has arrived.
class Succession {
 public:
  Succession();
  ~Succession();  // exec has failed. Keeps errno
  Succession(const Succession&) = delete;

  char* const* environment(char* const own[]) { return inheritance_.environment(own); }

 private:
  Inheritance inheritance_;
};

// At the start of a program: takes the bytes that the program before exec has left, and removes the variable.
void take_inheritance();

}  // namespace viaduct::sovia

#endif
