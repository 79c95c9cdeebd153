#include "fovea/data/bad_samples.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>

#include "fovea/config/config.h"
#include "fovea/data/config.h"
#include "fovea/data/loader.h"
#include "fovea/data/loader_setup.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "fovea/data/transforms/mixup_config.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using testing::FakeDataset;
using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

constexpr int64_t kSamples = 53;
const std::vector<int64_t> kBroken = {3, 24, 27, 52};

struct PolicyRun {
  std::vector<Batch> batches;
  std::vector<BadSample> bad;
  int64_t skipped = 0;
};

Loader policy_loader(BadSamplePolicy policy, LoaderOptions options, double budget = 0.1,
                     std::vector<int64_t> broken = kBroken) {
  options.global_batch_size = 10;
  options.bad_samples = {.policy = policy, .budget = budget};
  const auto pipeline = std::make_shared<TransformPipeline>(
      std::vector<TransformConfig>{{RandomCropConfig{.size = {8}, .padding = {2}}},
                                   {HorizontalFlipConfig{}},
                                   {NormalizeConfig{}}},
      /*in_chans=*/1);
  return Loader(std::make_shared<FakeDataset>(kSamples, 8, std::move(broken)), pipeline, options);
}

PolicyRun take_epochs(Loader loader, int64_t epochs) {
  PolicyRun run;
  for (int64_t i = 0; i < epochs * loader.batches_per_epoch(); ++i)
    run.batches.push_back(loader.next());
  run.bad = loader.bad_samples();
  run.skipped = loader.take_skipped_rows();
  EXPECT_EQ(loader.take_skipped_rows(), 0);
  return run;
}

std::vector<float> row_of(const Batch& batch, size_t row) {
  const size_t values = batch.images.size() / batch.indices.size();
  const auto first = batch.images.begin() + static_cast<ptrdiff_t>(row * values);
  return {first, first + static_cast<ptrdiff_t>(values)};
}

void expect_same_run(const PolicyRun& a, const PolicyRun& b) {
  ASSERT_EQ(a.batches.size(), b.batches.size());
  for (size_t i = 0; i < a.batches.size(); ++i) {
    EXPECT_EQ(a.batches[i].indices, b.batches[i].indices) << i;
    EXPECT_EQ(a.batches[i].weights, b.batches[i].weights) << i;
    EXPECT_EQ(a.batches[i].labels, b.batches[i].labels) << i;
    EXPECT_EQ(a.batches[i].images, b.batches[i].images) << i;
  }
  ASSERT_EQ(a.bad.size(), b.bad.size());
  for (size_t i = 0; i < a.bad.size(); ++i) {
    EXPECT_EQ(a.bad[i].index, b.bad[i].index);
    EXPECT_EQ(a.bad[i].reason, b.bad[i].reason);
    EXPECT_EQ(a.bad[i].times, b.bad[i].times);
  }
  EXPECT_EQ(a.skipped, b.skipped);
}

bool is_broken(int64_t index) {
  return std::find(kBroken.begin(), kBroken.end(), index) != kBroken.end();
}

TEST(BadSamplesTest, ASkippedRowIsAPaddingRowAndTheOthersStay) {
  const auto good = take_epochs(policy_loader(BadSamplePolicy::kError, {}, 0.1, {}), 2);
  const auto run = take_epochs(policy_loader(BadSamplePolicy::kSkip, {}), 2);
  for (size_t b = 0; b < good.batches.size(); ++b) {
    const Batch &expected = good.batches[b], &batch = run.batches[b];
    ASSERT_EQ(batch.size(), expected.size());
    EXPECT_EQ(batch.rows, expected.rows);
    for (size_t row = 0; row < batch.indices.size(); ++row) {
      if (is_broken(expected.indices[row])) {
        EXPECT_EQ(batch.weights[row], 0);
        EXPECT_EQ(batch.indices[row], -1);
        EXPECT_EQ(batch.labels[row], 0);
        EXPECT_EQ(row_of(batch, row), std::vector<float>(64, 0.0F));
      } else {
        EXPECT_EQ(batch.weights[row], 1);
        EXPECT_EQ(batch.indices[row], expected.indices[row]);
        EXPECT_EQ(row_of(batch, row), row_of(expected, row));
      }
    }
  }
  EXPECT_EQ(run.skipped, 8);
  ASSERT_EQ(run.bad.size(), 4u);
  for (const BadSample& sample : run.bad) {
    EXPECT_TRUE(is_broken(sample.index));
    EXPECT_EQ(sample.name, fmt::format("fake[{}]", sample.index));
    EXPECT_EQ(sample.reason, sample.name + ": this one is damaged");
    EXPECT_EQ(sample.times, 2);
  }
}

