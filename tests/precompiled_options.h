// Headers of the sources that parse options, for a fast build to parse once (precompiled.mk). The sources include what
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
