#include "fovea/config/describe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace fovea::detail {
namespace {

std::string number_text(double value) {
  if (std::isinf(value)) return value > 0 ? ".inf" : "-.inf";
  return fmt::format("{}", value);
}

ConfigNode scalar_node(const ScalarBinding& scalar) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::kScalar;
  if (const auto* text = std::get_if<std::string*>(&scalar.target)) {
    node.scalar = **text;
    node.quoted = true;
  } else if (const auto* boolean = std::get_if<bool*>(&scalar.target)) {
    node.scalar = **boolean ? "true" : "false";
  } else if (const auto* integer = std::get_if<int64_t*>(&scalar.target)) {
    node.scalar = fmt::format("{}", **integer);
  } else {
    node.scalar = number_text(*std::get<double*>(scalar.target));
  }
  return node;
}

void add_fields(const SectionBinding& section, ConfigNode& map) {
  for (const ConfigField& field : section.fields()) {
    map.add(field.name, to_node(*field.binding, field.options));
  }
}

std::string scalar_type(const ScalarBinding& scalar, bool plural) {
  constexpr const char* kNames[] = {"boolean", "integer", "number", "string"};
  return std::string(kNames[scalar.target.index()]) + (plural ? "s" : "");
}

}  // namespace

ConfigNode to_node(const ConfigBinding& binding, const FieldOptions& options) {
  ConfigNode node;
  switch (binding.kind()) {
    case ConfigBinding::Kind::kScalar:
      return scalar_node(static_cast<const ScalarBinding&>(binding));
    case ConfigBinding::Kind::kOptional:
      if (const auto value = static_cast<const OptionalBinding&>(binding).value()) {
        return to_node(*value, options);
      }
      node.scalar = options.null_word;
      return node;
    case ConfigBinding::Kind::kList: {
      const auto& list = static_cast<const ListBinding&>(binding);
      node.kind = ConfigNode::Kind::kList;
      for (size_t i = 0; i < list.size(); ++i)
        node.children.push_back(to_node(*list.at(i), options));
      return node;
    }
    case ConfigBinding::Kind::kMap: {
      const auto& map = static_cast<const MapBinding&>(binding);
      node.kind = ConfigNode::Kind::kMap;
      for (const auto& key : map.keys()) node.add(key, to_node(*map.at(key), options));
      return node;
    }
    case ConfigBinding::Kind::kSection:
      node.kind = ConfigNode::Kind::kMap;
      add_fields(static_cast<const SectionBinding&>(binding), node);
      return node;
    case ConfigBinding::Kind::kOneOf: {
      const auto& one_of = static_cast<const OneOfBinding&>(binding);
      node.kind = ConfigNode::Kind::kMap;
      ConfigNode name;
      name.kind = ConfigNode::Kind::kScalar;
      name.scalar = one_of.names().at(one_of.index());
      name.quoted = true;
      node.add(std::string(one_of.tag()), std::move(name));
      add_fields(*one_of.chosen(), node);
      return node;
    }
    case ConfigBinding::Kind::kTree:
      node = static_cast<const TreeBinding&>(binding).target.root;
      node.kind = ConfigNode::Kind::kMap;
      return node;
  }
  return node;
}

std::string describe_range(const FieldOptions& options) {
  if (options.min && options.max) {
    return fmt::format("in {}{}, {}{}", options.exclusive_min ? '(' : '[', *options.min,
                       *options.max, options.exclusive_max ? ')' : ']');
  }
  if (options.min) return fmt::format("{} {}", options.exclusive_min ? ">" : ">=", *options.min);
  if (options.max) return fmt::format("{} {}", options.exclusive_max ? "<" : "<=", *options.max);
  return "";
}

bool is_in_range(double value, const FieldOptions& options) {
  if (options.min && (options.exclusive_min ? value <= *options.min : value < *options.min))
    return false;
  if (options.max && (options.exclusive_max ? value >= *options.max : value > *options.max))
    return false;
  return true;
}

FieldOptions bounded(const ScalarBinding& number, FieldOptions options) {
  const bool is_integer = std::holds_alternative<int64_t*>(number.target);
  if (!is_integer && !std::holds_alternative<double*>(number.target)) return options;
  using Integers = std::numeric_limits<int32_t>;
  if (!options.min) options.min = is_integer ? Integers::min() : -1e30;
  if (!options.max) options.max = is_integer ? Integers::max() : 1e30;
  return options;
}

std::string describe_type(const ConfigBinding& binding, const FieldOptions& options, bool plural) {
  switch (binding.kind()) {
    case ConfigBinding::Kind::kScalar:
      return scalar_type(static_cast<const ScalarBinding&>(binding), plural);
    case ConfigBinding::Kind::kOptional: {
      const ConfigPrototype inner = static_cast<const OptionalBinding&>(binding).prototype();
      return describe_type(*inner.binding, options, plural) + " or " +
             (options.null_word.empty() ? "null" : options.null_word);
    }
    case ConfigBinding::Kind::kList: {
      const ConfigPrototype element = static_cast<const ListBinding&>(binding).prototype();
      return (options.one_is_list ? describe_type(*element.binding, {}, plural) + " or " : "") +
             (plural ? "lists of " : "list of ") + describe_type(*element.binding, options, true);
    }
    case ConfigBinding::Kind::kMap:
      return (plural ? "maps of names to " : "map of names to ") +
             describe_type(*static_cast<const MapBinding&>(binding).prototype().binding, options,
                           true);
    case ConfigBinding::Kind::kSection:
      return plural ? "sections" : "section";
    case ConfigBinding::Kind::kOneOf:
      return plural ? "alternatives" : "alternative";
    case ConfigBinding::Kind::kTree:
      return plural ? "maps of keys" : "map of keys";
  }
  return "";
}

std::string describe_expected(const ConfigBinding& binding, const FieldOptions& options) {
  const auto kind = binding.kind();
  if (kind == ConfigBinding::Kind::kSection) return "a map of keys";
  if (kind == ConfigBinding::Kind::kOneOf) {
    const auto& one_of = static_cast<const OneOfBinding&>(binding);
    return fmt::format("a map with `{}`, one of {}", one_of.tag(), join(one_of.names()));
  }
  if (!options.choices.empty() && kind == ConfigBinding::Kind::kScalar) {
    return "one of " + join(options.choices);
  }
  std::string type = describe_type(binding, options);
  if (type == "boolean") return "true or false";
  const std::string range = describe_range(options);
  const bool vowel = type.front() == 'i' || type.front() == 'a';
  return (vowel ? "an " : "a ") + type + (range.empty() ? "" : " " + range);
}

std::string join(const std::vector<std::string>& words, std::string_view separator) {
  std::string out;
  for (const auto& word : words) {
    if (&word != &words.front()) out += separator;
    out += word.empty() ? "''" : word;
  }
  return out;
}

std::string join_key(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

}  // namespace fovea::detail
