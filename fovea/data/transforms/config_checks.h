// Checks that the configs of several transforms share.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::data {

// One side, or [height, width], above 0.
void check_size(const std::vector<int64_t>& size, ConfigIssues& issues);
// [least, largest], above 0.
void check_interval(const std::string& key, const std::vector<double>& interval,
                    ConfigIssues& issues);

}  // namespace fovea::data
