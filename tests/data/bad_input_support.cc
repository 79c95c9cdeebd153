#include "tests/data/bad_input_support.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "fovea/data/loader.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_resized_crop.h"
#include "fovea/data/transforms/volume/rand_flip.h"
#include "fovea/data/transforms/volume/volume_pipeline.h"

namespace fovea::data::testing {
namespace {

using ::testing::HasSubstr;

SampleTransforms transforms_for(const Dataset& dataset, bool has_volumes) {
  if (has_volumes) {
    const bool is_image = dataset.form() == SampleForm::kImage;
    Sample sample;
    if (!is_image) read_decoded(dataset, 0, sample);
    return std::make_shared<const VolumePipeline>(
        std::vector<VolumeTransformConfig>{{RandFlipConfig{.prob = 0.5, .per_axis = true}}},
        is_image ? 3 : sample.volume().channels);
  }
  return std::make_shared<const TransformPipeline>(
      std::vector<TransformConfig>{
          {RandomResizedCropConfig{.size = {12}}}, {HorizontalFlipConfig{}}, {NormalizeConfig{}}},
      3);
}

struct LoaderRun {
  std::vector<Batch> batches;
  std::vector<BadSample> bad;
  int64_t skipped = 0;
};

Loader loader_of(const std::shared_ptr<const Dataset>& dataset, const SampleTransforms& transforms,
                 BadSamplePolicy policy, int64_t threads) {
  return Loader(dataset, transforms,
                {.global_batch_size = 4,
                 .seed = 5,
                 .threads = threads,
                 .bad_samples = {.policy = policy, .budget = 0.9}});
}

// Two epochs.
LoaderRun run_of(Loader loader) {
  LoaderRun run;
  for (int64_t i = 0; i < 2 * loader.batches_per_epoch(); ++i) run.batches.push_back(loader.next());
  run.bad = loader.bad_samples();
  run.skipped = loader.take_skipped_rows();
  return run;
}

// Everything that a row holds.
struct RowContent {
  std::vector<float> values;
  std::vector<int32_t> classes;
  int64_t index = 0, label = 0;
  float weight = 0;
  bool operator==(const RowContent&) const = default;
};

template <class T>
std::vector<T> part_of(const std::vector<T>& all, size_t row, size_t rows) {
  const auto count = static_cast<ptrdiff_t>(all.size() / rows);
  const auto first = all.begin() + static_cast<ptrdiff_t>(row) * count;
  return {first, first + count};
}

RowContent content_of(const Batch& batch, size_t row) {
  const size_t rows = batch.indices.size();
  return {part_of(batch.images, row, rows), part_of(batch.masks, row, rows), batch.indices[row],
          batch.labels.empty() ? -1 : batch.labels[row], batch.weights[row]};
}

void expect_equal_runs(const LoaderRun& a, const LoaderRun& b) {
  ASSERT_EQ(a.batches.size(), b.batches.size());
  for (size_t i = 0; i < a.batches.size(); ++i) {
    ASSERT_EQ(a.batches[i].indices.size(), b.batches[i].indices.size());
    for (size_t row = 0; row < a.batches[i].indices.size(); ++row)
      EXPECT_TRUE(content_of(a.batches[i], row) == content_of(b.batches[i], row))
          << i << " " << row;
  }
  ASSERT_EQ(a.bad.size(), b.bad.size());
  for (size_t i = 0; i < a.bad.size(); ++i) EXPECT_EQ(a.bad[i].reason, b.bad[i].reason);
}

// Rows of other samples hold what they hold without a bad one; the bad one's goes by the policy.
void expect_rows(const LoaderRun& run, const LoaderRun& good, BadSamplePolicy policy, int64_t bad) {
  ASSERT_EQ(run.batches.size(), good.batches.size());
  for (size_t b = 0; b < good.batches.size(); ++b) {
    const Batch &batch = run.batches[b], &expected = good.batches[b];
    ASSERT_EQ(batch.size(), expected.size());
    for (size_t row = 0; row < batch.indices.size(); ++row) {
      const RowContent content = content_of(batch, row);
      if (expected.indices[row] != bad) {
        EXPECT_TRUE(content == content_of(expected, row)) << "batch " << b << " row " << row;
      } else if (policy == BadSamplePolicy::kSkip) {
        EXPECT_EQ(content.weight, 0);
        EXPECT_EQ(content.index, -1);
        EXPECT_EQ(content.values, std::vector<float>(content.values.size(), 0.0F));
        EXPECT_THAT(content.classes, ::testing::Each(-1));
      } else {
        EXPECT_EQ(content.weight, 1);
        EXPECT_NE(content.index, bad);
        EXPECT_GE(content.index, 0);
      }
    }
  }
}

}  // namespace

void expect_policies(const SmallSet& set, const Harm& harm) {
  SCOPED_TRACE(set.format + ": " + harm.fault);
  const TempDir dir;
  set.write(dir);
  auto dataset = set.open(dir);
  const auto transforms = transforms_for(*dataset, set.has_volumes);
  const auto good = run_of(loader_of(dataset, transforms, BadSamplePolicy::kError, 0));
  EXPECT_TRUE(good.bad.empty());
  const auto kept = harm.act(dir);
  if (!harm.is_during_run) {
    dataset.reset();  // a library may keep what it has read as long as a file is open
    dataset = set.open(dir);
  }
  std::vector<std::string> messages;
  for (const int64_t threads : {1, 4}) {
    messages.push_back(message_of(
        [&] { run_of(loader_of(dataset, transforms, BadSamplePolicy::kError, threads)); }));
  }
  EXPECT_THAT(messages[0], HasSubstr(harm.name));
  EXPECT_THAT(messages[0], HasSubstr(harm.reason));
  EXPECT_EQ(messages[0], messages[1]);
  for (const auto policy : {BadSamplePolicy::kSkip, BadSamplePolicy::kSubstitute}) {
    SCOPED_TRACE(name_of(policy));
    const auto one = run_of(loader_of(dataset, transforms, policy, 1));
    const auto four = run_of(loader_of(dataset, transforms, policy, 4));
    expect_rows(one, good, policy, harm.sample);
    expect_equal_runs(one, four);
    ASSERT_EQ(one.bad.size(), 1u);
    EXPECT_EQ(one.bad[0].index, harm.sample);
    EXPECT_EQ(one.bad[0].name, dataset->describe(harm.sample));
    EXPECT_EQ(one.bad[0].reason, messages[0]);
    EXPECT_GE(one.bad[0].times, 2);
    EXPECT_EQ(one.skipped, policy == BadSamplePolicy::kSkip ? 2 : 0);
  }
}

// A set that cannot be opened at all is an error, whatever the policy.
void expect_refused(const SmallSet& set, const Harm& harm) {
  SCOPED_TRACE(set.format + ": " + harm.fault);
  const TempDir dir;
  set.write(dir);
  set.open(dir);
  const auto kept = harm.act(dir);
  const auto message = message_of([&] { set.open(dir); });
  EXPECT_THAT(message, HasSubstr(harm.name));
  EXPECT_THAT(message, HasSubstr(harm.reason));
}

}  // namespace fovea::data::testing
