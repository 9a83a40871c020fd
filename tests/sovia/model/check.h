// Check: a program over kernel TCP and on SOVIA at once; and the search for the least program that still goes wrong.
#ifndef SOVIA_MODEL_CHECK_H
#define SOVIA_MODEL_CHECK_H

#include <string>
#include <vector>

#include "execute.h"

namespace model {

struct Verdict {
  Outcome tcp, sovia;
  std::string wrong;   // empty: all right. Begins with "tcp" where the model itself is wrong
};

class Checker {
 public:
  Checker(const Place& tcp, const Place& sovia) : tcp_(tcp), sovia_(sovia) {}
  Verdict run(const Program& program, const Limits& limits);
  // Removes operations and bytes as long as the same end goes wrong.
  Limits shrink(const Program& program, Limits limits, const Verdict& verdict);

 private:
  void make_ready();
  bool same(const Program& program, const Limits& limits, const Verdict& verdict);
  Hosts tcp_, sovia_;
};

// The operations that are kept, as ranges: "0-3,7".
std::string text_of_kept(const std::vector<bool>& kept);
std::vector<bool> kept_of(const std::string& text, std::size_t count);

}  // namespace model

#endif
