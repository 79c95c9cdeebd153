#include "fovea/train/run/metrics_writer.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "fovea/core/error.h"
#include "tests/data/support.h"

namespace fovea::train {
namespace {

std::string read_text(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

MetricsRecord record_of(int64_t step, const std::string& split = "train") {
  return {step, 0.25 * static_cast<double>(step), split, {{"loss", 1.0 / 3}, {"lr", 1e-3}}};
}

class MetricsWriterTest : public ::testing::Test {
 protected:
  data::testing::TempDir folder_;
  std::string path_ = folder_.path() + "/metrics.jsonl";
};

TEST_F(MetricsWriterTest, OneLineForEachRecord) {
  MetricsWriter writer(path_);
  writer.write(record_of(20));
  writer.write({40, 1, "val", {{"top1", 99.5}, {"loss", NAN}}});
  EXPECT_EQ(read_text(path_),
            "{\"step\":20,\"epoch\":5.0,\"split\":\"train\",\"loss\":0.3333333333333333,"
            "\"lr\":0.001}\n"
            "{\"step\":40,\"epoch\":1.0,\"split\":\"val\",\"loss\":null,\"top1\":99.5}\n");
}

TEST_F(MetricsWriterTest, AResumedRunWritesTheFileOfAnUninterruptedOne) {
  {
    MetricsWriter whole(folder_.path() + "/whole.jsonl");
    for (int64_t step = 1; step <= 6; ++step) whole.write(record_of(step));
  }
  {
    MetricsWriter killed(path_);
    for (int64_t step = 1; step <= 5; ++step) killed.write(record_of(step));
  }
  std::ofstream(path_, std::ios::app) << R"({"step":6,"epo)";  // cut off by the kill
  MetricsWriter resumed(path_);
  resumed.cut_after(3);
  for (int64_t step = 4; step <= 6; ++step) resumed.write(record_of(step));
  EXPECT_EQ(read_text(path_), read_text(folder_.path() + "/whole.jsonl"));
}

TEST_F(MetricsWriterTest, CutsLinesOfBothSplitsAndWhatIsNoRecord) {
  {
    MetricsWriter writer(path_);
    writer.write(record_of(2));
    writer.write(record_of(2, "val"));
    writer.write(record_of(3));
  }
  std::ofstream(path_, std::ios::app) << "garbage\n[1]\n{\"step\":\"1\"}\n";
  MetricsWriter writer(path_);
  writer.cut_after(2);
  const auto text = read_text(path_);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 2);
  writer.cut_after(0);
  EXPECT_EQ(read_text(path_), "");
  writer.write(record_of(1));
  EXPECT_EQ(nlohmann::json::parse(read_text(path_)).at("step"), 1);
}

TEST_F(MetricsWriterTest, AFullDiskLeavesNoHalfLine) {
  MetricsWriter writer(path_);
  writer.write(record_of(1));
  const auto before = read_text(path_);
  rlimit old{};
  getrlimit(RLIMIT_FSIZE, &old);
  rlimit limited = old;
  limited.rlim_cur = before.size() + 10;
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  setrlimit(RLIMIT_FSIZE, &limited);
  EXPECT_THROW(writer.write(record_of(2)), Error);
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(read_text(path_), before);
}

TEST_F(MetricsWriterTest, AFolderThatIsNotThereIsAnError) {
  EXPECT_THROW(MetricsWriter(folder_.path() + "/none/metrics.jsonl"), Error);
}

TEST_F(MetricsWriterTest, WhatCannotBeReadIsKeptBesideTheFile) {
  MetricsWriter writer(path_);
  for (int64_t step = 1; step <= 3; ++step) writer.write(record_of(step));
  const auto before = read_text(path_);
  std::ofstream(path_, std::ios::app) << std::string(kMaxMetricsLine + 1, 'x') << "\n";
  const auto damaged = read_text(path_);
  writer.cut_after(3);
  EXPECT_EQ(read_text(path_), before);
  EXPECT_EQ(read_text(path_ + ".damaged"), damaged);
  writer.write(record_of(4));
  EXPECT_GT(read_text(path_).size(), before.size());
}

// Opening a pipe without a reader would wait for ever; the alarm ends it.
TEST_F(MetricsWriterTest, APipeIsRefused) {
  alarm(60);
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_THROW(MetricsWriter writer(path_), Error);
  alarm(0);
}

}  // namespace
}  // namespace fovea::train
