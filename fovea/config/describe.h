// What the parts of the config system share: values as nodes, and words for types and ranges.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "fovea/config/config.h"
#include "fovea/config/node.h"

namespace fovea::detail {

// The value as a tree; strings are `quoted`, so that they can be told from numbers.
ConfigNode to_node(const ConfigBinding& binding, const FieldOptions& options = {});

// "> 0", "in [0, 1)", or empty.
std::string describe_range(const FieldOptions& options);

// What a field takes: "a number >= 0", "one of adamw, sgd", "a list of integers".
std::string describe_expected(const ConfigBinding& binding, const FieldOptions& options);

// The same as a column of the reference: "number", "list of integers", "number or auto".
std::string describe_type(const ConfigBinding& binding, const FieldOptions& options,
                          bool plural = false);

bool is_in_range(double value, const FieldOptions& options);

// The range of a number with both of its ends. Where its field leaves one open: that of 32 bits for
// an integer, so that sizes and counts can be multiplied, and 1e30 for a real number, so that it
// is one in float32 as well. Fields that need more say so.
FieldOptions bounded(const ScalarBinding& number, FieldOptions options);

std::string join(const std::vector<std::string>& words, std::string_view separator = ", ");
std::string join_key(const std::string& prefix, const std::string& name);

}  // namespace fovea::detail
