#include "fovea/data/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fovea/config/config.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/data/transforms/image/horizontal_flip.h"
#include "fovea/data/transforms/image/normalize.h"
#include "fovea/data/transforms/image/pipeline.h"
#include "fovea/data/transforms/image/random_crop.h"
#include "tests/data/support.h"

namespace fovea::data {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::message_of;

constexpr const char* kDataRecipe = R"(
train:
  format: idx
  path: fashion-mnist
  transforms:
    - {name: random_crop, size: [28], padding: [2]}
    - horizontal_flip
    - {name: normalize, preset: fashion_mnist}
val:
  format: folder
  path: val
  transforms: [{name: resize, size: [32]}, {name: normalize, mean: [0.4]}]
global_batch_size: 64
)";

TEST(DataConfigTest, ReadsARecipe) {
  const auto config =
      parse_config<DataConfig>(kDataRecipe, "recipe.yaml", {"train.transforms.0.padding=[3]"});
  EXPECT_EQ(config.global_batch_size, 64);
  EXPECT_TRUE(config.drop_last);
  const auto* train = config.train->get_if<IdxConfig>();
  ASSERT_NE(train, nullptr);
  EXPECT_EQ(train->split, "train");
  ASSERT_EQ(train->transforms.size(), 3u);
  EXPECT_EQ(train->transforms[0].get_if<RandomCropConfig>()->padding, (std::vector<int64_t>{3}));
  EXPECT_NE(train->transforms[1].get_if<HorizontalFlipConfig>(), nullptr);
  EXPECT_EQ(train->transforms[2].get_if<NormalizeConfig>()->std, (std::vector<double>{0.3530}));
  EXPECT_EQ((*config.val)->transforms().size(), 2u);
  EXPECT_EQ(TransformPipeline(image_transforms(train->transforms), 1).output_size(std::nullopt),
            (ImageSize{28, 28}));
}

TEST(DataConfigTest, WhatIsDumpedReadsBack) {
  const auto config = parse_config<DataConfig>(kDataRecipe, "recipe.yaml");
  const std::string text = dump_config(config);
  EXPECT_EQ(dump_config(parse_config<DataConfig>(text, "dump")), text);
  EXPECT_THAT(text, HasSubstr("0.353"));
}

TEST(DataConfigTest, ReportsEveryFault) {
  const std::string message = message_of<ConfigError>([] {
    parse_config<DataConfig>(R"(
train: {format: idx, split: validation}
val:
  format: folder
  path: x
  class_names: [a, a]
  transforms: [{name: normalize, preset: imagenette}, {name: pda}]
threads: -1
)",
                             "recipe.yaml");
  });
  EXPECT_THAT(message,
              AllOf(HasSubstr("train.path"), HasSubstr("train.split"), HasSubstr("val.class_names"),
                    HasSubstr("imagenette"), HasSubstr("pda"), HasSubstr("threads")));
}

TEST(DataConfigTest, EveryKeyHasHelp) {
  for (const auto& key : config_keys<DataConfig>()) EXPECT_FALSE(key.help.empty()) << key.key;
}

}  // namespace
}  // namespace fovea::data
