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
                            const ChannelScaling& scaling, const PatchSpans& out,
                            PatchingScratch& scratch) const {
  const VolumeSize size = {1, image.height, image.width};
  if (size.voxels() <= 0 || image.channels <= 0) {
    fail<DataError>("adaptive patching: an image of {}x{}x{}; expected sizes above 0", image.height,
                    image.width, image.channels);
  }
  check_scaling(scaling, image.channels);
  check_room(image.channels, 2, out);
  const DetailDraw detail = draw(true, random);
  const auto rules = resample_rules(false, config_.upstream_compatible);
  const auto plane = static_cast<int64_t>(out.tokens.size()) / image.channels;
  for (size_t t = 0; t < out.trees.size(); ++t) {
    const bool is_part = out.trees.size() > 1;
    const auto channel = static_cast<int64_t>(t);
    const ImageView part = is_part ? channel_of(image, channel, scratch.channel) : image;
    scratch.detail.build(patching::rows_of(part), config_, detail, random);
    grow(size, scratch.detail, out.trees[t], scratch.tree);
    image_to_tokens(part, out.trees[t], config_.patch_size, rules,
                    is_part ? one_channel(scaling, channel) : scaling,
                    out.tokens.data() + channel * plane, plane, scratch.resample);
    describe(t, out);
  }
}

void AdaptivePatcher::patch(const VolumeValues& volume, RandomStream* random,
                            const ChannelScaling& scaling, const PatchSpans& out,
                            PatchingScratch& scratch) const {
  const VolumeSize& size = volume.size;
  if (size.voxels() <= 0 || volume.channels <= 0) {
    fail<DataError>("adaptive patching: a volume of {}x{}x{}x{}; expected sizes above 0",
                    volume.channels, size.depth, size.height, size.width);
  }
  const bool is_image = size.depth == 1;
  check_scaling(scaling, volume.channels);
  check_room(volume.channels, is_image ? 2 : 3, out);
  const DetailDraw detail = draw(is_image, random);
  const auto rules = resample_rules(!is_image, config_.upstream_compatible);
  const auto plane = static_cast<int64_t>(out.tokens.size()) / volume.channels;
  for (size_t t = 0; t < out.trees.size(); ++t) {
    const int64_t channel = out.trees.size() > 1 ? static_cast<int64_t>(t) : -1;
    scratch.detail.build(volume, channel, config_, detail, random);
    grow(size, scratch.detail, out.trees[t], scratch.tree);
    volume_to_tokens(volume, out.trees[t], channel, config_.patch_size, rules, scaling,
                     out.tokens.data() + static_cast<int64_t>(t) * plane, plane, scratch.resample);
    describe(t, out);
  }
}

void AdaptivePatcher::patch(const ImageView& image, RandomStream* random,
                            const ChannelScaling& scaling, PatchSequence& out,
                            PatchingScratch& scratch) const {
  start(image.channels, 2, /*has_tokens=*/true, out);
  patch(image, random, scaling, out.spans(), scratch);
}

void AdaptivePatcher::patch(const Volume& volume, RandomStream* random,
                            const ChannelScaling& scaling, PatchSequence& out,
                            PatchingScratch& scratch) const {
  const auto& [depth, height, width] = volume.size;
  const auto count = static_cast<size_t>(volume.channels * volume.size.voxels());
  if (volume.values.size() != count) {
    fail<DataError>(
        "adaptive patching: a volume of {}x{}x{}x{} with {} values; expected a value for each "
        "voxel",
        volume.channels, depth, height, width, volume.values.size());
  }
  start(volume.channels, depth == 1 ? 2 : 3, /*has_tokens=*/true, out);
  patch(VolumeValues(volume), random, scaling, out.spans(), scratch);
}

