#include "fovea/config/read.h"

#include <fmt/format.h>

#include <algorithm>

#include "fovea/config/describe.h"
#include "fovea/config/merge.h"
#include "fovea/core/nearest.h"

namespace fovea::detail {
namespace {

constexpr int64_t kMaxListPatch = 1'000'000;

}  // namespace

ConfigReader::ConfigReader(std::string source, const SectionBinding& config)
    : faults_(std::move(source)), config_(config) {}

void ConfigReader::expected(const ConfigBinding& binding, const FieldOptions& options,
                            const ConfigNode& node, const std::string& key) {
  faults_.mark_unread(key);
  faults_.add(node.origin, key,
              fmt::format("found {}, expected {}", describe_node(node),
                          describe_expected(binding, options)));
}

void ConfigReader::read_root(const SectionBinding& config, const ConfigNode& root) {
  read_section(config, &root, "");
}

void ConfigReader::read(const ConfigBinding& binding, const FieldOptions& options,
                        const ConfigNode& node, const std::string& key) {
  faults_.set_origin(key, node.origin);
  switch (binding.kind()) {
    case ConfigBinding::Kind::kScalar:
      return read_scalar(static_cast<const ScalarBinding&>(binding), options, node, key);
    case ConfigBinding::Kind::kOptional:
      return read_optional(static_cast<const OptionalBinding&>(binding), options, node, key);
    case ConfigBinding::Kind::kList:
      return read_list(static_cast<const ListBinding&>(binding), options, node, key);
    case ConfigBinding::Kind::kMap:
      return read_map(static_cast<const MapBinding&>(binding), options, node, key);
    case ConfigBinding::Kind::kSection:
      return read_section(static_cast<const SectionBinding&>(binding), &node, key);
    case ConfigBinding::Kind::kOneOf:
      return read_one_of(static_cast<const OneOfBinding&>(binding), node, key);
    case ConfigBinding::Kind::kTree:
      return read_tree(static_cast<const TreeBinding&>(binding), node, key);
  }
}

void ConfigReader::read_optional(const OptionalBinding& optional, const FieldOptions& options,
                                 const ConfigNode& node, const std::string& key) {
  const bool plain = node.kind == ConfigNode::Kind::kScalar && !node.quoted;
  if (node.kind == ConfigNode::Kind::kNull || (plain && node.scalar == options.null_word)) {
    return optional.reset();
  }
  const size_t faults_before = faults_.count();
  ConfigBindingPtr value = node.patch ? optional.value() : nullptr;
  if (!value) value = optional.emplace();
  if (value->kind() == ConfigBinding::Kind::kScalar) {
    // Say of an optional that it may be left empty: re-word the fault of the value inside.
    const ConfigPrototype probe = optional.prototype();
    ConfigReader quiet(faults_.source(), config_);
    quiet.read(*probe.binding, options, node, key);
    if (quiet.faults_.count() > 0 && options.choices.empty()) {
      const auto& scalar = static_cast<const ScalarBinding&>(*probe.binding);
      return expected(optional, range_to_name(scalar, options, node), node, key);
    }
  }
  read(*value, options, node, key);
  if (faults_.count() > faults_before) faults_.mark_unread(key);
}

void ConfigReader::read_list(const ListBinding& list, const FieldOptions& options,
                             const ConfigNode& node, const std::string& key) {
  if (node.kind == ConfigNode::Kind::kMap && node.patch)
    return patch_list(list, options, node, key);
  if (options.one_is_list && node.kind == ConfigNode::Kind::kScalar) {
    list.clear();
    return read(*list.append(), options, node, key);
  }
  if (node.kind != ConfigNode::Kind::kList) return expected(list, options, node, key);
  list.clear();
  for (size_t i = 0; i < node.children.size(); ++i) {
    const ConfigNode& child = node.children[i];
    const std::string child_key = join_key(key, fmt::format("{}", i));
    const ConfigBindingPtr element = list.append();
    if (element->kind() == ConfigBinding::Kind::kOneOf && child.kind == ConfigNode::Kind::kMap &&
        child.scalar.empty()) {
      const auto& one_of = static_cast<const OneOfBinding&>(*element);
      if (child.find(one_of.tag()) == nullptr) {
        faults_.mark_unread(child_key);
        faults_.add(child.origin, child_key,
                    fmt::format("found a map without `{}`, expected {}", one_of.tag(),
                                describe_expected(one_of, options)));
        continue;
      }
    }
    read(*element, options, child, child_key);
  }
}

// `transforms.0.size=32` on the command line, for a list that the recipe does not give: its default
// is changed.
void ConfigReader::patch_list(const ListBinding& list, const FieldOptions& options,
                              const ConfigNode& node, const std::string& key) {
  for (size_t i = 0; i < node.keys.size(); ++i) {
    const auto index = to_integer(node.keys[i]);
    if (!index || *index < 0 || *index > kMaxListPatch ||
        static_cast<size_t>(*index) >= list.size()) {
      faults_.mark_unread(key);
      faults_.add(
          node.children[i].origin, key,
          fmt::format("found '{}' as the index into a list of {}; write the whole list, {}=[...]",
                      printable_start(node.keys[i]), list.size(), key));
      continue;
    }
    read(*list.at(static_cast<size_t>(*index)), options, node.children[i],
         join_key(key, node.keys[i]));
  }
}

void ConfigReader::read_map(const MapBinding& map, const FieldOptions& options,
                            const ConfigNode& node, const std::string& key) {
  if (node.kind != ConfigNode::Kind::kMap) return expected(map, options, node, key);
  if (!node.patch) map.clear();
  for (size_t i = 0; i < node.keys.size(); ++i) {
    read(*map.at(node.keys[i]), options, node.children[i], join_key(key, node.keys[i]));
  }
}

void ConfigReader::read_tree(const TreeBinding& tree, const ConfigNode& node,
                             const std::string& key) {
  if (node.kind == ConfigNode::Kind::kNull) {
    tree.target = {};
    return;
  }
  if (node.kind != ConfigNode::Kind::kMap) return expected(tree, {}, node, key);
  if (node.patch && !tree.target.empty()) {
    for (size_t i = 0; i < node.keys.size(); ++i) {
      put_value(tree.target.root, node.keys[i], node.children[i]);
    }
  } else {
    tree.target.root = node;
  }
  quote_words(tree.target.root);
}

bool ConfigReader::select_alternative(const OneOfBinding& one_of, const ConfigNode& node,
                                      const std::string& key) {
  const std::string tag(one_of.tag());
  const ConfigNode* named = node.kind == ConfigNode::Kind::kMap ? node.find(tag) : &node;
  const bool short_form = node.kind == ConfigNode::Kind::kMap && !named && !node.scalar.empty();
  if (!named && !short_form) return true;
  const std::string name_key = node.kind == ConfigNode::Kind::kMap ? join_key(key, tag) : key;
  if (named && named->kind != ConfigNode::Kind::kScalar) {
    faults_.mark_unread(name_key);
    faults_.add(
        named->origin, name_key,
        fmt::format("found {}, expected one of {}", describe_node(*named), join(one_of.names())));
    return false;
  }
  const std::string name = named ? named->scalar : node.scalar;
  const auto names = one_of.names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    faults_.mark_unread(name_key);
    faults_.add((named ? *named : node).origin, name_key,
                fmt::format("found '{}', expected one of {}{}", printable_start(name), join(names),
                            or_did_you_mean(name, names)));
    return false;
  }
  const auto index = static_cast<size_t>(found - names.begin());
  if (index != one_of.index()) one_of.select(index);
  if (named) faults_.set_origin(name_key, named->origin);
  return true;
}

void ConfigReader::read_one_of(const OneOfBinding& one_of, const ConfigNode& node,
                               const std::string& key) {
  if (node.kind != ConfigNode::Kind::kMap && node.kind != ConfigNode::Kind::kScalar) {
    return expected(one_of, {}, node, key);
  }
  if (!select_alternative(one_of, node, key)) return;
  const bool is_map = node.kind == ConfigNode::Kind::kMap;
  read_section(*one_of.chosen(), is_map ? &node : nullptr, key, &one_of);
}

}  // namespace fovea::detail
