// Weights that are named by hand: all of them are loaded, or what is not is said.
#include "fovea/train/recipe/inference.h"

#include <ATen/ops/equal.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "fovea/config/config.h"
#include "fovea/core/error.h"
#include "fovea/models/registry.h"
#include "fovea/models/weights.h"
#include "fovea/train/recipe/inference_source.h"
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
      {preset, {.model = preset}, "--model"},
      {preset, {.checkpoint = "best"}, "--checkpoint"},
  };
  for (const auto& item : cases) {
    EXPECT_THAT(said_of(item.target, item.options), HasSubstr(item.option + " says nothing of"))
        << item.target;
  }
}

// `model:` and nothing else, for what uses a model without training it.
TEST_F(NamedWeightsTest, ARecipeOfAModelAloneIsEnough) {
  const auto yaml = dump_config(config_);
  const auto start = yaml.find("model:"), end = yaml.find("\ninit:");
  const auto path = folder_.write("alone.yaml", yaml.substr(start, end - start) + "\n");
  const auto inference = load(path, {.weights = weights()});
  expect_trained(inference);
  EXPECT_EQ(inference.class_names, kNames);
  EXPECT_EQ(inference.config->run.dir, "runs/alone");
  expect_trained(load("", {.model = path, .weights = weights()}));
  EXPECT_EQ(load(path, {.overrides = {"run.dir=here"}}).config->run.dir, "here");
  EXPECT_THAT(said_of("", {.model = folder_.file("aloen.yaml"), .weights = weights()}),
              HasSubstr("did you mean " + path + "?"));
}

TEST_F(NamedWeightsTest, AFileThatKnowsItsModelNeedsNoOther) {
  expect_trained(load("", {.weights = weights()}));
  std::filesystem::create_directory(config_.run.dir);
  std::filesystem::copy_file(recipe("{}"), config_.run.dir + "/config.yaml");
  std::filesystem::copy_file(weights(), config_.run.dir + "/weights.safetensors");
  expect_trained(load("", {.weights = config_.run.dir}));
  expect_trained(load("", {.model = config_.run.dir, .weights = weights()}));
  expect_trained(load("", {.model = config_.run.dir}));
}

TEST_F(NamedWeightsTest, WhatShapesDoNotShowIsHeldAgainstTheFile) {
  const auto target = recipe("{}");
  const auto refusal = [&](const std::string& change) {
    return said_of(target, {.weights = weights(), .overrides = {change}});
  };
  EXPECT_THAT(refusal("model.num_heads=4"), HasSubstr("model.num_heads: 2 in the file, 4 here"));
  EXPECT_THAT(refusal("model.act_layer=relu"),
              HasSubstr("model.act_layer: gelu in the file, relu here"));
  EXPECT_THAT(refusal("model.norm_eps=1e-5"),
              HasSubstr("model.norm_eps: 1e-06 in the file, 1e-05 here"));
  EXPECT_EQ(refusal("model.drop_path_rate=0.5"), "") << "of training alone";
}

class PresetWeightsTest : public ::testing::Test {
 protected:
  // A tiny preset that was fine-tuned on gray images of another size, for other classes.
  PresetWeightsTest() {
    auto vit = *models::named_config(kPreset).get_if<models::VitConfig>();
    vit.num_classes = 3;
    vit.in_chans = 1;
    vit.img_size = {96};
    tuned_ = models::build_model({vit});
    tuned_->init_weights(5);
    models::save_weights(*tuned_, file());
  }

  std::string file() const { return folder_.file("tuned.safetensors"); }
  static Inference load(InferenceOptions options) {
    options.device = "cpu";
    return load_inference(kPreset, options);
  }

  static constexpr const char* kPreset = "vit_tiny_patch16_224";
  data::testing::TempDir folder_;
  models::ModelPtr tuned_;
};

TEST_F(PresetWeightsTest, ClassesChannelsAndSizeAreThoseOfTheWeights) {
  const auto inference = load({.weights = file()});
  const auto spec = inference.model->input_spec();
  EXPECT_EQ(inference.model->num_classes(), 3);
  EXPECT_EQ(spec.in_chans, 1);
  EXPECT_EQ(spec.img_size, (std::vector<int64_t>{96, 96}));
  EXPECT_EQ(spec.mean, (std::vector<double>{0.5}));
  const auto expected = tuned_->named_parameters();
  for (const auto& item : inference.model->named_parameters())
    EXPECT_TRUE(at::equal(item.value(), expected[item.key()])) << item.key();
}

TEST_F(PresetWeightsTest, NamesOfClassesComeFromAFile) {
  EXPECT_TRUE(load({.weights = file()}).class_names.empty());
  const std::vector<std::string> names = {"cat", "dog", "red fox"};
  folder_.write("classes.txt", std::string("too\nfew\n"));
  folder_.write("config.json",
                std::string(R"({"id2label": {"0": "cat", "2": "red fox", "1": "dog"}})"));
  EXPECT_EQ(load({.weights = file()}).class_names, names) << "the one with as many";
  folder_.write("tuned.classes.txt", std::string("a\r\nb\nc"));
  EXPECT_EQ(load({.weights = file()}).class_names, (std::vector<std::string>{"a", "b", "c"}));
  const auto list = folder_.write("list.json", std::string(R"(["cat", "dog", "red fox"])"));
  EXPECT_EQ(load({.weights = file(), .class_names = list}).class_names, names);
  EXPECT_THAT([&] { load({.weights = file(), .class_names = folder_.file("classes.txt")}); },
              ::testing::ThrowsMessage<ConfigError>(HasSubstr("2 names, but the model has 3")));
  const auto gap = folder_.write("gap.json", std::string(R"({"0": "cat", "2": "dog"})"));
  EXPECT_THAT([&] { load({.weights = file(), .class_names = gap}); },
              ::testing::ThrowsMessage<DataError>(HasSubstr("each number from 0 on once")));
}

TEST_F(PresetWeightsTest, OptionsThatSayItAllLeaveTheFirstWordToTheInputs) {
  const auto first = [&](const std::string& word, const InferenceOptions& options) {
    return is_target(word, options);
  };
  EXPECT_TRUE(first("x.jpg", {}));
  EXPECT_FALSE(first("x.jpg", {.model = kPreset, .weights = file()}));
  EXPECT_FALSE(first(file(), {.model = kPreset, .weights = file()})) << "a tensor file";
  EXPECT_FALSE(first("x.jpg", {.model = kPreset}));
  EXPECT_TRUE(first(file(), {.model = kPreset})) << "weights of that model";
  EXPECT_TRUE(first(kPreset, {.weights = file()}));
  EXPECT_FALSE(first("images.safetensors", {.weights = file()}));
}

// With data and a preset an evaluation needs no recipe.
TEST_F(PresetWeightsTest, ChangesMakeARecipeOfIt) {
  const auto inference =
      load({.weights = file(),
            .overrides = {"data.val={format: folder, path: " + folder_.path() + "}"}});
  ASSERT_TRUE(inference.config && inference.config->data.val);
  EXPECT_EQ(inference.config->model.get_if<models::VitConfig>()->num_classes, 3);
  EXPECT_EQ((*inference.config->data.val)->transforms().size(), 3u) << "resize, crop, normalize";
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
