#include "fovea/recipe_import/importer.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <optional>
#include <utility>

#include "fovea/core/error.h"
#include "fovea/core/parse_number.h"

namespace fovea::recipe_import {
namespace {

bool is_null(const ConfigNode& node) {
  return node.kind == ConfigNode::Kind::kNull ||
         (node.kind == ConfigNode::Kind::kScalar && !node.quoted &&
          (node.scalar == "null" || node.scalar == "None" || node.scalar == "~"));
}

// What YAML 1.1 takes for a truth value, which PyYAML and so the other systems read; argparse's 1
// and 0 are numbers there.
std::optional<bool> truth_of(const ConfigNode& node) {
  if (node.kind != ConfigNode::Kind::kScalar || node.quoted) return {};
  std::string text = node.scalar;
  for (auto& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (text == "true" || text == "yes" || text == "on") return true;
  if (text == "false" || text == "no" || text == "off") return false;
  return {};
}

}  // namespace

double as_number(const std::string& key, const ConfigNode& node) {
  const auto value = parse_number<double>(node.scalar);
  if (node.kind != ConfigNode::Kind::kScalar || !value) {
    fail<ConfigError>("{}: {} is {}; expected a number", node.origin.text(), key,
                      describe_node(node));
  }
  return *value;
}

namespace {

// What a value is in a recipe: other systems write True and 1e-3 as YAML does not read them.
ConfigNode normalised(ConfigNode node) {
  if (is_null(node)) node = ConfigNode{};
  if (const auto truth = truth_of(node)) node.scalar = *truth ? "true" : "false";
  for (auto& child : node.children) child = normalised(std::move(child));
  return node;
}

}  // namespace

Importer::Importer(Settings settings, const ImportOptions& options)
    : settings_(std::move(settings.values)),
      unknown_(std::move(settings.unknown)),
      options_(options) {
  recipe_.kind = ConfigNode::Kind::kMap;
}

const ConfigNode* Importer::find(const std::string& key) const {
  const auto* node = settings_.find(key);
  return node == nullptr || is_null(*node) ? nullptr : node;
}

bool Importer::has(const std::string& key) const { return find(key) != nullptr; }

std::string Importer::text(const std::string& key, const std::string& otherwise) const {
  const auto* node = find(key);
  return node != nullptr && node->kind == ConfigNode::Kind::kScalar ? node->scalar : otherwise;
}

double Importer::number(const std::string& key, double otherwise) const {
  const auto* node = find(key);
  return node == nullptr ? otherwise : as_number(key, *node);
}

bool Importer::flag(const std::string& key, bool otherwise) const {
  const auto* node = find(key);
  if (node == nullptr || node->scalar.empty()) return otherwise;
  if (const auto truth = truth_of(*node)) return *truth;
  if (node->scalar == "1" || node->scalar == "0") return node->scalar == "1";
  fail<ConfigError>("{}: {} is {}; expected true or false", node->origin.text(), key,
                    describe_node(*node));
}

std::vector<double> Importer::numbers(const std::string& key, std::vector<double> otherwise) const {
  const auto* node = find(key);
  if (node == nullptr) return otherwise;
  if (node->kind != ConfigNode::Kind::kList) return {as_number(key, *node)};
  std::vector<double> values;
  for (const auto& child : node->children) values.push_back(as_number(key, child));
  return values;
}

std::string Importer::unknown(const std::string& key) const {
  for (const auto& setting : unknown_) {
    if (setting.key == key) return setting.unknown;
  }
  return "";
}

void Importer::set(const std::string& target, const std::string& yaml) {
  apply_override(recipe_, target + "=" + yaml);
}

void Importer::set(const std::string& target, double value) {
  set(target, fmt::format("{}", value));
}

void Importer::set(const std::string& target, const ConfigNode& value) {
  set(target, emit_yaml_flow(normalised(value)));
}

void Importer::set_text(const std::string& target, const std::string& text) {
  ConfigNode node;
  node.kind = ConfigNode::Kind::kScalar;
  node.scalar = text;
  node.quoted = true;
  set(target, emit_yaml_flow(node));
}

void Importer::add_row(ImportOutcome outcome, const std::string& target, const std::string& note) {
  const auto* value = settings_.find(key_);
  rows_.push_back(
      {key_, printable_start(value ? emit_yaml_flow(*value) : "", 60), outcome, target, note});
}

void Importer::mapped(const std::string& target, const std::string& note) {
  add_row(ImportOutcome::kMapped, target, note);
}

void Importer::changed(const std::string& target, const std::string& note) {
  add_row(ImportOutcome::kChanged, target, note);
}

void Importer::refused(const std::string& why) { add_row(ImportOutcome::kRefused, "", why); }

void Importer::apply(const ImportRules& rules) {
  const auto count = [&](const std::string& key) {
    num_known_ += !key.starts_with("positional") && rules.contains(key) ? 1 : 0;
  };
  for (const auto& [key, value, unknown] : unknown_) {
    count(key);
    const auto note = fmt::format("{} has no value in the file; left out{}", unknown,
                                  key.starts_with("launch.") ? "; --gpus says how many processes"
                                                             : ", as if it were not given");
    rows_.push_back({key, printable_start(value, 60), ImportOutcome::kRefused, "", note});
  }
  for (size_t i = 0; i < settings_.keys.size(); ++i) {
    key_ = settings_.keys[i];
    count(key_);
    const auto& value = settings_.children[i];
    const auto found = rules.find(key_);
    const auto before = rows_.size();
    if (found == rules.end() && key_.starts_with("launch.")) {
      refused("the launcher's matter, not the recipe's");
    } else if (found == rules.end()) {
      refused("no key of this system that is known here");
    } else if (found->second.apply) {
      found->second.apply(*this, key_, value);
    } else if (found->second.target.empty()) {
      refused(found->second.note);
    } else if (is_null(value)) {
      mapped(found->second.target, "the default");
    } else {
      set(found->second.target, value);
      found->second.note.empty() ? mapped(found->second.target)
                                 : changed(found->second.target, found->second.note);
    }
    FOVEA_CHECK(rows_.size() == before + 1, "key {} has {} rows; expected one", key_,
                rows_.size() - before);
  }
}

ImportedRecipe Importer::finish() && {
  return {emit_yaml(recipe_), std::move(rows_), std::move(remark_)};
}

ImportRule to(const std::string& target, const std::string& note) { return {target, note, {}}; }

ImportRule refuse(const std::string& why) { return {"", why, {}}; }

ImportRule refuse_unless(const std::string& harmless, const std::string& why) {
  return {"", why, [=](Importer& importer, const std::string&, const ConfigNode& value) {
            const auto found = emit_yaml_flow(normalised(value));
            if (is_null(value) || found == harmless || value.scalar == harmless ||
                found == "\"\"" || (value.quoted && value.scalar.empty())) {
              importer.mapped("", "off, as here");
            } else {
              importer.refused(why);
            }
          }};
}

ImportRule always(const std::string& there, const std::string& why) {
  return {"", why, [=](Importer& importer, const std::string&, const ConfigNode& value) {
            const auto found = emit_yaml_flow(normalised(value));
            is_null(value) || found == there || value.scalar == there ? importer.mapped("", why)
                                                                      : importer.refused(why);
          }};
}

ImportRule needless(const std::string& why) {
  return {"", why, [=](Importer& importer, const std::string&, const ConfigNode&) {
            importer.mapped("", why);
          }};
}

ImportRule part_of(const std::string& target, const std::string& note) {
  return {target, note, [=](Importer& importer, const std::string&, const ConfigNode&) {
            note.empty() ? importer.mapped(target) : importer.changed(target, note);
          }};
}

void set_shards(Importer& importer, const std::string& key) {
  const double shards = importer.number(key, 1);
  const auto processes = static_cast<double>(importer.options().num_gpus);
  if (shards <= 1 || std::fmod(processes, shards) != 0) return;
  importer.set("parallel.dp_shard", shards);
}

}  // namespace fovea::recipe_import
