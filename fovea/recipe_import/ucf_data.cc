// The data section out of UCF-VIT's YAML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <numeric>

#include "fovea/recipe_import/importer.h"
#include "fovea/recipe_import/ucf.h"

namespace fovea::recipe_import {

namespace {

using Sides = std::vector<double>;

// What a dict by data set has for one of them, or the value itself, which all have; null: nothing.
const ConfigNode* value_for(const ConfigNode* dict, const std::string& name) {
  return dict && dict->kind == ConfigNode::Kind::kMap ? dict->find(name) : dict;
}

double number_for(const ConfigNode* dict, const std::string& name, double otherwise) {
  const auto* value = value_for(dict, name);
  return value && value->kind == ConfigNode::Kind::kScalar ? as_number(name, *value) : otherwise;
}

std::vector<std::string> set_names(const Importer& in) {
  const auto* roots = in.find("data.dict_root_dirs");
  return roots ? roots->keys : std::vector<std::string>{};
}

enum class Reader { kImageNet, kCatsDogs, kBasicCt, kUnknown };

Reader reader_of(const Importer& in) {
  const auto dataset = in.text("data.dataset");
  if (dataset == "imagenet") return Reader::kImageNet;
  if (dataset == "catsdogs") return Reader::kCatsDogs;
  return dataset == "basic_ct" ? Reader::kBasicCt : Reader::kUnknown;
}

bool has_images(const Importer& in) {
  return reader_of(in) == Reader::kImageNet || reader_of(in) == Reader::kCatsDogs;
}

// [x, y, z] there; [depth, height, width] here.
Sides tile_sides(const Importer& in) {
  auto sides = in.numbers(std::string(kNet) + "tile_size");
  std::reverse(sides.begin(), sides.end());
  return sides;
}

// [height, width] to which the images of a set are resized; empty: the file does not say.
Sides resize_of(const Importer& in, const std::string& name) {
  Sides sides;
  if (const auto* value = value_for(in.find("dataset_options.imagenet_resize"), name)) {
    for (const auto& side : value->children) sides.push_back(as_number("imagenet_resize", side));
  }
  std::reverse(sides.begin(), sides.end());
  return sides;
}

// Images of which a tile is a part. Tiles are cut behind the resize there and before the transforms
// here, so that no recipe says the same.
bool cuts_resized_images(const Importer& in) {
  if (!has_images(in)) return false;
  const auto names = set_names(in);
  const auto tile = tile_sides(in);
  return std::any_of(names.begin(), names.end(), [&](const std::string& name) {
    const auto size = resize_of(in, name);
    return !size.empty() && !tile.empty() && size != tile;
  });
}

const char* kCutNote =
    "its tiles are cut out of resized images; tiles are cut before the transforms here: resize the "
    "files once, without the transform, and data.tiling cuts them";

std::string transforms_of_ucf(const Importer& in, const std::string& set) {
  const auto size = resize_of(in, set);
  // Pixels go in as they are there, 0 to 255: mean 0 and deviation 1 / 255 say the same.
  const std::string values = "{name: normalize, mean: [0], std: [0.00392156862745098]}";
  return size.empty() ? fmt::format("[{}]", values)
                      : fmt::format("[{{name: resize, size: [{}], interpolation: bilinear}}, {}]",
                                    fmt::join(size, ", "), values);
}

// Of a set whose files have more channels than are used: the first of them, as there.
std::string first_channels_of(const Importer& in, const std::string& name) {
  const double used = number_for(in.find("data.num_channels_used"), name, 0);
  const double all = number_for(in.find("data.num_channels_available"), name, used);
  if (used < 1 || used >= all) return "";
  std::vector<int> channels(static_cast<size_t>(used));
  std::iota(channels.begin(), channels.end(), 0);
  return fmt::format(", channels: [{}]", fmt::join(channels, ", "));
}

// The source of one data set, as YAML in one line.
std::string source_of(const Importer& in, const std::string& name, const std::string& path) {
  ConfigNode quoted;
  quoted.kind = ConfigNode::Kind::kScalar;
  quoted.scalar = path;
  quoted.quoted = true;
  const auto place = "path: " + emit_yaml_flow(quoted) + first_channels_of(in, name);
  if (reader_of(in) == Reader::kBasicCt) {
    const auto task = ucf_task(in);
    const bool has_masks = task == "unetr" || task == "sap";
    return fmt::format("{{format: basic_ct, {}, masks: {}}}", place, has_masks);
  }
  const auto format = reader_of(in) == Reader::kCatsDogs ? "catsdogs" : "folder";
  return fmt::format("{{format: {}, {}, transforms: {}}}", format, place,
                     transforms_of_ucf(in, name));
}

// What a mix says of the channels of one of its sets; "" without channels as variables.
std::string channels_of(const Importer& in, const std::string& name) {
  if (!has_variables(in)) return "";
  const auto* lists = in.find("data.dict_in_variables");
  const auto* found = lists ? value_for(lists, name) : nullptr;
  if (found == nullptr) found = in.find(std::string(kNet) + "default_vars");
  return fmt::format(", variables: {}{}", emit_yaml_flow(*found),
                     in.flag("data.single_channel", false) ? ", single_channel: true" : "");
}

void set_train_data(Importer& in) {
  const auto* roots = in.find("data.dict_root_dirs");
  if (reader_of(in) == Reader::kUnknown || !roots) return;
  const auto* starts = in.find("data.dict_start_idx");
  const auto* ends = in.find("data.dict_end_idx");
  std::vector<std::string> sets;
  bool is_whole = true;
  for (size_t i = 0; i < roots->keys.size(); ++i) {
    const auto& name = roots->keys[i];
    const double start = number_for(starts, name, 0), end = number_for(ends, name, 1);
    is_whole = is_whole && start == 0 && end == 1;
    sets.push_back(fmt::format("{{name: {}, source: {}, start: {}, end: {}{}}}", name,
                               source_of(in, name, roots->children[i].scalar), start, end,
                               channels_of(in, name)));
  }
  if (sets.size() == 1 && is_whole && !has_variables(in)) {
    return in.set("data.train", source_of(in, roots->keys[0], roots->children[0].scalar));
  }
  in.set("data.train", fmt::format("{{format: mix, sets: [{}]}}", fmt::join(sets, ", ")));
  // Its smaller sets are gone through again until the largest is done; of ImageNet's the smallest
  // ends the epoch.
  if (sets.size() > 1 && !has_images(in)) in.set("data.mix", "cycle_to_largest");
}

void set_tiling(Importer& in) {
  const auto tile = tile_sides(in);
  if (has_images(in) || tile.empty()) return;
  in.set("data.tiling.tile_size", fmt::format("[{}]", fmt::join(tile, ", ")));
  in.set("data.tiling.tile_overlap", in.number("data.tile_overlap", 0));
  in.set("data.tiling.use_all_data", in.flag("data.use_all_data", false) ? "true" : "false");
  if (in.flag(std::string(kNet) + "twoD", true) && tile.size() > 2) {
    in.set("data.tiling.two_d", "true");
  }
}

using Apply = std::function<void(Importer&, const ConfigNode& value)>;

ImportRule rule_of(Apply apply) {
  return {"", "",
          [apply = std::move(apply)](Importer& in, const std::string&, const ConfigNode& value) {
            apply(in, value);
          }};
}

}  // namespace

double ucf_channels(const Importer& in) {
  const auto* variables = in.find(std::string(kNet) + "default_vars");
  const double num_variables = variables ? static_cast<double>(variables->children.size()) : 0;
  if (has_variables(in)) return num_variables;
  double most = 0;
  for (const auto& name : set_names(in)) {
    most = std::max(most, number_for(in.find("data.num_channels_used"), name, 0));
  }
  return most > 0 ? most : num_variables;
}

ImportRule dataset_key() {
  return rule_of([](Importer& in, const ConfigNode&) {
    if (reader_of(in) != Reader::kUnknown) return in.mapped("data.train.format");
    in.refused(
        "it is read by code of its own there; expected imagenet, catsdogs or basic_ct: write "
        "data.train by hand, with its format, folders and transforms");
  });
}

ImportRule set_key(const std::string& target) {
  return rule_of([=](Importer& in, const ConfigNode&) {
    if (reader_of(in) != Reader::kUnknown) return in.mapped(target);
    in.refused("data.train is left out, see data.dataset");
  });
}

ImportRule channels_key() {
  return rule_of([](Importer& in, const ConfigNode& used) {
    const double channels = ucf_channels(in);
    bool has_more = false;
    for (const auto& name : set_names(in)) {
      const double count = number_for(&used, name, channels);
      has_more = has_more || !first_channels_of(in, name).empty();
      if (!has_variables(in) && count != channels) {
        return in.refused(
            fmt::format("{}: {} channels, another set has {}; without use_varemb all "
                        "sets have the model's",
                        name, count, channels));
      }
    }
    in.mapped(has_more ? "model in_chans, data.train channels" : "model in_chans");
  });
}

ImportRule single_channel_key() {
  return rule_of([](Importer& in, const ConfigNode&) {
    if (!in.flag("data.single_channel", false)) return in.mapped("", "off, as here");
    if (has_variables(in)) return in.mapped("model single_channel, data.train.sets single_channel");
    if (ucf_channels(in) <= 1) return in.mapped("", "a sample has one channel");
    in.refused("each channel is a sample there; that needs variables here, and so use_varemb");
  });
}

ImportRule tile_size_key() {
  return rule_of([](Importer& in, const ConfigNode&) {
    if (cuts_resized_images(in)) return in.refused(kCutNote);
    const auto target = has_images(in) ? "model img_size" : "model img_size, data.tiling.tile_size";
    in.changed(target, "[x, y, z] there is [depth, height, width] here");
  });
}

ImportRule tiling_key(const std::string& target) {
  return rule_of([=](Importer& in, const ConfigNode&) {
    if (!has_images(in)) return in.mapped(target);
    if (cuts_resized_images(in)) return in.refused("see tile_size");
    in.mapped("", "an image is one tile");
  });
}

ImportRule resize_key() {
  return rule_of([](Importer& in, const ConfigNode&) {
    if (has_images(in)) return in.mapped("data.train.transforms", "resize");
    in.refused("it is ImageNet's, and the file is of another data set");
  });
}

void finish_ucf_data(Importer& in) {
  set_train_data(in);
  const double ranks = in.options().num_gpus > 0 ? static_cast<double>(in.options().num_gpus)
                                                 : in.number("parallelism.fsdp_size", 1) *
                                                       in.number("parallelism.simple_ddp_size", 1);
  in.set("data.global_batch_size", in.number("data.batch_size", 32) * ranks);
  set_shards(in, "parallelism.fsdp_size");
  set_tiling(in);
}

}  // namespace fovea::recipe_import
