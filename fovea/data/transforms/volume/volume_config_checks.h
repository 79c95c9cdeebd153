// Checks that the configs of several transforms of volumes share.
#pragma once

#include <fmt/ranges.h>

#include <cstdint>
#include <string>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::data {

// "[1, 2]"
template <class T>
std::string listed(const std::vector<T>& values) {
  return fmt::format("[{}]", fmt::join(values, ", "));
}

template <class T>
bool has_one_or_three(const std::vector<T>& values) {
  return values.size() == 1 || values.size() == 3;
}

// One number, or one for each axis.
void check_size(const char* key, const std::vector<int64_t>& size, ConfigIssues& issues);
void check_at_least(const char* key, const std::vector<int64_t>& values, int64_t least,
                    ConfigIssues& issues);
// [least, largest]; one_serves: or one number.
void check_interval(const char* key, const std::vector<double>& interval, bool one_serves,
                    ConfigIssues& issues);
// Different numbers from 0 to 2.
void check_axes(const char* key, const std::vector<int64_t>& axes, ConfigIssues& issues);

}  // namespace fovea::data
