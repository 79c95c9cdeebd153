// fovea data dump RECIPE --out FILE.safetensors [a.b=c ...]
#include <fmt/format.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/data.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/data/batch/batch_arrays.h"
#include "fovea/files/safetensors.h"
#include "fovea/train/evaluate/recipe_data.h"
#include "fovea/train/recipe/config.h"

namespace fovea::app {
namespace {

struct DumpArguments {
  std::string recipe;
  std::vector<std::string> overrides;
  std::string section = "train";
  std::string out;
  int64_t first = 0;
  int64_t batches = 1;
  int64_t rank = 0;
  int64_t ranks = 1;
  bool is_uint8 = false;
};

data::LoaderSetup open_dumped(const DumpArguments& arguments) {
  const auto config = load_config<train::TrainConfig>(arguments.recipe, arguments.overrides);
  if (arguments.rank >= arguments.ranks) {
    fail<ConfigError>("--rank {}: expected less than --ranks {}", arguments.rank, arguments.ranks);
  }
  const auto share = data::BatchShare::of_rank(arguments.rank, arguments.ranks);
  auto setup = train::open_training_setup(config, share);
  if (arguments.section == "val") {
    setup = train::open_validation_setup(config, setup.dataset->class_names(), share);
  }
  if (arguments.is_uint8 && !data::can_be_bytes(setup)) {
    fail<ConfigError>("--uint8: batches of data.{} are floats after their transforms; leave it out",
                      arguments.section);
  }
  setup.options.pixel_type =
      arguments.is_uint8 ? data::PixelType::kUint8 : data::PixelType::kFloat32;
  return setup;
}

void run_dump(const DumpArguments& arguments) {
  auto dumped = train::make_loader(open_dumped(arguments));
  data::Loader& loader = *dumped.loader;
  loader.seek(loader.position_of(arguments.first));
  std::vector<data::Batch> batches;  // their bytes are what is written
  std::vector<SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
  batches.reserve(static_cast<size_t>(arguments.batches));
  for (int64_t i = 0; i < arguments.batches; ++i) {
    data::Batch& batch = batches.emplace_back(loader.next());
    const auto prefix = fmt::format("{}.", arguments.first + i);
    metadata[prefix + "epoch"] = std::to_string(batch.epoch);
    metadata[prefix + "position"] = std::to_string(batch.position);
    for (const auto& array : data::arrays_of(batch)) {
      entries.push_back({prefix + array.name, array.dtype, array.shape, array.bytes});
    }
  }
  write_safetensors(arguments.out, entries, metadata);
  say("{}: {} batch{} of data.{}\n", arguments.out, arguments.batches,
      arguments.batches == 1 ? "" : "es", arguments.section);
}

}  // namespace

void add_data_dump(Command group) {
  auto command = group.add_command(
      "dump", "Batches of a recipe's loader as a file: what a step of training is given");
  auto arguments = std::make_shared<DumpArguments>();
  command.add_option("recipe", arguments->recipe, "recipe (.yaml)").required().type_name("RECIPE");
  add_overrides(command, arguments->overrides, "data.train.path=photos");
  command
      .add_option("--out", arguments->out,
                  "file; batch 3 of all epochs has 3.images, 3.labels, 3.indices and the rest")
      .required()
      .type_name("FILE.safetensors");
  command.add_option("--section", arguments->section, "which data set")
      .one_of({"train", "val"})
      .show_default();
  command.add_option("--first", arguments->first, "number of the first batch, over all epochs")
      .in_range(0, int64_t{1} << 40)
      .show_default();
  command.add_option("--batches", arguments->batches, "how many; all are held in memory")
      .in_range(1, 1 << 20)
      .show_default();
  command.add_option("--ranks", arguments->ranks, "processes that share a batch")
      .in_range(1, 1 << 20)
      .show_default();
  command.add_option("--rank", arguments->rank, "whose rows are written")
      .in_range(0, 1 << 20)
      .show_default();
  command.add_flag("--uint8", arguments->is_uint8, "bytes, before `normalize`");
  command.examples({"fovea data dump recipes/fashion_mnist/vit.yaml --out batches.safetensors",
                    "fovea data dump recipes/fashion_mnist/vit.yaml --section val --first 2 "
                    "--batches 3 --out val.safetensors"});
  command.callback([arguments] { run_dump(*arguments); });
}

}  // namespace fovea::app
