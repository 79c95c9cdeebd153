#include "fovea/train/evaluate/int8_range_meter.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>

#include "fovea/core/error.h"

namespace fovea::train {
namespace {

constexpr std::array<const char*, 2> kRuleNames = {"min_max", "least_squares"};

// Values of one sign: buckets by size, and behind them those that are not finite.
constexpr int kSignBuckets = 1 << 15, kBucketsOfOctave = 128, kFiniteBuckets = 0x7f80;

int bucket_of(float size) { return static_cast<int>(std::bit_cast<uint32_t>(size) >> 16); }
double begin_of_bucket(int bucket) {
  return std::bit_cast<float>(static_cast<uint32_t>(bucket) << 16);
}
double middle_of_bucket(int bucket) {
  return std::bit_cast<float>(static_cast<uint32_t>(bucket) << 16 | 0x8000u);
}

// An end of a range, what it costs, and how many values are beyond it.
struct Cut {
  double end, error, count;
};

// Of one sign, from the largest size inwards.
std::vector<Cut> cuts_of(const int64_t* counts, float largest) {
  constexpr int kMostOctaves = 6;
  std::vector<Cut> cuts = {{largest, 0, 0}};
  const int top = bucket_of(largest);
  double count = 0, sum = 0, squares = 0;
  for (int b = top; b > std::max(0, top - kMostOctaves * kBucketsOfOctave); --b) {
    const auto here = static_cast<double>(counts[b]);
    const double value = middle_of_bucket(b), end = begin_of_bucket(b);
    count += here;
    sum += here * value;
    squares += here * value * value;
    cuts.push_back({end, squares - 2 * end * sum + end * end * count, count});
  }
  return cuts;
}

}  // namespace

const char* int8_range_rule_name(Int8RangeRule rule) {
  return kRuleNames.at(static_cast<size_t>(rule));
}

Int8RangeRule int8_range_rule(const std::string& name) {
  for (const auto rule : {Int8RangeRule::kMinMax, Int8RangeRule::kLeastSquares}) {
    if (name == int8_range_rule_name(rule)) return rule;
  }
  fail<ConfigError>("a rule of ranges '{}'; expected min_max or least_squares", name);
}

void Int8RangeMeter::add(const at::Tensor& values) {
  FOVEA_CHECK(values.scalar_type() == at::kFloat && values.is_cpu(),
              "ranges of {} values; expected float32 on the CPU", values.toString());
  const auto dense = values.contiguous();
  const auto* x = dense.const_data_ptr<float>();
  for (int64_t i = 0; i < dense.numel(); ++i) {
    ++counts_[std::bit_cast<uint32_t>(x[i]) >> 16];
    least_ = std::min(least_, x[i]);
    largest_ = std::max(largest_, x[i]);
  }
}

bool Int8RangeMeter::has_values() const {
  return std::any_of(counts_.begin(), counts_.end(), [](int64_t count) { return count > 0; });
}

bool Int8RangeMeter::are_finite() const {
  for (int sign = 0; sign < 2; ++sign) {
    for (int b = kFiniteBuckets; b < kSignBuckets; ++b) {
      if (counts_[static_cast<size_t>(sign * kSignBuckets + b)] > 0) return false;
    }
  }
  return true;
}

kernels::Int8Range Int8RangeMeter::range(Int8RangeRule rule) const {
  if (rule == Int8RangeRule::kMinMax) return {least_, largest_};
  constexpr double kSteps = 255;
  const auto above = cuts_of(counts_.data(), largest_);
  const auto below = cuts_of(counts_.data() + kSignBuckets, std::abs(least_));
  double total = 0, best = INFINITY;
  for (const auto count : counts_) total += static_cast<double>(count);
  kernels::Int8Range range;
  for (const auto& upper : above) {
    for (const auto& lower : below) {
      const double step = (upper.end + lower.end) / kSteps;
      const double inside = total - upper.count - lower.count;
      const double error = upper.error + lower.error + inside * step * step / 12;
      if (error >= best) continue;
      best = error;
      range = {static_cast<float>(-lower.end), static_cast<float>(upper.end)};
    }
  }
  return range;
}

}  // namespace fovea::train
