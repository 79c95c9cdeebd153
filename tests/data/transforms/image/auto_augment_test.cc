#include "fovea/data/transforms/image/auto_augment.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fovea/data/transforms/image/augment_ops.h"
#include "fovea/data/transforms/image/augment_policies.h"
#include "fovea/data/transforms/image/auto_augment.h"
#include "fovea/data/transforms/image/color_jitter.h"
#include "fovea/data/transforms/image/eval_crop.h"
#include "fovea/data/transforms/image/gaussian_blur.h"
#include "fovea/data/transforms/image/grayscale.h"
#include "fovea/data/transforms/image/posterize.h"
#include "fovea/data/transforms/image/rand_augment.h"
#include "fovea/data/transforms/image/random_erasing.h"
#include "fovea/data/transforms/image/rkrc_rkrr.h"
#include "fovea/data/transforms/image/solarize.h"
#include "fovea/data/transforms/mixup_config.h"
#include "tests/data/augment_support.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::augment_golden;
using testing::augment_golden_names;
using ::testing::HasSubstr;
using testing::message_of;
using testing::pixels_of;
using testing::test_stream;

double name_index(const AugmentOp& op) {
  const auto& kinds = augment_op_kinds();
  for (size_t i = 0; i < kinds.size(); ++i) {
    if (kinds[i].name == op.kind.name) return static_cast<double>(i);
  }
  return -1;
}

// [index of the name, probability, magnitude] of each operation, in order.
std::vector<double> rows_of(const std::vector<AugmentOp>& ops) {
  std::vector<double> rows;
  for (const auto& op : ops) {
    for (const double value : {name_index(op), op.prob, op.magnitude}) rows.push_back(value);
  }
  return rows;
}

TEST(AutoAugmentTest, PoliciesAreTimms) {
  for (const char* name : {"original", "originalr", "v0", "v0r", "3a"}) {
    const AugmentPolicy policy = parse_augment_policy(name);
    EXPECT_EQ(policy.kind, PolicyKind::kSubPolicies);
    EXPECT_EQ(policy.magnitude_std, 0);
    std::vector<double> rows;
    for (const auto& ops : policy.sub_policies) {
      for (const double value : rows_of(ops)) rows.push_back(value);
    }
    const auto& expected = augment_golden(std::string("policy.") + name);
    EXPECT_EQ(rows, expected.values<double>()) << name;
    EXPECT_EQ(static_cast<int64_t>(policy.sub_policies.size()), expected.shape[0]);
  }
  EXPECT_EQ(parse_augment_policy("original-mstd0.5").magnitude_std, 0.5);
}

TEST(AutoAugmentTest, RandAugmentStringsMeanWhatTimmMeans) {
  for (const std::string text : {"rand-m9-mstd0.5-inc1", "rand-m7-n3", "rand-m10-n1-mmax20-p0.8",
                                 "rand-mstd101-tweights", "rand-t3a", "rand-m6-t3aw-n2"}) {
    const AugmentPolicy policy = parse_augment_policy(text);
    EXPECT_EQ(policy.kind, PolicyKind::kRand);
    EXPECT_EQ(rows_of(policy.sub_policies.at(0)), augment_golden("rand." + text).values<double>())
        << text;
    EXPECT_EQ((std::vector<double>{static_cast<double>(policy.num_layers), policy.magnitude_std,
                                   policy.magnitude_max}),
              augment_golden("rand_options." + text).values<double>())
        << text;
    const auto weights = augment_golden("rand_weights." + text).values<double>();
    ASSERT_EQ(policy.weights.size(), weights.size()) << text;
    for (size_t i = 0; i < weights.size(); ++i) EXPECT_NEAR(policy.weights[i], weights[i], 1e-12);
  }
}

TEST(AutoAugmentTest, AugMixStringsMeanWhatTimmMeans) {
  for (const std::string text : {"augmix-m3-w3", "augmix-m5-w4-d2-mstd1-a0.5-b1"}) {
    const AugmentPolicy policy = parse_augment_policy(text);
    EXPECT_EQ(policy.kind, PolicyKind::kAugMix);
    const auto& ops = policy.sub_policies.at(0);
    EXPECT_EQ((std::vector<double>{policy.alpha, static_cast<double>(policy.width),
                                   static_cast<double>(policy.depth), policy.is_blended ? 1.0 : 0.0,
                                   policy.magnitude_std, ops[0].magnitude}),
              augment_golden("augmix." + text).values<double>());
    std::vector<double> indices;
    for (const auto& op : ops) {
      indices.push_back(name_index(op));
      EXPECT_EQ(op.prob, 1.0);
    }
    EXPECT_EQ(indices, augment_golden("augmix_ops." + text).values<double>());
  }
}

