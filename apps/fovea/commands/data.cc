// fovea data index|pack|check|prepare ...
#include "apps/fovea/commands/data.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>

#include "apps/fovea/command.h"
#include "fovea/core/config.h"
#include "fovea/core/error.h"
#include "fovea/data/datasets/guess.h"
#include "fovea/train/config.h"

namespace fovea::app {

std::vector<std::pair<std::string, data::DatasetConfig>> chosen_datasets(
    const std::string& source, const std::vector<std::string>& overrides) {
  const auto ending = std::filesystem::path(source).extension();
  if (ending != ".yaml" && ending != ".yml") {
    if (!overrides.empty()) {
      fail<ConfigError>("'{}' changes a recipe, but {} is none; give a recipe (.yaml)",
                        overrides.front(), source);
    }
    return {{"", data::guess_dataset(source)}};
  }
  const auto config = load_config<train::TrainConfig>(source, overrides).data;
  std::vector<std::pair<std::string, data::DatasetConfig>> chosen;
  if (config.train) chosen.emplace_back("train", *config.train);
  if (config.val) chosen.emplace_back("val", *config.val);
  if (chosen.empty()) fail<ConfigError>("{}: neither data.train nor data.val is set", source);
  return chosen;
}

ProgressCounter::ProgressCounter(std::string verb, bool is_silent)
    : verb_(std::move(verb)),
      line_(is_silent ? train::ProgressLine::Mode::kSilent : train::ProgressLine::Mode::kAuto) {}

std::function<void(int64_t, int64_t)> ProgressCounter::callback() {
  return [this](int64_t done, int64_t total) {
    line_.update(fmt::format("{} {}/{}", verb_, done, total));
  };
}

void add_data(CLI::App& app) {
  auto* group = app.add_subcommand("data", "Index, pack, check and prepare data sets");
  group->require_subcommand(1);
  add_data_index(*group);
  add_data_pack(*group);
  add_data_check(*group);
  add_data_prepare(*group);
}

}  // namespace fovea::app
