// Classes, as files of data sets number and name them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/fields.h"

namespace fovea::data {

// Labels lie below it. No set of images has as many classes: a larger one is a mistake or made to
// harm, for tables of classes are as long as the largest label.
inline constexpr int64_t kMaxClasses = int64_t{1} << 24;

// Whether a class that is named may have no sample: not where a model is to learn it.
enum class EmptyClasses { kRefused, kAllowed };

// An issue where both are given and do not agree.
void check_class_count(const std::optional<int64_t>& num_classes,
                       const std::vector<std::string>& class_names, ConfigIssues& issues);

// The whole of `text`, blanks around it left out, as an integer; nothing: it is something else.
std::optional<int64_t> integer_in(std::string_view text);

}  // namespace fovea::data
