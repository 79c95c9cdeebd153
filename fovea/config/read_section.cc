#include <fmt/format.h>

#include <algorithm>

#include "fovea/config/describe.h"
#include "fovea/config/merge.h"
#include "fovea/config/read.h"
#include "fovea/core/log.h"
#include "fovea/core/nearest.h"

namespace fovea::detail {
namespace {

std::vector<std::string> field_names(const std::vector<ConfigField>& fields) {
  std::vector<std::string> names;
  for (const auto& field : fields) names.push_back(field.name);
  return names;
}

}  // namespace

// Of keys that exclude each other the command line's stands; those of the recipe are left out, and
// that is said.
std::set<std::string> ConfigReader::displaced_fields(const std::vector<ConfigField>& fields,
                                                     const ConfigNode& node,
                                                     const std::string& key) const {
  std::set<std::string> displaced;
  for (const auto& field : fields) {
    const auto* chosen = node.find(field.name);
    if (!chosen || faults_.is_of_file(chosen->origin) || says_nothing(*chosen)) continue;
    for (const auto& name : field.options.instead_of) {
      const auto* other = node.find(name);
      if (!other || !faults_.is_of_file(other->origin)) continue;
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
      faults_.mark_unread(field_key);
      faults_.add(faults_.origin_of(key), field_key,
                  fmt::format("missing; expected {}: {}",
                              describe_expected(*field.binding, field.options), field.help));
    } else {
      read_absent(*field.binding, field_key);
    }
  }
  if (node) report_unknown_keys(section, *node, key, owner);
  ConfigIssues issues;
  section.validate(issues);
  faults_.add_issues(key, issues);
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
  faults_.mark_unread(preset_key);
  faults_.add(preset->origin, preset_key,
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
    if (faults_.is_full()) {
      faults_.count_unnamed();
      continue;
    }
    faults_.add(node.children[i].origin, join_key(key, node.keys[i]),
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
      faults_.mark_unread(join_key(key, guess));
    }
  }
  return message + elsewhere + (elsewhere.empty() || elsewhere.back() != '?' ? "; " : " ") +
         "known keys: " + join(known);
}

}  // namespace fovea::detail
