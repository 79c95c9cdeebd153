#include "fovea/data/transforms/volume/rand_affine.h"

#include <fmt/format.h>

namespace fovea::data {
namespace {

// `count` numbers, or least and largest of each.
void check_ranges(const char* key, const std::vector<double>& ranges, size_t count,
                  ConfigIssues& issues) {
  bool is_ordered = true;
  if (ranges.size() == 2 * count) {
    for (size_t i = 0; i < ranges.size(); i += 2) is_ordered &= ranges[i] <= ranges[i + 1];
  }
  const bool has_count = ranges.empty() || ranges.size() == count || ranges.size() == 2 * count;
  if (has_count && is_ordered) return;
  issues.add(key, fmt::format("{}; expected no number, {}, or {} as least and largest of each",
                              listed(ranges), count, 2 * count));
}

template <size_t kCount>
void draw_ranges(const std::vector<double>& ranges, double add, RandomStream& random,
                 std::array<double, kCount>& out) {
  if (ranges.empty()) return;
  const bool has_pairs = ranges.size() == 2 * kCount;
  for (size_t i = 0; i < kCount; ++i) {
    const double low = has_pairs ? ranges[2 * i] : -ranges[i];
    const double high = has_pairs ? ranges[2 * i + 1] : ranges[i];
    out[i] = random.uniform(low, high) + add;
  }
}

}  // namespace

std::optional<AffineParams> draw_affine(const RandAffineConfig& config, RandomStream& random) {
  if (!random.bernoulli(config.prob)) return std::nullopt;
  AffineParams params;
  draw_ranges(config.rotate_range, 0.0, random, params.rotate);
  draw_ranges(config.shear_range, 0.0, random, params.shear);
  draw_ranges(config.translate_range, 0.0, random, params.translate);
  draw_ranges(config.scale_range, 1.0, random, params.scale);
  return params;
}

void RandAffineConfig::validate(ConfigIssues& issues) const {
  check_ranges("rotate_range", rotate_range, 3, issues);
  check_ranges("shear_range", shear_range, 6, issues);
  check_ranges("translate_range", translate_range, 3, issues);
  check_ranges("scale_range", scale_range, 3, issues);
  check_size("spatial_size", spatial_size, issues);
  for (size_t i = 0; i < scale_range.size(); ++i) {
    const bool is_least = scale_range.size() == 3 || i % 2 == 0;
    const double least = scale_range.size() == 3 ? -scale_range[i] : scale_range[i];
    if (!is_least || least > -1) continue;
    issues.add("scale_range", listed(scale_range) + "; expected scales (1 + s) above 0");
    break;
  }
}

void RandAffineConfig::apply(VolumeItem& item, RandomStream& random, VolumeScratch& scratch) const {
  const Extent size = size_or(spatial_size, item.values.size);
  const auto params = draw_affine(*this, random);
  if (!params && size == item.values.size) return;
  const SampleMode sampling = mode == "nearest" ? SampleMode::kNearest : SampleMode::kLinear;
  resample_affine(item, affine_map(params.value_or(AffineParams{})), size, sampling,
                  padding_mode_from_name(padding_mode), scratch);
}

}  // namespace fovea::data
