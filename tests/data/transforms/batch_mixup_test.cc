#include "fovea/data/transforms/batch_mixup.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "fovea/data/transforms/distributions.h"
#include "fovea/data/transforms/mixup_config.h"
#include "tests/data/augment_support.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using testing::augment_golden;
using testing::augment_golden_names;
using ::testing::HasSubstr;
using testing::message_of;

constexpr int64_t kRows = 6;
constexpr int64_t kClasses = 5;
constexpr ImageSize kSize = {7, 9};

// The plan that timm's run with given draws stands for.
std::vector<RowMixup> plan_from(const std::string& key, const std::string& mode,
                                bool is_corrected) {
  const auto rows = augment_golden(key + ".plan").values<double>();
  std::vector<RowMixup> plan;
  for (int64_t row = 0; row < kRows; ++row) {
    int64_t source = row;
    if (mode == "batch") source = 0;
    if (mode == "pair") source = std::min(row, kRows - 1 - row);
    const double* v = rows.data() + 7 * source;  // lam, is cutmix, top, bottom, left, right, lam
    RowMixup mix{.row = row, .partner = kRows - 1 - row};
    mix.is_cutmix = v[1] != 0;
    mix.lam = is_corrected ? v[6] : v[0];
    if (mode != "batch") mix.lam = static_cast<double>(static_cast<float>(mix.lam));
    const auto whole = [&](int i) { return static_cast<int64_t>(v[i]); };
    mix.box = {whole(2), whole(4), {whole(3) - whole(2), whole(5) - whole(4)}};
    plan.push_back(mix);
  }
  return plan;
}

TEST(BatchMixupTest, ImagesAndTargetsAreTimms) {
  const auto x = augment_golden("mix.x").values<float>();
  const auto labels = augment_golden("mix.labels").values<int64_t>();
  const std::vector<int64_t> partner_labels(labels.rbegin(), labels.rend());
  int compared = 0;
  for (const auto& name : augment_golden_names("mix")) {
    if (name.size() != 5 || name[4] != "plan") continue;
    const std::string key = "mix." + name[1] + "." + name[2] + "." + name[3];
    const auto plan = plan_from(key, name[1], name[3] == "correct");
    auto images = x;
    std::vector<float> scratch;
    mixup_batch(plan, kSize, images, scratch);
    EXPECT_EQ(images, augment_golden(key + ".images").values<float>()) << key;
    std::vector<float> targets(kRows * kClasses);
    mixup_targets(plan, labels, partner_labels, kClasses, 0.1, targets);
    EXPECT_EQ(targets, augment_golden(key + ".targets").values<float>()) << key;
    // A rank that holds one row only, with its partner's pixels.
    const size_t floats = x.size() / kRows;
    for (int64_t row = 0; row < kRows; ++row) {
      const auto all = std::span(x);
      std::vector<float> own(all.begin() + row * floats, all.begin() + (row + 1) * floats);
      mixup_row(plan[row], kSize, all.subspan(plan[row].partner * floats, floats), own);
      EXPECT_TRUE(std::equal(own.begin(), own.end(), images.begin() + row * floats)) << key;
    }
    ++compared;
  }
  EXPECT_EQ(compared, 8);
}

TEST(BatchMixupTest, BoxesAreTimms) {
  const auto rows = augment_golden("cutmix_boxes").values<double>();
  ASSERT_EQ(rows.size(), 7u * 20);
  for (size_t i = 0; i < rows.size(); i += 7) {
    const auto whole = [&](size_t k) { return static_cast<int64_t>(rows[i + k]); };
    const PixelBox box = cutmix_box({13, 17}, rows[i], whole(1), whole(2));
    EXPECT_EQ((std::vector<int64_t>{box.top, box.top + box.size.height, box.left,
                                    box.left + box.size.width}),
              (std::vector<int64_t>{whole(3), whole(4), whole(5), whole(6)}))
        << "row " << i / 7;
  }
}

void expect_same(const RowMixup& a, const RowMixup& b) {
  EXPECT_EQ(a.row, b.row);
  EXPECT_EQ(a.partner, b.partner);
  EXPECT_EQ(a.lam, b.lam);
  EXPECT_EQ(a.is_cutmix, b.is_cutmix);
  EXPECT_EQ(a.box.top, b.box.top);
  EXPECT_EQ(a.box.left, b.box.left);
  EXPECT_EQ(a.box.size, b.box.size);
}

