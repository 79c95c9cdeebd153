// Checks that the configs of several transforms of images share.
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
// One number, [left and right, top and bottom], or [left, top, right, bottom]; none below 0.
void check_padding(const std::vector<int64_t>& padding, ConfigIssues& issues);
// One byte, or one for each of three channels.
void check_fill(const std::vector<int64_t>& fill, ConfigIssues& issues);

}  // namespace fovea::data