TEST(BadSamplesTest, ASubstituteIsAnotherSampleWithItsOwnAugmentation) {
  const auto good = take_epochs(policy_loader(BadSamplePolicy::kError, {}, 0.1, {}), 6);
  const auto run = take_epochs(policy_loader(BadSamplePolicy::kSubstitute, {}), 6);
  std::set<int64_t> substitutes;
  int64_t differing = 0;
  for (size_t b = 0; b < good.batches.size(); ++b) {
    const Batch &expected = good.batches[b], &batch = run.batches[b];
    std::map<int64_t, std::vector<float>> in_epoch;  // how each sample looks where it is due
    for (const Batch& other : good.batches) {
      if (other.epoch != expected.epoch) continue;
      for (size_t row = 0; row < other.indices.size(); ++row)
        in_epoch[other.indices[row]] = row_of(other, row);
    }
    for (size_t row = 0; row < batch.indices.size(); ++row) {
      EXPECT_EQ(batch.weights[row], 1);
      EXPECT_EQ(batch.labels[row], batch.indices[row] % 10);
      if (!is_broken(expected.indices[row])) {
        EXPECT_EQ(batch.indices[row], expected.indices[row]);
        EXPECT_EQ(row_of(batch, row), row_of(expected, row));
        continue;
      }
      EXPECT_FALSE(is_broken(batch.indices[row]));
      substitutes.insert(batch.indices[row]);
      differing += row_of(batch, row) != in_epoch.at(batch.indices[row]) ? 1 : 0;
    }
  }
  EXPECT_GT(substitutes.size(), 12u);  // of 24, drawn anew in each epoch
  EXPECT_GT(differing, 18);            // 1 of 50 crops and flips comes out the same by chance
  EXPECT_EQ(run.skipped, 0);
}

TEST(BadSamplesTest, ThreadsAndPrefetchMakeNoDifference) {
  for (const auto policy : {BadSamplePolicy::kSkip, BadSamplePolicy::kSubstitute}) {
    const auto expected = take_epochs(policy_loader(policy, {.threads = 0}), 3);
    for (const int64_t threads : {1, 4}) {
      for (const int64_t prefetch : {1, 7}) {
        SCOPED_TRACE(fmt::format("{} threads {} prefetch {}", name_of(policy), threads, prefetch));
        expect_same_run(
            take_epochs(policy_loader(policy, {.threads = threads, .prefetch = prefetch}), 3),
            expected);
      }
    }
  }
}

TEST(BadSamplesTest, ShardsTogetherAreTheOneProcessBatch) {
  for (const auto policy : {BadSamplePolicy::kSkip, BadSamplePolicy::kSubstitute}) {
    const auto whole = take_epochs(policy_loader(policy, {}), 2);
    for (const int64_t count : {2, 3}) {
      for (int64_t shard = 0; shard < count; ++shard) {
        const auto part =
            take_epochs(policy_loader(policy, {.share = BatchShare::of_rank(shard, count)}), 2);
        for (size_t b = 0; b < whole.batches.size(); ++b) {
          const Batch &all = whole.batches[b], &mine = part.batches[b];
          for (size_t i = 0; i < mine.indices.size(); ++i) {
            const auto row = static_cast<size_t>(mine.rows[i]);
            EXPECT_EQ(mine.indices[i], all.indices[row]);
            EXPECT_EQ(mine.weights[i], all.weights[row]);
            EXPECT_EQ(row_of(mine, i), row_of(all, row));
          }
        }
      }
    }
  }
}

// The same error in the same place, however far threads have read ahead, and it stays.
TEST(BadSamplesTest, TheBudgetEndsTheRun) {
  for (const int64_t threads : {0, 1, 4}) {
    Loader loader = policy_loader(BadSamplePolicy::kSkip, {.shuffle = false, .threads = threads},
                                  /*budget=*/2);
    EXPECT_EQ(loader.next().position, 0);
    EXPECT_EQ(loader.next().position, 10);
    for (int i = 0; i < 2; ++i) {
      const auto message = message_of<DataError>([&] { loader.next(); });
      EXPECT_THAT(message, AllOf(HasSubstr("3 of 53 samples cannot be read, more than the 2"),
                                 HasSubstr("the last is fake[27]: this one is damaged"),
                                 HasSubstr("data.bad_samples.budget")));
    }
    EXPECT_EQ(loader.bad_samples().size(), 3u);
  }
}

