#include "fovea/train/recipe/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fovea/config/config.h"
#include "fovea/config/schema.h"
#include "fovea/core/error.h"

namespace fovea::train {
namespace {

using ::testing::HasSubstr;

bool is_number(const nlohmann::json& schema) {
  const auto type = schema.find("type");
  if (type == schema.end()) return false;
  const auto is_one = [](const nlohmann::json& name) {
    return name == "integer" || name == "number";
  };
  return is_one(*type) || (type->is_array() && std::any_of(type->begin(), type->end(), is_one));
}

// Keys of numbers with an open end, in `open`; -> how many numbers there are.
int64_t visit(const nlohmann::json& schema, const std::string& key,
              std::vector<std::string>& open) {
  int64_t count = 0;
  if (schema.is_object() && is_number(schema)) {
    const bool has_min = schema.contains("minimum") || schema.contains("exclusiveMinimum");
    const bool has_max = schema.contains("maximum") || schema.contains("exclusiveMaximum");
    if (!has_min || !has_max) open.push_back(key);
    count = 1;
  }
  if (schema.is_structured()) {
    for (const auto& [name, child] : schema.items()) count += visit(child, key + "/" + name, open);
  }
  return count;
}

TEST(TrainConfigTest, EveryNumberHasBothEnds) {
  std::vector<std::string> open;
  EXPECT_GT(visit(nlohmann::json(config_schema<TrainConfig>()), "", open), 350);
  EXPECT_THAT(open, ::testing::IsEmpty());
}

std::string fault_of(const std::vector<std::string>& overrides) {
  try {
    parse_config<TrainConfig>("run: {dir: x}\ndata: {train: {format: imagefolder, path: x}}\n",
                              "recipe.yaml", overrides);
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no fault";
}

TEST(TrainConfigTest, NamesTheEndThatANumberIsBeyond) {
  const std::pair<const char*, const char*> cases[] = {
      {"model.depth=1000000000", "in [1, 1024]"},
      {"model.embed_dim=9223372036854775807", "in [1, 131072]"},
      {"model.num_heads=1000000000", "in [1, 131072]"},
      {"model.patch_size=1000000", "in [1, 65536]"},
      {"model.img_size=[1000000, 8]", "in [1, 65536]"},
      {"model.mlp_ratio=1e300", "in (0, 64]"},
      {"model.num_classes=9223372036854775807", "in [0, 16777216]"},
      {"data.mixup.mixup_alpha=.inf", "in [0, 1000]"},
      {"data.mixup.mixup_alpha=.nan", "a number"},
      {"device.threads=100000", "in [0, 1024]"},
      {"data.threads=100000", "in [0, 1024]"},
      {"data.global_batch_size=9223372036854775807", "in [1, 2147483647]"},
      {"trainer.max_steps=9223372036854775807", "in [1, 2147483647]"},
      {"trainer.micro_batch_size=1e12", "in [1, 2147483647]"},
      {"schedule.warmup_steps=1e12", "in [0, 2147483647]"},
      {"optim.lr=1e40", "1e+30"},
  };
  for (const auto& [override_text, range] : cases)
    EXPECT_THAT(fault_of({override_text}), HasSubstr(range)) << override_text;
}

TEST(TrainConfigTest, PassesAtOnceAreRefusedWhereTheyCannotBe) {
  const std::vector<std::vector<std::string>> cases = {
      {"parallel.dp_shard=2"},  {"parallel.tp=2"},
      {"parallel.cp=2"},        {"parallel.shard_outer=optimizer"},
      {"device.cuda_graph=on"}, {"device.fp8=auto", "device.dtype=bfloat16"}};
  for (auto overrides : cases) {
    const auto key = overrides[0].substr(0, overrides[0].find('='));
    overrides.push_back("trainer.concurrent_passes=2");
    EXPECT_THAT(fault_of(overrides), ::testing::AllOf(HasSubstr("trainer.concurrent_passes"),
                                                      HasSubstr("found 2 with " + key)));
    overrides.back() = "trainer.concurrent_passes=auto";
    EXPECT_THAT(fault_of(overrides), ::testing::Not(HasSubstr("with " + key)));
  }
  EXPECT_THAT(fault_of({"trainer.concurrent_passes=0"}), HasSubstr("in [1, 64]"));
}

TEST(TrainConfigTest, SavedActivationsAreRefusedWhereTheyWouldNotBeRounded) {
  const std::vector<std::vector<std::string>> cases = {
      {"device.type=cuda"},
      {"device.dtype=bfloat16"},
      {"device.dtype=float16"},
      {"device.recompute_cheap=off"},
      {"parallel.recompute=mlp"},
      {"parallel.recompute=attention"},
      {"parallel.min_num_params=1", "parallel.dp_shard=2"}};
  for (auto overrides : cases) {
    SCOPED_TRACE(overrides[0]);
    const auto key = overrides[0].substr(0, overrides[0].find('='));
    const auto word = key.substr(key.find('.') + 1);
    EXPECT_THAT(fault_of(overrides), ::testing::Not(HasSubstr("saved_activations")));
    overrides.push_back("device.saved_activations=bfloat16");
    EXPECT_THAT(fault_of(overrides),
                ::testing::AllOf(HasSubstr("device.saved_activations"), HasSubstr("found bfloat16"),
                                 HasSubstr(word)));
  }
  for (const char* allowed : {"device.dtype=auto", "parallel.recompute=block", "parallel.tp=2"}) {
    EXPECT_THAT(fault_of({"device.saved_activations=bfloat16", allowed}),
                ::testing::Not(HasSubstr("saved_activations")));
  }
}

TEST(TrainConfigTest, ProductsByPartsOfBfloat16AreForFloat32OnACpu) {
  for (const std::string other :
       {"device.type=cuda", "device.dtype=float16", "device.dtype=int8"}) {
    SCOPED_TRACE(other);
    EXPECT_THAT(
        fault_of({"device.float32_products=bfloat16x3", other}),
        ::testing::AllOf(HasSubstr("device.float32_products"), HasSubstr("found bfloat16x3"),
                         HasSubstr("or float32_products=float32")));
  }
  EXPECT_THAT(fault_of({"device.float32_products=bfloat16x6", "device.dtype=auto"}),
              ::testing::Not(HasSubstr("float32_products")));
}

TEST(TrainConfigTest, LinesOfTheLogFollowFromTheLengthOfTheRun) {
  const LogConfig automatic;
  EXPECT_EQ(steps_of_a_line(automatic, 22), 1);
  EXPECT_EQ(steps_of_a_line(automatic, 199), 1);
  EXPECT_EQ(steps_of_a_line(automatic, 200), 2);
  EXPECT_EQ(steps_of_a_line(automatic, 1170), 10);
  EXPECT_EQ(steps_of_a_line(automatic, 1'000'000), 50);
  LogConfig given;
  given.every_steps = 7;
  EXPECT_EQ(steps_of_a_line(given, 22), 7);
}

}  // namespace
}  // namespace fovea::train
