// fovea list models|recipes|datasets|transforms|tasks|optimizers|schedules
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/output.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/models/registry.h"
#include "fovea/models/timm_weights.h"
#include "fovea/train/recipe/config.h"
#include "fovea/train/recipe/recipe_files.h"

namespace fovea::app {
namespace {

struct Entry {
  std::string name;
  std::string help;
};

// The names that a key of a recipe takes.
std::vector<Entry> choices_of(const std::string& key) {
  for (const auto& known : config_keys<train::TrainConfig>()) {
    if (known.key != key) continue;
    std::vector<Entry> entries;
    for (const auto& choice : known.choices) entries.push_back({choice, ""});
    return entries;
  }
  fail("{} is no key of a recipe; expected one that names alternatives", key);
}

std::vector<Entry> list_pretrained() {
  std::vector<Entry> entries;
  for (const auto& name : models::list_timm_weights()) {
    entries.push_back({name, "hf-hub:" + models::timm_repository(name)});
  }
  return entries;
}

std::vector<Entry> list_models() {
  std::vector<Entry> entries;
  for (const auto& name : models::list_models()) entries.push_back({name, ""});
  return entries;
}

// The first words of the comment at the head of a recipe.
std::string first_comment(const std::string& path) {
  constexpr size_t kMostBytes = 1 << 10;
  auto line = read_start(path, kMostBytes);
  line.resize(std::min(line.find('\n'), line.size()));
  if (!line.starts_with("#")) return "";
  const auto start = line.find_first_not_of("# ");
  return start == std::string::npos ? "" : line.substr(start);
}

std::vector<Entry> list_recipes() {
  if (!train::recipes_folder()) {
    fail<ConfigError>("no folder named recipes here or above the program; run this where Fovea is");
  }
  std::vector<Entry> entries;
  for (const auto& path : train::shipped_recipes()) entries.push_back({path, first_comment(path)});
  return entries;
}

struct Kind {
  const char* name;
  const char* help;
  std::vector<Entry> (*list)();
};

constexpr Kind kKinds[] = {
    {"models", "presets that model.preset and --model take: timm's names", list_models},
    {"recipes", "the recipes that come with Fovea", list_recipes},
    {"datasets", "formats that data.train.format takes",
     [] { return choices_of("data.train.format"); }},
    {"transforms", "names of data.train.transforms",
     [] { return choices_of("data.train.transforms.*.name"); }},
    {"tasks", "names that task.name takes", [] { return choices_of("task.name"); }},
    {"optimizers", "names that optim.name takes", [] { return choices_of("optim.name"); }},
    {"schedules", "names that schedule.name takes", [] { return choices_of("schedule.name"); }},
};

void print(const std::vector<Entry>& entries, bool json) {
  if (json) {
    auto out = nlohmann::json::array();
    for (const auto& entry : entries) out.push_back(entry.name);
    say_as_is("{}\n", json_text(out));
    return;
  }
  size_t width = 0;
  for (const auto& entry : entries) width = std::max(width, entry.name.size());
  for (const auto& [name, help] : entries) {
    if (help.empty()) {
      say("{}\n", name);
    } else {
      say("{:<{}}  {}\n", name, width, help);
    }
  }
}

}  // namespace

void add_list(Command app) {
  auto command = app.add_command("list", "What there is: models, recipes, formats, names");
  command.require_command();
  command.examples({"fovea list models", "fovea list recipes", "fovea list transforms --json"});
  for (const auto& kind : kKinds) {
    auto sub = command.add_command(kind.name, kind.help);
    auto json = std::make_shared<bool>(false);
    sub.add_flag("--json", *json, "print one JSON list on standard output");
    const auto line = fmt::format("fovea list {}", kind.name);
    std::vector<std::string> examples = {line, line + " --json"};
    auto pretrained = std::make_shared<bool>(false);
    if (kind.list == list_models) {
      sub.add_flag("--pretrained", *pretrained,
                   "timm's weights of these models instead, and where they lie; each of these "
                   "names can stand where a model or weights are named");
      examples.push_back(line + " --pretrained");
    }
    sub.examples(std::move(examples));
    sub.callback(
        [json, pretrained, &kind] { print(*pretrained ? list_pretrained() : kind.list(), *json); });
  }
}

}  // namespace fovea::app