TEST(AutoAugmentTest, SaysWhatAStringGotWrong) {
  const auto message = [](const char* text) {
    return message_of<ConfigError>([&] { parse_augment_policy(text); });
  };
  EXPECT_THAT(message("randm9"), HasSubstr("no such policy"));
  EXPECT_THAT(message("rand-q3"), HasSubstr("q3 is not known; expected m, n, p"));
  EXPECT_THAT(message("rand-m9.5"), HasSubstr("m9.5; expected a whole number"));
  EXPECT_THAT(message("rand-inc"), HasSubstr("inc is not a letter or word with a number"));
  EXPECT_THAT(message("rand-tnone"), HasSubstr("tnone: no such choice"));
  EXPECT_THAT(message("rand-t3aw-n20"), HasSubstr("20 operations from 14"));
  EXPECT_THAT(message("original-m9"), HasSubstr("expected mstd"));
  EXPECT_THAT(message("augmix-x1"), HasSubstr("expected m, w, d, a, b or mstd"));
  EXPECT_THAT(message("augmix-a0"), HasSubstr("a0; expected above 0"));
}

// Chi-square of counts against shares; the limit is far out for up to 30 degrees of freedom.
void expect_shares(const std::vector<double>& counts, const std::vector<double>& shares) {
  double total = 0, chi_square = 0;
  for (const double count : counts) total += count;
  for (size_t i = 0; i < counts.size(); ++i) {
    const double expected = total * shares[i];
    chi_square += (counts[i] - expected) * (counts[i] - expected) / expected;
  }
  EXPECT_LT(chi_square, 65) << total << " draws";
}

TEST(AutoAugmentTest, ChoicesAreDrawnWithTheirWeights) {
  constexpr int kDraws = 20000;
  const AugmentPolicy equal = parse_augment_policy("rand-m9-n2");
  std::vector<double> firsts(15), seconds(15), pairs(2);
  for (int i = 0; i < kDraws; ++i) {
    RandomStream random = test_stream(i);
    int64_t choices[2];
    draw_augment_choices(equal, random, choices);
    ++firsts.at(choices[0]);
    ++seconds.at(choices[1]);
    ++pairs[choices[0] == choices[1]];
  }
  expect_shares(firsts, std::vector<double>(15, 1.0 / 15));
  expect_shares(seconds, std::vector<double>(15, 1.0 / 15));
  expect_shares(pairs, {14.0 / 15, 1.0 / 15});

  // Without replacement: the second follows the weights of what is left.
  const AugmentPolicy weighted = parse_augment_policy("rand-t3aw-n2");
  const auto& weights = weighted.weights;
  std::vector<double> second_shares(weights.size());
  for (size_t i = 0; i < weights.size(); ++i) {
    for (size_t j = 0; j < weights.size(); ++j) {
      if (i != j) second_shares[j] += weights[i] * weights[j] / (1 - weights[i]);
    }
  }
  std::vector<double> first_counts(weights.size()), second_counts(weights.size());
  for (int i = 0; i < kDraws; ++i) {
    RandomStream random = test_stream(i);
    int64_t choices[2];
    draw_augment_choices(weighted, random, choices);
    ASSERT_NE(choices[0], choices[1]);
    ++first_counts.at(choices[0]);
    ++second_counts.at(choices[1]);
  }
  expect_shares(first_counts, weights);
  expect_shares(second_counts, second_shares);
}

// What a gray pixel of 100 becomes tells the arguments that were drawn.
std::map<int, int> results_of(const AugmentOp& op, const AugmentPolicy& policy, int draws) {
  const Image image = {1, 1, 1, {100}};
  std::map<int, int> counts;
  TransformScratch scratch;
  for (int i = 0; i < draws; ++i) {
    RandomStream random = test_stream(i);
    ++counts[*apply_augment_op(op, policy, {}, ImageView(image), random, scratch).pixels];
  }
  return counts;
}

TEST(AutoAugmentTest, OperationsHappenWithTheirProbabilityAndDirection) {
  const AugmentPolicy policy;
  const auto inverted = results_of({augment_op_kind("Invert"), 0.3, 5}, policy, 10000);
  EXPECT_EQ(inverted.size(), 2u);
  EXPECT_NEAR(inverted.at(155), 3000, 250);  // five standard deviations
  // 1 + 0.45 or 1 - 0.45.
  const auto brighter = results_of({augment_op_kind("BrightnessIncreasing"), 1, 5}, policy, 10000);
  EXPECT_EQ(brighter.size(), 2u);
  EXPECT_NEAR(brighter.at(145), 5000, 250);
  EXPECT_TRUE(brighter.contains(55));
}

