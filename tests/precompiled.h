// The headers that most tests include; parsed once where the compiler can (precompiled.mk). Tests include all that
// they need all the same.
#ifndef VIADUCT_TESTS_PRECOMPILED_H
#define VIADUCT_TESTS_PRECOMPILED_H

#ifdef __cplusplus
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>
#endif

#endif
