// The file that has the agent's process number in it, locked as long as the agent lives.
#ifndef VIADUCT_KAGENT_AGENT_PROCESS_PID_FILE_H
#define VIADUCT_KAGENT_AGENT_PROCESS_PID_FILE_H

#include <stdexcept>
#include <string>

#include "xdp/descriptor.h"

namespace viaduct {

class PidFile {
 public:
  // Throws std::runtime_error: it can't be written, or an agent that lives has it.
  explicit PidFile(const std::string& path);
  ~PidFile();
  PidFile(const PidFile&) = delete;
  PidFile& operator=(const PidFile&) = delete;

 private:
  std::string path_;
  Descriptor fd_;
};

}  // namespace viaduct

#endif