TEST(BatchMixupTest, RanksAgreeOnTheGlobalBatch) {
  for (const char* mode : {"batch", "pair", "elem"}) {
    const BatchMixup batch_mixup({.mixup_alpha = 0.8, .cutmix_alpha = 1, .mode = mode}, 7,
                                 {32, 32});
    const auto whole = batch_mixup.plan(640, 15);
    ASSERT_EQ(whole.size(), 15u);
    for (const int64_t count : {2, 4}) {
      for (int64_t index = 0; index < count; ++index) {
        const auto part = batch_mixup.plan(640, 15, BatchShare::of_rank(index, count));
        for (size_t i = 0; i < part.size(); ++i) {
          expect_same(part[i], whole[15 * index / count + static_cast<int64_t>(i)]);
          expect_same(part[i], batch_mixup.plan_row(640, part[i].row, 15));
        }
      }
    }
  }
}

TEST(BatchMixupTest, ModesShareDraws) {
  const MixupConfig config = {.mixup_alpha = 0.8, .cutmix_alpha = 1};
  const auto plan_of = [&](const char* mode, int64_t position) {
    MixupConfig with_mode = config;
    with_mode.mode = mode;
    return BatchMixup(with_mode, 7, {32, 32}).plan(position, 8);
  };
  const auto batch = plan_of("batch", 0), pair = plan_of("pair", 0), elem = plan_of("elem", 0);
  for (size_t i = 0; i < 8; ++i) {
    EXPECT_EQ(batch[i].partner, 7 - static_cast<int64_t>(i));
    EXPECT_EQ(batch[i].lam, batch[0].lam);
    EXPECT_EQ(pair[i].lam, pair[7 - i].lam);
    EXPECT_EQ(pair[i].box.size, pair[7 - i].box.size);
    if (i == 0) continue;
    EXPECT_NE(elem[i].lam, elem[0].lam);
    if (i < 4) {
      EXPECT_NE(pair[i].lam, pair[0].lam);
    }
  }
  EXPECT_NE(plan_of("batch", 8)[0].lam, batch[0].lam);
  // The middle of an odd batch is not paired with itself.
  EXPECT_FALSE(
      BatchMixup({.cutmix_alpha = 1, .mode = "pair"}, 7, {32, 32}).plan_row(0, 2, 5).is_mixed());
}

TEST(BatchMixupTest, TimmLocalTakesPartnersFromTheOwnRows) {
  const BatchMixup batch_mixup({.mixup_alpha = 0.8, .mode = "elem", .timm_local = true}, 7,
                               {32, 32});
  const auto plan = batch_mixup.plan(0, 12, BatchShare::of_rank(1, 3));
  std::vector<int64_t> rows, partners;
  for (const auto& mix : plan) {
    rows.push_back(mix.row);
    partners.push_back(mix.partner);
  }
  EXPECT_EQ(rows, (std::vector<int64_t>{4, 5, 6, 7}));
  EXPECT_EQ(partners, (std::vector<int64_t>{7, 6, 5, 4}));
  EXPECT_NE(plan[0].lam, batch_mixup.plan(0, 12, BatchShare::of_rank(0, 3))[0].lam);
  std::vector<float> images(4 * 32 * 32), scratch;
  mixup_batch(plan, {32, 32}, images, scratch);  // all partners are there
}

TEST(BatchMixupTest, DrawsFollowTheConfig) {
  constexpr int kDraws = 20000;
  const BatchMixup batch_mixup(
      {.mixup_alpha = 0.8, .cutmix_alpha = 1, .prob = 0.7, .switch_prob = 0.4, .mode = "elem"}, 3,
      {32, 48});
  int mixed = 0, cutmix = 0;
  double lam_sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const RowMixup mix = batch_mixup.plan_row(i, 1, 8);
    mixed += mix.lam != 1.0 || mix.is_cutmix;
    cutmix += mix.is_cutmix;
    if (mix.is_cutmix) {
      const auto area = static_cast<double>(mix.box.size.height * mix.box.size.width);
      EXPECT_EQ(mix.lam, static_cast<double>(static_cast<float>(1 - area / (32 * 48))));
      EXPECT_LE(mix.box.top + mix.box.size.height, 32);
      EXPECT_LE(mix.box.left + mix.box.size.width, 48);
    } else if (mix.lam != 1.0) {
      lam_sum += mix.lam;
    }
  }
  EXPECT_NEAR(mixed, 0.7 * kDraws, 5 * std::sqrt(0.21 * kDraws));
  EXPECT_NEAR(cutmix, 0.28 * kDraws, 5 * std::sqrt(0.2 * kDraws));
  EXPECT_NEAR(lam_sum / (mixed - cutmix), 0.5, 0.02);
}