void AdaptivePatcher::patch_labels(std::span<const int32_t> classes, const PatchTree& tree,
                                   std::span<int32_t> tokens) const {
  const int64_t p = config_.patch_size;
  const int64_t token_size = tree.is_volume ? p * p * p : p * p;
  FOVEA_CHECK(static_cast<int64_t>(tokens.size()) == config_.fixed_length * token_size,
              "room for {} classes; expected {} patches of {}", tokens.size(), config_.fixed_length,
              token_size);
  const size_t used = tree.leaves.size() * static_cast<size_t>(token_size);
  labels_to_tokens(classes, tree, p, config_.upstream_compatible, tokens.first(used));
  std::fill(tokens.begin() + static_cast<ptrdiff_t>(used), tokens.end(), -1);
}

DetailDraw AdaptivePatcher::draw(bool is_image, RandomStream* random) const {
  return random == nullptr ? middle_detail(config_) : draw_detail(config_, is_image, *random);
}

void AdaptivePatcher::start(int64_t channels, int64_t dims, bool has_tokens,
                            PatchSequence& out) const {
  out.channels = channels;
  out.fixed_length = config_.fixed_length;
  out.patch_size = config_.patch_size;
  out.dims = dims;
  const auto length = static_cast<size_t>(config_.fixed_length);
  const auto num_trees = static_cast<size_t>(config_.separate_channels ? channels : 1);
  const auto values = static_cast<size_t>(channels * out.token_size()) * length;
  out.tokens.resize(has_tokens ? values : 0);
  out.sizes.resize(num_trees * length);
  out.centers.resize(num_trees * length * static_cast<size_t>(dims));
  out.padding_mask.resize(num_trees * length);
  out.trees.resize(num_trees);
}

void AdaptivePatcher::check_room(int64_t channels, int64_t dims, const PatchSpans& out) const {
  const int64_t p = config_.patch_size;
  const auto length = static_cast<size_t>(config_.fixed_length);
  const auto num_trees = static_cast<size_t>(config_.separate_channels ? channels : 1);
  const auto values = static_cast<size_t>(channels * p * p * (dims == 3 ? p : 1)) * length;
  FOVEA_CHECK((out.tokens.empty() || out.tokens.size() == values) &&
                  out.trees.size() == num_trees && out.sizes.size() == num_trees * length &&
                  out.centers.size() == num_trees * length * static_cast<size_t>(dims) &&
                  out.padding_mask.size() == num_trees * length,
              "room for {} values in {} patches of {} trees; expected {}, {} and {}",
              out.tokens.size(), out.sizes.size(), out.trees.size(), values, num_trees * length,
              num_trees);
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

// What is known of the leaves of a tree, and the padding behind them.
void AdaptivePatcher::describe(size_t index, const PatchSpans& out) const {
  const auto& leaves = out.trees[index].leaves;
  const auto length = static_cast<size_t>(config_.fixed_length);
  const auto dims = out.centers.size() / out.sizes.size();
  float* size = out.sizes.data() + index * length;
  float* center = out.centers.data() + index * length * dims;
  uint8_t* is_padding = out.padding_mask.data() + index * length;
  for (const TreeBox& leaf : leaves) {
    *size++ = static_cast<float>(leaf.longest_side());
    *is_padding++ = 0;
    *center++ = static_cast<float>(leaf.x) + 0.5f * static_cast<float>(leaf.width);
    *center++ = static_cast<float>(leaf.y) + 0.5f * static_cast<float>(leaf.height);
    if (dims == 3) *center++ = static_cast<float>(leaf.z) + 0.5f * static_cast<float>(leaf.depth);
  }
  const size_t missing = length - leaves.size();
  std::fill_n(size, missing, 0.0f);
  std::fill_n(is_padding, missing, uint8_t{1});
  std::fill_n(center, missing * dims, -1.0f);
  // Of a shared tree the tokens of all channels.
  const size_t parts = out.tokens.size() / out.trees.size();
  const auto p = static_cast<size_t>(config_.patch_size);
  const size_t token_size = dims == 3 ? p * p * p : p * p;
  const auto own = out.tokens.subspan(index * parts, parts);
  for (size_t first = 0; first < own.size(); first += length * token_size) {
    std::fill_n(own.begin() + static_cast<ptrdiff_t>(first + leaves.size() * token_size),
                missing * token_size, 0.0f);
  }
}

}  // namespace fovea::data
