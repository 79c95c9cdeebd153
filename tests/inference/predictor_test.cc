// Links fovea::inference alone: a predictor needs no trainer.
#include "fovea/inference/predictor.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/tensor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <thread>

#include "fovea/config/config.h"
#include "fovea/core/files.h"
#include "fovea/data/datasets/idx.h"
#include "fovea/data/datasets/registry.h"
#include "fovea/data/datasets/scans.h"
#include "fovea/data/image/png.h"
#include "fovea/inference/pass.h"
#include "fovea/inference/ready_input.h"
#include "fovea/kernels/elementwise/bfloat16.h"
#include "tests/support/close.h"
#include "tests/support/parity.h"
#include "tests/train/model_cases.h"

namespace fovea::inference {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using train::testing::Folder;

// Step-0 weights, which a warning says.
Predictor load(const std::string& target, train::InferenceOptions options = {}) {
  options.device = "cpu";
  ::testing::internal::CaptureStderr();
  Predictor predictor(target, options);
  ::testing::internal::GetCapturedStderr();
  return predictor;
}

std::string write_recipe(const Folder& folder, const train::TrainConfig& config) {
  const auto path = folder.file("recipe.yaml");
  std::ofstream(path) << dump_config(config);
  return path;
}

template <class Call>
std::string message_of(const Call& call) {
  try {
    call();
  } catch (const ConfigError& error) {
    return error.what();
  }
  return "no ConfigError";
}

// Bits, NaN among them.
bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.sizes() == b.sizes() && a.dtype() == b.dtype() &&
         std::memcmp(a.contiguous().const_data_ptr(), b.contiguous().const_data_ptr(),
                     a.nbytes()) == 0;
}

class EveryPredictorTest : public ::testing::TestWithParam<train::testing::ModelCase> {
 protected:
  EveryPredictorTest()
      : config_(GetParam().config(folder_)), predictor_(load(write_recipe(folder_, config_))) {
    const auto* images = config_.data.val->get_if<data::IdxConfig>();
    const auto samples =
        images != nullptr ? data::build_dataset({*images})
                          : data::build_dataset({*config_.data.val->get_if<data::NiftiConfig>()});
    for (int64_t i = 0; i < 2; ++i) inputs_.push_back({SampleInput{samples, i}});
  }

  // All that is to be known of the inputs, as tensors.
  std::vector<at::Tensor> answers() const {
    std::vector<at::Tensor> all;
    const auto add = [&](auto outcomes, const auto& tensors_of) {
      for (auto& one : outcomes) {
        for (const auto& tensor : tensors_of(one.get())) all.push_back(tensor);
      }
    };
    using Tensors = std::vector<at::Tensor>;
    switch (predictor_.kind()) {
      case Kind::kClasses:
        add(predictor_.classes(inputs_), [](const Classes& one) { return Tensors{one.scores}; });
        break;
      case Kind::kMasks:
        add(predictor_.masks(inputs_), [](const Mask& one) {
          return Tensors{at::tensor(one.classes.classes), at::tensor(one.voxels)};
        });
        break;
      case Kind::kReconstructions:
        add(predictor_.reconstructions(inputs_), [](const Reconstruction& one) {
          return Tensors{one.input, one.seen, one.image};
        });
        break;
      case Kind::kSamples:
        add(predictor_.denoised(inputs_, {.steps = 2}), [](const Denoised& one) {
          return Tensors{one.noisy, one.image};
        });
        break;
    }
    add(predictor_.attention(inputs_), [](const Attention& one) {
      return Tensors{at::cat(one.attention.blocks), one.displayed};
    });
    // A segmenter's are those of one window; see masks.
    const bool has_features = predictor_.loaded().model->num_features() > 0;
    if (!has_features || predictor_.kind() == Kind::kMasks) return all;
    add(predictor_.features(inputs_), [](const at::Tensor& one) { return Tensors{one}; });
    return all;
  }

