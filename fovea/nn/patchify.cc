// B batch, C channels, P patch side, S image side, G grid side (S = G * P), N patches.
#include "fovea/nn/patchify.h"

#include <fmt/ranges.h>

#include "fovea/core/error.h"
#include "fovea/kernels/elementwise/contiguous.h"

namespace fovea::nn {
namespace {

void check_divisible(at::IntArrayRef img_size, at::IntArrayRef patch_size) {
  bool fits = img_size.size() == patch_size.size();
  for (size_t i = 0; fits && i < patch_size.size(); ++i) {
    fits = patch_size[i] > 0 && img_size[i] % patch_size[i] == 0;
  }
  FOVEA_CHECK(fits,
              "images of sides [{}] do not divide into patches of sides [{}]; expected a multiple "
              "of each",
              fmt::join(img_size, ", "), fmt::join(patch_size, ", "));
}

// images: [B, C, S, S] -> a view [B, C, G, P, G, P].
at::Tensor split_sides(const at::Tensor& images, at::IntArrayRef patch_size) {
  FOVEA_CHECK(images.dim() == static_cast<int64_t>(patch_size.size()) + 2,
              "images of shape [{}]; expected [B, C] and {} sides", fmt::join(images.sizes(), ", "),
              patch_size.size());
  check_divisible(images.sizes().slice(2), patch_size);
  std::vector<int64_t> split = {images.size(0), images.size(1)};
  for (size_t i = 0; i < patch_size.size(); ++i) {
    split.push_back(images.size(static_cast<int64_t>(i) + 2) / patch_size[i]);
    split.push_back(patch_size[i]);
  }
  return images.reshape(split);
}

// Dims of [B, C, G, P, G, P] in the order B, the grid, then the patch with its channels.
std::vector<int64_t> patch_order(int64_t num_sides, bool channels_last) {
  std::vector<int64_t> order = {0};
  for (int64_t i = 0; i < num_sides; ++i) order.push_back(2 + 2 * i);
  if (!channels_last) order.push_back(1);
  for (int64_t i = 0; i < num_sides; ++i) order.push_back(3 + 2 * i);
  if (channels_last) order.push_back(1);
  return order;
}

at::Tensor to_patches(const at::Tensor& images, at::IntArrayRef patch_size, bool channels_last) {
  const auto num_sides = static_cast<int64_t>(patch_size.size());
  const auto x = kernels::contiguous(
      split_sides(images, patch_size).permute(patch_order(num_sides, channels_last)));
  return x.flatten(num_sides + 1).flatten(1, num_sides);  // [B, N, patch elements]
}

}  // namespace

at::Tensor patchify(const at::Tensor& images, at::IntArrayRef patch_size) {
  return to_patches(images, patch_size, /*channels_last=*/true);
}

at::Tensor unfold_patches(const at::Tensor& images, at::IntArrayRef patch_size) {
  return to_patches(images, patch_size, /*channels_last=*/false);
}

at::Tensor unpatchify(const at::Tensor& patches, at::IntArrayRef patch_size,
                      at::IntArrayRef img_size) {
  check_divisible(img_size, patch_size);
  const auto num_sides = static_cast<int64_t>(patch_size.size());
  int64_t pixels = 1, num_patches = 1;
  std::vector<int64_t> split = {patches.size(0)};  // [B, G, G, P, P, C]
  for (int64_t i = 0; i < num_sides; ++i) {
    split.push_back(img_size[i] / patch_size[i]);
    num_patches *= split.back();
    pixels *= patch_size[i];
  }
  FOVEA_CHECK(
      patches.dim() == 3 && patches.size(1) == num_patches && patches.size(2) % pixels == 0,
      "patches of shape [{}]; expected [B, {}, a multiple of {}] for images of sides [{}] and "
      "patches of sides [{}]",
      fmt::join(patches.sizes(), ", "), num_patches, pixels, fmt::join(img_size, ", "),
      fmt::join(patch_size, ", "));
  split.insert(split.end(), patch_size.begin(), patch_size.end());
  const auto channels = patches.size(2) / pixels;
  split.push_back(channels);
  std::vector<int64_t> order = {0, 2 * num_sides + 1};  // [B, C, G, P, G, P]
  for (int64_t i = 0; i < num_sides; ++i) {
    order.push_back(1 + i);
    order.push_back(1 + num_sides + i);
  }
  std::vector<int64_t> shape = {patches.size(0), channels};  // [B, C, S, S]
  shape.insert(shape.end(), img_size.begin(), img_size.end());
  return patches.reshape(split).permute(order).reshape(shape);
}

}  // namespace fovea::nn