TEST(AutoAugmentTest, MagnitudesVaryAsAsked) {
  constexpr int kDraws = 20000;
  // Brightness at level m is 0.1 + 0.18 m: 100 becomes 10 + 18 m.
  const AugmentOp op = {augment_op_kind("Brightness"), 1, 5};
  AugmentPolicy policy;
  EXPECT_EQ(results_of(op, policy, 100), (std::map<int, int>{{100, 100}}));
  const auto moments = [&](double std) {
    policy.magnitude_std = std;
    double sum = 0, squares = 0;
    for (const auto& [value, count] : results_of(op, policy, kDraws)) {
      const double level = (value + 0.5 - 10) / 18;
      sum += level * count;
      squares += level * level * count;
    }
    const double mean = sum / kDraws;
    return std::pair(mean, std::sqrt(squares / kDraws - mean * mean));
  };
  const auto [normal_mean, normal_std] = moments(0.5);
  EXPECT_NEAR(normal_mean, 5, 0.03);
  EXPECT_NEAR(normal_std, 0.5, 0.02);
  const auto [uniform_mean, uniform_std] = moments(INFINITY);
  EXPECT_NEAR(uniform_mean, 2.5, 0.06);
  EXPECT_NEAR(uniform_std, 5 / std::sqrt(12.0), 0.03);
  policy.magnitude_std = 100;  // cut off at 0 and 10
  const auto cut = results_of(op, policy, kDraws);
  EXPECT_NEAR(cut.at(10), kDraws * 0.48, 400);
  EXPECT_NEAR(cut.at(190), kDraws * 0.48, 400);
}

TEST(AutoAugmentTest, TorchvisionsRandAugmentGivesItsPixels) {
  const Image image = augment_golden("image.rgb").image();
  const auto names = augment_golden_names("tv");
  EXPECT_EQ(names.size(), 29u);
  for (const auto& name : names) {  // tv, index, interpolation, sign
    const int64_t index = std::stoll(name[1]);
    const auto magnitude =
        torchvision_magnitude(index, 9, 31, ImageSize{image.height, image.width});
    const auto expected_magnitude = augment_golden("tv_magnitude." + name[1]).values<double>();
    EXPECT_NEAR(magnitude.value, expected_magnitude[0], 1e-5) << name[1];
    EXPECT_EQ(magnitude.is_signed, expected_magnitude[1] != 0) << name[1];
    TransformScratch scratch;
    RandomStream random = test_stream();
    const auto found = pixels_of(run_augment_action(
        magnitude.action, torchvision_arg(magnitude, name[3] == "minus"),
        interpolation_from_name(name[2]), {128, 64, 200}, ImageView(image), random, scratch));
    const auto& expected = augment_golden("tv." + name[1] + "." + name[2] + "." + name[3]).bytes;
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) {
      ASSERT_NEAR(found[i], expected[i], name[2] == "nearest" ? 0 : 1)
          << name[1] << " " << name[2] << " " << name[3] << " at " << i;
    }
  }
}

template <class Config>
std::vector<uint8_t> result_of(const Config& config, const Image& image, uint64_t sample = 0) {
  TransformScratch scratch;
  RandomStream random = test_stream(sample);
  return pixels_of(config.apply(ImageView(image), random, scratch));
}

TEST(AutoAugmentTest, ResultsAreAFunctionOfTheStream) {
  const Image image = augment_golden("image.rgb").image();
  for (const char* policy : {"rand-m9-mstd0.5-inc1", "rand-m9-tweights", "original", "v0r", "3a",
                             "augmix-m5", "augmix-m5-b1"}) {
    std::set<std::vector<uint8_t>> results;
    for (uint64_t sample = 0; sample < 40; ++sample) {
      const AutoAugmentConfig config = {.policy = policy};
      const auto first = result_of(config, image, sample);
      EXPECT_EQ(first.size(), image.pixels.size());
      EXPECT_EQ(first, result_of(config, image, sample)) << policy;
      results.insert(first);
    }
    EXPECT_GT(results.size(), 8u) << policy;
  }
  EXPECT_EQ(result_of(RandAugmentConfig{}, image, 3), result_of(RandAugmentConfig{}, image, 3));
}

TEST(AutoAugmentTest, AugMixMixesWithTheOriginal) {
  Image image;
  reshape(image, {16, 16}, 3);
  std::fill(image.pixels.begin(), image.pixels.end(), uint8_t{90});
  const Image rgb = augment_golden("image.rgb").image();
  for (const char* policy : {"augmix-m10", "augmix-m10-b1"}) {
    for (uint64_t sample = 0; sample < 20; ++sample) {
      TransformScratch scratch;
      scratch.geometry = SampleGeometry({16, 16});
      RandomStream random = test_stream(sample);
      AutoAugmentConfig{.policy = policy, .fill = {90}}.apply(ImageView(image), random, scratch);
      EXPECT_TRUE(scratch.geometry.is_identity());
    }
  }
}