  Folder folder_;
  train::TrainConfig config_;
  Predictor predictor_;
  std::vector<Input> inputs_;
};

TEST_P(EveryPredictorTest, TwoThreadsAtOnceAreBitwiseOne) {
  const auto expected = answers();
  std::vector<std::vector<at::Tensor>> found(2);
  std::vector<std::thread> threads;
  for (auto& own : found) threads.emplace_back([&own, this] { own = answers(); });
  for (auto& thread : threads) thread.join();
  for (const auto& own : found) {
    ASSERT_EQ(own.size(), expected.size());
    for (size_t i = 0; i < own.size(); ++i) EXPECT_TRUE(is_same(own[i], expected[i])) << i;
  }
}

// Of images that come again in one size; of the others a pass is run as it comes.
TEST_P(EveryPredictorTest, LogitsAreTheModelsToTheBitHoweverOftenItIsAsked) {
  const at::NoGradGuard no_grad;
  const auto& model = *predictor_.loaded().model;
  if (model.takes_patches() || !model.variables().empty() || predictor_.kind() == Kind::kSamples) {
    GTEST_SKIP() << "takes no images alone";
  }
  const auto spec = model.input_spec();
  std::vector<int64_t> sizes = {1, spec.in_chans};
  sizes.insert(sizes.end(), spec.img_size.begin(), spec.img_size.end());
  for (uint64_t i = 0; i < 6; ++i) {
    const auto images = support::random(sizes, at::kFloat, i);
    support::expect_same_bits(predictor_.logits(images).logits, model.forward({images, {}}),
                              fmt::format("pass {}", i));
  }
}

INSTANTIATE_TEST_SUITE_P(EveryModel, EveryPredictorTest,
                         ::testing::ValuesIn(train::testing::model_cases()),
                         [](const auto& info) { return std::string(info.param.name); });

// Of 8 x 8 images in gray.
class PredictorTest : public ::testing::Test {
 protected:
  PredictorTest() : predictor_(load(write_recipe(folder_, config()))) {}

  train::TrainConfig config() const {
    auto config = train::testing::tiny_config(folder_);
    return config;
  }

  // A PNG file of one gray value and a brighter corner.
  std::string write_image(const std::string& name, uint8_t value, int64_t height = 8,
                          int64_t width = 8) const {
    data::Image image{height, width, 1, std::vector<uint8_t>(height * width, value)};
    image.pixels[0] = 255;
    const auto png = data::encode_png(image);
    return folder_.write(name, {reinterpret_cast<const char*>(png.data()), png.size()});
  }

  static Input encoded(const std::string& path) {
    const auto text = read_file(path, 1 << 20);
    return {EncodedInput{{text.begin(), text.end()}, path}};
  }

  Folder folder_;
  Predictor predictor_;
};

TEST_F(PredictorTest, FilesBytesAndTensorsSayTheSame) {
  const std::vector<std::string> paths = {write_image("a.png", 10), write_image("b.png", 200)};
  auto of_files = predictor_.classes(file_inputs(paths));
  auto of_bytes = predictor_.classes({encoded(paths[0]), encoded(paths[1])});
  std::vector<Input> tensors;
  const auto samples = predictor_.loaded().open_files(paths);
  for (int64_t i = 0; i < 2; ++i) {
    tensors.push_back({predictor_.loaded().preprocess(samples, i, 1)[0]});
  }
  auto of_tensors = predictor_.classes(tensors);
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_TRUE(is_same(of_files[i].get().scores, of_bytes[i].get().scores));
    EXPECT_TRUE(is_same(of_files[i].get().scores, of_tensors[i].get().scores));
  }
  EXPECT_FALSE(is_same(of_files[0].get().scores, of_files[1].get().scores));
  const auto best_two = best(of_files[0].get().scores, 2);
  ASSERT_EQ(best_two.size(), 2U);
  EXPECT_GE(best_two[0].score, best_two[1].score);
}

