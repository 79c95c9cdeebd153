#include "fovea/models/unetr_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>

namespace fovea::models {
namespace {

constexpr int64_t kStages = 4;
constexpr int64_t kStandardPatch = 16;  // four doublings

bool is_power_of_two(int64_t side) { return std::has_single_bit(static_cast<uint64_t>(side)); }

// The last stages grow first: what is coarse has the most channels.
int64_t stride_of(int64_t patch, int64_t stage) {
  const auto doublings = static_cast<int64_t>(std::countr_zero(static_cast<uint64_t>(patch)));
  return int64_t{1} << (doublings + stage) / kStages;
}

}  // namespace

bool UnetrConfig::is_resized() const {
  const auto patch = encoder.vit.patch_sides();
  if (upsample == "auto" && std::all_of(patch.begin(), patch.end(), is_power_of_two)) return false;
  return std::any_of(patch.begin(), patch.end(),
                     [](int64_t side) { return side != kStandardPatch; });
}

std::array<std::vector<int64_t>, 4> UnetrConfig::strides() const {
  const auto patch = encoder.vit.patch_sides();
  std::array<std::vector<int64_t>, 4> strides;
  for (int64_t stage = 0; stage < kStages; ++stage) {
    for (const auto side : patch) {
      // After the interpolation the last stage of a decoder with skip connections has full size.
      const bool is_done = stage + 1 == kStages && skip_connection;
      strides[static_cast<size_t>(stage)].push_back(is_resized() ? (is_done ? 1 : 2)
                                                                 : stride_of(side, stage));
    }
  }
  return strides;
}

std::array<int64_t, 3> UnetrConfig::skip_blocks() const {
  const auto quarter = encoder.vit.depth / 4;
  return {quarter, 2 * quarter, 3 * quarter};
}

void UnetrConfig::validate(ConfigIssues& issues) const {
  const auto& vit = encoder.vit;
  const auto image = vit.img_sides(), patch = vit.patch_sides();
  for (size_t side = 0; side < std::min(image.size(), patch.size()); ++side) {
    if (patch[side] < 1 || image[side] % patch[side] == 0) continue;
    issues.add("encoder.img_size",
               fmt::format("a side of {} is no multiple of the patch size {}; every pixel gets a "
                           "class, so take {} or {}",
                           image[side], patch[side], image[side] / patch[side] * patch[side],
                           (image[side] / patch[side] + 1) * patch[side]));
  }
  if (vit.crop_to_patches || vit.dynamic_img_pad) {
    issues.add("encoder.crop_to_patches",
               "pixels would be cut off or added, but every pixel gets a class; set "
               "crop_to_patches and dynamic_img_pad to false");
  }
  if (vit.patch_drop_rate > 0) {
    issues.add("encoder.patch_drop_rate",
               fmt::format("{} drops tokens, but every patch gets classes; set it to 0",
                           vit.patch_drop_rate));
  }
  if (skip_connection && !linear_decoder && vit.depth < kStages) {
    issues.add("encoder.depth",
               fmt::format("{} blocks have no quarters for three skip connections; take at least "
                           "4, or skip_connection: false",
                           vit.depth));
  }
}

}  // namespace fovea::models