TEST(BatchMixupTest, MinmaxBoxesHaveTheirSides) {
  const BatchMixup batch_mixup({.cutmix_minmax = {0.2, 0.8}, .mode = "elem"}, 3, {20, 30});
  std::map<int64_t, int> heights;
  for (int i = 0; i < 6000; ++i) {
    const RowMixup mix = batch_mixup.plan_row(i, 0, 2);
    ASSERT_TRUE(mix.is_cutmix);
    ++heights[mix.box.size.height];
    EXPECT_GE(mix.box.size.width, 6);
    EXPECT_LT(mix.box.size.width, 24);
    EXPECT_LE(mix.box.left + mix.box.size.width, 30);
  }
  EXPECT_EQ(heights.size(), 12u);  // 4 to 15
  for (const auto& [height, count] : heights) EXPECT_NEAR(count, 500, 110) << height;
}

TEST(BatchMixupTest, SaysWhatDoesNotWork) {
  EXPECT_THAT(message_of<ConfigError>([] { BatchMixup({}, 1, {4, 4}); }), HasSubstr("are all off"));
  EXPECT_THAT(message_of<ConfigError>([] {
                BatchMixup({.cutmix_minmax = {0.5, 0.6}}, 1, {4, 4});
              }),
              HasSubstr("leaves no whole number of pixels of a side of 4"));
  const BatchMixup batch_mixup({.mixup_alpha = 1}, 1, {1, 1});
  std::vector<float> images(2), scratch;
  EXPECT_THAT(
      message_of<Error>([&] {
        mixup_batch(batch_mixup.plan(0, 4, BatchShare::of_rank(0, 2)), {1, 1}, images, scratch);
      }),
      HasSubstr("row 0 is mixed with row 3, which is not in this batch"));
  std::vector<float> targets(4);
  const std::vector<int64_t> labels = {0, 2};
  EXPECT_THAT(message_of<DataError>(
                  [&] { mixup_targets(batch_mixup.plan(0, 2), labels, labels, 2, 0, targets); }),
              HasSubstr("label 2 for mixing; expected 0 to 1"));
}

// Draws against the quantiles of the Beta distribution: a tenth between each two deciles.
TEST(DistributionsTest, BetaHasItsDeciles) {
  constexpr int kDraws = 20000;
  for (const int tenfold : {2, 8, 10, 40}) {
    const auto deciles = augment_golden("beta_deciles." + std::to_string(tenfold)).values<double>();
    std::vector<int> counts(10);
    for (int i = 0; i < kDraws; ++i) {
      RandomStream random(philox_key(5, "beta"), i);
      const double value = draw_beta(tenfold / 10.0, tenfold / 10.0, random);
      ++counts[std::upper_bound(deciles.begin(), deciles.end(), value) - deciles.begin()];
    }
    double chi_square = 0;
    for (const int count : counts)
      chi_square += std::pow(count - kDraws / 10.0, 2) / (kDraws / 10.0);
    EXPECT_LT(chi_square, 33) << tenfold;  // 9 degrees of freedom: 1 in 10,000
  }
  RandomStream random(philox_key(5, "beta"), 1);
  for (int i = 0; i < 1000; ++i) {
    const double value = draw_beta(1e-4, 1e-4, random);  // powers leave the range of a double
    EXPECT_GE(value, 0);
    EXPECT_LE(value, 1);
  }
}

TEST(DistributionsTest, NormalAndGammaHaveTheirMoments) {
  constexpr int kDraws = 40000;
  const auto moments = [&](auto&& draw) {
    double sum = 0, squares = 0;
    for (int i = 0; i < kDraws; ++i) {
      RandomStream random(philox_key(6, "moments"), i);
      const double value = draw(random);
      sum += value;
      squares += value * value;
    }
    return std::pair(sum / kDraws, squares / kDraws - sum / kDraws * sum / kDraws);
  };
  const auto [mean, variance] = moments(draw_normal);
  EXPECT_NEAR(mean, 0, 5 / std::sqrt(kDraws));
  EXPECT_NEAR(variance, 1, 5 * std::sqrt(2.0 / kDraws));
  for (const double shape : {0.3, 1.0, 4.5}) {
    const auto [gamma_mean, gamma_variance] =
        moments([&](RandomStream& random) { return draw_gamma(shape, random); });
    EXPECT_NEAR(gamma_mean, shape, 5 * std::sqrt(shape / kDraws)) << shape;
    EXPECT_NEAR(gamma_variance, shape, 0.08 * shape) << shape;
  }
}

}  // namespace
}  // namespace fovea::data
