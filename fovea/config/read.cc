#include "fovea/config/read.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "fovea/config/describe.h"
#include "fovea/config/merge.h"
#include "fovea/core/error.h"
#include "fovea/core/log.h"
#include "fovea/core/nearest.h"

namespace fovea::detail {
namespace {

constexpr size_t kMaxFaults = 100;
constexpr int64_t kMaxListPatch = 1'000'000;

std::optional<double> to_double(std::string_view text) {
  if (number_form(text) == NumberForm::kNone) return std::nullopt;
  if (text.front() == '+') text.remove_prefix(1);
  if (text == ".inf") return INFINITY;
  if (text == "-.inf") return -INFINITY;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Also "1e6" and "2.0": what is a whole number in any spelling.
std::optional<int64_t> to_integer(std::string_view text) {
  if (number_form(text) == NumberForm::kInteger) {
    if (text.front() == '+') text.remove_prefix(1);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
  }
  const auto real = to_double(text);
  constexpr double kExact = 9007199254740992.0;  // 2^53
  if (!real || !(std::abs(*real) <= kExact) || std::floor(*real) != *real) return std::nullopt;
  return static_cast<int64_t>(*real);
}

std::vector<std::string> field_names(const std::vector<ConfigField>& fields) {
  std::vector<std::string> names;
  for (const auto& field : fields) names.push_back(field.name);
  return names;
}

bool contains_word(std::string_view text, std::string_view word) {
  const auto is_name = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_';
  };
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    const size_t end = at + word.size();
    if ((at == 0 || !is_name(text[at - 1])) && (end == text.size() || !is_name(text[end])))
      return true;
  }
  return false;
}

// Of a number that is out of range: the ends that the field names, where it is out of these.
FieldOptions range_to_name(const ScalarBinding& number, const FieldOptions& options,
                           const ConfigNode& node) {
  const bool is_plain = node.kind == ConfigNode::Kind::kScalar && !node.quoted;
  const auto value = is_plain ? to_double(node.scalar) : std::nullopt;
  return value && is_in_range(*value, options) ? bounded(number, options) : options;
}

}  // namespace

ConfigReader::ConfigReader(std::string source, const SectionBinding& config)
    : source_{std::make_shared<const std::string>(std::move(source)), 0}, config_(config) {}

void ConfigReader::add_fault(const ConfigOrigin& origin, const std::string& key,
                             const std::string& message) {
  if (++num_faults_ > kMaxFaults) return;
  faults_.push_back({origin, fmt::format("{}: {}{}{}", origin.text(), printable_start(key, 200),
                                         key.empty() ? "" : ": ", message)});
}

void ConfigReader::expected(const ConfigBinding& binding, const FieldOptions& options,
                            const ConfigNode& node, const std::string& key) {
  faulty_keys_.push_back(key);
  add_fault(node.origin, key,
            fmt::format("found {}, expected {}", describe_node(node),
                        describe_expected(binding, options)));
}

ConfigOrigin ConfigReader::origin_of(const std::string& key) const {
  for (std::string prefix = key; !prefix.empty();) {
    const auto found = origins_.find(prefix);
    if (found != origins_.end()) return found->second;
    const size_t dot = prefix.rfind('.');
    prefix.resize(dot == std::string::npos ? 0 : dot);
  }
  return source_;
}

bool ConfigReader::is_of_file(const ConfigOrigin& origin) const {
  return !origin.source || *origin.source == *source_.source;
}

void ConfigReader::throw_faults() {
  if (faults_.empty()) return;
  std::stable_sort(faults_.begin(), faults_.end(), [&](const ConfigFault& a, const ConfigFault& b) {
    const auto rank = [&](const ConfigFault& fault) {
      const bool in_file = is_of_file(fault.origin);
      return std::pair(in_file ? 0 : 1, in_file ? fault.origin.line : 0);
    };
    return rank(a) < rank(b);
  });
  std::string message;
  for (const auto& fault : faults_) message += (message.empty() ? "" : "\n") + fault.text;
  if (num_faults_ > kMaxFaults)
    message += fmt::format("\nand {} more faults", num_faults_ - kMaxFaults);
  throw ConfigError(message);
}

void ConfigReader::read_root(const SectionBinding& config, const ConfigNode& root) {
  read_section(config, &root, "");
}

void ConfigReader::read(const ConfigBinding& binding, const FieldOptions& options,
                        const ConfigNode& node, const std::string& key) {
  origins_[key] = node.origin;
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
    faulty_keys_.push_back(key);
    return add_fault(node.origin, key,
                     fmt::format("found {}, expected one of {}{}", describe_node(node),
                                 join(choices), or_did_you_mean(node.scalar, choices)));
  }
  target = node.scalar;
}

