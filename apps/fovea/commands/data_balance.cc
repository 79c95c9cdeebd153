// fovea data balance RECIPE --gpus N [a.b=c ...]
#include <fmt/format.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/data.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/data_tools/balance.h"
#include "fovea/train/recipe/config.h"

namespace fovea::app {
namespace {

struct BalanceArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  int64_t gpus = 0;
  bool upstream_compatible = false;
  bool yaml = false;
  bool json = false;
};

nlohmann::json to_json(const data::Balance& balance) {
  auto sets = nlohmann::json::array();
  for (const data::BalancedSet& set : balance.sets) {
    sets.push_back({{"name", set.name},
                    {"images", set.num_images},
                    {"tiles", set.total_tiles},
                    {"fewest_tiles_per_image", set.fewest_tiles},
                    {"most_tiles_per_image", set.most_tiles},
                    {"share", set.share},
                    {"ranks", set.ranks},
                    {"batches_per_rank_epoch", set.batches_per_rank_epoch}});
  }
  return {{"gpus", balance.num_ranks},
          {"batch_size_per_rank", balance.batch_size},
          {"dataset_group_list", balance.group_list()},
          {"sets", sets}};
}

void run(const BalanceArguments& arguments) {
  const auto config = load_config<train::TrainConfig>(arguments.recipe, arguments.overrides).data;
  if (config.global_batch_size % arguments.gpus != 0) {
    fail<ConfigError>("data.global_batch_size={} over {} GPUs; use a multiple of their number",
                      config.global_batch_size, arguments.gpus);
  }
  const auto balance = data::balance(data::balance_sets(config),
                                     {.num_ranks = arguments.gpus,
                                      .batch_size = config.global_batch_size / arguments.gpus,
                                      .upstream_compatible = arguments.upstream_compatible});
  if (arguments.json) {
    say_as_is("{}\n", json_text(to_json(balance)));
  } else {
    say("{}", arguments.yaml ? data::balance_yaml(balance) : data::balance_text(balance));
  }
}

}  // namespace

void add_data_balance(Command data) {
  auto command = data.add_command(
      "balance", "Tiles of each set of a mix, and how many processes should read it");
  auto arguments = std::make_shared<BalanceArguments>();
  command.add_option("recipe", arguments->recipe, "a recipe whose data.train is a mix")
      .required()
      .type_name("RECIPE");
  add_overrides(command, arguments->overrides, "data.mix=exact");
  command.add_option("--gpus", arguments->gpus, "processes that read data")
      .required()
      .in_range(1, 1 << 20);
  command.add_flag("--upstream", arguments->upstream_compatible,
                   "count as UCF-VIT does: each image of a set has its first one's tiles");
  auto yaml = command.add_flag("--yaml", arguments->yaml,
                               "print the load_balancing section of UCF-VIT's recipes");
  command.add_flag("--json", arguments->json, "print one JSON object on standard output")
      .excludes(yaml);
  command.examples({"fovea data balance recipes/imagenet/ucf_vit_variables.yaml --gpus 8",
                    "fovea data balance recipes/imagenet/ucf_vit_variables.yaml --gpus 8 --json"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
