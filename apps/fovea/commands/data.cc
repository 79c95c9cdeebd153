// fovea data index|inspect|pack|check|prepare|dump ...
#include "apps/fovea/commands/data.h"

#include <filesystem>

#include "apps/fovea/command.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/data/config.h"
#include "fovea/data/datasets/find_datasets.h"
#include "fovea/data/datasets/mix.h"
#include "fovea/train/recipe/config.h"

namespace fovea::app {
namespace {

using NamedDatasets = std::vector<std::pair<std::string, data::DatasetConfig>>;

// The data sets of a section: one, or those of a mix.
void add_section(const std::string& name, const data::DataSectionConfig& section,
                 NamedDatasets& chosen) {
  if (const auto config = section.as<data::DatasetFormat>()) {
    chosen.emplace_back(name, *config);
  } else {
    const auto& sets = section.get_if<data::MixConfig>()->sets;
    for (const auto& set : sets) chosen.emplace_back(name + "/" + set.name, set.source);
  }
}

}  // namespace

bool is_data_recipe(const std::string& source) {
  const auto ending = std::filesystem::path(source).extension();
  return ending == ".yaml" || ending == ".yml";
}

std::vector<std::pair<std::string, data::DatasetConfig>> chosen_datasets(
    const std::string& source, const std::vector<std::string>& overrides) {
  if (!is_data_recipe(source)) {
    if (!overrides.empty()) {
      fail<ConfigError>("'{}' changes a recipe, but {} is none; give a recipe (.yaml)",
                        overrides.front(), source);
    }
    NamedDatasets found;
    for (auto& [name, config] : data::find_datasets(source)) found.emplace_back(name, config);
    return found;
  }
  const auto config = load_config<train::TrainConfig>(source, overrides).data;
  NamedDatasets chosen;
  if (config.train) add_section("train", *config.train, chosen);
  if (config.val) add_section("val", *config.val, chosen);
  if (chosen.empty()) fail<ConfigError>("{}: neither data.train nor data.val is set", source);
  return chosen;
}

void add_data(Command app) {
  auto group = app.add_command("data", "Look at, index, pack, check and prepare data sets");
  group.require_command();
  group.examples({"fovea data inspect photos", "fovea data check recipes/fashion_mnist/vit.yaml",
                  "fovea data pack photos --out photos_packed"});
  add_data_inspect(group);
  add_data_index(group);
  add_data_pack(group);
  add_data_check(group);
  add_data_prepare(group);
  add_data_balance(group);
  add_data_dump(group);
  add_data_patch(group);
  add_data_unpatch(group);
}

}  // namespace fovea::app
