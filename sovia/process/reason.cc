#include "sovia/process/reason.h"

namespace viaduct::sovia {

const char* text_of(Reason reason) {
  switch (reason) {
#define SOVIA_REASON(name, text) \
  case Reason::name:             \
    return text;
    SOVIA_REASONS(SOVIA_REASON)
#undef SOVIA_REASON
    case Reason::kCount:
      break;
  }
  return "";
}

}  // namespace viaduct::sovia
