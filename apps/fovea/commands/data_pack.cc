// fovea data pack RECIPE|DATA --to packed|wds --out DIR
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/data.h"
#include "apps/fovea/output.h"
#include "apps/fovea/overrides.h"
#include "apps/fovea/progress_counter.h"
#include "fovea/core/error.h"
#include "fovea/core/json.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data_tools/pack/pack.h"

namespace fovea::app {
namespace {

struct PackArguments {
  std::string source;
  std::vector<std::string> overrides;
  data::PackOptions options;
  std::string part = "all";
  int64_t shard_mib = 256;
  std::vector<int64_t> chunk = {32};
  std::string compression = "zstd";
  bool shuffle = false;
  uint64_t seed = 0;
  bool json = false;
};

std::string recipe_line(const data::PackOptions& options, const data::Dataset& dataset) {
  if (options.to == "packed") return fmt::format("{{format: packed, path: {}}}", options.out);
  return fmt::format("{{format: wds, path: {}, num_classes: {}}}", options.out,
                     dataset.num_classes());
}

data::VolumeSize chunk_of(const std::vector<int64_t>& sides) {
  if (sides.size() == 1) return {sides[0], sides[0], sides[0]};
  if (sides.size() == 3) return {sides[0], sides[1], sides[2]};
  fail<ConfigError>("--chunk: {} numbers; expected one side, or three of them: 1,256,256",
                    sides.size());
}

void pack_one(const PackArguments& arguments, const std::string& name,
              const data::DatasetConfig& config) {
  const auto empty_classes =
      name == "val" ? data::EmptyClasses::kAllowed : data::EmptyClasses::kRefused;
  const auto dataset = data::build_dataset(config, empty_classes);
  auto options = arguments.options;
  if (!name.empty()) options.out = (std::filesystem::path(options.out) / name).string();
  options.volumes = {chunk_of(arguments.chunk), arguments.compression == "zstd"};
  options.shard_bytes = static_cast<uint64_t>(arguments.shard_mib) << 20;
  if (arguments.shuffle) options.shuffle_seed = arguments.seed;
  ProgressCounter progress(name.empty() ? "packing" : "packing " + name, arguments.json);
  options.progress = progress.callback();
  const auto report = data::pack_dataset(*dataset, options);
  progress.clear();
  if (arguments.json) {
    const nlohmann::ordered_json out = {{"name", name},
                                        {"out", options.out},
                                        {"to", options.to},
                                        {"num_samples", report.samples},
                                        {"resumed_samples", report.resumed},
                                        {"shards", report.shards},
                                        {"bytes", report.bytes}};
    say_as_is("{}\n", json_text(out));
    return;
  }
  say("{}: {} in {}, {:.1f} MiB{}\n  recipe: data.{}: {}\n", options.out,
      counted(report.samples, "sample"), counted(report.shards, "shard"),
      static_cast<double>(report.bytes) / (1 << 20),
      report.resumed > 0 ? fmt::format(" ({} were there)", report.resumed) : "",
      name.empty() ? "train" : name, recipe_line(options, *dataset));
}

void run(const PackArguments& arguments) {
  bool is_any = false;
  for (const auto& [name, config] : chosen_datasets(arguments.source, arguments.overrides)) {
    if (arguments.part != "all" && name != arguments.part) continue;
    is_any = true;
    pack_one(arguments, name, config);
  }
  if (!is_any) {
    fail<ConfigError>("{}: no data.{} to pack; leave --part out", arguments.source, arguments.part);
  }
}

}  // namespace

void add_data_pack(Command group) {
  auto command = group.add_command(
      "pack", "A data set of images or volumes as shards that are read fast; resumable");
  auto arguments = std::make_shared<PackArguments>();
  auto& options = arguments->options;
  command.add_option("source", arguments->source, kDataSourceHelp)
      .required()
      .type_name("RECIPE|DATA");
  add_overrides(command, arguments->overrides, "data.train.path=photos");
  command.add_option("--to", options.to, "Fovea's packed format, or WebDataset tars")
      .one_of({"packed", "wds"})
      .show_default();
  command
      .add_option("--out", options.out,
                  "folder to write; of a recipe it gets the folders train and val")
      .required();
  command
      .add_option("--part", arguments->part,
                  "of a recipe, or of a folder with several: which data set")
      .one_of({"all", "train", "val", "test"})
      .show_default();
  command
      .add_option("--max-side", options.max_side,
                  "shrink images whose longer side is above this, and store them as JPEG; 0: keep "
                  "all files as they are")
      .in_range(0, 65500)
      .show_default();
  command.add_option("--quality", options.quality, "of the JPEGs that --max-side makes")
      .in_range(1, 100)
      .show_default();
  command.add_flag("--raw", options.raw, "store pixels: the fastest to read, the most disk");
  command
      .add_option("--chunk", arguments->chunk,
                  "of volumes: side of the boxes that are read by themselves, or D,H,W; tiles cost "
                  "the chunks that they touch")
      .delimiter(',')
      .one_word()
      .in_range(1, 4096)
      .show_default();
  command
      .add_option("--compression", arguments->compression,
                  "of volumes: Zstandard, or numbers as they are")
      .one_of({"zstd", "none"})
      .show_default();
  command.add_option("--shard-mib", arguments->shard_mib, "size of a shard, in MiB")
      .in_range(1, 1 << 20)
      .show_default();
  command.add_flag("--shuffle", arguments->shuffle,
                   "another order of the samples, for readers that read in order");
  command.add_option("--seed", arguments->seed, "of --shuffle").show_default();
  command.add_option("--threads", options.threads, "0: one for each core").in_range(0, 1024);
  command.add_flag("--json", arguments->json,
                   "print one JSON object for each data set and nothing else");
  command.examples({"fovea data pack recipes/fashion_mnist/vit.yaml --max-side 512 --out packed",
                    "fovea data pack photos --to wds --out shards",
                    "fovea data pack scans --chunk 64 --out scans_packed"});
  command.callback([arguments] { run(*arguments); });
}

}  // namespace fovea::app
