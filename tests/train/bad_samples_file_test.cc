#include "fovea/train/run/bad_samples_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "fovea/core/files.h"
#include "fovea/data/datasets/folder.h"
#include "fovea/data/image/png.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/train/report/report.h"
#include "fovea/train/trainer.h"
#include "tests/data/support.h"
#include "tests/support/html_checker.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

namespace fs = std::filesystem;

BadSamplesFile two_splits() {
  return {{"train", {"substitute", {{7, "a/\xFF.jpg", "a: <b>truncated</b>", 3}}}},
          {"val", {"skip", {}}}};
}

TEST(BadSamplesFileTest, ReadsBackWhatItWrote) {
  const data::testing::TempDir dir;
  const auto path = dir.file("bad_samples.json");
  write_bad_samples_file(path, two_splits());
  const auto read = read_bad_samples_file(path);
  ASSERT_EQ(read.size(), 1u);  // a split without bad samples is left out
  const auto& found = read.at("train");
  EXPECT_EQ(found.policy, "substitute");
  ASSERT_EQ(found.samples.size(), 1u);
  EXPECT_EQ(found.samples[0].index, 7);
  EXPECT_EQ(found.samples[0].name, "a/\xEF\xBF\xBD.jpg");
  EXPECT_EQ(found.samples[0].reason, "a: <b>truncated</b>");
  EXPECT_EQ(found.samples[0].times, 3);
  write_bad_samples_file(path, {});
  EXPECT_FALSE(fs::exists(path));
  EXPECT_TRUE(read_bad_samples_file(path).empty());
}

TEST(BadSamplesFileTest, RefusesDamagedFilesByName) {
  const data::testing::TempDir dir;
  for (const char* text : {"", "[]", R"({"train": 3})", R"({"train": {"samples": 3}})",
                           R"({"train": {"samples": [{"index": "x"}]}})"}) {
    const auto path = dir.write("bad_samples.json", text);
    const auto message = data::testing::message_of<DataError>([&] { read_bad_samples_file(path); });
    EXPECT_NE(message.find("bad_samples.json"), std::string::npos) << text;
  }
}

TEST(BadSamplesFileTest, TheReportNamesThem) {
  const data::testing::TempDir dir;
  dir.write("metrics.jsonl", std::string(R"({"step": 1, "epoch": 1, "split": "train"})") + "\n");
  const auto text = [&] { return support::check_html(render_report(read_run(dir.path()))).text; };
  EXPECT_EQ(text().find("Bad samples"), std::string::npos);
  auto file = two_splits();
  for (int64_t i = 0; i < 150; ++i)
    file["val"].samples.push_back({i, "v" + std::to_string(i), "gone", 1});
  write_bad_samples_file(dir.file("bad_samples.json"), file);
  for (const char* shown :
       {"Bad samples", "train: 1 bad sample; policy substitute", "a: <b>truncated</b>",
        "val: 150 bad samples; policy skip", "v99", "The other 50 stand in bad_samples.json"}) {
    EXPECT_NE(text().find(shown), std::string::npos) << shown;
  }
  EXPECT_EQ(text().find("v100"), std::string::npos);
}

// Class folders of 8 x 8 images, one of each ten of which is damaged.
data::DataSectionConfig damaged_set(const data::testing::TempDir& dir, const std::string& name) {
  RandomStream random(philox_key(1, name), 0);
  for (int64_t i = 0; i < 40; ++i) {
    data::Image image = {8, 8, 1, {}};
    for (int64_t p = 0; p < 64; ++p)
      image.pixels.push_back(static_cast<uint8_t>(random.below(256)));
    auto bytes = data::encode_png(image);
    if (i % 10 == 7) bytes.resize(bytes.size() / 2);
    dir.write(fmt::format("{}/{}/{:02}.png", name, i % 4, i), bytes);
  }
  data::FolderConfig config{.path = dir.file(name)};
  config.transforms = {{data::HorizontalFlipConfig{.p = 0}}, {data::NormalizeConfig{}}};
  return {config};
}

// The run says what it met, on the terminal, in its files and in the report.
TEST(BadSamplesFileTest, ARunThatEndedOnABadSampleGoesOnWithAPolicy) {
  const data::testing::TempDir dir;
  auto config = testing::tiny_config(dir);
  config.data.train = damaged_set(dir, "train");
  config.data.val = damaged_set(dir, "val");
  config.data.global_batch_size = 10;
  config.trainer.max_epochs = std::nullopt;
  config.trainer.max_steps = 8;
  config.checkpoint.every_steps = 1;
  const auto message = data::testing::message_of<DataError>(
      [&] { Trainer(config, ProgressLine::Mode::kSilent).fit(); });
  EXPECT_NE(message.find("the PNG is truncated"), std::string::npos) << message;
  config.data.bad_samples.policy = "substitute";
  config.data.bad_samples.budget = 4;
  EXPECT_EQ(Trainer(config, ProgressLine::Mode::kSilent).fit().step, 8);
  const auto found = read_bad_samples_file(config.run.dir + "/bad_samples.json");
  EXPECT_EQ(found.at("train").policy, "substitute");
  EXPECT_EQ(found.at("val").policy, "skip");
  ASSERT_EQ(found.at("train").samples.size(), 4u);
  EXPECT_EQ(found.at("val").samples.size(), 4u);
  const auto metrics = read_file(config.run.dir + "/metrics.jsonl", 1 << 20);
  EXPECT_NE(metrics.find("\"num_left_out\":4"), std::string::npos) << metrics;
  EXPECT_NE(metrics.find("\"bad_samples\":4"), std::string::npos) << metrics;
  const auto log = read_file(config.run.dir + "/train.log", 1 << 20);
  EXPECT_NE(log.find("bad sample 4 of at most 4"), std::string::npos) << log;
  EXPECT_NE(log.find("4 bad samples are left out"), std::string::npos) << log;
  const auto report = read_file(config.run.dir + "/report.html", 1 << 26);
  EXPECT_NE(report.find("4 that could not be read were left out"), std::string::npos);
}

}  // namespace
}  // namespace fovea::train
