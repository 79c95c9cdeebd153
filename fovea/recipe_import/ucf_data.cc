// The data section out of UCF-VIT's YAML.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "fovea/recipe_import/importer.h"
#include "fovea/recipe_import/ucf.h"

namespace fovea::recipe_import {

ConfigNode first_of_ucf_dict(const ConfigNode* node) {
  if (node == nullptr) return {};
  return node->kind == ConfigNode::Kind::kMap && !node->children.empty() ? node->children.front()
                                                                         : *node;
}

namespace {

std::vector<double> numbers_of(const ConfigNode& node) {
  std::vector<double> values;
  for (const auto& child : node.children) values.push_back(as_number("a list", child));
  return values;
}

double number_in(const ConfigNode* dict, const std::string& name, double otherwise) {
  const auto* value = dict ? dict->find(name) : nullptr;
  return value && value->kind == ConfigNode::Kind::kScalar ? as_number(name, *value) : otherwise;
}

std::string transforms_of_ucf(Importer& in) {
  const auto resize = first_of_ucf_dict(in.find("dataset_options.imagenet_resize"));
  auto size = numbers_of(resize);
  std::reverse(size.begin(), size.end());
  // Pixels go in as they are there, 0 to 255: mean 0 and deviation 1 / 255 say the same.
  const std::string values = "{name: normalize, mean: [0], std: [0.00392156862745098]}";
  return size.empty() ? fmt::format("[{}]", values)
                      : fmt::format("[{{name: resize, size: [{}], interpolation: bilinear}}, {}]",
                                    fmt::join(size, ", "), values);
}

// The source of one data set, as YAML in one line.
std::string source_of(Importer& in, const std::string& path, const std::string& task) {
  const auto dataset = in.text("data.dataset");
  ConfigNode quoted;
  quoted.kind = ConfigNode::Kind::kScalar;
  quoted.scalar = path;
  quoted.quoted = true;
  const auto place = "path: " + emit_yaml_flow(quoted);
  if (dataset == "basic_ct") {
    const bool has_masks = task == "unetr" || task == "sap";
    return fmt::format("{{format: basic_ct, {}, masks: {}}}", place, has_masks);
  }
  const auto format = dataset == "catsdogs" ? "catsdogs" : "folder";
  return fmt::format("{{format: {}, {}, transforms: {}}}", format, place, transforms_of_ucf(in));
}

// What a mix says of the channels of one of its sets; "" without channels as variables.
std::string channels_of(Importer& in, const std::string& name) {
  if (!has_variables(in)) return "";
  const auto* lists = in.find("data.dict_in_variables");
  const auto* found = in.find(std::string(kNet) + "default_vars");
  if (lists && lists->kind == ConfigNode::Kind::kMap) {
    const auto at = std::find(lists->keys.begin(), lists->keys.end(), name);
    if (at != lists->keys.end()) found = &lists->children[at - lists->keys.begin()];
  }
  return fmt::format(", variables: {}{}", emit_yaml_flow(*found),
                     in.flag("data.single_channel", false) ? ", single_channel: true" : "");
}

}  // namespace

void finish_ucf_data(Importer& in) {
  const auto task = ucf_task(in);
  const auto* roots = in.find("data.dict_root_dirs");
  const auto* starts = in.find("data.dict_start_idx");
  const auto* ends = in.find("data.dict_end_idx");
  if (roots && roots->kind == ConfigNode::Kind::kMap) {
    std::vector<std::string> sets;
    for (size_t i = 0; i < roots->keys.size(); ++i) {
      const auto& name = roots->keys[i];
      sets.push_back(fmt::format("{{name: {}, source: {}, start: {}, end: {}{}}}", name,
                                 source_of(in, roots->children[i].scalar, task),
                                 number_in(starts, name, 0), number_in(ends, name, 1),
                                 channels_of(in, name)));
    }
    const bool is_whole = number_in(starts, roots->keys.empty() ? "" : roots->keys[0], 0) == 0 &&
                          number_in(ends, roots->keys.empty() ? "" : roots->keys[0], 1) == 1;
    if (sets.size() == 1 && is_whole && !has_variables(in)) {
      in.set("data.train", source_of(in, roots->children[0].scalar, task));
    } else {
      in.set("data.train", fmt::format("{{format: mix, sets: [{}]}}", fmt::join(sets, ", ")));
    }
  }
  const double ranks = in.options().num_gpus > 0 ? static_cast<double>(in.options().num_gpus)
                                                 : in.number("parallelism.fsdp_size", 1) *
                                                       in.number("parallelism.simple_ddp_size", 1);
  in.set("data.global_batch_size", in.number("data.batch_size", 32) * ranks);
  set_shards(in, "parallelism.fsdp_size");
  if (in.text("data.dataset") == "basic_ct") {
    const auto tile = in.numbers(std::string(kNet) + "tile_size");
    std::vector<double> sides(tile.rbegin(), tile.rend());
    in.set("data.tiling.tile_size", fmt::format("[{}]", fmt::join(sides, ", ")));
    in.set("data.tiling.tile_overlap", in.number("data.tile_overlap", 0));
    in.set("data.tiling.use_all_data", in.flag("data.use_all_data", false) ? "true" : "false");
    if (in.flag(std::string(kNet) + "twoD", true)) in.set("data.tiling.two_d", "true");
  }
}

}  // namespace fovea::recipe_import
