// fovea data patch IMAGE --out DIR [key=value ...]; fovea data unpatch DIR VALUES --out MAP.tif
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/fovea/command.h"
#include "apps/fovea/commands/data.h"
#include "apps/fovea/output.h"
#include "apps/fovea/raw_image_options.h"
#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/core/files.h"
#include "fovea/core/json.h"
#include "fovea/core/memory.h"
#include "fovea/data/adaptive/adaptive_patching.h"
#include "fovea/data/adaptive/leaf_outlines.h"
#include "fovea/data/adaptive/sequence_file.h"
#include "fovea/data/image/png.h"
#include "fovea/data/large_image/region_source.h"
#include "fovea/data/large_image/shrunk_image.h"
#include "fovea/data/pictures/pictures.h"
#include "fovea/files/atomic_file.h"

namespace fovea::app {
namespace {

namespace fs = std::filesystem;

struct PatchArguments {
  std::string image;
  std::vector<std::string> overrides;
  std::string out;
  RawImageArguments raw;
  int64_t memory_mib = 1536;
  int64_t picture_side = 1024;
  bool json = false;
};

// Of one tree: how many leaves there are of each size.
nlohmann::ordered_json leaf_sizes(const data::PatchTree& tree) {
  std::map<int64_t, int64_t> counts;
  for (const data::TreeBox& leaf : tree.leaves) ++counts[leaf.longest_side()];
  auto sizes = nlohmann::ordered_json::object();
  for (const auto& [side, count] : counts) sizes[fmt::to_string(side)] = count;
  return sizes;
}

nlohmann::ordered_json statistics_of(const data::RegionSource& source,
                                     const data::PatchSequence& sequence, double seconds) {
  const data::RegionFormat& format = source.format();
  auto leaves = nlohmann::ordered_json::array();
  auto sizes = nlohmann::ordered_json::array();
  for (const data::PatchTree& tree : sequence.trees) {
    leaves.push_back(tree.leaves.size());
    sizes.push_back(leaf_sizes(tree));
  }
  return {{"image", source.name()},
          {"height", format.size.height},
          {"width", format.size.width},
          {"channels", format.channels},
          {"dtype", data::name_of(format.type)},
          {"fixed_length", sequence.fixed_length},
          {"patch_size", sequence.patch_size},
          {"leaves", leaves},
          {"leaf_sizes", sizes},
          {"seconds", seconds},
          {"peak_memory_bytes", peak_memory_bytes()}};
}

void write_pictures(const PatchArguments& arguments, const data::RegionSource& source,
                    const data::PatchSequence& sequence, int64_t band_bytes) {
  if (arguments.picture_side == 0) return;
  const auto size = data::shrunk_size(source.format().size, arguments.picture_side);
  const auto image = data::to_rgb(data::ImageView(data::shrunk_image(source, size, band_bytes)));
  const auto& trees = sequence.trees;
  for (size_t t = 0; t < trees.size(); ++t) {
    auto picture = image;
    data::outline_leaves(trees[t], {}, data::kTreeColor, picture);
    const auto name = trees.size() == 1 ? "tree.png" : fmt::format("tree_{}.png", t);
    const auto png = data::encode_png(picture);
    write_file_atomic((fs::path(arguments.out) / name).string(),
                      {reinterpret_cast<const char*>(png.data()), png.size()});
  }
}

void run_patch(const PatchArguments& arguments) {
  const auto start = std::chrono::steady_clock::now();
  const auto config =
      parse_config<data::AdaptivePatchingConfig>("{}", "fovea data patch", arguments.overrides);
  const auto source = open_large_image(arguments.image, arguments.raw);
  const data::AdaptivePatcher patcher(config);
  data::OutOfCoreOptions options;
  options.max_detail_bytes = arguments.memory_mib << 20;
  fs::create_directories(arguments.out);
  data::PatchSequence sequence;
  data::SequenceFileWriter writer((fs::path(arguments.out) / "patches.safetensors").string(),
                                  source->format(), config);
  patcher.patch(
      *source, nullptr, {},
      [&](int64_t channel, int64_t leaf, std::span<const float> token) {
        writer.write_token(channel, leaf, token);
      },
      options, sequence);
  writer.finish(sequence);
  write_pictures(arguments, *source, sequence, options.band_bytes);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  const auto statistics = statistics_of(*source, sequence, seconds.count());
  write_file_atomic((fs::path(arguments.out) / "statistics.json").string(),
                    json_text(statistics, 2) + "\n");
  if (arguments.json) {
    say_as_is("{}\n", json_text(statistics));
    return;
  }
  say("{}: {}x{}x{} {}, {} of {} patches; {:.1f} s, {:.0f} MiB\n", arguments.out,
      source->format().size.height, source->format().size.width, source->format().channels,
      data::name_of(source->format().type), sequence.trees[0].leaves.size(), sequence.fixed_length,
      seconds.count(), static_cast<double>(peak_memory_bytes()) / (1 << 20));
}

struct UnpatchArguments {
  std::string folder;
  std::string values;
  std::string out;
  data::PredictionOptions options;
};

void run_unpatch(const UnpatchArguments& arguments) {
  const fs::path given(arguments.folder);
  const auto sequence = is_folder(given) ? given / "patches.safetensors" : given;
  data::write_prediction(sequence.string(), arguments.values, arguments.out, arguments.options);
  say("{}\n", arguments.out);
}

}  // namespace

void add_data_patch(Command group) {
  auto command = group.add_command(
      "patch", "A large image as adaptive patches, in bounded memory: tokens, tree, statistics");
  auto arguments = std::make_shared<PatchArguments>();
  command.add_option("image", arguments->image, "TIFF, JPEG or PNG; with --dtype a raw file")
      .required()
      .type_name("IMAGE");
  command
      .add_option("overrides", arguments->overrides,
                  "keys of adaptive patching: fixed_length=4096 patch_size=32 ...")
      .type_name("key=value");
  command
      .add_option("--out", arguments->out,
                  "folder that gets patches.safetensors, tree.png and "
                  "statistics.json")
      .required();
  add_raw_image_options(command, arguments->raw);
  command
      .add_option("--memory-mib", arguments->memory_mib,
                  "most memory for the map of detail; two bits a pixel for edges")
      .in_range(1, 1 << 20)
      .show_default();
  command
      .add_option("--picture-side", arguments->picture_side,
                  "longest side of the picture of the tree; 0: no picture")
      .in_range(0, 16384)
      .show_default();
  command.add_flag("--json", arguments->json,
                   "print one JSON object on standard output and nothing else there");
  command.examples({"fovea data patch slide.tif --out slide fixed_length=4096 patch_size=32",
                    "fovea data patch scan.raw --dtype uint16 --shape 8192,8192 --out scan"});
  command.callback([arguments] { run_patch(*arguments); });
}

void add_data_unpatch(Command group) {
  auto command =
      group.add_command("unpatch", "Values of patches back over the whole image, as a tiled TIFF");
  auto arguments = std::make_shared<UnpatchArguments>();
  command.add_option("patches", arguments->folder, "folder of `fovea data patch`")
      .required()
      .type_name("DIR");
  command
      .add_option("values", arguments->values,
                  "safetensors: F32 [C, L, p * p] or [L, C], or classes [L] or [L, p * p]")
      .required()
      .type_name("VALUES");
  command.add_option("--out", arguments->out, "TIFF to write").required();
  command.add_option("--tensor", arguments->options.tensor,
                     "which one, where VALUES holds several");
  command.add_option("--compression", arguments->options.compression, "of the TIFF")
      .one_of({"none", "lzw", "deflate"})
      .show_default();
  command.examples({"fovea data unpatch slide values.safetensors --out values.tif",
                    "fovea data unpatch slide values.safetensors --tensor classes --out "
                    "classes.tif --compression deflate"});
  command.callback([arguments] { run_unpatch(*arguments); });
}

}  // namespace fovea::app
