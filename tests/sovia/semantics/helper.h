// This program as a helper: a case runs it with a connection among its descriptors:
//
//     sovia-semantics --helper upper IN OUT    copies IN to OUT in capitals until IN ends
//     sovia-semantics --helper line IN OUT     answers one line
//     sovia-semantics --helper stdio           the same, by stdio, on its descriptors 0 and 1
//     sovia-semantics --helper stream OUT N    sends N bytes of Pattern(1)
//     sovia-semantics --helper name FD         exits with 0 if FD is a connected socket
#ifndef SEMANTICS_HELPER_H
#define SEMANTICS_HELPER_H

namespace semantics {

int help(int argc, char** argv);

}  // namespace semantics

#endif
