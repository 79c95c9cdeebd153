// fovea list models|recipes|datasets|transforms|tasks|optimizers|schedules
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/output.h"
#include "fovea/core/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/program_files.h"
#include "fovea/models/registry.h"
#include "fovea/train/config.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

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

std::vector<Entry> list_models() {
  std::vector<Entry> entries;
  for (const auto& name : models::list_models()) entries.push_back({name, ""});
  return entries;
}

// The folder `recipes` here, or beside the program or one of the folders above it.
fs::path recipes_folder() {
  constexpr int kAll = 1000;  // and a folder, not a file
  std::error_code error;
  if (auto here = find_upwards(fs::current_path(error), {"recipes/"}, 1)) return *here;
  if (auto found = find_near_program({"recipes/"}, kAll)) return *found;
  fail<ConfigError>("no folder named recipes here or above the program; run this where Fovea is");
}

// The first words of the comment at the head of a recipe.
std::string first_comment(const fs::path& path) {
  constexpr size_t kMostBytes = 1 << 10;
  auto line = read_start(path.string(), kMostBytes);
  line.resize(std::min(line.find('\n'), line.size()));
  if (!line.starts_with("#")) return "";
  const auto start = line.find_first_not_of("# ");
  return start == std::string::npos ? "" : line.substr(start);
}

std::vector<Entry> list_recipes() {
  std::vector<Entry> entries;
  for (const auto& file : fs::recursive_directory_iterator(recipes_folder())) {
    if (file.path().extension() != ".yaml") continue;
    entries.push_back(
        {file.path().lexically_relative(fs::current_path()).string(), first_comment(file.path())});
  }
  std::sort(entries.begin(), entries.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
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
  for (const auto& kind : kKinds) {
    auto sub = command.add_command(kind.name, kind.help);
    auto json = std::make_shared<bool>(false);
    sub.add_flag("--json", *json, "print one JSON list on standard output");
    sub.callback([json, &kind] { print(kind.list(), *json); });
  }
}

}  // namespace fovea::app
