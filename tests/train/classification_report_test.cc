
#include <ATen/Functions.h>
#include <gtest/gtest.h>

#include <span>

#include "fovea/data/image/png.h"
#include "fovea/train/evaluate/sample_picture.h"
#include "fovea/train/tasks/classification.h"
#include "tests/data/support.h"

namespace fovea::train {
namespace {

ClassificationEvaluation evaluation_of(int64_t num_samples) {
  ClassificationEvaluation evaluation({}, 10);
  TensorBatch batch;
  batch.indices = at::arange(num_samples, at::kLong);
  batch.labels = batch.indices % 10;
  LossParts parts;
  parts.outputs = at::zeros({num_samples, 10});
  parts.outputs.select(1, 3).fill_(2);  // class 3 for every sample
  evaluation.add(batch, parts);
  return evaluation;
}

EvaluationFile described(const ClassificationEvaluation& evaluation, const data::Dataset& dataset) {
  EvaluationFile file;
  evaluation.describe(file, dataset);
  return file;
}

data::Image picture(const SamplePrediction& sample) {
  data::Image image;
  const auto* bytes = reinterpret_cast<const uint8_t*>(sample.image_png.data());
  data::decode_png(std::span(bytes, sample.image_png.size()), image);
  return image;
}

TEST(ClassificationReportTest, SamplesAreSpreadAndMistakesAreTheWorst) {
  const data::testing::FakeDataset dataset(120, 8);
  const auto file = described(evaluation_of(120), dataset);
  ASSERT_EQ(static_cast<int64_t>(file.samples.size()), kShownSamples);
  EXPECT_EQ(file.samples[1].index, 5);
  ASSERT_EQ(static_cast<int64_t>(file.mistakes.size()), kShownMistakes);
  for (const auto& mistake : file.mistakes) EXPECT_NE(mistake.label, 3);
  data::Sample sample;
  read_decoded(dataset, 5, sample);
  EXPECT_EQ(picture(file.samples[1]).pixels, sample.image().pixels);  // small images as they are
}

TEST(ClassificationReportTest, LargeImagesAreShownSmall) {
  const data::testing::FakeDataset dataset(2, 3 * kPictureSide);
  const auto image = picture(described(evaluation_of(2), dataset).samples.at(0));
  EXPECT_EQ(image.height, kPictureSide);
  EXPECT_EQ(image.width, kPictureSide);
}

}  // namespace
}  // namespace fovea::train
