#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "fovea/config/describe.h"
#include "fovea/config/read.h"
#include "fovea/core/nearest.h"
#include "fovea/core/parse_number.h"

namespace fovea::detail {
namespace {

std::optional<double> to_double(std::string_view text) {
  if (number_form(text) == NumberForm::kNone) return std::nullopt;
  if (text.front() == '+') text.remove_prefix(1);
  if (text == ".inf") return INFINITY;
  if (text == "-.inf") return -INFINITY;
  return parse_number<double>(text);
}

}  // namespace

FieldOptions range_to_name(const ScalarBinding& number, const FieldOptions& options,
                           const ConfigNode& node) {
  const bool is_plain = node.kind == ConfigNode::Kind::kScalar && !node.quoted;
  const auto value = is_plain ? to_double(node.scalar) : std::nullopt;
  return value && is_in_range(*value, options) ? bounded(number, options) : options;
}

std::optional<int64_t> to_integer(std::string_view text) {
  if (number_form(text) == NumberForm::kInteger) {
    if (text.front() == '+') text.remove_prefix(1);
    return parse_number<int64_t>(text);
  }
  const auto real = to_double(text);
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!real || !(std::abs(*real) <= kExact) || std::floor(*real) != *real) return std::nullopt;
  return static_cast<int64_t>(*real);
}

void ConfigReader::read_scalar(const ScalarBinding& scalar, const FieldOptions& options,
                               const ConfigNode& node, const std::string& key) {
  const bool is_plain = node.kind == ConfigNode::Kind::kScalar && !node.quoted;
  if (const auto* text = std::get_if<std::string*>(&scalar.target)) {
    return read_string(**text, options, node, key);
  }
  if (const auto* boolean = std::get_if<bool*>(&scalar.target)) {
    if (!is_plain || (node.scalar != "true" && node.scalar != "false")) {
      return expected(scalar, options, node, key);
    }
    **boolean = node.scalar == "true";
    return;
  }
  if (const auto* integer = std::get_if<int64_t*>(&scalar.target)) {
    const auto value = is_plain ? to_integer(node.scalar) : std::nullopt;
    if (!value || !is_in_range(static_cast<double>(*value), bounded(scalar, options))) {
      return expected(scalar, range_to_name(scalar, options, node), node, key);
    }
    **integer = *value;
    return;
  }
  const auto value = is_plain ? to_double(node.scalar) : std::nullopt;
  if (!value || !is_in_range(*value, bounded(scalar, options)))
    return expected(scalar, range_to_name(scalar, options, node), node, key);
  *std::get<double*>(scalar.target) = *value;
}

void ConfigReader::read_string(std::string& target, const FieldOptions& options,
                               const ConfigNode& node, const std::string& key) {
  if (node.kind != ConfigNode::Kind::kScalar) {
    return expected(ScalarBinding(&target), options, node, key);
  }
  const auto& choices = options.choices;
  if (!choices.empty() && std::find(choices.begin(), choices.end(), node.scalar) == choices.end()) {
    faults_.mark_unread(key);
    return faults_.add(node.origin, key,
                       fmt::format("found {}, expected one of {}{}", describe_node(node),
                                   join(choices), or_did_you_mean(node.scalar, choices)));
  }
  target = node.scalar;
}

}  // namespace fovea::detail
