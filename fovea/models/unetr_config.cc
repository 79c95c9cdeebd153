#include "fovea/models/unetr_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>

namespace fovea::models {
namespace {

constexpr int64_t kStages = 4;
constexpr int64_t kStandardPatch = 16;  // four doublings

bool is_power_of_two(int64_t side) { return std::has_single_bit(static_cast<uint64_t>(side)); }

// The whole number whose d-th power comes closest.
int64_t rounded_root(int64_t power, size_t d) {
  return std::llround(std::pow(static_cast<double>(power), 1.0 / static_cast<double>(d)));
}

int64_t power_of(int64_t side, size_t d) { return d == 3 ? side * side * side : side * side; }

void check_adaptive_map(const UnetrConfig& config, ConfigIssues& issues) {
  if (config.adaptive_map == "sequence" && !config.encoder.vit.is_adaptive()) {
    issues.add("adaptive_map", {"encoder.patching"},
               "sequence is for encoder.patching: adaptive; leave it out");
  }
  if (!config.is_sequence_map() || !config.sequence_sides().empty()) return;
  const auto d = config.encoder.vit.img_sides().size();
  const auto length = config.encoder.vit.fixed_length, nearest = rounded_root(length, d);
  const auto side = power_of(nearest, d) > length ? nearest - 1 : nearest;
  issues.add(
      "encoder.fixed_length",
      {"adaptive_map", "encoder.patching", "encoder.img_size", "encoder.patch_size"},
      fmt::format("{} patches make no {}, on which adaptive_map: sequence lays them; take "
                  "{} or {}, or adaptive_map: image, which takes any number",
                  length, d == 3 ? "cube" : "square", power_of(side, d), power_of(side + 1, d)));
}

// The last stages grow first: what is coarse has the most channels.
int64_t stride_of(int64_t patch, int64_t stage) {
  const auto doublings = static_cast<int64_t>(std::countr_zero(static_cast<uint64_t>(patch)));
  return int64_t{1} << (doublings + stage) / kStages;
}

}  // namespace

bool UnetrConfig::is_resized() const {
  if (is_sequence_map()) {
    const auto image = encoder.vit.img_sides(), sides = sequence_sides();
    return !std::equal(
        image.begin(), image.end(), sides.begin(), sides.end(),
        [](int64_t pixels, int64_t cells) { return pixels == cells * kStandardPatch; });
  }
  const auto patch = encoder.vit.patch_sides();
  if (upsample == "auto" && std::all_of(patch.begin(), patch.end(), is_power_of_two)) return false;
  return std::any_of(patch.begin(), patch.end(),
                     [](int64_t side) { return side != kStandardPatch; });
}

std::vector<int64_t> UnetrConfig::sequence_sides() const {
  const auto d = encoder.vit.img_sides().size();
  const auto side = rounded_root(encoder.vit.fixed_length, d);
  if (power_of(side, d) != encoder.vit.fixed_length) return {};
  return std::vector<int64_t>(d, side);
}

std::array<std::vector<int64_t>, 4> UnetrConfig::strides() const {
  const auto patch = encoder.vit.patch_sides();
  const bool has_doublings = is_resized() || is_sequence_map();
  std::array<std::vector<int64_t>, 4> strides;
  for (int64_t stage = 0; stage < kStages; ++stage) {
    for (const auto side : patch) {
      // After the interpolation the last stage of a decoder with skip connections has full size.
      const bool is_done = is_resized() && stage + 1 == kStages && skip_connection;
      strides[static_cast<size_t>(stage)].push_back(has_doublings ? (is_done ? 1 : 2)
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
  check_adaptive_map(*this, issues);
  const auto image = vit.img_sides(), patch = vit.patch_sides();
  for (size_t side = 0; side < std::min(image.size(), patch.size()); ++side) {
    if (patch[side] < 1 || image[side] % patch[side] == 0 || is_sequence_map()) continue;
    issues.add("encoder.img_size", {"encoder.patch_size", "encoder.patching", "adaptive_map"},
               fmt::format("a side of {} is no multiple of the patch size {}; every pixel gets a "
                           "class, so take {} or {}",
                           image[side], patch[side], image[side] / patch[side] * patch[side],
                           (image[side] / patch[side] + 1) * patch[side]));
  }
  if (vit.crop_to_patches || vit.dynamic_img_pad) {
    issues.add("encoder.crop_to_patches", {"encoder.dynamic_img_pad"},
               "pixels would be cut off or added, but every pixel gets a class; set "
               "crop_to_patches and dynamic_img_pad to false");
  }
  if (vit.patch_drop_rate > 0) {
    issues.add("encoder.patch_drop_rate",
               fmt::format("{} drops tokens, but every patch gets classes; set it to 0",
                           vit.patch_drop_rate));
  }
  if (skip_connection && !linear_decoder && vit.depth < kStages) {
    issues.add("encoder.depth", {"skip_connection", "linear_decoder"},
               fmt::format("{} blocks have no quarters for three skip connections; take at least "
                           "4, or skip_connection: false",
                           vit.depth));
  }
}

}  // namespace fovea::models
