// B batch, C channels, L patches, S = p^d values of a patch, d sides, T trees a sample.
#include "fovea/train/evaluate/patch_images.h"

#include <ATen/ops/ones_like.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <array>
#include <cmath>
#include <map>
#include <vector>

#include "fovea/core/error.h"
#include "fovea/data/adaptive/axis_weights.h"
#include "fovea/data/adaptive/resample.h"

namespace fovea::train {
namespace {

int64_t patch_side(int64_t values, size_t sides) {
  return std::llround(std::pow(static_cast<double>(values), 1.0 / static_cast<double>(sides)));
}

struct Leaf {
  int64_t sample = 0, patch = 0;
  data::TreeBox box;
};

using LeavesBySides = std::map<std::array<int32_t, 3>, std::vector<Leaf>>;

LeavesBySides leaves_of_tree(std::span<const data::PatchTree> trees, int64_t tree,
                             int64_t num_trees) {
  LeavesBySides leaves;
  for (int64_t i = tree; i < static_cast<int64_t>(trees.size()); i += num_trees) {
    int64_t patch = 0;
    for (const auto& box : trees[static_cast<size_t>(i)].leaves) {
      leaves[{box.depth, box.height, box.width}].push_back({i / num_trees, patch++, box});
    }
  }
  return leaves;
}

// [out, in]: what the way back through the tree does along one axis.
at::Tensor resizing_matrix(int64_t in, int64_t out, const data::ResampleRules& rules,
                           const at::Tensor& like) {
  data::AxisWeights axis;
  data::patching::make_axis(in, out, data::rule_of(in, out, rules), axis);
  auto matrix = at::zeros({out, in}, at::kFloat);
  for (int64_t i = 0; i < out; ++i) {
    for (int64_t k = 0; k < axis.taps; ++k) {
      const auto weight = axis.weights[static_cast<size_t>(i * axis.taps + k)];
      if (weight == 0) continue;
      matrix.mutable_data_ptr<float>()[i * in + axis.starts[static_cast<size_t>(i)] + k] += weight;
    }
  }
  return matrix.to(like.device(), like.scalar_type());
}

// The part of the image in a leaf. image: [C, sides]
at::Tensor part_in(const at::Tensor& image, const data::TreeBox& box) {
  const auto part = image.narrow(-2, box.y, box.height).narrow(-1, box.x, box.width);
  return image.dim() == 4 ? part.narrow(1, box.z, box.depth) : part;
}

// [n] of n leaves of equal sides. values: [n, C, S], images: [B, C, sides]
at::Tensor errors_of_leaves(const at::Tensor& values, const at::Tensor& images,
                            const std::vector<Leaf>& leaves, const data::ResampleRules& rules) {
  const auto sides = static_cast<size_t>(images.dim() - 2);
  const auto p = patch_side(values.size(2), sides);
  auto x = values.unflatten(2, std::vector<int64_t>(sides, p));  // [n, C, p, p(, p)]
  const auto& box = leaves.front().box;
  std::vector<int64_t> extents = {box.height, box.width};
  if (sides == 3) extents.insert(extents.begin(), box.depth);
  for (size_t axis = 0; axis < sides; ++axis) {
    const auto dim = static_cast<int64_t>(axis) + 2;
    const auto matrix = resizing_matrix(p, extents[axis], rules, x);
    x = x.transpose(dim, -1).matmul(matrix.t()).transpose(dim, -1);
  }
  std::vector<at::Tensor> parts;
  for (const auto& leaf : leaves) parts.push_back(part_in(images[leaf.sample], leaf.box));
  return (x - at::stack(parts)).square().flatten(1).mean(1);
}

}  // namespace

at::Tensor images_of_patches(const at::Tensor& values, std::span<const data::PatchTree> trees,
                             at::IntArrayRef sides, bool is_tree_of_channel) {
  const auto tokens = values.detach().to(at::kCPU, at::kFloat).contiguous();  // [B, C, L, S]
  const auto channels = tokens.size(1);
  std::vector<int64_t> shape = {tokens.size(0), channels};
  shape.insert(shape.end(), sides.begin(), sides.end());
  const auto whole = at::zeros(shape, at::kFloat);
  const auto num_trees = static_cast<int64_t>(trees.size()) / tokens.size(0);
  const auto patch_size = patch_side(tokens.size(3), sides.size());
  const auto per_channel = tokens.size(2) * tokens.size(3);
  data::ResampleScratch scratch;
  for (int64_t b = 0; b < tokens.size(0); ++b) {
    for (int64_t c = 0; c < channels; ++c) {
      const auto own = is_tree_of_channel && num_trees > 1 ? c : 0;
      const auto& tree = trees[static_cast<size_t>(b * num_trees + own)];
      if (tree.leaves.empty()) continue;
      const auto rules = data::resample_rules(tree.is_volume, /*upstream_compatible=*/false);
      const auto* first = tokens.const_data_ptr<float>() + (b * channels + c) * per_channel;
      data::tokens_to_volume(std::span(first, static_cast<size_t>(per_channel)), tree, patch_size,
                             rules, whole[b][c].mutable_data_ptr<float>(), scratch);
    }
  }
  return whole;
}

at::Tensor patch_errors_in_image(const at::Tensor& values, const at::Tensor& images,
                                 std::span<const data::PatchTree> trees) {
  const auto length = values.size(2), rows = values.size(0) * length;
  const auto num_trees = static_cast<int64_t>(trees.size()) / values.size(0);
  FOVEA_CHECK(num_trees == 1 || num_trees == values.size(1),
              "{} trees for {} channels; expected one, or one for each", num_trees, values.size(1));
  auto sums = at::zeros({rows}, values.options());    // of the channels' errors
  auto counts = at::zeros({rows}, values.options());  // channels with a leaf
  for (int64_t t = 0; t < num_trees; ++t) {
    const auto own = num_trees == 1 ? values : values.narrow(1, t, 1);
    const auto seen = num_trees == 1 ? images : images.narrow(1, t, 1);
    const auto by_patch = own.transpose(1, 2).flatten(0, 1);  // [B * L, C, S]
    for (const auto& [sides, leaves] : leaves_of_tree(trees, t, num_trees)) {
      std::vector<int64_t> places;
      for (const auto& leaf : leaves) places.push_back(leaf.sample * length + leaf.patch);
      const auto index = at::tensor(places, at::kLong).to(values.device());
      const bool is_volume = trees[static_cast<size_t>(t)].is_volume;
      const auto rules = data::resample_rules(is_volume, /*upstream_compatible=*/false);
      const auto errors = errors_of_leaves(by_patch.index_select(0, index), seen, leaves, rules);
      sums = sums.index_add(0, index, errors);
      counts.index_add_(0, index, at::ones_like(errors));
    }
  }
  return (sums / counts.clamp_min(1)).view({-1, length});  // [B, L]
}

}  // namespace fovea::train