// As of a GPU that is too small for 32 of them.
TEST_F(PredictorTest, WhereMemoryRunsOutPassesAreSmaller) {
  std::vector<Input> inputs;
  for (int i = 0; i < 5; ++i) {
    inputs.push_back(encoded(write_image(fmt::format("{}.png", i), static_cast<uint8_t>(40 * i))));
  }
  const auto& inference = predictor_.loaded();
  std::vector<int64_t> sizes;
  const auto scores = [&](int64_t most) {
    const auto narrow = [&, most](const train::Inference& own, const train::TensorBatch& batch) {
      sizes.push_back(batch.images.size(0));
      if (sizes.back() > most) throw std::bad_alloc();
      return scores_of(own, batch);
    };
    return in_batches(open_inputs(inputs, inference), inference, narrow);
  };
  const at::NoGradGuard no_grad;
  auto whole = scores(5);
  ::testing::internal::CaptureStderr();
  auto parts = scores(2);
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("2 at a time"));
  EXPECT_THAT(sizes, ElementsAre(5, 5, 2, 2, 1));
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(is_same(parts[i].get(), whole[i].get())) << i;
  }
}

// What a server decodes beside a pass has the same bits in it.
TEST_F(PredictorTest, PreparedInputsSayTheSame) {
  const auto good = encoded(write_image("a.png", 10)), bad = encoded(folder_.write("b.png", "no"));
  auto prepared = predictor_.prepared({good, bad});
  EXPECT_THAT(prepared[1].error.value().what(), HasSubstr("b.png"));
  const auto ready = prepared[0].get();
  EXPECT_EQ(ready_bytes(ready), 8 * 8 * 4);
  EXPECT_EQ(ready_bytes(good), 0);
  EXPECT_TRUE(is_same(predictor_.classes({ready})[0].get().scores,
                      predictor_.classes({good})[0].get().scores));
  EXPECT_TRUE(is_same(predictor_.features({ready})[0].get(), predictor_.features({good})[0].get()));
  EXPECT_TRUE(is_same(predictor_.attention({ready})[0].get().displayed,
                      predictor_.attention({good})[0].get().displayed));
  const auto again = predictor_.prepared({ready})[0].get();
  EXPECT_EQ(std::get<std::shared_ptr<ReadyInput>>(again.content),
            std::get<std::shared_ptr<ReadyInput>>(ready.content));
  // A tensor is prepared, but may be of another form than the model takes.
  const Input tensor{at::ones({1, 8, 8})};
  EXPECT_TRUE(is_same(std::get<at::Tensor>(predictor_.prepared({tensor})[0].get().content),
                      std::get<at::Tensor>(tensor.content)));
  EXPECT_THAT(message_of([&] {
                predictor_.prepared({{at::ones({3, 8, 8})}});
              }),
              HasSubstr("expected [1, H, W]"));
}

