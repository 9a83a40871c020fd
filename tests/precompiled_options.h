// What the sources include that parse options; parsed once by a fast build (precompiled.mk). The sources include what
// they need all the same.
#ifndef VIADUCT_TESTS_PRECOMPILED_OPTIONS_H
#define VIADUCT_TESTS_PRECOMPILED_OPTIONS_H

#ifdef __cplusplus
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#endif

#endif
