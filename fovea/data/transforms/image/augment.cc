#include "fovea/data/transforms/image/augment.h"

#include <algorithm>
#include <utility>

#include "fovea/data/transforms/image/auto_augment.h"
#include "fovea/data/transforms/image/color_ops.h"
#include "fovea/data/transforms/image/keep_ratio.h"

namespace fovea::data {
namespace {

// [least, largest] of a list that may hold a distance from `center`; none: nothing to do.
std::optional<std::pair<double, double>> jitter_range(const std::vector<double>& list,
                                                      double center, double least) {
  const double low = list.size() == 2 ? list[0] : std::max(center - list[0], least);
  const double high = list.size() == 2 ? list[1] : center + list[0];
  if (low == center && high == center) return std::nullopt;
  return std::pair(low, high);
}

// The policy of a text, parsed at its first use in this thread.
const AugmentPolicy& policy_of(const std::string& text, AugmentScratch& scratch) {
  const auto found = scratch.policies.find(text);
  if (found != scratch.policies.end()) return found->second;
  return scratch.policies.emplace(text, parse_augment_policy(text)).first->second;
}

constexpr double kAugMixTranslatePct = 0.3;  // timm's factory moves less in AugMix

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

ImageView apply(const ColorJitterConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  if (!random.bernoulli(config.p)) return in;
  return apply_color_jitter(draw_color_jitter(config, random), in, scratch);
}

ImageView apply(const GrayscaleConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  if (!random.bernoulli(config.p) || in.channels == 1) return in;
  Image& out = scratch.next_image();
  to_grayscale(in, out);
  return ImageView(out);
}

ImageView apply(const GaussianBlurConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  if (!random.bernoulli(config.p)) return in;
  const double sigma = random.uniform(config.sigma.front(), config.sigma.back());
  Image& out = scratch.next_image();
  if (config.method == "pillow") {
    gaussian_blur_pillow(in, sigma, out, scratch.augment.blur);
  } else {
    gaussian_blur_kernel(in, config.kernel_size, sigma, out, scratch.augment.blur);
  }
  return ImageView(out);
}

ImageView apply(const SolarizeConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  if (!random.bernoulli(config.p)) return in;
  return run_augment_action(AugmentAction::kSolarize, config.threshold, Interpolation::kNearest, {},
                            in, random, scratch);
}

ImageView apply(const PosterizeConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  if (!random.bernoulli(config.p)) return in;
  return run_augment_action(AugmentAction::kPosterize, static_cast<double>(config.bits),
                            Interpolation::kNearest, {}, in, random, scratch);
}

ImageView apply(const AutoAugmentConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  const AugmentPolicy& policy = policy_of(config.policy, scratch.augment);
  AugmentHparams hparams{.fill = fill_color(config.fill)};
  if (config.interpolation != "random") {
    hparams.interpolation = interpolation_from_name(config.interpolation);
  }
  if (policy.kind == PolicyKind::kAugMix) hparams.translate_pct = kAugMixTranslatePct;
  return apply_augment_policy(policy, hparams, in, random, scratch);
}

ImageView apply(const RandAugmentConfig& config, const ImageView& in, RandomStream& random,
                TransformScratch& scratch) {
  const Interpolation interpolation = interpolation_from_name(config.interpolation);
  const FillColor fill = fill_color(config.fill);
  ImageView view = in;
  for (int64_t i = 0; i < config.num_ops; ++i) {
    const auto magnitude = torchvision_magnitude(random.below(kNumTorchvisionOps), config.magnitude,
                                                 config.num_magnitude_bins, in.size());
    const bool is_negated = magnitude.is_signed && random.bernoulli(0.5);
    view = run_augment_action(magnitude.action, torchvision_arg(magnitude, is_negated),
                              interpolation, fill, view, random, scratch);
  }
  return view;
}

}  // namespace fovea::data
