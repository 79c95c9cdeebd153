#include "fovea/data/transforms/image/auto_augment.h"

#include <algorithm>
#include <cmath>

#include "fovea/core/error.h"
#include "fovea/core/simd.h"
#include "fovea/data/transforms/distributions.h"
#include "fovea/data/transforms/image/color_ops.h"
#include "fovea/data/transforms/image/window.h"

namespace fovea::data {
namespace {

constexpr size_t kMaxLayers = 1000;

double draw_magnitude(const AugmentOp& op, const AugmentPolicy& policy, RandomStream& random) {
  double magnitude = op.magnitude;
  if (std::isinf(policy.magnitude_std)) {
    magnitude = random.uniform(0.0, magnitude);
  } else if (policy.magnitude_std > 0) {
    magnitude += policy.magnitude_std * draw_normal(random);
  }
  return std::clamp(magnitude, 0.0, policy.magnitude_max);
}

Interpolation draw_interpolation(const AugmentHparams& hparams, RandomStream& random) {
  if (hparams.interpolation) return *hparams.interpolation;
  return random.below(2) == 0 ? Interpolation::kBilinear : Interpolation::kBicubic;
}

// sums += weight * in, element by element.
FOVEA_SIMD void add_bytes(const uint8_t* in, float weight, int64_t count, float* sums) {
  for (int64_t i = 0; i < count; ++i) sums[i] += weight * static_cast<float>(in[i]);
}

FOVEA_SIMD void cut_to_bytes(const float* in, int64_t count, uint8_t* out) {
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<uint8_t>(static_cast<int32_t>(std::min(std::max(in[i], 0.0f), 255.0f)));
  }
}

// One chain of AugMix, from the original.
ImageView run_chain(const AugmentPolicy& policy, const AugmentHparams& hparams,
                    const ImageView& original, RandomStream& random, TransformScratch& scratch) {
  const auto& ops = policy.sub_policies[0];
  const int64_t depth = policy.depth > 0 ? policy.depth : 1 + random.below(3);
  ImageView view = original;
  for (int64_t i = 0; i < depth; ++i) {
    const auto& op = ops[random.below(static_cast<uint32_t>(ops.size()))];
    view = apply_augment_op(op, policy, hparams, view, random, scratch);
  }
  return view;
}

// Weights that add up to 1 (Dirichlet) and the share of the mixture in the result (Beta).
float draw_mixture(const AugmentPolicy& policy, RandomStream& random, std::vector<float>& weights) {
  double sum = 0;
  thread_local std::vector<double> gammas;
  gammas.resize(static_cast<size_t>(policy.width));
  for (double& gamma : gammas) sum += gamma = draw_gamma(policy.alpha, random);
  weights.resize(gammas.size());
  for (size_t i = 0; i < gammas.size(); ++i) weights[i] = static_cast<float>(gammas[i] / sum);
  return static_cast<float>(draw_beta(policy.alpha, policy.alpha, random));
}

// Shares with which images blended one after the other come out with `weights` times `share`.
void blended_weights(float share, std::vector<float>& weights) {
  float rest = 1;
  for (auto weight = weights.rbegin(); weight != weights.rend(); ++weight) {
    const float alpha = *weight * share / rest;
    rest *= 1 - alpha;
    *weight = alpha;
  }
}

ImageView apply_aug_mix(const AugmentPolicy& policy, const AugmentHparams& hparams,
                        const ImageView& in, RandomStream& random, TransformScratch& scratch) {
  thread_local std::vector<float> weights;
  const float share = draw_mixture(policy, random, weights);
  AugmentScratch& buffers = scratch.augment;
  copy_image(in, buffers.original);
  const ImageView original(buffers.original);
  buffers.geometry = scratch.geometry;
  const int64_t count = in.height * in.width * in.channels;
  if (policy.is_blended) {
    blended_weights(share, weights);
    copy_image(original, buffers.mixture);
    for (const float weight : weights) {
      const ImageView chain = run_chain(policy, hparams, original, random, scratch);
      blend_images(ImageView(buffers.mixture), chain, weight, scratch.next_image());
      std::swap(buffers.mixture, scratch.images[scratch.next]);
    }
    scratch.geometry = buffers.geometry;
    return ImageView(buffers.mixture);
  }
  buffers.sums.assign(static_cast<size_t>(count), 0.0f);
  for (const float weight : weights) {
    const ImageView chain = run_chain(policy, hparams, original, random, scratch);
    add_bytes(chain.pixels, weight, count, buffers.sums.data());
  }
  reshape(buffers.mixture, in.size(), in.channels);
  cut_to_bytes(buffers.sums.data(), count, buffers.mixture.pixels.data());
  Image& out = scratch.next_image();
  blend_images(original, ImageView(buffers.mixture), share, out);
  scratch.geometry = buffers.geometry;
  return ImageView(out);
}

// The policy of a text, parsed at its first use in this thread.
const AugmentPolicy& policy_of(const std::string& text, AugmentScratch& scratch) {
  const auto found = scratch.policies.find(text);
  if (found != scratch.policies.end()) return found->second;
  return scratch.policies.emplace(text, parse_augment_policy(text)).first->second;
}

constexpr double kAugMixTranslatePct = 0.3;  // timm's factory moves less in AugMix

}  // namespace

