#include "fovea/track/metric_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>

#include "fovea/core/error.h"
#include "tests/support/temp_dir.h"

namespace fovea::track {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::Pair;

class MetricFileTest : public ::testing::Test {
 protected:
  void append(const std::string& text) { std::ofstream(path_, std::ios::app) << text; }
  static std::vector<int64_t> steps_of(MetricFile& file) {
    std::vector<int64_t> steps;
    for (auto lines = file.next(); !lines.empty(); lines = file.next()) {
      for (const auto& line : lines) steps.push_back(line.step);
    }
    return steps;
  }
  static std::string line(int64_t step, const std::string& more = "") {
    return R"({"step": )" + std::to_string(step) + R"(, "split": "train", "loss": 0.5)" + more +
           "}\n";
  }

  support::TempDir dir_;
  std::string path_ = dir_.path() + "/metrics.jsonl";
};

TEST_F(MetricFileTest, ALineHasItsValuesByName) {
  const auto line = read_metric_line(
      R"({"step": 20, "epoch": 0.5, "split": "val", "loss": null, "top1": 75, "note": "x"})", 7);
  ASSERT_TRUE(line);
  EXPECT_EQ(line->step, 20);
  EXPECT_EQ(line->split, "val");
  EXPECT_EQ(line->time_ms, 7);
  ASSERT_EQ(line->values.size(), 3u);
  EXPECT_THAT(line->values[0], Pair("val/epoch", 0.5));
  EXPECT_EQ(line->values[1].first, "val/loss");
  EXPECT_TRUE(std::isnan(line->values[1].second));
  EXPECT_THAT(line->values[2], Pair("val/top1", 75.0));
  EXPECT_EQ(read_metric_line(R"({"step": 1, "split": "train", "time": 1.7e9})", 7)->time_ms,
            1'700'000'000'000);
  for (const char* none : {"", "{}", "[1]", "{\"step\": 1}", R"({"step": -1, "split": "train"})",
                           R"({"step": 1.5, "split": "train"})", R"({"step": 1, "split": 2})",
                           R"({"step": 18446744073709551615, "split": "train"})"}) {
    EXPECT_FALSE(read_metric_line(none, 7)) << none;
  }
}

TEST_F(MetricFileTest, WholeLinesComeOnceAsTheyAreWritten) {
  append(line(1) + line(2) + R"({"step": 3, "spl)");
  MetricFile file(path_);
  EXPECT_THAT(steps_of(file), ElementsAre(1, 2));
  append(R"(it": "train"})");
  EXPECT_THAT(steps_of(file), IsEmpty());
  append("\n" + line(4));
  EXPECT_THAT(steps_of(file), ElementsAre(3, 4));
  EXPECT_EQ(file.num_damaged(), 0);
}

TEST_F(MetricFileTest, AFileInThePlaceOfAnotherIsReadFromItsStart) {
  append(line(1) + line(2));
  MetricFile file(path_);
  EXPECT_THAT(steps_of(file), ElementsAre(1, 2));
  std::filesystem::rename(dir_.write("new", line(1) + line(5) + line(6)), path_);
  EXPECT_THAT(steps_of(file), ElementsAre(1, 5, 6));
}

TEST_F(MetricFileTest, DamagedLinesArePassedOver) {
  append("no json\n\n" + line(1) + std::string(3 << 20, 'x') + "\n" + line(2));
  MetricFile file(path_);
  EXPECT_THAT(steps_of(file), ElementsAre(1, 2));
  EXPECT_EQ(file.num_damaged(), 2);
}

TEST_F(MetricFileTest, MoreThanABlockComesInParts) {
  std::string text;
  for (int64_t step = 1; step <= 3000; ++step) {
    text += line(step, R"(, "pad": ")" + std::string(1000, 'x') + "\"");
  }
  append(text);
  MetricFile file(path_);
  EXPECT_LT(file.next().size(), 2000u);
  EXPECT_EQ(steps_of(file).back(), 3000);
}

TEST_F(MetricFileTest, AFileThatIsNotThereIsAnError) {
  EXPECT_THROW(MetricFile(path_).next(), DataError);
}

}  // namespace
}  // namespace fovea::track
