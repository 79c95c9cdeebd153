// device.dtype: int8 of a loaded model: which layers, what is said, and how far the outputs move.
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <optional>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/inference/calibrate.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "fovea/models/registry.h"
#include "fovea/train/evaluate/int8_errors.h"
#include "fovea/train/recipe/inference.h"
#include "fovea/train/recipe/int8_layers.h"
#include "tests/support/close.h"
#include "tests/support/product_rows.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

class Int8InferenceTest : public ::testing::Test {
 protected:
  Int8InferenceTest() : config_(testing::tiny_config(folder_)) {
    config_.data = {};
    write(config_.model, weights());
  }

  void write(const models::ModelConfig& model, const std::string& path, double factor = 1) {
    const auto made = models::build_model(model);
    made->init_weights(99);
    const at::NoGradGuard no_grad;
    const auto parameters = made->named_parameters();
    for (const auto& item : parameters) {
      if (item.key() == "blocks.1.mlp.fc1.weight") item.value()[1][2].mul_(factor);
    }
    save_inference_weights(path, *made, config_, {"a", "b", "c", "d"});
  }
  std::string weights() const { return folder_.file("trained.safetensors"); }
  std::string recipe(const std::vector<std::string>& changes) const {
    const auto path = folder_.file("recipe.yaml");
    std::ofstream(path) << dump_config(config_);
    const auto config = load_config<TrainConfig>(path, changes);
    std::ofstream(path) << dump_config(config);
    return path;
  }
  // Beside float32, where a test does not name what.
  static Inference load(const std::string& target, InferenceOptions options) {
    options.device = "cpu";
    if (options.int8_rest.empty()) options.int8_rest = "float32";
    return load_inference(target, options);
  }
  static std::string error_of(const std::string& target, const InferenceOptions& options) {
    try {
      load(target, options);
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  }
  // Of noise, [2, num_classes].
  static at::Tensor outputs(const Inference& inference) {
    const at::NoGradGuard no_grad;
    const auto& spec = inference.model->input_spec();
    const auto images =
        support::random({2, spec.in_chans, spec.img_size[0], spec.img_size[1]}, at::kFloat, 5);
    return inference.model->forward(images.to(inference.compute.dtype));
  }
  static std::vector<std::string> int8_names(const Inference& inference) {
    std::vector<std::string> names;
    for (const auto& [name, layer] : nn::block_linears(*inference.model)) {
      if (kernels::kept_int8(layer->weight)) names.push_back(name);
    }
    return names;
  }

  data::testing::TempDir folder_;
  TrainConfig config_;
};

TEST_F(Int8InferenceTest, BlocksMultiplyEightBitIntegersAndTheRestDoesNot) {
  const auto wide = load(weights(), {});
  const auto narrow = load(weights(), {.dtype = "int8"});
  EXPECT_EQ(narrow.compute.dtype, at::kFloat);
  EXPECT_TRUE(int8_names(wide).empty());
  EXPECT_EQ(int8_names(narrow).size(), nn::block_linears(*narrow.model).size());
  const auto exact = outputs(wide), near = outputs(narrow);
  const double change = ((near - exact).norm() / exact.norm()).item<double>();
  EXPECT_GT(change, 0);
  EXPECT_LT(change, 0.05);
}

TEST_F(Int8InferenceTest, TheRestMayBeBfloat16) {
  const auto wide = load(weights(), {}), half = load(weights(), {.dtype = "bfloat16"});
  const auto narrow = load(weights(), {.dtype = "int8", .int8_rest = "bfloat16"});
  EXPECT_EQ(narrow.compute.dtype, at::kBFloat16);
  EXPECT_EQ(int8_names(narrow).size(), nn::block_linears(*narrow.model).size());
  const auto near = outputs(narrow);
  EXPECT_EQ(near.scalar_type(), at::kBFloat16);
  const auto exact = outputs(wide);
  EXPECT_LT(((near - exact).norm() / exact.norm()).item<double>(), 0.05);
  EXPECT_FALSE(near.equal(outputs(half)));
  const auto none = load(weights(), {.dtype = "int8", .int8_skip = {"*"}, .int8_rest = "bfloat16"});
  support::expect_same_bits(outputs(none), outputs(half), "outputs without int8");
}

TEST_F(Int8InferenceTest, LayersThatAreSkippedStayWide) {
  const auto some = load(weights(), {.dtype = "int8", .int8_skip = {"blocks.*.mlp.*", "*.qkv"}});
  for (const auto& name : int8_names(some)) EXPECT_TRUE(name.ends_with("attn.proj")) << name;
  EXPECT_FALSE(int8_names(some).empty());
  const auto none = load(weights(), {.dtype = "int8", .int8_skip = {"*"}});
  support::expect_same_bits(outputs(none), outputs(load(weights(), {})), "outputs");
}

TEST_F(Int8InferenceTest, ARecipeAsksForItToo) {
  const InferenceOptions options{.weights = weights()};
  const auto target = recipe({"device.dtype=int8", "int8.skip=[blocks.0.*]"});
  const auto inference = load(target, options);
  ASSERT_FALSE(int8_names(inference).empty());
  for (const auto& name : int8_names(inference)) EXPECT_FALSE(name.starts_with("blocks.0."));
  auto own = options;
  own.int8_skip = {"blocks.1.*"};
  for (const auto& name : int8_names(load(target, own))) {
    EXPECT_FALSE(name.starts_with("blocks.1.")) << name;
  }
}

TEST(Int8OptionsTest, ACommandsDtypeComesBeforeTheRecipes) {
  TrainConfig config;
  config.device.dtype = "int8";
  config.int8.skip = {"blocks.0.*"};
  InferenceOptions options;
  EXPECT_EQ(int8_of(options, &config)->skip, config.int8.skip);  // float32, the default
  options.dtype = "bfloat16";
  EXPECT_FALSE(int8_of(options, &config));
  options.dtype = "int8";
  EXPECT_EQ(int8_of(options, nullptr)->skip, std::vector<std::string>());
  EXPECT_EQ(int8_of(options, &config)->skip, config.int8.skip);
  options.int8_skip = {"blocks.1.*"};
  EXPECT_EQ(int8_of(options, &config)->skip, options.int8_skip);
  options.dtype = "float32";
  EXPECT_THROW(int8_of(options, nullptr), ConfigError);
}

TEST(Int8OptionsTest, TheRestIsWhatTheProcessorMultiplies) {
  TrainConfig config;
  config.device.dtype = "int8";
  const auto best = kernels::has_bfloat16_products(at::kCPU) ? at::kBFloat16 : at::kFloat;
  EXPECT_EQ(dtype_beside_int8(*int8_of({}, &config)), best);
  config.int8.rest = "bfloat16";
  EXPECT_EQ(dtype_beside_int8(*int8_of({}, &config)), at::kBFloat16);
  EXPECT_EQ(dtype_beside_int8(*int8_of({.int8_rest = "float32"}, &config)), at::kFloat);
  EXPECT_THROW(int8_of({.int8_rest = "bfloat16"}, nullptr), ConfigError);
}

TEST(Int8OptionsTest, RangesMeanCalibrated) {
  TrainConfig config;
  InferenceOptions options{.dtype = "int8"};
  EXPECT_EQ(int8_of(options, &config)->activations, "dynamic");
  options.int8_ranges = "some.json";
  EXPECT_EQ(int8_of(options, &config)->activations, "calibrated");
  EXPECT_EQ(int8_of(options, &config)->ranges, "some.json");
  options.int8_activations = "dynamic";
  EXPECT_THROW(int8_of(options, &config), ConfigError);
  options = {.dtype = "int8"};
  config.int8.activations = "calibrated";
  config.int8.ranges = "other.json";
  EXPECT_EQ(int8_of(options, &config)->ranges, "other.json");
  options.int8_activations = "dynamic";
  EXPECT_EQ(int8_of(options, &config)->activations, "dynamic");
  EXPECT_THROW(int8_of({.int8_activations = "calibrated"}, nullptr), ConfigError);
  EXPECT_THROW(int8_of({.int8_ranges = "some.json"}, nullptr), ConfigError);
}

TEST_F(Int8InferenceTest, WhatCannotBeIsRefused) {
  EXPECT_THAT(error_of(weights(), {.dtype = "int8", .int8_skip = {"blocks.0.attn.qvk"}}),
              AllOf(HasSubstr("int8.skip"), HasSubstr("did you mean blocks.0.attn.qkv?")));
  EXPECT_THAT(error_of(weights(), {.int8_skip = {"*"}}), HasSubstr("--dtype int8"));
  for (const double factor : {NAN, INFINITY}) {
    const auto path = folder_.file("broken.safetensors");
    write(config_.model, path, factor);
    EXPECT_THAT(error_of(path, {.dtype = "int8"}),
                AllOf(HasSubstr("blocks.1.mlp.fc1.weight"), HasSubstr("not finite")));
    EXPECT_EQ(error_of(path, {.dtype = "int8", .int8_skip = {"blocks.1.mlp.fc1"}}), "");
  }
}

class CalibratedInt8Test : public Int8InferenceTest {
 protected:
  static std::vector<inference::Input> inputs(int64_t count, float factor = 1) {
    std::vector<inference::Input> all;
    for (int64_t i = 0; i < count; ++i) {
      all.push_back({support::random({1, 8, 8}, at::kFloat, 20 + i) * factor});
    }
    return all;
  }
  Int8Ranges measured(const inference::CalibrationOptions& options = {}) const {
    return inference::calibrate(inference::Predictor(load(weights(), {})), inputs(10), options);
  }
  void write_beside(const Int8Ranges& ranges) const {
    std::ofstream(folder_.file("trained.int8_ranges.json")) << format_int8_ranges(ranges);
  }
  // Of a load with these ranges beside the weights.
  std::string error_with(const Int8Ranges& ranges) const {
    write_beside(ranges);
    return error_of(weights(), calibrated());
  }
  static InferenceOptions calibrated() {
    return {.dtype = "int8", .int8_activations = "calibrated"};
  }
};

TEST_F(CalibratedInt8Test, RangesBesideTheWeightsAreTaken) {
  const auto ranges = measured();
  EXPECT_EQ(ranges.layers.size(), nn::block_linears(*load(weights(), {}).model).size());
  write_beside(ranges);
  const auto exact = outputs(load(weights(), {}));
  const auto dynamic = outputs(load(weights(), {.dtype = "int8"}));
  const auto held = outputs(load(weights(), calibrated()));
  EXPECT_LT(((held - exact).norm() / exact.norm()).item<double>(), 0.1);
  EXPECT_FALSE(held.equal(dynamic));
  const auto file = folder_.file("ranges.json");
  std::ofstream(file) << format_int8_ranges(ranges);
  const auto named = outputs(load(weights(), {.dtype = "int8", .int8_ranges = file}));
  support::expect_same_bits(named, held, "outputs");
  const auto target = recipe({"device.dtype=int8", "int8.activations=calibrated"});
  support::expect_same_bits(outputs(load(target, {.weights = weights()})), held, "by the recipe");
}

TEST_F(CalibratedInt8Test, NeitherThreadsNorBatchesChangeABit) {
  for (const auto rule : {Int8RangeRule::kMinMax, Int8RangeRule::kLeastSquares}) {
    const auto whole = measured({.rule = rule});
    for (const int64_t batch : {1, 4}) {
      const auto expected =
          support::rows_have_own_bits() ? whole : measured({.rule = rule, .batch_size = batch});
      for (const int threads : {1, 3}) {
        at::set_num_threads(threads);
        EXPECT_TRUE(measured({.rule = rule, .batch_size = batch}) == expected)
            << threads << " threads, batches of " << batch;
      }
      at::set_num_threads(1);
    }
  }
}

TEST_F(CalibratedInt8Test, AModelComputesInFloatWhileAndAfterItIsMeasured) {
  const auto narrow = load(weights(), {.dtype = "int8"});
  const inference::Predictor predictor(narrow);
  EXPECT_TRUE(inference::calibrate(predictor, inputs(10), {}) == measured());
  support::expect_same_bits(outputs(narrow), outputs(load(weights(), {})), "outputs");
}

TEST_F(CalibratedInt8Test, LayersWithoutARangeStayWide) {
  const auto ranges = measured({.skip = {"blocks.0.*"}});
  EXPECT_FALSE(ranges.layers.contains("blocks.0.attn.qkv"));
  EXPECT_THAT(error_with(ranges),
              AllOf(HasSubstr("no range of 'blocks.0.attn.qkv'"),
                    HasSubstr("ranges of 4 layers, expected those of"), HasSubstr("model's 8")));
  auto options = calibrated();
  options.int8_skip = {"blocks.0.*"};
  for (const auto& name : int8_names(load(weights(), options))) {
    EXPECT_TRUE(name.starts_with("blocks.1.")) << name;
  }
}

TEST_F(CalibratedInt8Test, RangesThatAreNotOfTheModelAreRefused) {
  EXPECT_THAT(error_of(weights(), calibrated()),
              AllOf(HasSubstr("int8.activations"), HasSubstr("trained.int8_ranges.json"),
                    HasSubstr("fovea calibrate")));
  const auto ranges = measured();
  auto other = ranges;
  other.layers["blocks.7.attn.qkv"] = other.layers.begin()->second;
  EXPECT_THAT(error_with(other), HasSubstr("no layer 'blocks.7.attn.qkv'"));
  other = ranges;
  other.layers.erase("blocks.1.mlp.fc2");
  EXPECT_THAT(error_with(other), HasSubstr("no range of 'blocks.1.mlp.fc2'"));
  write(config_.model, weights(), /*factor=*/2);
  EXPECT_THAT(error_with(ranges),
              AllOf(HasSubstr("of other weights"), HasSubstr("blocks.1.mlp.fc1"),
                    HasSubstr("fovea calibrate")));
}

TEST_F(CalibratedInt8Test, WhatIsNotFiniteIsNamed) {
  const inference::Predictor predictor(load(weights(), {}));
  const auto message = [&](const auto& ask) -> std::string {
    try {
      ask();
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_THAT(message([&] { inference::calibrate(predictor, inputs(2, NAN), {}); }),
              AllOf(HasSubstr("blocks.0.attn.qkv"), HasSubstr("not finite")));
  EXPECT_THAT(message([&] { inference::calibrate(predictor, {}, {}); }),
              HasSubstr("no sample's pass"));
  write(config_.model, weights(), INFINITY);
  EXPECT_THAT(message([&] { measured(); }), HasSubstr("blocks.1.mlp.fc1.weight"));
}

TEST_F(CalibratedInt8Test, TrainingDataIsTakenFromAllOfItsLength) {
  config_.data.train = testing::write_tiny_set(folder_, "train", 30, 5);
  config_.data.val = config_.data.train;
  const auto target = recipe({});
  const inference::Predictor predictor(load(target, {}));
  const auto chosen = inference::training_inputs(predictor.loaded(), 7);
  ASSERT_EQ(chosen.size(), 7u);
  EXPECT_EQ(std::get<inference::SampleInput>(chosen[6].content).index, 6 * 30 / 7);
  const auto ranges = inference::calibrate(predictor, chosen, {});
  EXPECT_EQ(ranges.num_samples, 7);
  for (const auto& [name, layer] : ranges.layers) {
    EXPECT_LT(layer.inputs.least, layer.inputs.largest) << name;
  }
  EXPECT_THROW(inference::training_inputs(load(weights(), {}), 7), ConfigError);
}

TEST_F(Int8InferenceTest, TrainingRefusesIt) {
  EXPECT_THROW(
      {
        try {
          dtype_from_name("int8", c10::kCPU);
        } catch (const ConfigError& error) {
          EXPECT_THAT(error.what(), AllOf(HasSubstr("device.dtype"), HasSubstr("float32")));
          throw;
        }
      },
      ConfigError);
}

TEST_F(Int8InferenceTest, ErrorsAreThoseOfEachLayerAlone) {
  const auto inference = load(weights(), {.dtype = "int8"});
  const auto& spec = inference.model->input_spec();
  TensorBatch batch;
  batch.images =
      support::random({2, spec.in_chans, spec.img_size[0], spec.img_size[1]}, at::kFloat, 5);
  const std::vector<std::string> skip = {"blocks.0.*"};
  const auto errors = measure_int8_errors(*inference.model, *inference.copies, skip, batch);
  const auto names = int8_names(inference);
  EXPECT_EQ(names.size(), int8_layers(*inference.model, skip).size()) << "as before";
  ASSERT_EQ(errors.layers.size(), nn::block_linears(*inference.model).size());
  for (size_t i = 1; i < errors.layers.size(); ++i) {
    EXPECT_GE(errors.layers[i - 1].error, errors.layers[i].error);
  }
  const auto exact = outputs(load(weights(), {}));
  const auto change = [&](const Inference& one) {
    return ((outputs(one) - exact).to(at::kDouble).norm() / exact.to(at::kDouble).norm())
        .item<double>();
  };
  EXPECT_NEAR(errors.all, change(inference), 1e-9);
  const auto& worst = errors.layers.front();
  auto alone = load(weights(), {.dtype = "int8", .int8_skip = {"*"}});
  for (const auto& [name, layer] : nn::block_linears(*alone.model)) {
    if (name == worst.layer) alone.copies->use_int8(layer->weight, true);
  }
  EXPECT_NEAR(worst.error, change(alone), 1e-9);
  EXPECT_GT(worst.error, 0);
}

}  // namespace
}  // namespace fovea::train