TEST(ColorJitterTest, GivesTorchvisionsPixels) {
  const Image image = augment_golden("image.rgb").image();
  TransformScratch scratch;
  const JitterDraw draw = {.order = {2, 0, 3, 1}, .factors = {1.3, 1.2, 0.7, 0.1}};
  EXPECT_EQ(pixels_of(apply_color_jitter(draw, ImageView(image), scratch)),
            augment_golden("jitter.2031").bytes);
  const JitterDraw nothing;
  EXPECT_EQ(pixels_of(apply_color_jitter(nothing, ImageView(image), scratch)), image.pixels);
}

TEST(ColorJitterTest, DrawsOrdersAndFactorsEvenly) {
  const ColorJitterConfig config = {
      .brightness = {0.4}, .contrast = {0.5, 0.7}, .saturation = {0}, .hue = {0.1}};
  std::map<std::array<int, 4>, int> orders;
  double sums[4] = {}, squares[4] = {};
  constexpr int kDraws = 24000;
  for (int i = 0; i < kDraws; ++i) {
    RandomStream random = test_stream(i);
    const JitterDraw draw = draw_color_jitter(config, random);
    ++orders[draw.order];
    EXPECT_FALSE(draw.factors[2]);
    for (const int k : {0, 1, 3}) {
      sums[k] += *draw.factors[k];
      squares[k] += *draw.factors[k] * *draw.factors[k];
    }
  }
  std::vector<double> counts;
  for (const auto& [order, count] : orders) counts.push_back(count);
  ASSERT_EQ(counts.size(), 24u);
  expect_shares(counts, std::vector<double>(24, 1.0 / 24));
  const double centers[4] = {1, 0.6, 0, 0};
  const double spreads[4] = {0.8, 0.2, 0, 0.2};  // of the ranges
  for (const int k : {0, 1, 3}) {
    const double mean = sums[k] / kDraws;
    EXPECT_NEAR(mean, centers[k], 5 * spreads[k] / std::sqrt(12.0 * kDraws));
    EXPECT_NEAR(std::sqrt(squares[k] / kDraws - mean * mean), spreads[k] / std::sqrt(12.0),
                0.02 * spreads[k]);
  }
}

TEST(AugmentTest, TransformsHappenWithTheirProbability) {
  const Image image = {16, 16, 3, std::vector<uint8_t>(16 * 16 * 3, 200)};
  Image colourful = image;
  for (size_t i = 0; i < colourful.pixels.size(); i += 3) colourful.pixels[i] = 10;
  colourful.pixels[100] = 77;
  const auto share = [&](const auto& config) {
    int changed = 0;
    for (int i = 0; i < 2000; ++i) changed += result_of(config, colourful, i) != colourful.pixels;
    return changed / 2000.0;
  };
  EXPECT_NEAR(share(GrayscaleConfig{.p = 0.2}), 0.2, 0.045);
  EXPECT_NEAR(share(SolarizeConfig{.p = 0.3}), 0.3, 0.05);
  EXPECT_NEAR(share(PosterizeConfig{.p = 0.4}), 0.4, 0.055);
  EXPECT_NEAR(share(ColorJitterConfig{.brightness = {0.4}, .p = 0.6}), 0.6, 0.055);
  EXPECT_NEAR(share(GaussianBlurConfig{.p = 0.5, .sigma = {1.0}}), 0.5, 0.055);
  EXPECT_EQ(share(GaussianBlurConfig{.p = 1, .sigma = {1.0}, .method = "pillow"}), 1.0);
}

TEST(AugmentConfigsTest, ReportBadValues) {
  const auto issues_of = [](const auto& config) {
    ConfigIssues issues;
    config.validate(issues);
    return issues.all().size();
  };
  EXPECT_EQ(issues_of(AutoAugmentConfig{}), 0u);
  EXPECT_EQ(issues_of(AutoAugmentConfig{.policy = "rand-x1", .fill = {1, 2}}), 2u);
  EXPECT_EQ(issues_of(RandAugmentConfig{.magnitude = 31, .fill = {256}}), 2u);
  EXPECT_EQ(issues_of(ColorJitterConfig{.brightness = {-1}, .contrast = {1, 0.5}, .hue = {0.6}}),
            3u);
  EXPECT_EQ(issues_of(GaussianBlurConfig{.sigma = {0, 1}, .kernel_size = 4}), 2u);
  EXPECT_EQ(issues_of(RandomErasingConfig{.scale = {1}, .min_count = 3, .max_count = 2}), 2u);
  EXPECT_EQ(issues_of(MixupConfig{}), 0u);
  EXPECT_EQ(issues_of(MixupConfig{.cutmix_minmax = {0.5, 0.2}}), 1u);
  EXPECT_EQ(issues_of(RkrcConfig{.size = {0}, .scale = {0, 1}}), 2u);
  EXPECT_EQ(issues_of(EvalCropConfig{.fill = {}}), 1u);
}

}  // namespace
}  // namespace fovea::data