TEST(BadSamplesTest, ABudgetIsAShareOrACount) {
  EXPECT_EQ(BadSampleLog({.budget = 0.01}, 1000).budget(), 10);
  EXPECT_EQ(BadSampleLog({.budget = 0.01}, 1001).budget(), 11);
  EXPECT_EQ(BadSampleLog({.budget = 0.01}, 6).budget(), 1);
  EXPECT_EQ(BadSampleLog({.budget = 1}, 1000).budget(), 1);
  EXPECT_EQ(BadSampleLog({.budget = 25}, 10).budget(), 25);
  EXPECT_GT(BadSampleLog({.budget = 1e30}, 10).budget(), 1'000'000'000);
  EXPECT_THROW(BadSampleLog({.budget = 0}, 10), ConfigError);
  EXPECT_THROW(BadSampleLog({.budget = 1.5}, 10), ConfigError);
}

TEST(BadSamplesTest, ASecondProcessGoesOnWithTheList) {
  Loader first = policy_loader(BadSamplePolicy::kSkip, {.shuffle = false}, /*budget=*/3);
  for (int i = 0; i < 3; ++i) first.next();
  ASSERT_EQ(first.bad_samples().size(), 3u);
  Loader second = policy_loader(BadSamplePolicy::kSkip, {.shuffle = false}, /*budget=*/3);
  second.restore_bad_samples(first.bad_samples());
  second.seek(30);
  EXPECT_NO_THROW(second.next());
  EXPECT_NO_THROW(second.next());
  EXPECT_THAT(message_of([&] { second.next(); }), HasSubstr("4 of 53"));
  second.seek(0);
  second.next();
  EXPECT_EQ(second.bad_samples()[0].times, 2);
}

TEST(BadSamplesTest, WithoutAGoodSampleThereIsNoSubstitute) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < kSamples; ++i) all.push_back(i);
  Loader loader =
      policy_loader(BadSamplePolicy::kSubstitute, {.shuffle = false, .threads = 2}, 1000, all);
  EXPECT_THAT(message_of([&] { loader.next(); }), AllOf(HasSubstr("fake[0]: this one is damaged"),
                                                        HasSubstr("none of 16 other samples")));
}

TEST(BadSamplesTest, SubstitutesAreEvenlySpreadOverTheOthers) {
  std::map<int64_t, int64_t> counts;
  for (int64_t epoch = 0; epoch < 4000; ++epoch) {
    const int64_t other = substitute_sample(1, epoch, 102, 0, 100, 9);
    EXPECT_TRUE(other >= 100 && other < 109 && other != 102) << other;
    ++counts[other];
  }
  ASSERT_EQ(counts.size(), 8u);
  for (const auto& [other, count] : counts) EXPECT_NEAR(count, 500, 130) << other;  // 6 sigma
  EXPECT_EQ(substitute_sample(1, 5, 3, 2, 0, 1000), substitute_sample(1, 5, 3, 2, 0, 1000));
  std::set<int64_t> drawn;
  for (int64_t attempt = 0; attempt < kSubstituteTries; ++attempt)
    drawn.insert(substitute_sample(1, 5, 3, attempt, 0, int64_t{1} << 40));
  for (uint64_t seed = 2; seed < 6; ++seed)
    drawn.insert(substitute_sample(seed, 5, 3, 0, 0, int64_t{1} << 40));
  EXPECT_EQ(drawn.size(), 20u);
}

TEST(BadSamplesTest, SubstitutesComeFromTheSameSet) {
  LoaderOptions options{.shuffle = false};
  options.mix = {.mode = MixMode::kExact, .set_sizes = {20, 33}};
  options.global_batch_size = 10;
  options.bad_samples = {.policy = BadSamplePolicy::kSubstitute, .budget = 0.2};
  const auto pipeline =
      std::make_shared<TransformPipeline>(std::vector<TransformConfig>{{NormalizeConfig{}}}, 1);
  Loader loader(std::make_shared<FakeDataset>(kSamples, 8, std::vector<int64_t>{3, 17, 24, 51}),
                std::vector<SampleTransforms>{pipeline, pipeline}, options);
  for (int64_t i = 0; i < 5 * loader.batches_per_epoch(); ++i) {
    const Batch batch = loader.next();
    for (const int64_t index : batch.indices) EXPECT_EQ(index < 20, batch.set == 0) << index;
  }
}

