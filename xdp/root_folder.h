// Folders that root alone writes to.
#ifndef VIADUCT_XDP_ROOT_FOLDER_H
#define VIADUCT_XDP_ROOT_FOLDER_H

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

namespace viaduct {

// Makes the folder if it is not there, with that mode. Returns why it can't be used, in words: it can't be made,
// or others than root and the caller may put files there. Empty: it can.
inline std::string make_root_folder(const char* path, mode_t mode) {
  const auto failed = [path] { return std::string(path) + ": " + std::strerror(errno); };
  if (mkdir(path, mode) == 0) {
    if (chmod(path, mode) != 0) return failed();  // the umask has taken some of it
  } else if (errno != EEXIST) {
    return failed();
  }
  struct stat status{};
  if (lstat(path, &status) != 0) return failed();
  const bool ours = status.st_uid == 0 || status.st_uid == geteuid();
  if (S_ISDIR(status.st_mode) && ours && (status.st_mode & (S_IWGRP | S_IWOTH)) == 0) return {};
  return std::string(path) + " is not a folder that root alone writes to";
}

}  // namespace viaduct

#endif
