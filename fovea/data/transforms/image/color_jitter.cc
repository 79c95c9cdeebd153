#include "fovea/data/transforms/image/color_jitter.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "fovea/data/transforms/image/color_ops.h"

namespace fovea::data {
namespace {

// One distance from `center`, or a range inside [low, high].
void check_jitter(const std::string& key, const std::vector<double>& range, double low, double high,
                  ConfigIssues& issues) {
  const bool is_distance = range.size() == 1 && range[0] >= 0 && range[0] <= high;
  const bool is_range =
      range.size() == 2 && range[0] >= low && range[0] <= range[1] && range[1] <= high;
  if (!is_distance && !is_range) {
    issues.add(key,
               fmt::format("[{}]; expected one number from 0 on, or [least, largest] in {} to {}",
                           fmt::join(range, ", "), low, high));
  }
}

// [least, largest] of a list that may hold a distance from `center`; none: nothing to do.
std::optional<std::pair<double, double>> jitter_range(const std::vector<double>& list,
                                                      double center, double least) {
  const double low = list.size() == 2 ? list[0] : std::max(center - list[0], least);
  const double high = list.size() == 2 ? list[1] : center + list[0];
  if (low == center && high == center) return std::nullopt;
  return std::pair(low, high);
}

}  // namespace

JitterDraw draw_color_jitter(const ColorJitterConfig& config, RandomStream& random) {
  JitterDraw draw;
  for (size_t last = draw.order.size() - 1; last > 0; --last) {  // Fisher and Yates
    std::swap(draw.order[last], draw.order[random.below(static_cast<uint32_t>(last + 1))]);
  }
  const std::optional<std::pair<double, double>> ranges[4] = {
      jitter_range(config.brightness, 1, 0), jitter_range(config.contrast, 1, 0),
      jitter_range(config.saturation, 1, 0), jitter_range(config.hue, 0, -0.5)};
  for (size_t i = 0; i < draw.factors.size(); ++i) {
    if (ranges[i]) draw.factors[i] = random.uniform(ranges[i]->first, ranges[i]->second);
  }
  return draw;
}

ImageView apply_color_jitter(const JitterDraw& draw, const ImageView& in,
                             TransformScratch& scratch) {
  constexpr decltype(&adjust_hue) kAdjust[4] = {adjust_brightness, adjust_contrast,
                                                adjust_saturation, adjust_hue};
  ImageView view = in;
  for (const int i : draw.order) {
    if (!draw.factors[i]) continue;
    Image& out = scratch.next_image();
    kAdjust[i](view, *draw.factors[i], out);
    view = ImageView(out);
  }
  return view;
}

void ColorJitterConfig::validate(ConfigIssues& issues) const {
  constexpr double kLargest = 1000;
  check_jitter("brightness", brightness, 0, kLargest, issues);
  check_jitter("contrast", contrast, 0, kLargest, issues);
  check_jitter("saturation", saturation, 0, kLargest, issues);
  check_jitter("hue", hue, -0.5, 0.5, issues);
}

ImageView ColorJitterConfig::apply(const ImageView& in, RandomStream& random,
                                   TransformScratch& scratch) const {
  if (!random.bernoulli(p)) return in;
  return apply_color_jitter(draw_color_jitter(*this, random), in, scratch);
}

}  // namespace fovea::data
