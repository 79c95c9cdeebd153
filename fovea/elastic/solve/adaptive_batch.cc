#include "fovea/elastic/solve/adaptive_batch.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace fovea::elastic {
namespace {

constexpr int64_t kLeastSteps = 8;  // that a look goes by

int64_t whole(double samples) { return std::llround(samples); }

bool is_positive(double value) { return std::isfinite(value) && value > 0; }

// r of Note [Adaptive batch].
double noise_in_half(double cosine) {
  return cosine > 0 ? (1 - cosine) / cosine : std::numeric_limits<double>::infinity();
}

}  // namespace

std::optional<double> GradientHalves::cosine() const {
  if (!is_positive(first_square) || !is_positive(second_square) || !std::isfinite(product)) {
    return {};
  }
  // Of roots, as a product of squares may be beyond what a double holds.
  const double value = product / std::sqrt(first_square) / std::sqrt(second_square);
  return std::clamp(value, -1.0, 1.0);
}

std::optional<GradientNoise> noise_of(const GradientHalves& halves) {
  const double m = halves.first_weight, n = halves.second_weight;
  if (!halves.cosine() || !is_positive(m) || !is_positive(n)) return {};
  const double whole = (halves.first_square + 2 * halves.product + halves.second_square) /
                       ((m + n) * (m + n));  // |G|^2 + tr / (m + n), in the mean
  const double half = (halves.first_square / (m * m) + halves.second_square / (n * n)) / 2;
  const double more = (1 / m + 1 / n) / 2 - 1 / (m + n);  // tr times this is what `half` has more
  GradientNoise result;
  result.noise = (half - whole) / more;
  result.signal = whole - result.noise / (m + n);
  const bool is_finite = std::isfinite(result.noise) && std::isfinite(result.signal);
  return is_finite ? std::optional(result) : std::nullopt;
}

AdaptiveBatch::AdaptiveBatch(const AdaptiveBatchOptions& options, int64_t batch)
    : options_(options) {
  state_.batch = batch;
}

void AdaptiveBatch::add(const GradientHalves& halves) {
  const auto cosine = halves.cosine();
  const auto parts = noise_of(halves);
  if (!cosine || !parts) return;
  ++state_.count;
  const double share =
      1.0 / static_cast<double>(std::min(state_.count, std::max(options_.interval, kLeastSteps)));
  const auto mix = [&](double& mean, double value) { mean += share * (value - mean); };
  mix(state_.similarity, *cosine);
  mix(state_.signal, parts->signal);
  mix(state_.noise, parts->noise);
}

std::optional<double> AdaptiveBatch::similarity() const {
  return state_.count > 0 ? std::optional(state_.similarity) : std::nullopt;
}

std::optional<double> AdaptiveBatch::noise_scale() const {
  if (state_.count == 0 || state_.signal <= 0) return {};
  const double scale = state_.noise / state_.signal;
  return std::isfinite(scale) ? std::optional(std::max(0.0, scale)) : std::nullopt;
}

// Of the batch that would just meet the target, to the one there is.
std::optional<double> AdaptiveBatch::wanted_ratio() const {
  if (state_.count < kLeastSteps) return {};
  if (!options_.follows_noise) {
    return noise_in_half(state_.similarity) / noise_in_half(options_.similarity_target);
  }
  if (const auto scale = noise_scale()) return *scale / static_cast<double>(state_.batch);
  return std::numeric_limits<double>::infinity();  // no signal is to be seen for all the noise
}

int64_t AdaptiveBatch::next_batch() const {
  const auto ratio = wanted_ratio();
  const double batch = static_cast<double>(state_.batch);
  auto next = state_.batch;
  if (ratio && *ratio >= 1 + options_.rate) {
    // One sample at least, where the rate of a small batch is less.
    next = std::max(state_.batch + 1, whole(batch * (1 + options_.rate)));
  } else if (ratio && *ratio <= 1 - options_.rate) {
    next = std::min(state_.batch - 1, whole(batch * (1 - options_.rate)));
  }
  return std::clamp(next, options_.lower, options_.upper);
}

void AdaptiveBatch::change_to(int64_t batch) {
  state_ = {};
  state_.batch = batch;
}

double AdaptiveBatch::lr_factor(int64_t batch) const {
  if (options_.lr_modifier == "none") return 1;
  const double ratio = static_cast<double>(batch) / options_.original_batch;
  return options_.lr_modifier == "linear" ? ratio : std::sqrt(ratio);
}

bool is_adaptive(const SolveConfig& config) {
  const bool has_aim = config.metric == "noise" || config.similarity_target.has_value();
  return config.enable_adjust && has_aim;
}

AdaptiveBatchOptions adaptive_options(const SolveConfig& config, int64_t global_batch) {
  const int64_t lower = config.batch_size_lower_bound.value_or(global_batch);
  return {.follows_noise = config.metric == "noise",
          .similarity_target = config.similarity_target.value_or(0.1),
          .rate = config.batch_size_adjust_rate,
          .interval = config.batch_size_adjust_interval,
          .lower = lower,
          .upper = config.batch_size_upper_bound.value_or(lower),
          .original_batch = static_cast<double>(config.original_batch_size.value_or(lower)),
          .lr_modifier = config.global_lr_modifier};
}

}  // namespace fovea::elastic
