// Weights that are named by hand: all of them are loaded, or what is not is said.
#include "fovea/train/inference.h"

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fovea/core/config.h"
#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/models/weights.h"
#include "tests/train/tiny_run.h"

namespace fovea::train {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

const std::vector<std::string> kNames = {"a", "b", "c", "d"};

class NamedWeightsTest : public ::testing::Test {
 protected:
  NamedWeightsTest() : config_(testing::tiny_config(folder_)) {
    config_.data = {};
    config_.run.dir = folder_.file("run");
    trained_ = models::build_model(config_.model);
    trained_->init_weights(99);  // another seed than the recipe's stands for training
    save_inference_weights(weights(), *trained_, config_, kNames);
  }

  std::string weights() const { return folder_.file("trained.safetensors"); }
  // A recipe as the docs' for one's own images: it fine-tunes a foreign file under a new head.
  std::string recipe(const std::string& init) const {
    const auto path = folder_.file("recipe.yaml");
    std::ofstream(path) << dump_config(config_);
    auto config = load_config<TrainConfig>(path, {"init=" + init});
    std::ofstream(path) << dump_config(config);
    return path;
  }
  void expect_trained(const Inference& inference) const {
    const auto expected = trained_->named_parameters();
    for (const auto& item : inference.model->named_parameters())
      EXPECT_TRUE(at::equal(item.value(), expected[item.key()])) << item.key();
  }
  static Inference load(const std::string& target, InferenceOptions options = {}) {
    options.device = "cpu";
    return load_inference(target, options);
  }
  // What is said while it is loaded.
  static std::string said_of(const std::string& target, const InferenceOptions& options = {}) {
    ::testing::internal::CaptureStderr();
    try {
      load(target, options);
    } catch (const Error& error) {
      ::testing::internal::GetCapturedStderr();
      return error.what();
    }
    return ::testing::internal::GetCapturedStderr();
  }

  data::testing::TempDir folder_;
  TrainConfig config_;
  models::ModelPtr trained_;
};

TEST_F(NamedWeightsTest, OptionsOfInitAreForItsOwnFileAlone) {
  const auto target = recipe("{weights: " + folder_.file("foreign.pth") + ", skip_head: true}");
  const auto inference = load(target, {.weights = weights()});
  expect_trained(inference);
  EXPECT_EQ(inference.class_names, kNames);
  EXPECT_EQ(said_of(target, {.weights = weights()}), "");
  EXPECT_EQ(load(recipe("{part: encoder, weights: x}"), {.weights = weights()}).class_names,
            kNames);
}

TEST_F(NamedWeightsTest, AHeadThatIsNotLoadedIsSaid) {
  const auto target = recipe("{weights: " + weights() + ", skip_head: true}");
  EXPECT_THAT(said_of(target), AllOf(HasSubstr("skipped        2  head.weight, head.bias"),
                                     HasSubstr("as before the first step")));
  EXPECT_TRUE(load(target).class_names.empty()) << "those of another head";
}

TEST_F(NamedWeightsTest, NoWeightsAreSaid) {
  EXPECT_THAT(said_of(recipe("{}")), HasSubstr("the model is as before its first step"));
}

TEST_F(NamedWeightsTest, WeightsOfAnotherModelAreRefused) {
  auto tensors = models::weights_of(*trained_);
  tensors.pop_back();
  const auto path = folder_.file("partial.safetensors");
  nn::write_tensor_file(path, tensors, {});
  EXPECT_THAT(said_of(recipe("{weights: x, skip_head: true}"), {.weights = path}),
              HasSubstr("missing"));
}

TEST_F(NamedWeightsTest, AnOptionWithoutUseIsRefused) {
  std::filesystem::create_directory(config_.run.dir);
  std::filesystem::copy_file(recipe("{}"), config_.run.dir + "/config.yaml");
  const std::string preset = "vit_tiny_patch16_224";
  const struct {
    std::string target;
    InferenceOptions options;
    std::string option;
  } cases[] = {
      {config_.run.dir, {.model = preset}, "--model"},
      {config_.run.dir, {.weights = weights(), .checkpoint = "best"}, "--checkpoint"},
      {recipe("{}"), {.checkpoint = "best"}, "--checkpoint"},
      {recipe("{}"), {.model = preset}, "--model"},
      {weights(), {.weights = weights()}, "--weights"},
      {weights(), {.checkpoint = "latest"}, "--checkpoint"},
      {weights(), {.model = preset, .overrides = {"run.seed=1"}}, "a change to the config"},
      {preset, {.model = preset}, "--model"},
      {preset, {.checkpoint = "best"}, "--checkpoint"},
      {preset, {.overrides = {"run.seed=1"}}, "a change to the config"},
  };
  for (const auto& item : cases) {
    EXPECT_THAT(said_of(item.target, item.options), HasSubstr(item.option + " says nothing of"))
        << item.target;
  }
}

TEST_F(NamedWeightsTest, NamesOfClassesThatAreNoListAreRefused) {
  const auto path = folder_.file("names.safetensors");
  const std::pair<std::string, std::string> cases[] = {{"{", "not JSON"},
                                                       {"{\"a\": 1}", "expected a list"},
                                                       {"[1]", "expected a text"},
                                                       {"\"\x1b[31m\"", "not JSON"}};
  for (const auto& [text, fault] : cases) {
    models::save_weights(*trained_, path,
                         {{"fovea.config", dump_config(config_)}, {"fovea.class_names", text}});
    EXPECT_THAT(said_of(path), AllOf(HasSubstr("names.safetensors: fovea.class_names"),
                                     HasSubstr(fault), ::testing::Not(HasSubstr("\x1b"))));
  }
}

}  // namespace
}  // namespace fovea::train
