#include "fovea/data/adaptive/resample.h"

#include <algorithm>

#include "fovea/core/error.h"
#include "fovea/data/adaptive/axis_weights.h"
#include "fovea/data/adaptive/resample_block.h"

namespace fovea::data {
namespace {

using patching::Block;
using patching::NearestRule;

constexpr size_t kMostAxes = 256;        // tables kept; a tree has a few sizes of leaves
constexpr int64_t kVectorElements = 64;  // room behind a buffer

int64_t volume_of_patch(int64_t p, bool is_volume) { return is_volume ? p * p * p : p * p; }

// Sets everything of a block that follows from the sizes of the leaf and of what it becomes.
template <class T>
void set_axes(Block<T>& block, const Box& in, const Box& out, const ResampleRules& rules,
              ResampleScratch& scratch) {
  block.depth = &scratch.axis(in.depth, out.depth, rules);
  block.height = &scratch.axis(in.height, out.height, rules);
  block.width = &scratch.axis(in.width, out.width, rules);
  block.buffer = scratch.buffer(patching::block_buffer_size(int64_t{in.depth} * in.height, in.width,
                                                            block.channels,
                                                            in.width > out.width ? 0 : out.width));
}

Box patch_box(int64_t p, bool is_volume) {
  const auto side = static_cast<int32_t>(p);
  return {0, 0, 0, is_volume ? side : 1, side, side};
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
  // One block uses three tables at a time: the oldest may go, the last ones may not.
  if (axes_.size() >= kMostAxes) {
    std::rotate(axes_.begin(), axes_.begin() + 1, axes_.end());
  } else {
    axes_.push_back(std::make_unique<AxisWeights>());
  }
  patching::make_axis(in, out, rule, *axes_.back());
  return *axes_.back();
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
  const Box patch = patch_box(p, false);
  for (const Box& leaf : tree.leaves) {
    set_axes(block, leaf, patch, rules, scratch);
    block.in = image.row(leaf.y) + leaf.x * image.channels;
    block.out = tokens;
    patching::resample_block(block);
    tokens += p * p;
  }
}

void volume_to_tokens(const VolumeValues& volume, const PatchTree& tree, int64_t channel, int64_t p,
                      const ResampleRules& rules, const ChannelScaling& scaling, float* tokens,
                      int64_t channel_stride, ResampleScratch& scratch) {
  check_fits(tree, volume.size);
  const int64_t first = channel < 0 ? 0 : channel;
  const int64_t last = channel < 0 ? volume.channels : channel + 1;
  const VolumeSize& size = volume.size;
  const Box patch = patch_box(p, tree.is_volume);
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
    const float* values = volume.channel(c);
    block.out = tokens + (c - first) * channel_stride;
    for (const Box& leaf : tree.leaves) {
      set_axes(block, leaf, patch, rules, scratch);
      block.in = values + (leaf.z * size.height + leaf.y) * size.width + leaf.x;
      patching::resample_block(block);
      block.out += volume_of_patch(p, tree.is_volume);
    }
  }
}

void tokens_to_volume(std::span<const float> tokens, const PatchTree& tree, int64_t p,
                      const ResampleRules& rules, float* out, ResampleScratch& scratch) {
  const int64_t token_size = volume_of_patch(p, tree.is_volume);
  FOVEA_CHECK(tokens.size() >= tree.leaves.size() * static_cast<size_t>(token_size),
              "{} values for {} leaves of {} each", tokens.size(), tree.leaves.size(), token_size);
  constexpr float kOne = 1;
  constexpr float kZero = 0;
  const Box patch = patch_box(p, tree.is_volume);
  Block<float> block;
  block.in = tokens.data();
  block.in_slice = p * p;
  block.in_row = p;
  block.out_slice = tree.size.height * tree.size.width;
  block.out_row = tree.size.width;
  block.scale = &kOne;
  block.shift = &kZero;
  for (const Box& leaf : tree.leaves) {
    set_axes(block, patch, leaf, rules, scratch);
    block.out = out + (leaf.z * tree.size.height + leaf.y) * tree.size.width + leaf.x;
    patching::resample_block(block);
    block.in += token_size;
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
  for (const Box& leaf : tree.leaves) {
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
