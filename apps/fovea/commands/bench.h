// The sub-commands of `fovea bench` that have a file of their own.
#pragma once

#include <string>
#include <vector>

#include "apps/fovea/command_line.h"

namespace fovea::app {

void add_bench_data(Command group);

// Runs benchmarks/vs_timm.py with this program, `options` being more of its arguments, and waits.
// Throws ConfigError where there is no Python with timm or no such script, Error where it fails.
void compare_with_timm(const std::vector<std::string>& options);

}  // namespace fovea::app