// A row whose partner is left out is not mixed; a substitute is mixed as the sample would be. Other
// processes, which read partners for themselves, come to the same.
TEST(BadSamplesTest, MixingLeavesThemOutInEveryProcess) {
  const MixupConfig mixup = {.mixup_alpha = 1.0, .mode = "batch"};
  for (const auto policy : {BadSamplePolicy::kSkip, BadSamplePolicy::kSubstitute}) {
    const auto plain = take_epochs(policy_loader(policy, {}), 2);
    const auto whole = take_epochs(policy_loader(policy, {.mixup = mixup}), 2);
    int64_t alone = 0;
    for (size_t b = 0; b < whole.batches.size(); ++b) {
      const Batch &before = plain.batches[b], &mixed = whole.batches[b];
      EXPECT_EQ(mixed.weights, before.weights);
      EXPECT_EQ(mixed.indices, before.indices);
      for (size_t row = 0; row < mixed.indices.size(); ++row) {
        const size_t partner = mixed.indices.size() - 1 - row;
        if (before.weights[row] == 1 && before.weights[partner] == 1) continue;
        ++alone;
        EXPECT_EQ(row_of(mixed, row), row_of(before, row));
        EXPECT_EQ(mixed.targets[10 * row + static_cast<size_t>(mixed.labels[row])], 1);
      }
    }
    EXPECT_EQ(alone > 0, policy == BadSamplePolicy::kSkip);
    int64_t counted = 0, expected = 0;
    for (const BadSample& sample : whole.bad) expected += sample.times;
    for (int64_t shard = 0; shard < 3; ++shard) {
      const auto part = take_epochs(
          policy_loader(policy, {.share = BatchShare::of_rank(shard, 3), .mixup = mixup}), 2);
      for (const BadSample& sample : part.bad) counted += sample.times;
      for (size_t b = 0; b < whole.batches.size(); ++b) {
        const Batch &all = whole.batches[b], &mine = part.batches[b];
        for (size_t i = 0; i < mine.indices.size(); ++i) {
          const auto row = static_cast<size_t>(mine.rows[i]);
          EXPECT_EQ(row_of(mine, i), row_of(all, row));
          EXPECT_TRUE(std::equal(mine.targets.begin() + static_cast<ptrdiff_t>(10 * i),
                                 mine.targets.begin() + static_cast<ptrdiff_t>(10 * i + 10),
                                 all.targets.begin() + static_cast<ptrdiff_t>(10 * row)));
        }
      }
    }
    EXPECT_EQ(counted, expected);  // by the process that has the row, and by no other
  }
}

TEST(BadSamplesTest, TheConfigSaysWhatIsWrong) {
  const auto parse = [](const std::string& section) {
    return parse_config<DataConfig>("bad_samples: " + section, "r.yaml").bad_samples;
  };
  EXPECT_EQ(bad_sample_options(parse("{}"), true).policy, BadSamplePolicy::kError);
  const auto options = bad_sample_options(parse("{policy: substitute, budget: 12}"), true);
  EXPECT_EQ(options.policy, BadSamplePolicy::kSubstitute);
  EXPECT_EQ(options.budget, 12);
  EXPECT_EQ(bad_sample_options(parse("{policy: substitute}"), false).policy,
            BadSamplePolicy::kSkip);
  const auto error = [&](const std::string& section) {
    return message_of<ConfigError>([&] { parse(section); });
  };
  EXPECT_THAT(error("{policy: ignore}"), AllOf(HasSubstr("policy"), HasSubstr("substitute")));
  EXPECT_THAT(error("{budget: 5}"), HasSubstr("no effect with policy: error"));
  EXPECT_THAT(error("{policy: skip, budget: 2.5}"), HasSubstr("expected a whole number"));
  EXPECT_THAT(error("{policy: skip, budget: 0}"), HasSubstr("budget"));
  EXPECT_THROW(bad_sample_policy("none"), ConfigError);
}

TEST(BadSamplesTest, ARecipesSectionHasThePolicy) {
  const TempDir dir;
  dir.write("i", testing::idx_bytes({3, 8, 8}, std::vector<uint8_t>(192)));
  dir.write("l", testing::idx_bytes({3}, {0, 1, 2}));
  const auto config = parse_config<DataConfig>(
      fmt::format("train: {{format: idx, images: {0}/i, labels: {0}/l}}\n"
                  "global_batch_size: 1\nbad_samples: {{policy: substitute, budget: 0.5}}",
                  dir.path()),
      "r.yaml");
  const auto train =
      open_loader_setup(config, *config.train, {.in_chans = 1}, true).options.bad_samples;
  EXPECT_EQ(train.policy, BadSamplePolicy::kSubstitute);
  EXPECT_EQ(train.budget, 0.5);
  const auto val =
      open_loader_setup(config, *config.train, {.in_chans = 1}, false).options.bad_samples;
  EXPECT_EQ(val.policy, BadSamplePolicy::kSkip);
}

}  // namespace
}  // namespace fovea::data
