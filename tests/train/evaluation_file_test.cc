#include "fovea/train/evaluate/evaluation_file.h"

#include <gtest/gtest.h>

#include <cmath>

#include "fovea/core/error.h"

namespace fovea::train {
namespace {

EvaluationFile example() {
  return {.metrics = {{"loss", 0.5}, {"top1", 75}, {"top5", 100}},
          .num_samples = 4,
          .step = 120,
          .epoch = 2.5,
          .dataset = "test",
          .num_classes = 2,
          .class_names = {"cat", "<dog>"},
          .confusion = {{0, 0, 3}, {1, 0, 1}},
          .samples = {{.index = 7,
                       .description = "a/b.png",
                       .label = 1,
                       .predicted = 0,
                       .loss = 1.25,
                       .scores = {{0, 0.7}, {1, 0.3}},
                       .image_png = std::string("\x89PNG\0\xFF", 6)}},
          .mistakes = {},
          .pictures = {{.title = "mask", .caption = "a/b", .image_png = std::string("a\0b", 3)}}};
}

TEST(EvaluationFileTest, ReadsBackWhatItWrote) {
  const auto written = example();
  const auto read = evaluation_from_json(evaluation_to_json(written), "x");
  EXPECT_EQ(read.metrics, written.metrics);
  EXPECT_EQ(read.metric("top1"), 75);
  EXPECT_TRUE(std::isnan(read.metric("dice")));
  ASSERT_EQ(read.pictures.size(), 1u);
  EXPECT_EQ(read.pictures[0].title, "mask");
  EXPECT_EQ(read.pictures[0].caption, "a/b");
  EXPECT_EQ(read.pictures[0].image_png, written.pictures[0].image_png);
  EXPECT_EQ(read.num_samples, 4);
  EXPECT_EQ(read.step, 120);
  EXPECT_EQ(read.epoch, 2.5);
  EXPECT_EQ(read.dataset, "test");
  EXPECT_EQ(read.class_names, written.class_names);
  ASSERT_EQ(read.confusion.size(), 2u);
  EXPECT_EQ(read.confusion[1].label, 1);
  EXPECT_EQ(read.confusion[1].predicted, 0);
  EXPECT_EQ(read.confusion[1].count, 1);
  ASSERT_EQ(read.samples.size(), 1u);
  const auto& sample = read.samples[0];
  EXPECT_EQ(sample.index, 7);
  EXPECT_EQ(sample.description, "a/b.png");
  EXPECT_EQ(sample.label, 1);
  EXPECT_EQ(sample.predicted, 0);
  EXPECT_EQ(sample.loss, 1.25);
  ASSERT_EQ(sample.scores.size(), 2u);
  EXPECT_EQ(sample.scores[1].label, 1);
  EXPECT_EQ(sample.scores[1].score, 0.3);
  EXPECT_EQ(sample.image_png, written.samples[0].image_png);
}

TEST(EvaluationFileTest, CarriesNanAndNamesThatAreNotUtf8) {
  auto written = example();
  written.metrics["loss"] = std::nan("");
  written.class_names[0] = "\xFF";
  const auto read = evaluation_from_json(evaluation_to_json(written), "x");
  EXPECT_TRUE(std::isnan(read.metric("loss")));
  EXPECT_EQ(read.class_names[0], "\xEF\xBF\xBD");
}

TEST(EvaluationFileTest, RefusesDamagedFilesByName) {
  const std::string good = evaluation_to_json(example());
  for (const auto& bad :
       {std::string(""), std::string("[]"), good.substr(0, good.size() / 2),
        std::string(R"({"num_classes": 2, "confusion": [[0, 2, 1]]})"),
        std::string(R"({"num_classes": 2, "confusion": [[-1, 0, 1]]})"),
        std::string(R"({"num_classes": 2, "confusion": [[0, 1]]})"),
        std::string(R"({"metrics": [1]})"), std::string(R"({"metrics": {"loss": "low"}})"),
        std::string(R"({"pictures": [1]})"), std::string(R"({"num_classes": 1e30})"),
        std::string(R"({"num_classes": 99999999999})"), std::string(R"({"class_names": [1]})"),
        std::string(R"({"samples": {"a": 1}})"), std::string(R"({"samples": [3]})"),
        std::string(R"({"samples": [{"image_png": "<"}]})"), std::string(100000, '[')}) {
    try {
      evaluation_from_json(bad, "evaluation.json");
      ADD_FAILURE() << "took " << bad.substr(0, 80);
    } catch (const DataError& error) {
      EXPECT_EQ(std::string(error.what()).find("evaluation.json: "), 0u) << error.what();
    }
  }
}

TEST(EvaluationFileTest, NamesEveryClass) {
  EXPECT_EQ(class_name({"cat"}, 0), "cat");
  EXPECT_EQ(class_name({"cat"}, 1), "class 1");
  EXPECT_EQ(class_name({}, -1), "no label");
}

}  // namespace
}  // namespace fovea::train
