#include "fovea/data/adaptive/resample.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/adaptive/axis_weights.h"
#include "fovea/data/adaptive/resample_block.h"

namespace fovea::data {
namespace {

using patching::Block;
using patching::NearestRule;

constexpr size_t kMostAxes = 256;  // kept for the next sample; a tree has a few sizes of leaves
constexpr int64_t kVectorElements = 64;  // room behind a buffer

// Each leaf resampled to `patch`, one behind the other -> tokens. image: its first element; of
// `block` all is set but what belongs to a leaf.
template <class T>
void cut_leaves(Block<T>& block, const T* image, const PatchTree& tree, const TreeBox& patch,
                const ResampleRules& rules, float* tokens, ResampleScratch& scratch) {
  for (const TreeBox& leaf : tree.leaves) {
    patching::set_sides(block, leaf, patch, rules, scratch);
    block.in = image + leaf.z * block.in_slice + leaf.y * block.in_row + leaf.x * block.channels;
    block.out = tokens;
    patching::resample_block(block);
    tokens += patch.voxels();
  }
}

void check_fits(const PatchTree& tree, VolumeSize size) {
  FOVEA_CHECK(tree.size == size, "a tree over {}x{}x{} on a sample of {}x{}x{}", tree.size.depth,
              tree.size.height, tree.size.width, size.depth, size.height, size.width);
}

}  // namespace

ResampleRules resample_rules(bool is_volume, bool upstream_compatible) {
  if (!is_volume) {
    return {AxisRule::kCubic, upstream_compatible ? AxisRule::kCubic : AxisRule::kArea};
  }
  if (upstream_compatible) return {AxisRule::kLinearAligned, AxisRule::kLinearAligned};
  return {AxisRule::kLinear, AxisRule::kArea};
}

void check_scaling(const ChannelScaling& scaling, int64_t channels) {
  const auto fits = [&](std::span<const float> values) {
    return values.empty() || static_cast<int64_t>(values.size()) == channels;
  };
  FOVEA_CHECK(fits(scaling.scale) && fits(scaling.shift),
              "{} scales and {} shifts for {} channel(s); expected none or one for each",
              scaling.scale.size(), scaling.shift.size(), channels);
}

const AxisWeights& ResampleScratch::axis(int64_t in, int64_t out, const ResampleRules& rules) {
  const AxisRule rule = rule_of(in, out, rules);
  for (const auto& axis : axes_) {
    if (axis->in == in && axis->out == out && axis->rule == rule) return *axis;
  }
  patching::make_axis(in, out, rule, *axes_.emplace_back(std::make_unique<AxisWeights>()));
  return *axes_.back();
}

void ResampleScratch::start_sample() {
  if (axes_.size() > kMostAxes) axes_.clear();
}

float* ResampleScratch::buffer(int64_t count) {
  const auto size = static_cast<size_t>(count + kVectorElements);
  if (buffer_.size() < size) buffer_.resize(size);
  return buffer_.data();
}

void image_to_tokens(const ImageView& image, const PatchTree& tree, int64_t p,
                     const ResampleRules& rules, const ChannelScaling& scaling, float* tokens,
                     int64_t channel_stride, ResampleScratch& scratch) {
  check_fits(tree, {1, image.height, image.width});
  scratch.start_sample();
  std::vector<float>& factors = scratch.factors();
  factors.clear();
  for (int64_t c = 0; c < image.channels; ++c) factors.push_back(scale_of(scaling, c));
  for (int64_t c = 0; c < image.channels; ++c) factors.push_back(shift_of(scaling, c));
  Block<uint8_t> block;
  block.channels = image.channels;
  block.in_row = image.row_stride;
  block.out_channel = channel_stride;
  block.out_row = p;
  block.scale = factors.data();
  block.shift = factors.data() + image.channels;
  cut_leaves(block, image.row(0), tree, patching::patch_box(p, false), rules, tokens, scratch);
}

void volume_to_tokens(const VolumeValues& volume, const PatchTree& tree, int64_t channel, int64_t p,
                      const ResampleRules& rules, const ChannelScaling& scaling, float* tokens,
                      int64_t channel_stride, ResampleScratch& scratch) {
  check_fits(tree, volume.size);
  scratch.start_sample();
  const int64_t first = channel < 0 ? 0 : channel;
  const int64_t last = channel < 0 ? volume.channels : channel + 1;
  const VolumeSize& size = volume.size;
  const TreeBox patch = patching::patch_box(p, tree.is_volume);
  Block<float> block;
  block.in_slice = size.height * size.width;
  block.in_row = size.width;
  block.out_slice = p * p;
  block.out_row = p;
  for (int64_t c = first; c < last; ++c) {
    const float scale = scale_of(scaling, c);
    const float shift = shift_of(scaling, c);
    block.scale = &scale;
    block.shift = &shift;
    cut_leaves(block, volume.channel(c), tree, patch, rules, tokens + (c - first) * channel_stride,
               scratch);
  }
}

void tokens_to_volume(std::span<const float> tokens, const PatchTree& tree, int64_t p,
                      const ResampleRules& rules, float* out, ResampleScratch& scratch) {
  const TreeBox patch = patching::patch_box(p, tree.is_volume);
  FOVEA_CHECK(tokens.size() >= tree.leaves.size() * static_cast<size_t>(patch.voxels()),
              "{} values for {} leaves of {} each", tokens.size(), tree.leaves.size(),
              patch.voxels());
  scratch.start_sample();
  Block<float> block;
  block.in = tokens.data();
  block.in_slice = p * p;
  block.in_row = p;
  block.out_slice = tree.size.height * tree.size.width;
  block.out_row = tree.size.width;
  for (const TreeBox& leaf : tree.leaves) {
    patching::set_sides(block, patch, leaf, rules, scratch);
    block.out = out + (leaf.z * tree.size.height + leaf.y) * tree.size.width + leaf.x;
    patching::resample_block(block);
    block.in += patch.voxels();
  }
}

void labels_to_tokens(std::span<const int32_t> classes, const PatchTree& tree, int64_t p,
                      bool upstream_compatible, std::span<int32_t> tokens) {
  const VolumeSize& size = tree.size;
  NearestRule rule = NearestRule::kCentre;
  if (upstream_compatible) rule = tree.is_volume ? NearestRule::kAligned : NearestRule::kFloor;
  const int64_t depth = tree.is_volume ? p : 1;
  FOVEA_CHECK(static_cast<int64_t>(classes.size()) == size.voxels() &&
                  tokens.size() == tree.leaves.size() * static_cast<size_t>(depth * p * p),
              "{} classes for {} in {} leaves; expected {}", classes.size(), tokens.size(),
              tree.leaves.size(), size.voxels());
  int32_t* out = tokens.data();
  for (const TreeBox& leaf : tree.leaves) {
    for (int64_t k = 0; k < depth; ++k) {
      const int64_t z = leaf.z + patching::nearest(k, leaf.depth, depth, rule);
      for (int64_t j = 0; j < p; ++j) {
        const int64_t y = leaf.y + patching::nearest(j, leaf.height, p, rule);
        const int32_t* row = classes.data() + (z * size.height + y) * size.width + leaf.x;
        for (int64_t i = 0; i < p; ++i) *out++ = row[patching::nearest(i, leaf.width, p, rule)];
      }
    }
  }
}

}  // namespace fovea::data