void ConfigReader::read_optional(const OptionalBinding& optional, const FieldOptions& options,
                                 const ConfigNode& node, const std::string& key) {
  const bool plain = node.kind == ConfigNode::Kind::kScalar && !node.quoted;
  if (node.kind == ConfigNode::Kind::kNull || (plain && node.scalar == options.null_word)) {
    return optional.reset();
  }
  const size_t faults_before = num_faults_;
  ConfigBindingPtr value = node.patch ? optional.value() : nullptr;
  if (!value) value = optional.emplace();
  if (value->kind() == ConfigBinding::Kind::kScalar) {
    // Say of an optional that it may be left empty: re-word the fault of the value inside.
    const ConfigPrototype probe = optional.prototype();
    ConfigReader quiet(*source_.source, config_);
    quiet.read(*probe.binding, options, node, key);
    if (quiet.num_faults_ > 0 && options.choices.empty()) {
      const auto& scalar = static_cast<const ScalarBinding&>(*probe.binding);
      return expected(optional, range_to_name(scalar, options, node), node, key);
    }
  }
  read(*value, options, node, key);
  if (num_faults_ > faults_before) faulty_keys_.push_back(key);
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
        faulty_keys_.push_back(child_key);
        add_fault(child.origin, child_key,
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
      faulty_keys_.push_back(key);
      add_fault(
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
    faulty_keys_.push_back(name_key);
    add_fault(
        named->origin, name_key,
        fmt::format("found {}, expected one of {}", describe_node(*named), join(one_of.names())));
    return false;
  }
  const std::string name = named ? named->scalar : node.scalar;
  const auto names = one_of.names();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end()) {
    faulty_keys_.push_back(name_key);
    add_fault((named ? *named : node).origin, name_key,
              fmt::format("found '{}', expected one of {}{}", printable_start(name), join(names),
                          or_did_you_mean(name, names)));
    return false;
  }
  const auto index = static_cast<size_t>(found - names.begin());
  if (index != one_of.index()) one_of.select(index);
  if (named) origins_[name_key] = named->origin;
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

// Of keys that exclude each other the command line's stands; those of the recipe are left out, and
// that is said.
std::set<std::string> ConfigReader::displaced_fields(const std::vector<ConfigField>& fields,
                                                     const ConfigNode& node,
                                                     const std::string& key) const {
  std::set<std::string> displaced;
  for (const auto& field : fields) {
    const auto* chosen = node.find(field.name);
    if (!chosen || is_of_file(chosen->origin) || says_nothing(*chosen)) continue;
    for (const auto& name : field.options.instead_of) {
      const auto* other = node.find(name);
      if (!other || !is_of_file(other->origin)) continue;
      displaced.insert(name);
      if (says_nothing(*other)) continue;
      log_info(fmt::format("{}={} takes the place of {}: {} ({})", join_key(key, field.name),
                           emit_yaml_flow(*chosen), name, emit_yaml_flow(*other),
                           other->origin.text()));
    }
  }
  return displaced;
}

// A section that the recipe leaves out may still have keys that must be given.
void ConfigReader::read_absent(const ConfigBinding& binding, const std::string& key) {
  if (binding.kind() == ConfigBinding::Kind::kSection) {
    read_section(static_cast<const SectionBinding&>(binding), nullptr, key);
  } else if (binding.kind() == ConfigBinding::Kind::kOneOf) {
    const auto& one_of = static_cast<const OneOfBinding&>(binding);
    read_section(*one_of.chosen(), nullptr, key, &one_of);
  }
}

void ConfigReader::read_section(const SectionBinding& section, const ConfigNode* node,
                                const std::string& key, const OneOfBinding* owner) {
  if (node && node->kind != ConfigNode::Kind::kMap) return expected(section, {}, *node, key);
  if (node) read_preset(section, *node, key);
  const auto fields = section.fields();
  const auto displaced = node ? displaced_fields(fields, *node, key) : std::set<std::string>();
  for (const ConfigField& field : fields) {
    const std::string field_key = join_key(key, field.name);
    const bool is_given = node && !displaced.contains(field.name);
    if (const ConfigNode* child = is_given ? node->find(field.name) : nullptr) {
      read(*field.binding, field.options, *child, field_key);
    } else if (field.options.required) {
      faulty_keys_.push_back(field_key);
      add_fault(origin_of(key), field_key,
                fmt::format("missing; expected {}: {}",
                            describe_expected(*field.binding, field.options), field.help));
    } else {
      read_absent(*field.binding, field_key);
    }
  }
  if (node) report_unknown_keys(section, *node, key, owner);
  validate(section, key);
}

void ConfigReader::read_preset(const SectionBinding& section, const ConfigNode& node,
                               const std::string& key) {
  const ConfigNode* preset = section.has_presets() ? node.find("preset") : nullptr;
  if (!preset || preset->kind == ConfigNode::Kind::kNull) return;
  const std::string preset_key = join_key(key, "preset");
  if (preset->kind == ConfigNode::Kind::kScalar) {
    if (preset->scalar.empty() || section.apply_preset(preset->scalar)) return;
  }
  const auto names = section.preset_names();
  faulty_keys_.push_back(preset_key);
  add_fault(preset->origin, preset_key,
            fmt::format("found {}, expected one of {}{}", describe_node(*preset), join(names),
                        or_did_you_mean(preset->scalar, names)));
}

void ConfigReader::report_unknown_keys(const SectionBinding& section, const ConfigNode& node,
                                       const std::string& key, const OneOfBinding* owner) {
  std::vector<std::string> known = field_names(section.fields());
  if (section.has_presets() && std::find(known.begin(), known.end(), "preset") == known.end()) {
    known.insert(known.begin(), "preset");
  }
  if (owner) known.insert(known.begin(), std::string(owner->tag()));
  const std::set<std::string> lookup(known.begin(), known.end());
  for (size_t i = 0; i < node.keys.size(); ++i) {
    if (lookup.count(node.keys[i])) continue;
    if (num_faults_ >= kMaxFaults) {
      ++num_faults_;
      continue;
    }
    add_fault(node.children[i].origin, join_key(key, node.keys[i]),
              unknown_key_message(node.keys[i], known, key, owner));
  }
}

std::string ConfigReader::unknown_key_message(const std::string& name,
                                              const std::vector<std::string>& known,
                                              const std::string& key, const OneOfBinding* owner) {
  std::string message = "unknown key";
  std::string elsewhere;
  if (owner) {
    const auto names = owner->names();
    message +=
        fmt::format(" of {}={}", join_key(key, std::string(owner->tag())), names[owner->index()]);
    for (size_t i = 0; i < names.size(); ++i) {
      const ConfigPrototype other = owner->prototype(i);
      const auto fields = field_names(static_cast<const SectionBinding&>(*other.binding).fields());
      if (std::find(fields.begin(), fields.end(), name) != fields.end()) {
        elsewhere = fmt::format("; it belongs to {}={}", join_key(key, std::string(owner->tag())),
                                names[i]);
      }
    }
  }
  if (elsewhere.empty()) {
    std::vector<std::string> all_keys;  // listed here alone: it takes longer than reading does
    for (auto& each : list_keys(config_)) all_keys.push_back(std::move(each.key));
    const std::string guess = nearest_key(name, known, all_keys);
    if (!guess.empty()) elsewhere = fmt::format("; did you mean {}?", guess);
    if (std::find(known.begin(), known.end(), guess) != known.end()) {
      faulty_keys_.push_back(join_key(key, guess));
    }
  }
  return message + elsewhere + (elsewhere.empty() || elsewhere.back() != '?' ? "; " : " ") +
         "known keys: " + join(known);
}

void ConfigReader::validate(const SectionBinding& section, const std::string& key) {
  ConfigIssues issues;
  section.validate(issues);
  for (const auto& [name, message] : issues.all()) {
    if (concerns_fault(key, name, message)) continue;
    const std::string full = join_key(key, name);
    add_fault(origin_of(full), full, message);
  }
}

// A check across fields must not speak of a value that was never read: its fault is already
// reported.
bool ConfigReader::concerns_fault(const std::string& section_key, const std::string& issue_key,
                                  const std::string& message) const {
  const std::string full = join_key(section_key, issue_key);
  return std::any_of(faulty_keys_.begin(), faulty_keys_.end(), [&](const std::string& faulty) {
    if (full == faulty || full.starts_with(faulty + ".") || faulty.starts_with(full + "."))
      return true;
    if (!section_key.empty() && !faulty.starts_with(section_key + ".")) return false;
    const size_t dot = faulty.rfind('.');
    return contains_word(message, dot == std::string::npos ? faulty : faulty.substr(dot + 1));
  });
}

}  // namespace fovea::detail