ImageView apply_augment_op(const AugmentOp& op, const AugmentPolicy& policy,
                           const AugmentHparams& hparams, const ImageView& in, RandomStream& random,
                           TransformScratch& scratch) {
  if (op.prob < 1.0 && random.uniform(0.0, 1.0) > op.prob) return in;
  const double level = draw_magnitude(op, policy, random);
  const bool is_negated = has_direction(op.kind.rule) && random.bernoulli(0.5);
  const double arg = level_to_arg(op.kind.rule, level, is_negated, hparams);
  return run_augment_action(op.kind.action, arg, draw_interpolation(hparams, random), hparams.fill,
                            in, random, scratch);
}

void draw_augment_choices(const AugmentPolicy& policy, RandomStream& random,
                          std::span<int64_t> choices) {
  const auto num_choices = static_cast<int64_t>(policy.sub_policies[0].size());
  for (size_t i = 0; i < choices.size(); ++i) {
    if (policy.weights.empty()) {
      choices[i] = random.below(static_cast<uint32_t>(num_choices));
      continue;
    }
    // Without what was drawn before: the rest keeps its proportions.
    const auto is_taken = [&](int64_t choice) {
      return std::find(choices.begin(), choices.begin() + static_cast<int64_t>(i), choice) !=
             choices.begin() + static_cast<int64_t>(i);
    };
    double rest = 0;
    for (int64_t k = 0; k < num_choices; ++k) rest += is_taken(k) ? 0 : policy.weights[k];
    double place = random.uniform(0.0, rest);
    int64_t choice = -1;
    for (int64_t k = 0; k < num_choices && (choice < 0 || place >= 0); ++k) {
      if (is_taken(k)) continue;
      choice = k;
      place -= policy.weights[k];
    }
    choices[i] = choice;
  }
}

ImageView apply_augment_policy(const AugmentPolicy& policy, const AugmentHparams& hparams,
                               const ImageView& in, RandomStream& random,
                               TransformScratch& scratch) {
  ImageView view = in;
  if (policy.kind == PolicyKind::kSubPolicies) {
    const auto& ops =
        policy.sub_policies[random.below(static_cast<uint32_t>(policy.sub_policies.size()))];
    for (const auto& op : ops) view = apply_augment_op(op, policy, hparams, view, random, scratch);
    return view;
  }
  if (policy.kind == PolicyKind::kAugMix) {
    return apply_aug_mix(policy, hparams, in, random, scratch);
  }
  std::array<int64_t, kMaxLayers> buffer;
  const auto choices = std::span(buffer).first(static_cast<size_t>(policy.num_layers));
  draw_augment_choices(policy, random, choices);
  for (const int64_t choice : choices) {
    view = apply_augment_op(policy.sub_policies[0][choice], policy, hparams, view, random, scratch);
  }
  return view;
}

void AutoAugmentConfig::validate(ConfigIssues& issues) const {
  check_fill(fill, issues);
  try {
    parse_augment_policy(policy);
  } catch (const ConfigError& error) {
    issues.add("policy", error.what());
  }
}

ImageView AutoAugmentConfig::apply(const ImageView& in, RandomStream& random,
                                   TransformScratch& scratch) const {
  const AugmentPolicy& parsed = policy_of(policy, scratch.augment);
  AugmentHparams hparams{.fill = fill_color(fill)};
  if (interpolation != "random") {
    hparams.interpolation = interpolation_from_name(interpolation);
  }
  if (parsed.kind == PolicyKind::kAugMix) hparams.translate_pct = kAugMixTranslatePct;
  return apply_augment_policy(parsed, hparams, in, random, scratch);
}

}  // namespace fovea::data
