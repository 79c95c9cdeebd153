#include "fovea/data/adaptive/adaptive_patching.h"

#include <algorithm>

#include "fovea/config/checked_config.h"
#include "fovea/core/error.h"

namespace fovea::data {
namespace {

constexpr int64_t kMostLevels = 20;

ChannelScaling one_channel(const ChannelScaling& scaling, int64_t channel) {
  const auto at = static_cast<size_t>(channel);
  ChannelScaling result;
  if (!scaling.scale.empty()) result.scale = scaling.scale.subspan(at, 1);
  if (!scaling.shift.empty()) result.shift = scaling.shift.subspan(at, 1);
  return result;
}

ImageView channel_of(const ImageView& image, int64_t channel, Image& out) {
  reshape(out, image.size(), 1);
  for (int64_t y = 0; y < image.height; ++y) {
    const uint8_t* row = image.row(y) + channel;
    uint8_t* target = out.pixels.data() + y * image.width;
    for (int64_t x = 0; x < image.width; ++x) target[x] = row[x * image.channels];
  }
  return ImageView(out);
}

}  // namespace

AdaptivePatcher::AdaptivePatcher(AdaptivePatchingConfig config) : config_(std::move(config)) {
  check_config("adaptive patching", config_);
}

void AdaptivePatcher::patch(const ImageView& image, RandomStream* random,
                            const ChannelScaling& scaling, PatchSequence& out,
                            PatchingScratch& scratch) const {
  const VolumeSize size = {1, image.height, image.width};
  if (size.voxels() <= 0 || image.channels <= 0) {
    fail<DataError>("adaptive patching: an image of {}x{}x{}; expected sizes above 0", image.height,
                    image.width, image.channels);
  }
  check_scaling(scaling, image.channels);
  start(image.channels, 2, out);
  const DetailDraw detail = draw(true, random);
  const auto rules = resample_rules(false, config_.upstream_compatible);
  const int64_t plane = out.fixed_length * out.token_size();
  out.tokens.resize(static_cast<size_t>(image.channels * plane));
  const auto num_trees = static_cast<int64_t>(out.trees.size());
  for (int64_t t = 0; t < num_trees; ++t) {
    const bool is_part = num_trees > 1;
    const ImageView part = is_part ? channel_of(image, t, scratch.channel) : image;
    scratch.detail.build(part, config_, detail, random);
    PatchTree& tree = out.trees[static_cast<size_t>(t)];
    grow(size, scratch.detail, tree, scratch.tree);
    image_to_tokens(part, tree, config_.patch_size, rules,
                    is_part ? one_channel(scaling, t) : scaling, out.tokens.data() + t * plane,
                    plane, scratch.resample);
    describe(t, out);
  }
}

void AdaptivePatcher::patch(const Volume& volume, RandomStream* random,
                            const ChannelScaling& scaling, PatchSequence& out,
                            PatchingScratch& scratch) const {
  const VolumeSize& size = volume.size;
  const int64_t count = volume.channels * size.voxels();
  if (count <= 0 || static_cast<int64_t>(volume.values.size()) != count) {
    fail<DataError>(
        "adaptive patching: a volume of {}x{}x{}x{} with {} values; expected sizes "
        "above 0 and a value for each voxel",
        volume.channels, size.depth, size.height, size.width, volume.values.size());
  }
  check_scaling(scaling, volume.channels);
  const bool is_image = size.depth == 1;
  start(volume.channels, is_image ? 2 : 3, out);
  const DetailDraw detail = draw(is_image, random);
  const auto rules = resample_rules(!is_image, config_.upstream_compatible);
  const int64_t plane = out.fixed_length * out.token_size();
  out.tokens.resize(static_cast<size_t>(volume.channels * plane));
  const auto num_trees = static_cast<int64_t>(out.trees.size());
  for (int64_t t = 0; t < num_trees; ++t) {
    const int64_t channel = num_trees > 1 ? t : -1;
    scratch.detail.build(volume, channel, config_, detail, random);
    PatchTree& tree = out.trees[static_cast<size_t>(t)];
    grow(size, scratch.detail, tree, scratch.tree);
    volume_to_tokens(volume, tree, channel, config_.patch_size, rules, scaling,
                     out.tokens.data() + t * plane, plane, scratch.resample);
    describe(t, out);
  }
}

void AdaptivePatcher::patch_labels(const LabelMap& labels, const PatchTree& tree,
                                   std::vector<int32_t>& tokens) const {
  labels_to_tokens(labels, tree, config_.patch_size, config_.upstream_compatible, tokens);
  const int64_t p = config_.patch_size;
  const int64_t token_size = tree.is_volume ? p * p * p : p * p;
  tokens.resize(static_cast<size_t>(config_.fixed_length * token_size), -1);
}

void AdaptivePatcher::unpatch(std::span<const float> tokens, int64_t channels,
                              const PatchSequence& sequence, Volume& out,
                              PatchingScratch& scratch) const {
  const auto num_trees = static_cast<int64_t>(sequence.trees.size());
  const auto plane = static_cast<size_t>(sequence.fixed_length * sequence.token_size());
  FOVEA_CHECK(num_trees == 1 || num_trees == channels, "{} channels along {} trees", channels,
              num_trees);
  FOVEA_CHECK(tokens.size() == plane * static_cast<size_t>(channels),
              "{} values; expected {} channels of {} patches of {}", tokens.size(), channels,
              sequence.fixed_length, sequence.token_size());
  out.channels = channels;
  out.size = sequence.trees.at(0).size;
  out.spacing = {1, 1, 1};
  out.values.resize(static_cast<size_t>(channels * out.size.voxels()));
  const auto rules = resample_rules(sequence.dims == 3, config_.upstream_compatible);
  for (int64_t c = 0; c < channels; ++c) {
    tokens_to_volume(tokens.subspan(static_cast<size_t>(c) * plane, plane),
                     sequence.trees[static_cast<size_t>(num_trees == 1 ? 0 : c)],
                     sequence.patch_size, rules, out.values.data() + c * out.size.voxels(),
                     scratch.resample);
  }
}

void AdaptivePatcher::unpatch_labels(std::span<const int32_t> tokens, const PatchTree& tree,
                                     LabelMap& labels) const {
  tokens_to_labels(tokens, tree, config_.patch_size, labels);
}

DetailDraw AdaptivePatcher::draw(bool is_image, RandomStream* random) const {
  return random == nullptr ? middle_detail(config_) : draw_detail(config_, is_image, *random);
}

void AdaptivePatcher::start(int64_t channels, int64_t dims, PatchSequence& out) const {
  out.channels = channels;
  out.fixed_length = config_.fixed_length;
  out.patch_size = config_.patch_size;
  out.dims = dims;
  const auto length = static_cast<size_t>(config_.fixed_length);
  const auto num_trees = static_cast<size_t>(config_.separate_channels ? channels : 1);
  out.sizes.resize(num_trees * length);
  out.centers.resize(num_trees * length * static_cast<size_t>(dims));
  out.padding_mask.resize(num_trees * length);
  out.trees.resize(num_trees);
}

void AdaptivePatcher::grow(VolumeSize size, const NodeValues& values, PatchTree& tree,
                           TreeScratch& scratch) const {
  TreeOptions options;
  options.fixed_length = config_.fixed_length;
  options.min_leaf = config_.min_leaf;
  options.max_depth = config_.max_depth.value_or(kMostLevels);
  options.stops_at_smallest = config_.upstream_compatible;
  grow_tree(size, size.depth > 1, values, options, tree, scratch);
}

void AdaptivePatcher::describe(int64_t index, PatchSequence& out) const {
  const auto& leaves = out.trees[static_cast<size_t>(index)].leaves;
  float* size = out.sizes.data() + index * out.fixed_length;
  float* center = out.centers.data() + index * out.fixed_length * out.dims;
  uint8_t* is_padding = out.padding_mask.data() + index * out.fixed_length;
  for (const Box& leaf : leaves) {
    *size++ = static_cast<float>(leaf.longest_side());
    *is_padding++ = 0;
    *center++ = static_cast<float>(leaf.x) + 0.5f * static_cast<float>(leaf.width);
    *center++ = static_cast<float>(leaf.y) + 0.5f * static_cast<float>(leaf.height);
    if (out.dims == 3) {
      *center++ = static_cast<float>(leaf.z) + 0.5f * static_cast<float>(leaf.depth);
    }
  }
  const auto num_leaves = static_cast<int64_t>(leaves.size());
  const int64_t missing = out.fixed_length - num_leaves;
  std::fill_n(size, missing, 0.0f);
  std::fill_n(is_padding, missing, uint8_t{1});
  std::fill_n(center, missing * out.dims, -1.0f);
  const bool is_shared = out.trees.size() == 1;
  clear_padding(is_shared ? 0 : index, is_shared ? out.channels : index + 1, num_leaves, out);
}

void AdaptivePatcher::clear_padding(int64_t first_channel, int64_t last_channel, int64_t leaves,
                                    PatchSequence& out) const {
  if (out.tokens.empty()) return;  // out of core
  const int64_t token_size = out.token_size();
  for (int64_t c = first_channel; c < last_channel; ++c) {
    std::fill_n(out.tokens.data() + (c * out.fixed_length + leaves) * token_size,
                (out.fixed_length - leaves) * token_size, 0.0f);
  }
}

}  // namespace fovea::data
