#include "fovea/data_tools/data_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <thread>

#include "fovea/data/dataset_views.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_resized_crop.h"
#include "tests/data/jpeg_writer.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::HasSubstr;
using testing::message_of;
using testing::TempDir;

LoaderSetup bench_setup(std::shared_ptr<const Dataset> dataset, int64_t in_chans) {
  LoaderSetup setup;
  setup.dataset = std::move(dataset);
  setup.transforms = {std::make_shared<const TransformPipeline>(
      std::vector<TransformConfig>{{RandomResizedCropConfig{.size = {8}}}, {NormalizeConfig{}}},
      in_chans)};
  return setup;
}

DataBenchOptions short_bench() {
  return {.name = "small", .threads = {1, 2}, .rounds = 2, .seconds = 0.01, .batch_size = 4};
}

TEST(DataBenchTest, FilesAreHeldAgainstFullDecoding) {
  TempDir dir;
  for (int i = 0; i < 6; ++i) {
    dir.write(fmt::format("a/{}.jpg", i), testing::write_jpeg({40, 50}, {}));
  }
  const auto results =
      bench_data(bench_setup(build_folder_dataset({.path = dir.path()}), 3), short_bench());
  ASSERT_EQ(results.size(), 2u);
  for (size_t i = 0; i < 2; ++i) {
    const DataBenchResult& result = results[i];
    EXPECT_EQ(result.threads, static_cast<int64_t>(i + 1));
    EXPECT_EQ(result.rounds, 2);
    EXPECT_EQ(result.limit, MachineLimit::kFullDecode);
    EXPECT_GT(result.images_per_second, 0);
    EXPECT_LE(result.images_per_second_min, result.images_per_second);
    EXPECT_GE(result.images_per_second_max, result.images_per_second);
    EXPECT_GT(result.stage_ms[static_cast<size_t>(Stage::kDecode)], 0);
    EXPECT_DOUBLE_EQ(result.limit_share, result.images_per_second / result.limit_images_per_second);
    const auto json = nlohmann::json::parse(result.to_json());
    EXPECT_EQ(json.at("name"), "small");
    EXPECT_EQ(json.at("mode"), "load");
    EXPECT_EQ(json.at("limit"), "full_decode");
    EXPECT_EQ(json.at("threads"), i + 1);
    EXPECT_EQ(json.at("stage_ms").size(), kNumStages);
  }
}

TEST(DataBenchTest, PixelsAreHeldAgainstMemory) {
  auto options = short_bench();
  options.threads = {1};
  options.pixel_type = PixelType::kUint8;
  const auto results =
      bench_data(bench_setup(std::make_shared<testing::FakeDataset>(10, 12), 1), options);
  EXPECT_EQ(results[0].limit, MachineLimit::kMemory);
  EXPECT_EQ(results[0].dtype, "uint8");
  EXPECT_GT(results[0].limit_images_per_second, results[0].images_per_second);
  EXPECT_EQ(results[0].stage_ms[static_cast<size_t>(Stage::kDecode)], 0);
}

// Half a minute were it to take as many samples as a fast set.
TEST(DataBenchTest, ASlowSetIsMeasuredInBoundedTime) {
  class SlowDataset : public DatasetView {
   public:
    using DatasetView::DatasetView;
    void read(int64_t index, Sample& sample) const override {
      std::this_thread::sleep_for(std::chrono::milliseconds(4));
      reads += 1;
      DatasetView::read(index, sample);
    }
    mutable std::atomic<int64_t> reads = 0;
  };
  const auto slow = std::make_shared<SlowDataset>(std::make_shared<testing::FakeDataset>(500, 12));
  auto options = short_bench();
  options.threads = {1};
  options.batch_size = 64;
  std::vector<std::string> told;
  options.progress = [&](const std::string& what) { told.push_back(what); };
  const auto result = bench_data(bench_setup(slow, 1), options).front();
  EXPECT_LT(slow->reads, 100) << "a window and a warming up hold a few samples each";
  EXPECT_EQ(result.batch_size, 1);
  EXPECT_THAT(told, ::testing::Contains(HasSubstr("round 2 of 2, 1 thread: ")));
}

TEST(DataBenchTest, ADamagedFileIsNamed) {
  TempDir dir;
  dir.write("a/0.jpg", testing::write_jpeg({40, 50}, {}));
  dir.write("a/broken.jpg", std::string("\xFF\xD8\xFFnot a picture"));
  const auto setup = bench_setup(build_folder_dataset({.path = dir.path()}), 3);
  EXPECT_THAT(message_of<DataError>([&] { bench_data(setup, short_bench()); }),
              HasSubstr("broken.jpg"));
}

}  // namespace
}  // namespace fovea::data
