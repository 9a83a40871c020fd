#include "sovia/launcher/preload_library.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>
#include <vector>

namespace viaduct::sovia::launcher {
namespace {

constexpr char kName[] = "libsovia-preload.so";

}  // namespace

std::string preload_library() {
  namespace fs = std::filesystem;
  std::vector<fs::path> places;
  if (const char* const given = std::getenv("SOVIA_PRELOAD_LIBRARY")) places.emplace_back(given);
  std::error_code error;
  const fs::path here = fs::read_symlink("/proc/self/exe", error).parent_path();
  if (!error) places.push_back(here / "../../.libs" / kName);  // a build tree
  places.push_back(fs::path(SOVIA_LIBDIR) / kName);
  // The place in an installation that was moved as a whole.
  if (!error) places.push_back(here.parent_path() / "lib" / kName);
  for (const fs::path& place : places) {
    if (fs::exists(place, error)) return fs::canonical(place);
  }
  throw std::runtime_error(std::string(kName) + " was not found in " SOVIA_LIBDIR
                           "; install it, or set SOVIA_PRELOAD_LIBRARY to its path");
}

}  // namespace viaduct::sovia::launcher
