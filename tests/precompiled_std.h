// Headers of the C++ library that programs and libraries include; parsed once by a fast build (precompiled.mk). The
// sources include all that they need all the same.
#ifndef VIADUCT_TESTS_PRECOMPILED_STD_H
#define VIADUCT_TESTS_PRECOMPILED_STD_H

#ifdef __cplusplus
#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <sstream>
#include <stdexcept>
#include <string>
#include <system_error>
#include <thread>
#include <unordered_map>
#include <vector>
#endif

#endif