// A batch of prepared inputs is the batch that they would be read as, bit for bit.
TEST_F(PredictorTest, PreparedInputsShareAPass) {
  std::vector<std::string> paths = {write_image("a.png", 10), write_image("b.png", 70)};
  for (const char* name : {"vit_2d", "vit_adaptive_2d", "mae_adaptive_2d", "vit_packed"}) {
    const auto cases = train::testing::model_cases();
    const auto chosen = std::find_if(
        cases.begin(), cases.end(), [&](const auto& one) { return name == std::string(one.name); });
    const auto predictor = load(write_recipe(folder_, chosen->config(folder_)));
    const auto& loaded = predictor.loaded();
    if (loaded.model->takes_packed()) paths.push_back(write_image("wide.png", 120, 4, 16));
    const auto count = static_cast<int64_t>(paths.size());
    const auto samples = loaded.open_files(paths);
    std::vector<data::Batch> parts;
    for (int64_t i = 0; i < count; ++i) parts.push_back(loaded.fill(samples, i, 1));
    std::vector<const data::Batch*> places;
    for (const auto& part : parts) {
      EXPECT_TRUE(have_rows_alike(part, parts[0]));
      places.push_back(&part);
    }
    const auto found = joined(places), expected = loaded.fill(samples, 0, count);
    EXPECT_EQ(found.image_shape, expected.image_shape) << name;
    EXPECT_EQ(found.images, expected.images) << name;
    EXPECT_EQ(found.patches.tokens, expected.patches.tokens) << name;
    EXPECT_EQ(found.patches.centers, expected.patches.centers) << name;
    EXPECT_EQ(found.patches.padding, expected.patches.padding) << name;
    EXPECT_EQ(found.image_patches.values, expected.image_patches.values) << name;
    EXPECT_EQ(found.image_patches.grids, expected.image_patches.grids) << name;
    EXPECT_EQ(found.indices, expected.indices) << name;

    std::vector<Input> ready;
    for (auto& one : predictor.prepared(file_inputs(paths))) ready.push_back(one.get());
    auto of_files = predictor.features(file_inputs(paths)), of_ready = predictor.features(ready);
    for (size_t i = 0; i < paths.size(); ++i)
      EXPECT_TRUE(is_same(of_ready[i].get(), of_files[i].get())) << name << " " << i;
  }
}

TEST_F(PredictorTest, AVolumeMayComeAsBytes) {
  const auto config = train::testing::tiny_volume_config(folder_);
  const auto volumes = load(write_recipe(folder_, config));
  const auto packed = folder_.file("val_0.nii.gz");
  auto expected = volumes.classes(file_inputs({packed}));
  auto bytes = encoded(packed);
  EXPECT_TRUE(is_same(volumes.classes({bytes})[0].get().scores, expected[0].get().scores));
  const auto prepared = volumes.prepared({bytes})[0].get();
  EXPECT_TRUE(is_same(volumes.classes({prepared})[0].get().scores, expected[0].get().scores));
  // Messages know the name that it came with, and nothing of a file.
  auto& damaged = std::get<EncodedInput>(bytes.content);
  damaged = {{damaged.bytes.begin(), damaged.bytes.begin() + 100}, "scan"};
  const auto error = volumes.classes({bytes})[0].error.value();
  EXPECT_THAT(error.what(), StartsWith("scan: "));
  EXPECT_THAT(error.what(), Not(HasSubstr("fovea-volume")));
}

TEST_F(PredictorTest, ABadInputFailsAlone) {
  const auto good = write_image("good.png", 10), other = write_image("other.png", 90);
  const auto bad = folder_.write("bad.png", "no image at all");
  auto found = predictor_.classes(file_inputs({bad, good, folder_.file("absent.png"), other}));
  auto expected = predictor_.classes(file_inputs({good, other}));
  EXPECT_THAT(found[0].error.value().what(), HasSubstr("bad.png"));
  EXPECT_THAT(found[2].error.value().what(), HasSubstr("absent.png"));
  EXPECT_THROW(found[2].get(), DataError);
  EXPECT_TRUE(is_same(found[1].get().scores, expected[0].get().scores));
  EXPECT_TRUE(is_same(found[3].get().scores, expected[1].get().scores));
  auto of_bytes = predictor_.features({encoded(good), encoded(bad), {EncodedInput{{}, "none"}}});
  EXPECT_TRUE(of_bytes[0].value.has_value());
  EXPECT_THAT(of_bytes[1].error.value().what(), HasSubstr("bad.png"));
  EXPECT_THAT(of_bytes[2].error.value().what(), HasSubstr("none"));
}

