#include "fovea/train/recipe/weights_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/log.h"
#include "fovea/core/parse_number.h"
#include "fovea/files/lines.h"
#include "fovea/weights/read_weights.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigKey = "fovea.config";
constexpr const char* kClassesKey = "fovea.class_names";
constexpr uint64_t kMostNameBytes = 16 << 20;
constexpr int kMostNameDepth = 16;  // of Hugging Face's config.json

// Parts of a key's last word, or whole words, that say nothing of what a trained model computes.
constexpr std::string_view kFreeParts[] = {
    "drop",       "pretrained",   "preset",          "weight_init", "fix_init",
    "img_size",   "in_chans",     "num_classes",     "dynamic_img", "crop_to_patches",
    "mask_ratio", "fixed_length", "pos_embed_interp"};

bool is_free_of_model(const std::string& key) {
  if (key.find(".input.") != key.npos) return true;
  const auto last = key.substr(key.rfind('.') + 1);
  return std::any_of(std::begin(kFreeParts), std::end(kFreeParts),
                     [&](std::string_view part) { return last.find(part) != last.npos; });
}

struct ModelAlone {
  models::ModelConfig model;

  template <class Visitor, class Self>
  static void visit(Visitor& v, Self& self) {
    v.field("model", self.model, "the model");
  }
};

// {"0": "cat", "1": "dog"}, as id2label of Hugging Face; of ImageNet's list, {"0": ["n01440764",
// "tench"]}, the last word.
std::vector<std::string> names_of_map(const JsonValue& map) {
  std::map<size_t, std::string> by_number;
  for (const auto& [key, value] : map.members()) {
    const auto number = parse_number<size_t>(key);
    if (!number) map.refuse("numbers of classes as keys");
    const bool is_list = value.raw().is_array() && !value.raw().empty();
    by_number[*number] = is_list ? value.texts().back() : value.text();
  }
  std::vector<std::string> names;
  for (const auto& [number, name] : by_number) {
    if (number != names.size()) map.refuse("each number from 0 on once");
    names.push_back(name);
  }
  return names;
}

// timm's label_names may be synsets, which label_descriptions has words for.
std::vector<std::string> described(std::vector<std::string> names,
                                   const std::optional<JsonValue>& descriptions) {
  if (!descriptions || !descriptions->raw().is_object()) return names;
  for (auto& name : names) {
    const auto found = descriptions->find(name);
    if (found && found->raw().is_string()) name = found->text();
  }
  return names;
}

std::vector<std::string> names_of_json(const std::string& path) {
  const auto parsed = parse_json(read_file(path, kMostNameBytes), path, kMostNameDepth);
  const JsonValue value(parsed, path);
  if (parsed.is_array()) return value.texts();
  if (const auto labels = value.find("id2label")) return names_of_map(*labels);
  if (const auto labels = value.find("label_names")) {
    return described(labels->texts(), value.find("label_descriptions"));
  }
  return names_of_map(value);
}

std::vector<std::string> names_of_text(const std::string& path) {
  constexpr uint64_t kMostLineBytes = 1 << 12;
  LineReader lines(path, kMostLineBytes);
  std::vector<std::string> names;
  for (std::string line; lines.next(line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) names.push_back(line);
  }
  return names;
}

}  // namespace

Metadata own_metadata(const TrainConfig& config, const std::vector<std::string>& class_names) {
  return {{kConfigKey, dump_config(config)}, {kClassesKey, json_text(nlohmann::json(class_names))}};
}

std::optional<TrainConfig> config_of(const Metadata& metadata, const std::string& path,
                                     const std::vector<std::string>& overrides) {
  const auto yaml = metadata.find(kConfigKey);
  if (yaml == metadata.end()) return std::nullopt;
  return parse_config<TrainConfig>(yaml->second, path + " (its config)", overrides);
}

std::vector<std::string> class_names_of(const Metadata& metadata, const std::string& path) {
  const auto names = metadata.find(kClassesKey);
  if (names == metadata.end()) return {};
  const auto source = fmt::format("{}: {}", path, kClassesKey);
  const auto list = parse_json(names->second, source, /*max_depth=*/2);
  return JsonValue(list, source).texts();
}

std::vector<std::string> model_differences(const models::ModelConfig& of_file,
                                           const models::ModelConfig& here) {
  std::vector<std::string> differences;
  if (of_file.name() != here.name()) return differences;  // the parts that both have are loaded
  for (const auto& change : config_diff(ModelAlone{of_file}, ModelAlone{here})) {
    if (!change.a || !change.b || is_free_of_model(change.key)) continue;
    differences.push_back(
        fmt::format("{}: {} in the file, {} here", change.key, *change.a, *change.b));
  }
  return differences;
}

std::vector<std::string> differences_of_weights(const std::string& path,
                                                const models::ModelConfig& here) {
  try {
    const auto config = config_of(weights::metadata_of(path), path);
    return config ? model_differences(config->model, here) : std::vector<std::string>();
  } catch (const ConfigError& error) {
    log_warning(fmt::format("{}\nIts model is not compared with this one", error.what()));
    return {};
  }
}

std::vector<std::string> read_class_names(const std::string& path) {
  auto names = path.ends_with(".json") ? names_of_json(path) : names_of_text(path);
  if (names.empty()) fail<DataError>("{}: no names of classes; expected one a line", path);
  return names;
}

std::vector<std::string> class_names_beside(const std::string& weights, int64_t num_classes) {
  const fs::path path = weights;
  const auto folder = is_folder(path) ? path : path.parent_path();
  const std::array<std::string, 4> candidates = {path.stem().string() + ".classes.txt",
                                                 "class_names.txt", "classes.txt", "config.json"};
  for (const auto& candidate : candidates) {
    const auto file = (folder / candidate).string();
    if (!is_there(file) || is_folder(file)) continue;
    try {
      auto names = read_class_names(file);
      if (static_cast<int64_t>(names.size()) == num_classes) {
        log_info(fmt::format("{}: the names of the classes", file));
        return names;
      }
    } catch (const DataError&) {  // another file of that name, which nobody has named
    }
  }
  return {};
}

}  // namespace fovea::train