TEST_F(PredictorTest, RefusesWhatTheModelDoesNotTake) {
  const auto image = write_image("a.png", 10);
  const auto said = [&](const std::vector<Input>& inputs) {
    return message_of([&] { predictor_.classes(inputs); });
  };
  EXPECT_THAT(said({}), HasSubstr("no inputs"));
  EXPECT_THAT(said({{FileInput{image}}, {at::ones({1, 8, 8})}}),
              HasSubstr("input 1 is a tensor, but input 0 is a file"));
  EXPECT_THAT(said({{at::ones({1, 8, 8})}, {at::ones({3, 8, 8})}}),
              HasSubstr("input 1: a tensor of [3, 8, 8]; expected [1, H, W]"));
  EXPECT_THAT(said({{at::ones({1, 8, 8, 8})}}), HasSubstr("expected [1, H, W]"));
  EXPECT_THAT(said({{FileInput{image}, {"red"}}}), HasSubstr("without variables"));
  EXPECT_THAT(message_of([&] { predictor_.masks(file_inputs({image})); }),
              HasSubstr("masks of a model that gives classes"));
  EXPECT_THAT(message_of([&] { predictor_.samples(); }), HasSubstr("samples of a model"));
}

TEST_F(PredictorTest, AModelOfVolumesTakesNoImages) {
  const auto volumes = load(write_recipe(folder_, train::testing::tiny_volume_config(folder_)));
  const auto image = write_image("a.png", 10);
  EXPECT_THAT(message_of([&] { volumes.classes(file_inputs({image})); }),
              HasSubstr("a.png is an image; expected NIfTI"));
  EXPECT_THAT(message_of([&] { volumes.classes({encoded(image)}); }),
              HasSubstr("a.png is an image; expected NIfTI"));
}

TEST_F(PredictorTest, AModelOfImagesTakesNoVolumes) {
  const auto config = train::testing::tiny_volume_config(folder_);
  const auto scans = data::build_dataset({*config.data.val->get_if<data::NiftiConfig>()});
  EXPECT_THAT(
      message_of([&] {
        predictor_.classes({{SampleInput{scans, 0, "scan.nii"}}});
      }),
      HasSubstr("the model takes images [H, W], but scan.nii is a volume; expected image files"));
}

TEST_F(PredictorTest, ChannelsComeWithTheInput) {
  auto config = train::testing::tiny_config(folder_);
  auto vit = *config.model.get_if<models::VitConfig>();
  vit.variables = {"a", "b", "c"};
  vit.in_chans = 3;
  config.model = {vit};
  const auto recipe = write_recipe(folder_, config);
  const auto any = load(recipe);
  const std::vector<std::vector<std::string>> names = {{"c", "a"}, {"b"}};
  std::vector<at::Tensor> expected, images, found(4);
  for (const auto& channels : names) {
    images.push_back(support::random({static_cast<int64_t>(channels.size()), 8, 8}, at::kFloat, 3));
    const auto own = load(recipe, {.variables = channels});
    expected.push_back(own.classes({{images.back()}}).front().get().scores);
  }
  std::vector<std::thread> threads;
  for (size_t i = 0; i < found.size(); ++i) {
    threads.emplace_back([&, i] {
      found[i] = any.classes({{images[i % 2], names[i % 2]}}).front().get().scores;
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t i = 0; i < found.size(); ++i) EXPECT_TRUE(is_same(found[i], expected[i % 2])) << i;
  EXPECT_THAT(message_of([&] {
                any.classes({{images[0], names[0]}, {images[1], names[1]}});
              }),
              HasSubstr("input 1 has the channels [b], but input 0 has [c, a]"));
  EXPECT_THAT(message_of([&] { any.classes({{images[1], {"x"}}}); }), HasSubstr("[x]"));
}

TEST_F(PredictorTest, WeightsAreCastAtLoad) {
  const auto predictor = load(write_recipe(folder_, config()), {.dtype = "bfloat16"});
  // Where bfloat16 is multiplied, the first pass packs them instead.
  EXPECT_NE(predictor.loaded().copies->flat().defined(), kernels::has_bfloat16_products(at::kCPU));
  EXPECT_FALSE(predictor_.loaded().copies->flat().defined());
}

}  // namespace
}  // namespace fovea::inference
